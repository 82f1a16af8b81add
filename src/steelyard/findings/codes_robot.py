"""Finding codes about the robot file, raised before any fit."""

from __future__ import annotations

from steelyard.findings.finding_code import FindingCode

ROBOT_CODES = (
    FindingCode(
        "gravity-compensation",
        "robot",
        ("info",),
        ("formats",),
        "an MJCF states `gravcomp`: in MuJoCo the joints do not carry the weight of these bodies; in the model they do",
        "if the logged efforts hold no weight, set `gravity = [0.0, 0.0, 0.0]` in the project file",
        "robots.md",
    ),
    FindingCode(
        "joints-held",
        "robot",
        ("info",),
        ("formats", "signals"),
        "joints that are read as fixed at a position: the links they carry are part of the link before them",
        "change `hold` in the project file, or the option `--hold`",
        "robots.md#joints-that-do-not-move",
    ),
    FindingCode(
        "mimic-master-missing",
        "robot",
        ("warning",),
        ("formats",),
        "a joint follows (`<mimic>`) a joint that the file does not have, so it is read as an independent joint",
        "correct the name in `<mimic>`, or hold the joint if it does not move",
        "robots.md",
    ),
    FindingCode(
        "base-assumed-fixed",
        "robot",
        ("warning",),
        ("formats",),
        "the robot is read as bolted to the ground, but it has several limbs that are named as legs, or an IMU on its "
        "base: if the base moved in the recordings, every result is wrong",
        'state `base = "floating"` and record the motion of the base, or `base = "fixed"` if it did not move',
        "robots.md#a-base-that-is-not-bolted-down",
    ),
    FindingCode(
        "several-bases",
        "robot",
        ("warning",),
        ("formats",),
        "the file has several links without a parent; each is fixed to the world at the same place, with no rotation",
        "add a fixed joint with the right `<origin>` if one of them is mounted differently: gravity depends on it",
        "robots.md",
    ),
    FindingCode(
        "placeholder-limits",
        "robot",
        ("info",),
        ("formats",),
        "joints whose `<limit>` has a range, velocity or effort of zero, as exporters write where none was entered: "
        "these are read as no limits",
        "write the limits of the data sheet: `excite` designs motions within them",
        "robots.md",
    ),
    FindingCode(
        "mesh-missing",
        "robot",
        ("info", "warning"),
        ("formats",),
        "mesh or image files of an MJCF were not found, so their shapes are left out; a body whose inertia would come "
        "from such a shape has an unknown inertia (warning)",
        "put the files where the MJCF names them, or add an `<inertial>` to the bodies named",
        "robots.md",
    ),
    FindingCode(
        "tendon-not-read",
        "robot",
        ("info",),
        ("formats",),
        "tendons that exert no force of their own are not read; an actuator on one counts as a motor of its first "
        "joint if the robot has loops, else every joint is an axis",
        "add the force to the MJCF, or a term of your own, if a tendon pulls on a joint",
        "robots.md",
    ),
    FindingCode(
        "axes-assumed",
        "robot",
        ("warning",),
        ("formats",),
        "joints that have no actuator and that no loop moves are read as axes, as if they had a motor and an encoder",
        "add an `<actuator>` for them, or hold those that do not move",
        "robots.md#loops",
    ),
    FindingCode(
        "table-questioned",
        "robot",
        ("warning",),
        ("formats",),
        "the lengths of a DH table are not those of a robot: perhaps they are in millimetres",
        "check the unit [m] and the letters: along x and z, Khalil writes `d` and `r`, Craig `a` and `d`",
        "robots.md#a-dh-table",
    ),
    FindingCode(
        "spring-not-modelled",
        "robot",
        ("info",),
        ("regression",),
        "the robot has springs or a compensator, and the terms do not include them: other parameters absorb their "
        "torque",
        'add `"springs"` or `"compensator"` to `terms` in the project file',
        "springs.md",
    ),
    FindingCode(
        "loop-not-closed",
        "robot",
        ("warning",),
        ("identification",),
        "the loops of the robot cannot be closed at some samples (out of reach, or singular); rows affected by them "
        "are left out",
        "check unit, sign and zero of the positions, the geometry in the robot file, and `home`",
        "loops.md",
    ),
    FindingCode(
        "loop-singular",
        "robot",
        ("warning",),
        ("identification",),
        "the run passes near a singularity of the loops, where position errors are amplified",
        "exclude that part of the motion with `seconds` in its `[[run]]`",
        "loops.md",
    ),
    FindingCode(
        "legs-differ",
        "robot",
        ("info",),
        ("identification",),
        "legs declared as identical have significantly different parameters",
        "expected for friction; for masses look for parts or cables that differ between the legs",
        "loops.md",
    ),
    FindingCode(
        "spring-separability",
        "robot",
        ("info", "warning"),
        ("project",),
        "whether this log can separate a spring or a compensator from gravity: its value, σ, and the parameters it is "
        "confused with",
        "to separate it better, move the joint over more of its range, or give a nominal value and use the estimator "
        "`map`",
        "springs.md",
    ),
    FindingCode(
        "beyond-limits",
        "robot",
        ("warning",),
        ("regression",),
        "a joint exceeds the limits of the robot file, by 2 % of its range or 1.2 times its speed",
        "check unit, sign, ratio, offset and column of its position, or correct the limits in the robot file",
    ),
)
