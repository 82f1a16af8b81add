"""What the robot is and what torque it takes."""
