"""Upstream's module for machines without any backend; the functions here are those of `flambeau.audio`."""

from __future__ import annotations

from flambeau.audio.backend.dispatch import info, load, save

__all__ = ["info", "load", "save"]
