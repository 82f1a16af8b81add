"""Figures of the report, each as plain Plotly data: numbers as arrays, a role for the colours, no text of the user."""
