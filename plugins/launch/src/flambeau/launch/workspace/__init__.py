"""Workspaces: local files that replicas shall have."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.launch.workspace.api import WorkspaceMixin as WorkspaceMixin
    from flambeau.launch.workspace.api import walk_workspace as walk_workspace

__getattr__, __dir__, __all__ = lazy_exports(
    __name__, {"api": ("WorkspaceMixin", "walk_workspace")}, submodules=("dir_workspace", "docker_workspace")
)
