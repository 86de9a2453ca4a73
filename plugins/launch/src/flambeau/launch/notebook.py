"""For notebooks: `%%workspacefile PATH` writes a cell to a file of a workspace in memory, which can be launched.

::

    %%workspacefile main.py
    print("hello")

    runner.run_component("utils.python", ["--script", "main.py"], scheduler="local_cwd",
                         workspace=flambeau.launch.notebook.get_workspace())
"""

from __future__ import annotations

import posixpath

__all__ = ["get_workspace", "workspacefile"]

_ROOT = "memory://torchx-workspace/"


def get_workspace() -> str:
    """The address of the workspace."""
    return _ROOT


def workspacefile(line: str, cell: str) -> None:
    """Write a file of the workspace.

    Args:
        line: its path in the workspace.
        cell: what it holds.

    Raises:
        WorkspaceError: (a ValueError) the path leaves the workspace.
    """
    import fsspec

    from flambeau.launch.errors import WorkspaceError

    path = posixpath.normpath(line.strip())
    if not line.strip() or path in (".", "..") or path.startswith(("/", "../")):
        raise WorkspaceError(f"{line.strip()!r} is no path inside of the workspace; give one such as main.py.")
    fs, root = fsspec.core.url_to_fs(_ROOT)
    target = posixpath.join(root, path)
    fs.makedirs(posixpath.dirname(target), exist_ok=True)
    with fs.open(target, "w") as file:
        file.write(cell)
    print(f"Added {path} to workspace {_ROOT}")  # noqa: T201


def _register() -> None:
    """Make it a magic of the notebook that imports this module."""
    try:
        from IPython import get_ipython
    except ImportError:
        return
    if (shell := get_ipython()) is not None:
        shell.register_magic_function(workspacefile, "cell")


_register()
