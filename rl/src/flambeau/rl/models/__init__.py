"""Policies that are part of the package, trained."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.models.control import ControlPolicy as ControlPolicy
    from flambeau.rl.models.control import cartpole_policy as cartpole_policy
    from flambeau.rl.models.control import pendulum_policy as pendulum_policy

__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {"control": ("ControlPolicy", "Observations", "cartpole_policy", "pendulum_policy")}
)
