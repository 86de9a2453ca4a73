"""Workspaces that become a layer of a container's image."""

from __future__ import annotations

import io
import logging
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from flambeau.launch.errors import SchedulerError, WorkspaceError
from flambeau.launch.specs.apps import AppDef, Role
from flambeau.launch.specs.options import CfgVal, runopts
from flambeau.launch.version import __version__
from flambeau.launch.workspace.api import WorkspaceMixin, workspace_files

if TYPE_CHECKING:
    from docker import DockerClient

__all__ = ["DEFAULT_DOCKERFILE", "TORCHX_DOCKERFILE", "DockerWorkspaceMixin", "print_push_events"]

log = logging.getLogger(__name__)

TORCHX_DOCKERFILE = "Dockerfile.torchx"
DEFAULT_DOCKERFILE = b"""
ARG IMAGE
FROM $IMAGE

COPY . .
"""


class DockerWorkspaceMixin(WorkspaceMixin[dict[str, tuple[str, str]]]):
    """Builds an image of the role's own and the workspace, by the Docker engine of this machine.

    A file `Dockerfile.torchx` in the workspace says how, where copying the files is not enough; it gets the arguments
    IMAGE and WORKSPACE.
    """

    LABEL_VERSION: str = "torchx.pytorch.org/version"

    def __init__(self, *args: object, docker_client: DockerClient | None = None, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.__docker_client = docker_client

    @property
    def _docker_client(self) -> DockerClient:
        if self.__docker_client is None:
            self.__docker_client = connect_docker()
        return self.__docker_client

    def close(self) -> None:
        """Close the connection to the engine, if there is one."""
        if self.__docker_client is not None:
            self.__docker_client.close()
            self.__docker_client = None
        super().close()  # type: ignore[misc]  # of the scheduler that this is mixed into

    def workspace_opts(self) -> runopts:
        """Where images go, and whether building them is told."""
        options = runopts()
        options.add("image_repo", type_=str, help="repository that other machines pull the built images from")
        options.add("quiet", type_=bool, default=False, help="do not print what building and pushing images print")
        return options

    def build_workspace_and_update_role(self, role: Role, workspace: str, cfg: Mapping[str, CfgVal]) -> None:
        """Build the image; `role.image` becomes its id, or stays where the engine built the same image.

        Raises:
            WorkspaceError: (a ValueError) a file leads out of the workspace, or the image cannot be built.
        """
        import docker.errors

        with _build_context(role.image, workspace) as context:
            try:
                image, events = self._docker_client.images.build(
                    fileobj=context,
                    custom_context=True,
                    dockerfile=TORCHX_DOCKERFILE,
                    buildargs={"IMAGE": role.image, "WORKSPACE": workspace},
                    pull=False,
                    rm=True,
                    labels={self.LABEL_VERSION: __version__},
                )
            except docker.errors.BuildError as error:
                tail = "".join(str(event.get("stream", "")) for event in error.build_log)[-2000:]
                raise WorkspaceError(
                    f"{role.image} with workspace {workspace} cannot be built: {error}\n{tail}"
                ) from None
            except docker.errors.DockerException as error:
                raise SchedulerError(f"the Docker engine did not build an image of {workspace}: {error}") from None
        if not cfg.get("quiet"):
            for event in events:
                if text := event.get("stream"):
                    log.debug("%s", text.rstrip())
        role.image = str(image.id)

    def dryrun_push_images(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> dict[str, tuple[str, str]]:
        """Images that were built here, and the names by which other machines get them; the roles get these names.

        Returns:
            Id of the image -> its repository and tag there.

        Raises:
            SchedulerError: an image was built here, and no option `image_repo` says where it goes.
        """
        from flambeau.launch.errors import RunOptionError

        repository = cfg.get("image_repo")
        found: dict[str, tuple[str, str]] = {}
        for role in app.roles:
            if not role.image.startswith("sha256:"):
                continue
            if not repository:
                raise RunOptionError(
                    f"the image of role {role.name!r} was built here; other machines get it from a repository that you "
                    "name: -cfg image_repo=REGISTRY/NAME"
                )
            tag = role.image.removeprefix("sha256:")
            found[role.image] = (str(repository), tag)
            role.image = f"{repository}:{tag}"
        return found

    def push_images(self, images_to_push: dict[str, tuple[str, str]]) -> None:
        """Send images to their repositories.

        Raises:
            SchedulerError: the registry refuses them.
        """
        for local, (repository, tag) in images_to_push.items():
            image = self._docker_client.images.get(local)
            image.tag(repository, tag=tag)
            print_push_events(self._docker_client.images.push(repository, tag=tag, stream=True, decode=True))


def connect_docker() -> DockerClient:
    """The Docker engine of this machine, or of DOCKER_HOST.

    Raises:
        SchedulerError: it does not answer.
    """
    import docker
    import docker.errors

    try:
        return docker.from_env()
    except docker.errors.DockerException as error:
        raise SchedulerError(
            f"the Docker engine cannot be reached: {error}. Is it running, and may you use it? `docker info` tells."
        ) from None


def _build_context(image: str, workspace: str) -> IO[bytes]:
    """What the engine builds from: the workspace's files and a Dockerfile, as an uncompressed tar archive.

    Owners and times are left out, so that the same files are the same context.
    """
    context = tempfile.NamedTemporaryFile(prefix="flambeau-context-", suffix=".tar")  # noqa: SIM115  (returned)
    written = set()
    with tarfile.open(fileobj=context, mode="w") as archive:
        for below, opened in workspace_files(workspace):
            with opened() as source:
                _add(archive, below, source.read(), _mode(source))
            written.add(below)
        if TORCHX_DOCKERFILE not in written:
            _add(archive, TORCHX_DOCKERFILE, DEFAULT_DOCKERFILE, 0o644)
    context.seek(0)
    return context


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _mode(source: Any) -> int:
    import stat

    try:
        return stat.S_IMODE(Path(source.name).stat().st_mode)
    except (AttributeError, TypeError, OSError):  # not a file of this machine
        return 0o644


def print_push_events(events: Iterable[dict[str, str]], stream: TextIO = sys.stderr) -> None:
    """Tell how pushing goes on.

    Raises:
        SchedulerError: (a RuntimeError) the registry reports an error.
    """
    shown = None
    for event in events:
        if error := event.get("error"):
            raise SchedulerError(f"the image cannot be pushed: {error}")
        status = event.get("status")
        if status and status != shown:
            shown = status
            print(status, file=stream, flush=True)
