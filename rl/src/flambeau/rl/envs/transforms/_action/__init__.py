"""Transforms of actions."""
