"""Distributed programs, started by torchrun on every machine.

torchrun (torchelastic) watches over its processes and starts all again when one fails, up to `max_retries` times; a
scheduler starts a machine's torchrun again when that fails, as often. The same command runs on every scheduler.
"""

from __future__ import annotations

import re
from pathlib import Path

from flambeau.launch import specs
from flambeau.launch.components.structured_arg import StructuredJArgument, StructuredNameArgument
from flambeau.launch.errors import ComponentArgumentError
from flambeau.launch.specs import macros
from flambeau.launch.specs.macros import literal
from flambeau.launch.specs.mounts import parse_mounts
from flambeau.launch.util import shlex
from flambeau.launch.version import IMAGE

__all__ = ["ddp", "get_role_name", "parse_nnodes", "spmd"]

_TORCH_DEBUG_FLAGS: dict[str, str] = {
    "CUDA_LAUNCH_BLOCKING": "1",
    "NCCL_DESYNC_DEBUG": "1",
    "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
    "TORCH_SHOW_CPP_STACKTRACES": "1",
}


def spmd(
    *args: str,
    script: str | None = None,
    m: str | None = None,
    image: str = IMAGE,
    name: str = "/",
    h: str = "gpu.small",
    j: str = "1x1",
    env: dict[str, str] | None = None,
    max_retries: int = 0,
    mounts: list[str] | None = None,
    debug: bool = False,
) -> specs.AppDef:
    """Runs one program on several machines, a process for each GPU unless `j` says otherwise.

    Args:
        args: arguments of the program
        script: the program as a script; one of this and m
        m: the program as a module
        image: what it runs in
        name: of the run, as EXPERIMENT/RUN; both may be left out
        h: named resource of each machine
        j: machines and processes on each, as 2x8, or machines alone for a process on each GPU
        env: environment variables, as NAME=VALUE,NAME=VALUE
        max_retries: how often everything is started again after a failure
        mounts: as type=bind,src=/here,dst=/there[,readonly], one after the other
        debug: whether torch tells more, and CUDA's errors come where they happen
    """
    structure = StructuredJArgument.parse_from(h, j)
    return ddp(
        *args, script=script, m=m, image=image, name=name, h=h, j=str(structure), env=env, max_retries=max_retries,
        mounts=mounts, debug=debug,
    )  # fmt: skip


