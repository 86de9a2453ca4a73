"""Distributions of actions: bounded normals, masked and ordered categoricals, single values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.core.exports import lazy_exports

if TYPE_CHECKING:
    from flambeau.data.tensordict.nn import NormalParamExtractor as NormalParamExtractor
    from flambeau.rl.modules.distributions._maps import distributions_maps as distributions_maps
    from flambeau.rl.modules.distributions.continuous import *
    from flambeau.rl.modules.distributions.discrete import *
    from flambeau.rl.modules.distributions.discrete import MaskedOneHotCategorical as MaskedOneHotCategorical
    from flambeau.rl.modules.distributions.discrete import ReparamGradientStrategy as ReparamGradientStrategy
    from flambeau.rl.modules.distributions.utils import has_analytic_entropy as has_analytic_entropy
    from flambeau.rl.modules.distributions.utils import has_analytic_kl as has_analytic_kl

__getattr__: Any
__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_maps": ("HAS_ENTROPY", "distributions_maps"),
        "continuous": (
            "Delta",
            "IndependentNormal",
            "NormalParamWrapper",
            "TanhDelta",
            "TanhNormal",
            "TruncatedNormal",
        ),
        "discrete": (
            "LLMMaskedCategorical",
            "MaskedCategorical",
            "MaskedOneHotCategorical",
            "OneHotCategorical",
            "OneHotOrdinal",
            "Ordinal",
            "ReparamGradientStrategy",
        ),
        "utils": ("has_analytic_entropy", "has_analytic_kl"),
        "flambeau.data.tensordict.nn": ("NormalParamExtractor",),
    },
    submodules=("truncated_normal",),
)
