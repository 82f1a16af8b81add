"""What a robot file is worth: its values fitted over what the format can hold, and scored as its reader computes."""
