"""Tensordicts between processes."""
