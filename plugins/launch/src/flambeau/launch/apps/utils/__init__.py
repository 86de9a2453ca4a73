"""Small programs."""
