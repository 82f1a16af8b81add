"""What commands print for people about a result."""
