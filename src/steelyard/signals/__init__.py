"""From the columns of a log to q, v, a and effort on one clock."""
