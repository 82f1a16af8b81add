"""How a file or folder takes a place without a moment at which the place holds half of it."""
