"""The reading wall: robots, logs and motion limits from files."""
