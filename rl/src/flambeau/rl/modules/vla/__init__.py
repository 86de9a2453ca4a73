"""Policies that see, read and act."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.modules.vla.common import VLAWrapperBase as VLAWrapperBase
    from flambeau.rl.modules.vla.models import TinyVLA as TinyVLA
    from flambeau.rl.modules.vla.wrappers import LeRobotPolicyWrapper as LeRobotPolicyWrapper

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {"common": ("VLAWrapperBase",), "models": ("TinyVLA",), "wrappers": ("LeRobotPolicyWrapper",)},
)
