"""The writing wall: an identified model into the files that simulators and controllers read."""
