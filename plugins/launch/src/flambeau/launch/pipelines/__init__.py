"""Pipelines of launched applications.."""
