"""Transforms that keep count of episodes, begin and end them, or take several steps at once."""
