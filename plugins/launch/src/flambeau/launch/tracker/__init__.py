"""Trackers: where runs leave their metadata, artifacts and sources."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.launch.tracker.api import AppRun as AppRun
    from flambeau.launch.tracker.api import app_run_from_env as app_run_from_env

__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {"api": ("AppRun", "app_run_from_env")}, submodules=("backend", "mlflow", "runlog")
)
