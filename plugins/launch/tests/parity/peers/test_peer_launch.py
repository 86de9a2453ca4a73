"""Specs, components, configuration, trackers and requests of all schedulers do what torchx's do."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import tempfile
import typing
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Dict, List, Optional  # noqa: UP035  (as users of torchx write them)

import pytest
from launch_component import component
from launch_requests import request, scrubbed

from flambeau.core.testing.differential import Suite, cross, read_table

pytest.importorskip("torchx", reason="needs torchx; `nox -s parity -- peers launch` has it")
pytest.importorskip("kubernetes")

HERE = Path(__file__).parent
# Packages of torchx load nothing of what is inside by themselves.
ROOMS = {
    "components": "dist metrics serve structured_arg utils",
    "util": "entrypoints modules shlex strings types",
    "runner": "config",
    "runtime": "tracking",
    "schedulers": "api aws_batch_scheduler devices docker_scheduler gcp_batch_scheduler ids kubernetes_mcad_scheduler "
    "kubernetes_scheduler local_scheduler lsf_scheduler slurm_scheduler",
    "specs": "file_linter finder",
    "tracker": "api backend.fsspec",
}
for root in ("flambeau.launch", "torchx"):
    for room, modules in ROOMS.items():
        for module in modules.split():
            importlib.import_module(f"{root}.{room}.{module}")
SUITE = Suite(
    "launch",
    ours="flambeau.launch",
    peer="torchx",
    roots=("flambeau.launch", "torchx"),
    differences=HERE / "differences.toml",
)


def options(library):
    made = library.specs.runopts()
    made.add("a", type_=str, help="the a", required=True)
    made.add("b", type_=int, help="the b", default=3)
    made.add("l", type_=List[str], help="list")  # noqa: UP006
    made.add("d", type_=Dict[str, str], help="dict", default={"x": "y"})  # noqa: UP006
    made.add("f", type_=bool, help="flag", default=False)
    return made


def training(library):
    mounts = [
        "type=bind",
        "src=/a",
        "dst=/b",
        "readonly",
        "type=volume",
        "src=v",
        "dst=/v",
        "type=device",
        "src=/dev/x",
    ]
    return library.components.dist.ddp(
        *("--x", "$1 a'b"), script="m.py", j="2x2", env={"A": "b c", "Q": "it's"}, gpu=1, cpu=3, mounts=mounts
    )


def two_roles(library):
    specs = library.specs
    first = specs.Role(
        *("r0", "img"), entrypoint="echo", args=["a", "${replica_id}", "${app_id}", "${rank0_env}"], num_replicas=2,
        resource=specs.Resource(1, 0, 100, {"node.kubernetes.io/instance-type": "p4d"}, {"vpc.amazonaws.com/efa": 1}),
        retry_policy=specs.RetryPolicy.REPLICA, max_retries=1, port_map={"http": 80},
    )  # fmt: skip
    second = specs.Role("r1", "img2", entrypoint="bin/x", resource=specs.Resource(2, 1, 4000))
    return specs.AppDef("my-app", [first, second], metadata={"m": "1"})


def tracker(library):
    from fsspec import filesystem

    # Files are named by the time; not in the cell's folder, whose files are compared.
    return library.tracker.backend.fsspec.FsspecTracker(filesystem("file"), tempfile.mkdtemp(prefix="tracker-"))


def called(function, *args, **kwargs):
    """What a function gives where it may warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return scrubbed(function(*args, **kwargs))


def written(path, text):
    """A file with a text; gives its name."""
    Path(path).write_text(text)
    return str(path)


def materialized(library, function, words, defaults=None):
    """The arguments that a component got, or that argparse refused them; the wording of usages is nobody's business."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            app = library.specs.builders.materialize_appdef(function, words.split(), defaults)
    except SystemExit as stop:
        return ["refused", stop.code]
    return app.roles[0].args


def applied(library, scheduler, texts, given=None):
    """Options of a scheduler with configuration files in two folders, the stronger one first."""
    folders = []
    for number, text in enumerate(texts):
        folder = library.folder / str(number)
        folder.mkdir()
        (folder / ".torchxconfig").write_text(text)
        folders.append(str(folder))
    options = dict(given or {})
    library.runner.config.apply(scheduler, options, folders)
    return [options, library.runner.config.load_sections("component", folders)]


KINDS = {
    "plain": {
        "o": options,
        "component": component,
        "training": training,
        "two_roles": two_roles,
        "tr": tracker,
    }
}
LENT = {
    "request": request,
    "called": called,
    "scrubbed": scrubbed,
    "written": written,
    "materialized": materialized,
    "applied": applied,
    "io": io,
    "os": os,
    "List": typing.List,  # noqa: UP006
    "Dict": typing.Dict,  # noqa: UP006
    "Optional": Optional,
}
for place, programs in read_table(HERE / "launch_programs.txt").items():
    cells = cross(place, KINDS, programs, names=LENT)
    # What is left of an application that was rendered, and how it is told, is each library's own.
    SUITE.add(*(replace(cell, effects=place not in ("requests", "configuration"), printed=False) for cell in cells))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
