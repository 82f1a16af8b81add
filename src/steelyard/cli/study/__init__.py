"""Commands that simulate to learn something: papers reproduced, adaptive control, control laws."""
