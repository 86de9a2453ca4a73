"""Counts and times that handlers measure."""
