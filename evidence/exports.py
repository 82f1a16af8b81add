"""What an exported file is worth: ten robots, listed before the first of them was tried.

Two of Universal Robots, five redundant or research arms and
three small ones, from MuJoCo Menagerie: all fixed arms with one joint per body, as far as the collection has them, of
different makers and from 4 kg to 40 kg.
"""

from __future__ import annotations

ROBOTS = (
    "universal_robots_ur5e",
    "universal_robots_ur10e",
    "kuka_iiwa_14",
    "franka_fr3",
    "kinova_gen3",
    "flexiv_rizon4",
    "rethink_robotics_sawyer",
    "ufactory_xarm7",
    "ufactory_lite6",
    "unitree_z1",
)
