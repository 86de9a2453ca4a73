"""Planners: they choose actions by imagining what follows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.core.exports import lazy_exports

if TYPE_CHECKING:
    from flambeau.rl.modules.planners.cem import *
    from flambeau.rl.modules.planners.common import *
    from flambeau.rl.modules.planners.mppi import *

__getattr__: Any
__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {"cem": ("CEMPlanner",), "common": ("MPCPlannerBase",), "mppi": ("MPPIPlanner",)}
)
