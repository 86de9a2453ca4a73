"""The batch scripts that Slurm gets: one heterogeneous job with a component for each replica."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flambeau.launch.errors import SpecError
from flambeau.launch.schedulers.ids import safe_id
from flambeau.launch.specs.apps import Role
from flambeau.launch.specs.macros import macros
from flambeau.launch.version import __version__

__all__ = ["SBATCH_GROUP_OPTIONS", "SBATCH_JOB_OPTIONS", "SlurmBatchRequest", "SlurmReplicaRequest"]

SBATCH_JOB_OPTIONS = {"comment", "mail-user", "mail-type"}
"""Options of the whole job."""
SBATCH_GROUP_OPTIONS = {"partition", "time", "constraint"}
"""Options of every replica's component."""
EXIT_CODE_FILE = "slurm-{}.exitcode"
"""Where a job leaves its exit code, so that its state is known on clusters without accounting."""


@dataclass
class SlurmReplicaRequest:
    """One replica.

    Attributes:
        name: of its component of the job, `role-number`.
        entrypoint: the program.
        args: its arguments.
        srun_opts: options of `srun`.
        sbatch_opts: options of the component; None for those without a value.
        env: environment variables.
    """

    name: str
    entrypoint: str
    args: list[str]
    srun_opts: dict[str, str]
    sbatch_opts: dict[str, str | None]
    env: dict[str, str]

    @classmethod
    def from_role(cls, name: str, role: Role, cfg: Mapping[str, Any], nomem: bool) -> SlurmReplicaRequest:
        """The request of a replica.

        Args:
            name: of its component.
            role: whose macros are filled in, but for the application's id.
            cfg: options of the scheduler.
            nomem: whether the cluster counts no memory, so that asking for some is refused.
        """
        options: dict[str, str | None] = {"requeue": None}
        options.update({key: _one_line(key, cfg[key]) for key in _ordered(SBATCH_GROUP_OPTIONS) if cfg.get(key)})
        options["ntasks-per-node"] = "1"
        resource = role.resource
        if resource.cpu > 0:
            options["cpus-per-task"] = str(resource.cpu)
        if resource.memMB > 0 and not nomem:
            options["mem"] = str(resource.memMB)
        if resource.gpu > 0:
            options["gpus-per-task"] = str(resource.gpu)
        name = safe_id(name)
        srun = {
            "output": f"slurm-{macros.app_id}-{name}.out",
            "error": f"slurm-{macros.app_id}-{name}.err",
            "wait": "60",
            "kill-on-bad-exit": "1",
        }
        return cls(name, role.entrypoint, list(role.args), srun, options, dict(role.env))

    def materialize(self) -> tuple[list[str], list[str]]:
        """The words of the component's `#SBATCH` line, and those of its part of `srun`, quoted for the shell."""
        sbatch = [f"--job-name={shlex.quote(self.name)}"]
        sbatch += [
            f"--{name}" if value is None else f"--{name}={shlex.quote(value)}"
            for name, value in self.sbatch_opts.items()
        ]
        srun = [_quoted(f"--{name}={value}") for name, value in self.srun_opts.items()]
        program = [self.entrypoint, *self.args]
        # Slurm separates variables by commas, and knows no way to write one within a value.
        plain = {name: value for name, value in self.env.items() if "," not in value and "\n" not in value}
        if plain:
            pairs = ",".join(f"{name}={value}" for name, value in plain.items())
            srun.append(_quoted(f"--export=ALL,{pairs}"))
        if others := [f"{name}={value}" for name, value in self.env.items() if name not in plain]:
            program = ["env", *others, *program]
        return sbatch, [*srun, *map(_quoted, program)]


def _ordered(names: set[str]) -> list[str]:
    return [name for name in ("comment", "mail-user", "mail-type", "partition", "time", "constraint") if name in names]


def _one_line(key: str, value: object) -> str:
    """A value that stays in its line of the script, where the next line could be a command.

    Raises:
        SpecError: (a ValueError) it has a line feed, or another control character.
    """
    text = str(value)
    if any(ord(character) < 32 for character in text):
        raise SpecError(f"option {key!r} is {text!r}; expected one line of text.")
    return text


def _quoted(word: str) -> str:
    """A word for the shell, which itself puts in the job's id, as only Slurm knows it."""
    return '"$SLURM_JOB_ID"'.join(shlex.quote(part) if part else "" for part in word.split(macros.app_id)) or "''"


@dataclass
class SlurmBatchRequest:
    """One job.

    Attributes:
        cmd: the `sbatch` that takes the script.
        replicas: by name.
        job_dir: folder that the job starts in; the current one where not given.
        max_retries: how often the job is queued again after a failure.
        app: the application as plain values, for `describe`.
    """

    cmd: list[str]
    replicas: dict[str, SlurmReplicaRequest]
    job_dir: str | None
    max_retries: int
    app: dict[str, Any] = field(default_factory=dict, repr=False)

    def materialize(self) -> str:
        """The script."""
        parts = [replica.materialize() for replica in self.replicas.values()]
        components = "\n#SBATCH hetjob\n".join(f"#SBATCH {' '.join(sbatch)}" for sbatch, _ in parts)
        srun = " :\\\n     ".join(" ".join(words) for _, words in parts)
        return f"""#!/bin/bash
#
# Generated by flambeau-launch {__version__}
# Run with: {shlex.join(self.cmd)}
#
{components}

set -evx

export PYTHONUNBUFFERED=1
export SLURM_UNBUFFEREDIO=1
export TORCHX_MAX_RETRIES={int(self.max_retries)}
# A job that is queued again adds to its logs.
if [ "${{SLURM_RESTART_COUNT:-0}}" -gt 0 ]; then
    export SLURM_OPEN_MODE=append
fi

set +e
srun {srun}
exitcode=$?
set -e

echo "job exited with code $exitcode"
if [ $exitcode -ne 0 ]; then
    if [ "$TORCHX_MAX_RETRIES" -gt "${{SLURM_RESTART_COUNT:-0}}" ]; then
        scontrol requeue "$SLURM_JOB_ID"
        exit $exitcode
    fi
fi
echo "$exitcode" > "{EXIT_CODE_FILE.format("$SLURM_JOB_ID")}"
exit $exitcode
"""

    def __repr__(self) -> str:
        line = "#----------------"
        return f"{' '.join([*self.cmd, '$SBATCH_SCRIPT'])}\n\n{line}\n# SBATCH_SCRIPT\n{line}\n{self.materialize()}"
