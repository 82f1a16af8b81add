"""SDF, the robot files of Gazebo: the user's own file edited, or a new one."""
