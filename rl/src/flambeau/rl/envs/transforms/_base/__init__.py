"""Transforms, compositions of them, and the environments that they change."""
