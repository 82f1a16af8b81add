"""What every paper page is made of: claims, the table of comparison, curves, and the page itself."""
