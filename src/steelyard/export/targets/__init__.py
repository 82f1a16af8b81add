"""Export targets: what `steelyard export --to NAME` can write. One target per module, listed in `registry`."""
