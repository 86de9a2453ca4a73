"""The former place of `flambeau.text.prototype.transforms`."""

from __future__ import annotations

from flambeau.text.experimental._deprecated_names import moved

__getattr__ = moved(__name__)
