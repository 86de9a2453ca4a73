"""Mappings to positive numbers, and what environments need for a policy's modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.core.exports import lazy_exports

if TYPE_CHECKING:
    from flambeau.data.tensordict.nn import biased_softplus as biased_softplus
    from flambeau.data.tensordict.nn import inv_softplus as inv_softplus
    from flambeau.data.tensordict.nn import mappings as mappings
    from flambeau.rl.modules.utils.utils import get_env_transforms_from_module as get_env_transforms_from_module
    from flambeau.rl.modules.utils.utils import get_primers_from_module as get_primers_from_module

__getattr__: Any
__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "flambeau.data.tensordict.nn": ("biased_softplus", "inv_softplus"),
        "flambeau.data.tensordict.nn.utils": ("mappings",),
        "utils": ("get_env_transforms_from_module", "get_primers_from_module"),
    },
)
