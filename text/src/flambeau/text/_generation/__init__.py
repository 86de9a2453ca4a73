"""Searching for texts that a model thinks likely."""
