"""Losses of teams: agents on the dimension before the last."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {"mappo": ("IPPOLoss", "MAPPOLoss"), "qmixer": ("QMixerLoss",)}, submodules=("mappo", "qmixer")
)
