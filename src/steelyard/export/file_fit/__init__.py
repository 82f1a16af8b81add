"""Robot files: values fitted over what the format can hold, and their errors, as the reader of the file computes."""
