"""Models that may change."""
