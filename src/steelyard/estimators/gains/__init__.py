"""Drive gains and parameters together, by least squares and total least squares."""
