"""SDF, the robot files of Gazebo: a model of links and joints, with the standard library only."""
