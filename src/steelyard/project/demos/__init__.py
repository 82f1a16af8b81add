"""Tours on simulated robots with known truth."""
