"""Can such bodies exist, what is known of them, and the nearest that can."""
