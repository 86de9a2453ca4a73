"""Upstream's module of the sox backend: `info`, `load` and `save` with that backend."""

from __future__ import annotations

from functools import partial

from flambeau.audio.backend import dispatch

__all__ = ["info", "load", "save"]

info = partial(dispatch.info, backend="sox")
load = partial(dispatch.load, backend="sox")
save = partial(dispatch.save, backend="sox")
