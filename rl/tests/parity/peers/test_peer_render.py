"""Rendering of policies does what torchrl's does."""

from __future__ import annotations

import importlib
import tempfile
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from spec_describing import describe_rl

from flambeau.core.testing.differential import Suite, cross, read_table

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

HERE = Path(__file__).parent


def names(root: str, tensordict: str) -> SimpleNamespace:
    return SimpleNamespace(
        R=importlib.import_module(f"{root}.render"),
        B=importlib.import_module(f"{root}.render.backends"),
        E=importlib.import_module(f"{root}.envs.custom"),
        TensorDict=importlib.import_module(tensordict).TensorDict,
    )


def run(render: Any, envs: Any, kind: str, **changes: Any) -> Any:
    """An episode in a folder of its own: what was recorded, and which files there are."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save({"model_state_dict": {"gain": torch.ones(())}}, Path(folder) / "p.pt")
        config = render.RenderConfig(
            Path(folder) / "p.pt", lambda spec: lambda state: state[..., 2:4],
            lambda spec: envs.ToyVLAEnv(action_dim=2, success_steps=2, from_pixels=True, render_size=16, seed=0),
            **{"max_steps": 3, "obs_key": "observation.state", "auto_load_policy": False, "format": kind,
               "out": Path(folder) / ("out" if kind == "frames" else f"out.{kind}"), **changes},
        )  # fmt: skip
        result = render.render_policy(config)
        # Notes on versions and places differ between libraries; what was recorded does not.
        known = {name: result.metadata[name] for name in ("num_trajs", "max_steps", "fps", "trajectories", "keys")}
        files = sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file())
        data = [{"action": one["action"], "reward": one["next", "reward"]} for one in result.trajectories]
        frames = [[(bundle.step, bundle.frames) for bundle in one] for one in result.frames]
        return [known, files, data, frames, len(result.warnings)]


SUITE = Suite(
    "render",
    ours=names("flambeau.rl", "flambeau.data.tensordict"),
    peer=names("torchrl", "tensordict"),
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=HERE / "differences.toml",
    describers=[describe_rl],
)


def of_tensors(observation: Any) -> Any:
    if not isinstance(observation, torch.Tensor):
        raise TypeError("a tensor")
    return observation + 1


LENT = {
    "of_tensors": of_tensors,
    "torch": torch, "run": run, "state": torch.nn.Linear(2, 2).state_dict(),
    "drawing": SimpleNamespace(render=lambda: np.ones((2, 2, 3), np.uint8)),
    "simulation": SimpleNamespace(data=SimpleNamespace(qpos=np.array([0.0, 1.0]), qvel=np.array([0.5]), time=0.25)),
}  # fmt: skip
for _area, _lines in read_table(HERE / "render_programs.txt").items():
    SUITE.add(*cross(_area, {"of": {}}, _lines, names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)
