"""Which motion to run next."""
