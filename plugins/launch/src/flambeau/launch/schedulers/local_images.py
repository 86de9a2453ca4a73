"""What local replicas run in: the current folder, or a folder that the image names."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from flambeau.launch.errors import SpecError
from flambeau.launch.specs.apps import Role

__all__ = ["CWDImageProvider", "ImageProvider", "LocalDirectoryImageProvider", "LocalOpts", "ReplicaParam"]


class LocalOpts(TypedDict, total=False):
    """Options of local schedulers, see `LocalScheduler.run_opts`."""

    log_dir: str
    prepend_cwd: bool | None
    auto_set_cuda_visible_devices: bool | None
    detach: bool | None


@dataclass
class ReplicaParam:
    """One process to start.

    Attributes:
        args: the program and its arguments, none of which a shell sees.
        env: environment variables, added to those of this process.
        stdout: file for what it prints; inherited where not given.
        stderr: file for what it prints to its error stream; likewise.
        combined: file for both.
        cwd: the folder it starts in.
    """

    args: list[str]
    env: dict[str, str]
    stdout: str | None = None
    stderr: str | None = None
    combined: str | None = None
    cwd: str | None = None


class ImageProvider(abc.ABC):
    """Finds what an image means on this machine."""

    def fetch_role(self, role: Role) -> str:
        """The root folder of a role's image."""
        return self.fetch(role.image)

    @abc.abstractmethod
    def fetch(self, image: str) -> str:
        """The root folder of an image.

        Raises:
            SpecError: (a ValueError) there is none.
        """

    def get_replica_param(
        self,
        img_root: str,
        role: Role,
        stdout: str | None = None,
        stderr: str | None = None,
        combined: str | None = None,
    ) -> ReplicaParam:
        """The process of a replica, whose macros are filled in."""
        program = self.get_entrypoint(img_root, role)
        return ReplicaParam([program, *role.args], dict(role.env), stdout, stderr, combined, self.get_cwd(role.image))

    def get_cwd(self, image: str) -> str | None:
        """The folder that replicas start in; None for the current one."""
        return None

    def get_entrypoint(self, img_root: str, role: Role) -> str:
        """The program that a role names."""
        return role.entrypoint


class LocalDirectoryImageProvider(ImageProvider):
    """An image is a folder, in which replicas start."""

    def __init__(self, cfg: LocalOpts) -> None:
        self.cfg = cfg

    def fetch(self, image: str) -> str:
        """The folder itself.

        Raises:
            SpecError: (a ValueError) it is not there.
        """
        if not Path(image).is_dir():
            raise SpecError(f"image {image!r} is not a folder; this scheduler runs programs in the folder it names.")
        return image

    def get_cwd(self, image: str) -> str | None:
        """The folder, absolute."""
        return str(Path(image).absolute())

    def get_entrypoint(self, img_root: str, role: Role) -> str:
        """The program as the role names it, looked for from the folder on where it has a separator."""
        return role.entrypoint


class CWDImageProvider(ImageProvider):
    """Whatever the image is called, replicas start in the current folder; in a workspace's copy where there is one."""

    def __init__(self, cfg: LocalOpts) -> None:
        self.cfg = cfg

    def fetch(self, image: str) -> str:
        """The folder that replicas start in."""
        return self.get_cwd(image)

    def get_cwd(self, image: str) -> str:
        """The current folder, or the workspace's copy."""
        return image if Path(image).is_absolute() and Path(image).is_dir() else str(Path.cwd())

    def get_entrypoint(self, img_root: str, role: Role) -> str:
        """The program as the role names it."""
        return role.entrypoint