def ddp(
    *script_args: str,
    script: str | None = None,
    m: str | None = None,
    image: str = IMAGE,
    name: str = "/",
    h: str | None = None,
    cpu: int = 2,
    gpu: int = 0,
    memMB: int = 1024,
    j: str = "1x2",
    env: dict[str, str] | None = None,
    max_retries: int = 0,
    rdzv_port: int = 29500,
    rdzv_backend: str = "c10d",
    mounts: list[str] | None = None,
    debug: bool = False,
    tee: int = 3,
) -> specs.AppDef:
    """Runs a program for DistributedDataParallel: processes on one or more machines that find one another.

    torchrun starts the processes of each machine. They meet at the first machine's port, and on a single machine at
    any that is free.

    Args:
        script_args: arguments of the program
        script: the program as a script; one of this and m
        m: the program as a module
        image: what it runs in
        name: of the run, as EXPERIMENT/RUN; both may be left out
        h: named resource of each machine, instead of cpu, gpu and memMB
        cpu: cores of each machine
        gpu: GPUs of each machine
        memMB: memory of each machine in MiB
        j: machines and processes on each, as 2x8, or 1:2x8 for as few as one machine; one number is processes on one
        env: environment variables, as NAME=VALUE,NAME=VALUE
        max_retries: how often processes are started again after a failure
        rdzv_port: port of the first machine where all meet
        rdzv_backend: what they meet by
        mounts: as type=bind,src=/here,dst=/there[,readonly], one after the other
        debug: whether torch tells more, and CUDA's errors come where they happen
        tee: what of the processes is printed with their ranks: 0 nothing, 1 output, 2 errors, 3 both
    """
    if bool(script) == bool(m):
        raise ComponentArgumentError("dist.ddp runs either a script (--script) or a module (-m); give one of them.")
    min_nnodes, max_nnodes, nproc_per_node, nnodes = parse_nnodes(j)
    structured = StructuredNameArgument.parse_from(name=name, m=m, script=script)
    if max_nnodes == 1:
        endpoint: str = "localhost:0"
    else:
        # The shell of each machine fills in where the first one is. `rank0_env` names a variable of the scheduler's,
        # and is replaced before; "$$" is what "$" is written as until then.
        endpoint = _noquote(f"$${{{macros.rank0_env}:=localhost}}:{int(rdzv_port)}")

    variables = dict(env or {})
    variables["TORCHX_TRACKING_EXPERIMENT_NAME"] = structured.experiment_name
    variables.setdefault("LOGLEVEL", "WARNING")
    if debug:
        variables.update(_TORCH_DEBUG_FLAGS)
    if max_retries > 0:
        variables.setdefault("PET_MAX_RESTARTS", str(max_retries))  # torchrun's --max_restarts
        # Processes that are started again meet at a store of their own. In the agent's, which torchrun shares with them
        # otherwise, they find the addresses of those that died (pytorch/pytorch#135712).
        variables.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")

    command = [
        *("torchrun", "--rdzv_backend", rdzv_backend, "--rdzv_endpoint", endpoint, "--rdzv_id", macros.app_id),
        *("--nnodes", nnodes, "--nproc_per_node", str(nproc_per_node), "--tee", str(tee), "--role", ""),
        *(["-m", m] if m else [str(script)]),
        *map(literal, script_args),
    ]
    role = specs.Role(
        name=get_role_name(script, m),
        image=image,
        entrypoint="bash",
        args=["-c", shlex.join(command)],
        min_replicas=min_nnodes,
        num_replicas=int(max_nnodes),
        resource=specs.resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h),
        env=variables,
        port_map={"c10d": rdzv_port},
        max_retries=max_retries,
        mounts=parse_mounts(mounts) if mounts else [],
    )
    return specs.AppDef(name=structured.run_name, roles=[role])


def get_role_name(script: str | None, m: str | None) -> str:
    """The name of the program without folders, packages and ending.

    Raises:
        ComponentArgumentError: (a ValueError) neither is given.
    """
    if script:
        return Path(script).stem
    if m:
        return m.rpartition(".")[2]
    raise ComponentArgumentError("a role is named by its script or module; give one of them.")


class _noquote(str):
    """Text that the shell is meant to read."""

    unquoted = True


def parse_nnodes(j: str) -> tuple[int, int, int, str]:
    """Take `-j` apart.

    Args:
        j: `PROCESSES`, `NODESxPROCESSES` or `MIN:MAXxPROCESSES`.

    Returns:
        Fewest machines, most machines, processes on each, and the machines as torchrun has them.

    Raises:
        ComponentArgumentError: (a ValueError) it is none of these.

    Example:
        >>> parse_nnodes("1:2x4")
        (1, 2, 4, '1:2')
    """
    match = re.fullmatch(r"(?:(?:(?P<min>\d+):)?(?P<max>\d+)x)?(?P<processes>\d+)", j)
    if match is None:
        raise ComponentArgumentError(
            f"-j is {j!r}; expected PROCESSES, NODESxPROCESSES or MIN:MAXxPROCESSES, as 1:2x8."
        )
    most = match["max"] or "1"
    fewest = match["min"] or most
    if int(fewest) > int(most) or int(most) < 1 or int(match["processes"]) < 1:
        raise ComponentArgumentError(
            f"-j is {j!r}; expected at least one machine and process, and not more MIN than MAX."
        )
    nodes = f"{fewest}:{most}" if match["min"] else most
    return int(fewest), int(most), int(match["processes"]), nodes
