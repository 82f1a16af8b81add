"""The robots, oracles and experiments that tests share."""
