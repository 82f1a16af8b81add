"""URDF and MJCF: the user's own file edited, or a new one."""
