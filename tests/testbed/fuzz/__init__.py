"""Inputs nobody meant to write, for every reader: seeds, mutations, and the rule that a reader must keep."""
