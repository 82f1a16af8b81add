"""The files and messages of ROS bags: records of each container, message layouts, and rows of a topic."""
