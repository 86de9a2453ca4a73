"""Building blocks of recommendation models."""
