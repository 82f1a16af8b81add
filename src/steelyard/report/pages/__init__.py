"""Pages of the commands that judge: validation, cross-validation, comparison, twin, payload."""
