"""Upstream's module paths of pipes that code imports by path."""
