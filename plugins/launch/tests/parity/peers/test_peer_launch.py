"""Specs, components, configuration, trackers and requests of all schedulers do what torchx's do."""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path
from typing import Dict, List, Optional  # noqa: UP035  (as users of torchx write them)

import pytest
from launch_requests import request, scrubbed

from flambeau.core.testing.differential import Suite, cross, read_table

pytest.importorskip("torchx", reason="needs torchx; `nox -s parity -- peers launch` has it")
pytest.importorskip("kubernetes")

HERE = Path(__file__).parent
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


def component(library):
    """A component with every kind of argument."""

    def train(
        a: int,
        b: str = "x",
        flag: bool = False,
        lst: list[str] | None = None,
        d: dict[str, str] | None = None,
        *rest: str,
    ):
        """Trains it.

        Args:
            a: the first
        """
        role = library.specs.Role("r", "i", entrypoint="e", args=[repr((a, b, flag, lst, d, rest))])
        return library.specs.AppDef("t", [role])

    return train


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

    root = library.folder / "tracker"
    root.mkdir()
    return library.tracker.backend.fsspec.FsspecTracker(filesystem("file"), str(root))


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
    """The arguments that a component got, or argparse's refusal."""
    app = library.specs.builders.materialize_appdef(function, words.split(), defaults)
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
    "List": list,
    "Dict": dict,
    "Optional": Optional,
}
for place, programs in read_table(HERE / "launch_programs.txt").items():
    SUITE.add(*cross(place, KINDS, programs, names=LENT))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
