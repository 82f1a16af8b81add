"""What every command shares before it runs: the table of commands, exit codes, the report of a defect."""
