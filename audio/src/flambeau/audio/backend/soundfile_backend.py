"""Upstream's module of the soundfile backend: `info`, `load` and `save` with that backend."""

from __future__ import annotations

from functools import partial

from flambeau.audio.backend import dispatch

__all__ = ["info", "load", "save"]

info = partial(dispatch.info, backend="soundfile")
load = partial(dispatch.load, backend="soundfile")
save = partial(dispatch.save, backend="soundfile")
