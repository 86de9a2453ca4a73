"""Transforms of observations: images, shapes, frames of several steps."""
