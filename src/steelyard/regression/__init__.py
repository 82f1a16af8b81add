"""From a problem to its information: rows, filters, triangles, scores."""
