"""The runner: what submits applications and watches over them, whatever the scheduler."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.launch.runner.api import Runner as Runner
    from flambeau.launch.runner.api import get_runner as get_runner

__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {"api": ("Runner", "get_runner")}, submodules=("config", "events")
)
