"""C and Python written from symbolic equations."""
