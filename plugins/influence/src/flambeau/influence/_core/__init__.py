"""The methods, in modules that are called as captum's."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {},
    submodules=(
        "arnoldi_influence_function",
        "ekfac_influence_function",
        "influence",
        "influence_function",
        "similarity_influence",
        "tracincp",
        "tracincp_fast_rand_proj",
        "trak",
    ),
)
