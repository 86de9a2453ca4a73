"""Runs of training as `flambeau rl train` makes them: an algorithm, an environment, and what is kept of it."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.rl.runs.environments import make_env as make_env
    from flambeau.rl.runs.evaluation import episode_returns as episode_returns
    from flambeau.rl.runs.training import RunResult as RunResult
    from flambeau.rl.runs.training import RunSettings as RunSettings
    from flambeau.rl.runs.training import train as train

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "environments": ("make_env",),
        "evaluation": ("episode_returns",),
        "training": ("RunResult", "RunSettings", "train"),
    },
    submodules=("algorithms", "curves", "episodes"),
)
