"""The robots and experiments of the papers, simulated with a known truth."""
