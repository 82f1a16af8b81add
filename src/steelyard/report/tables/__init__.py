"""The tables of every kind of result, each described once as a `Table` of raw values."""
