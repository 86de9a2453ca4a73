"""Tables of the distributions."""

from __future__ import annotations

from torch import distributions as D

from flambeau.rl.modules.distributions.continuous import (
    Delta,
    IndependentNormal,
    TanhDelta,
    TanhNormal,
    TruncatedNormal,
)
from flambeau.rl.modules.distributions.discrete import (
    MaskedCategorical,
    MaskedOneHotCategorical,
    OneHotCategorical,
    OneHotOrdinal,
    Ordinal,
)

_CLASSES = (
    Delta, IndependentNormal, TanhDelta, TanhNormal, TruncatedNormal, MaskedCategorical, MaskedOneHotCategorical,
    OneHotCategorical, Ordinal, OneHotOrdinal,
)  # fmt: skip

distributions_maps: dict[str, type[D.Distribution]] = {str(each).lower(): each for each in _CLASSES}
"""Distributions by the lower-case text of their class."""

HAS_ENTROPY: dict[type[D.Distribution], bool] = {
    Delta: False,
    IndependentNormal: True,
    TanhDelta: False,
    TanhNormal: False,
    TruncatedNormal: False,
    MaskedCategorical: True,
    MaskedOneHotCategorical: False,
    OneHotCategorical: True,
    D.Categorical: True,
    D.Normal: True,
}
"""Whether losses take a distribution's entropy from its formula. Upstream: not of TruncatedNormal, which has one."""
