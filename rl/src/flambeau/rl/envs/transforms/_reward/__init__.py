"""Transforms of rewards."""
