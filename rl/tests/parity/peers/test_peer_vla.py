"""Data, policies and the toy environment of vision, language and action do what torchrl's do."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from spec_describing import describe_rl

from flambeau.core.testing.differential import Suite, cross, read_table
from flambeau.core.testing.fill import fill_

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

HERE = Path(__file__).parent


def filled(module: Any) -> Any:
    fill_(module)
    return module.eval()


def metadata(vla: Any) -> Any:
    return vla.RobotDatasetMetadata(
        dataset_id="arm", action_dim=2, action_low=torch.tensor([-1.0, -2]), action_high=torch.tensor([1.0, 2]),
        camera_keys=(("observation", "image"),), action_names=("x", "y"), license="MIT", batch_size=[],
    )  # fmt: skip


def seen(tensordict: Any) -> Any:
    observed = {"image": torch.arange(2 * 3 * 256).view(2, 3, 16, 16).remainder(256).byte(), "state": torch.ones(2, 5)}
    return tensordict({"observation": observed, "language_instruction": "pick"}, [2])


def numbers(data: Any) -> Any:
    """The tensors of a tensordict, sorted; texts are compared in a cell of their own."""
    found = {str(key): value for key, value in data.items(True, True) if isinstance(value, torch.Tensor)}
    return dict(sorted(found.items()))


def names(root: str, tensordict: str) -> SimpleNamespace:
    return SimpleNamespace(
        V=importlib.import_module(f"{root}.data.vla"),
        W=importlib.import_module(f"{root}.modules.vla"),
        A=importlib.import_module(f"{root}.modules.models"),
        E=importlib.import_module(f"{root}.envs.custom"),
        TensorDict=importlib.import_module(tensordict).TensorDict,
    )


SUITE = Suite(
    "vla",
    ours=names("flambeau.rl", "flambeau.data.tensordict"),
    peer=names("torchrl", "tensordict"),
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=HERE / "differences.toml",
    describers=[describe_rl],
)
LENT = {
    "torch": torch, "filled": filled, "metadata": metadata, "seen": seen, "numbers": numbers,
    "images": (torch.arange(2 * 3 * 40 * 50).view(2, 3, 40, 50) * 7 // 50).remainder(256).byte(),
}  # fmt: skip
for _area, _lines in read_table(HERE / "vla_programs.txt").items():
    SUITE.add(*cross(_area, {"of": {}}, _lines, names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)
