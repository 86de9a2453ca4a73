"""Small things that handlers import."""
