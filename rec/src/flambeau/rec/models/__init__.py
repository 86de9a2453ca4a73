"""Models of recommendation."""
