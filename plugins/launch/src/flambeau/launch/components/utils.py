"""Small applications: print, run a command, copy a file."""

from __future__ import annotations

import os
import shlex
import tempfile

from flambeau.launch import specs
from flambeau.launch.errors import ComponentArgumentError
from flambeau.launch.specs.macros import literal
from flambeau.launch.specs.mounts import parse_mounts
from flambeau.launch.version import IMAGE

__all__ = ["binary", "booth", "copy", "echo", "python", "sh", "touch"]


def echo(msg: str = "hello world", image: str = IMAGE, num_replicas: int = 1) -> specs.AppDef:
    """Prints a message.

    Args:
        msg: the message
        image: what it runs in
        num_replicas: how often
    """
    role = specs.Role(
        "echo",
        image,
        entrypoint="echo",
        args=[literal(msg)],
        num_replicas=num_replicas,
        resource=specs.Resource(cpu=1, gpu=0, memMB=1024),
    )
    return specs.AppDef("echo", [role])


def touch(file: str, image: str = IMAGE) -> specs.AppDef:
    """Makes an empty file.

    Args:
        file: its path
        image: what it runs in
    """
    return specs.AppDef(
        "touch",
        [
            specs.Role(
                "touch", image, entrypoint="touch", args=[file], resource=specs.Resource(cpu=1, gpu=0, memMB=1024)
            )
        ],
    )


def sh(
    *args: str,
    image: str = IMAGE,
    num_replicas: int = 1,
    cpu: int = 1,
    gpu: int = 0,
    memMB: int = 1024,
    h: str | None = None,
    env: dict[str, str] | None = None,
    max_retries: int = 0,
    mounts: list[str] | None = None,
) -> specs.AppDef:
    """Runs a command by sh. Its words reach the command as they are: the shell finds nothing to do in them.

    Args:
        args: the command and its arguments
        image: what it runs in
        num_replicas: how often
        cpu: cores of each replica
        gpu: GPUs of each replica
        memMB: memory of each replica in MiB
        h: named resource of each replica, instead of cpu, gpu and memMB
        env: environment variables, as NAME=VALUE,NAME=VALUE
        max_retries: how often replicas are started again after a failure
        mounts: as type=bind,src=/here,dst=/there[,readonly], one after the other
    """
    variables = dict(env or {})
    variables.setdefault("LOGLEVEL", "WARNING")
    role = specs.Role(
        *("sh", image),
        entrypoint="sh",
        args=["-c", " ".join(shlex.quote(literal(word)) for word in args)],
        num_replicas=num_replicas,
        resource=specs.resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h),
        env=variables,
        max_retries=max_retries,
        mounts=parse_mounts(mounts) if mounts else [],
    )
    return specs.AppDef("sh", [role])


def python(
    *args: str,
    m: str | None = None,
    c: str | None = None,
    script: str | None = None,
    image: str = IMAGE,
    name: str = "torchx_utils_python",
    cpu: int = 1,
    gpu: int = 0,
    memMB: int = 1024,
    h: str | None = None,
    num_replicas: int = 1,
) -> specs.AppDef:
    """Runs Python: a module, a script or a text.

    Args:
        args: arguments of the program
        m: the program as a module; one of this, c and script
        c: the program as a text
        script: the program as a script
        image: what it runs in
        name: of the application
        cpu: cores of each replica
        gpu: GPUs of each replica
        memMB: memory of each replica in MiB
        h: named resource of each replica, instead of cpu, gpu and memMB
        num_replicas: how often
    """
    if [m is None, c is None, script is None].count(False) != 1:
        raise ComponentArgumentError("utils.python runs a module (-m), a text (-c) or a script (--script); give one.")
    program = ["-m", m] if m is not None else ["-c", c] if c is not None else [script]
    role = specs.Role(
        *("python", image),
        entrypoint="python",
        args=[literal(str(word)) for word in (*program, *args)],
        num_replicas=num_replicas,
        resource=specs.resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h),
        # Hydra asks for it where it cannot find out itself.
        env={"HYDRA_MAIN_MODULE": m} if m else {},
    )
    return specs.AppDef(name, [role])


def binary(
    *args: str,
    entrypoint: str,
    name: str = "torchx_utils_binary",
    num_replicas: int = 1,
    cpu: int = 1,
    gpu: int = 0,
    memMB: int = 1024,
    h: str | None = None,
) -> specs.AppDef:
    """Runs a program that is on the machine already, without an image.

    Args:
        args: arguments of the program
        entrypoint: the program
        name: of the application
        num_replicas: how often
        cpu: cores of each replica
        gpu: GPUs of each replica
        memMB: memory of each replica in MiB
        h: named resource of each replica, instead of cpu, gpu and memMB
    """
    role = specs.Role(
        *("binary", "<NONE>"),
        entrypoint=entrypoint,
        args=[literal(word) for word in args],
        num_replicas=num_replicas,
        resource=specs.resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h),
    )
    return specs.AppDef(name, [role])


def copy(src: str, dst: str, image: str = IMAGE) -> specs.AppDef:
    """Copies a file between places that fsspec reaches.

    Args:
        src: from where
        dst: to where
        image: what it runs in
    """
    arguments = ["-m", "flambeau.launch.apps.utils.copy_main", "--src", src, "--dst", dst]
    role = specs.Role(
        "torchx-utils-copy",
        image,
        entrypoint="python",
        args=arguments,
        resource=specs.Resource(cpu=1, gpu=0, memMB=1024),
    )
    return specs.AppDef("torchx-utils-copy", [role])


def booth(
    x1: float,
    x2: float,
    trial_idx: int = 0,
    tracker_base: str = os.path.join(tempfile.gettempdir(), "torchx-util-booth"),  # noqa: PTH118
    image: str = IMAGE,
) -> specs.AppDef:
    """Computes Booth's function (x1 + 2 x2 - 7)^2 + (2 x1 + x2 - 5)^2, whose least value is 0 at (1, 3).

    Args:
        x1: first coordinate
        x2: second coordinate
        trial_idx: key of the result
        tracker_base: where the result goes
        image: what it runs in
    """
    arguments = [
        *("-m", "flambeau.launch.apps.utils.booth_main", "--x1", str(x1), "--x2", str(x2)),
        *("--trial_idx", str(trial_idx), "--tracker_base", tracker_base),
    ]
    role = specs.Role(
        "torchx-utils-booth",
        image,
        entrypoint="python",
        args=arguments,
        resource=specs.Resource(cpu=1, gpu=0, memMB=1024),
    )
    return specs.AppDef("torchx-utils-booth", [role])
