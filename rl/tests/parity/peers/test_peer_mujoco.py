"""Environments of MuJoCo models do what torchrl's do with the same models."""

from __future__ import annotations

import atexit
import importlib
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from spec_describing import describe_rl

from flambeau.core.testing.differential import Suite, cross, read_table

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")
pytest.importorskip("mujoco", reason="needs mujoco; `nox -s parity -- peers rl` has it")

from flambeau.rl.envs.custom.mujoco import _math
from flambeau.rl.envs.custom.mujoco._satellite_model import TARGET_FRAME, satellite_xml
from flambeau.rl.envs.custom.mujoco.base import _ASSETS

HERE = Path(__file__).parent
FOLDER = tempfile.TemporaryDirectory()
atexit.register(FOLDER.cleanup)
QUATS = torch.tensor([[0.8, 0.4, -0.2, 0.4], [0.1, 0.7, 0.7, -0.1]])
QUATS = QUATS / QUATS.norm(dim=-1, keepdim=True)


def model(name: str) -> str:
    """A file of one of our models, without what the peer adds itself: marks of satellites, the free joint of ants."""
    path = Path(FOLDER.name) / f"{name}.xml"
    if name.startswith("satellite"):
        axes = _math.pyramid_4cmg_geometry() if name.endswith("4") else _math.orthogonal_6cmg_geometry()
        text = satellite_xml(*axes, 0.3 * axes[1], 1.0)
        text = re.sub(rf'<body name="{TARGET_FRAME}">.*?</body>|<site .*?/>', "", text)
    else:
        text = (_ASSETS / path.name).read_text()
        text = text.replace('<freejoint name="root"/>', "") if name == "ant" else text
    path.write_text(text)
    return str(path)


def posture(number: int, tensordict: Any) -> Any:
    angles = torch.linspace(-1, 1, number).unsqueeze(0)
    observed = {"bus_quat": QUATS[1:], "bus_omega": torch.tensor([[0.1, 0.2, 0.3]])}
    return tensordict({**observed, "gimbal_angles": torch.cat([angles.sin(), angles.cos()], -1)}, [1])


def arm(action: Any, tensordict: Any) -> Any:
    return tensordict({"action": action, "robot_qpos": torch.zeros(1, 6), "gripper_qpos": torch.ones(1, 2) / 4}, [1])


def solve(pose: Any, start: Any, *, orientation_mask: Any = None, waypoints: int | None = None) -> Any:
    found = start + pose.sum() + (0 if orientation_mask is None else orientation_mask.sum())
    return found if waypoints is None else torch.stack([found + step for step in range(waypoints)], -2)


class Names:
    """The names of several modules of a library, and those of its `mujoco` as `mj`."""

    def __init__(self, root: str, *others: str) -> None:
        self.mj = importlib.import_module(f"{root}.envs.custom.mujoco")
        importlib.import_module(f"{root}.envs.custom.mujoco._math")
        self.modules = (f"{root}.envs.custom.mujoco", f"{root}.envs", *others)

    def __getattr__(self, name: str) -> Any:
        for module in self.modules:
            try:
                return getattr(importlib.import_module(module), name)
            except AttributeError:
                continue
        raise AttributeError(name)


SUITE = Suite(
    "mujoco",
    ours=Names("flambeau.rl", "flambeau.data.tensordict"),
    peer=Names("torchrl", "tensordict"),
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=HERE / "differences.toml",
    describers=[describe_rl],
)
LENT = {"torch": torch, "model": model, "posture": posture, "quats": QUATS, "arm": arm, "solve": solve}
for _area, _lines in read_table(HERE / "mujoco_programs.txt").items():
    SUITE.add(*cross(_area, {"of": {}}, _lines, names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)
