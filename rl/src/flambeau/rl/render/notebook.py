"""Notebooks that show recorded episodes, and record them anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flambeau.core.files import write_atomic
from flambeau.rl.render.config import RenderConfig, RenderResult

__all__ = ["build_notebook", "write_render_notebook"]

_LOAD = """\
from pathlib import Path
import json
import torch

assets = Path({assets!r})
metadata = json.loads((assets / "metadata.json").read_text())
rollouts = [torch.load(path, weights_only=True) for path in sorted((assets / "rollouts").glob("*.pt"))]
for index, rollout in enumerate(rollouts):
    print(index, {{name: tuple(value.shape) for name, value in rollout.items()}})"""
_SHOW = """\
from IPython.display import Image, display

for path in sorted(assets.glob("*.gif")):
    display(Image(filename=path))"""
_CONFIGURE = """\
# Functions that are named here are imported, and run.
import json
from flambeau.rl.render import RenderConfig

config = RenderConfig(**json.loads({config!r}))"""
_RECORD = """\
from flambeau.rl.render import collect_render_rollouts, load_checkpoint, load_render_policy, make_render_env

checkpoint = load_checkpoint(config.ckpt, config.device)
env = make_render_env(config, checkpoint)
result = collect_render_rollouts(env, load_render_policy(config, env, checkpoint=checkpoint), config)
result.metadata["trajectories"]"""


def build_notebook(result: RenderResult, config: RenderConfig) -> dict[str, Any]:
    """A notebook of a run: what is known of it, its episodes, and what records them anew.

    Args:
        result: recorded episodes, with their metadata.
        config: of the run.

    Returns:
        The notebook, version 4 of its format.
    """
    assets = result.metadata.get("asset_dir", ".")
    lines = [
        f"| {one['index']} | {one['num_steps']} | {one['return']} | {one['num_frames']} |"
        for one in result.metadata.get("trajectories", ())
    ]
    table = "\n".join(["| episode | steps | return | frames |", "|---|---|---|---|", *lines])
    warned = "".join(f"\n\n{warning}" for warning in result.warnings)
    cells = [_text(f"# Episodes of a policy\n\n{table}{warned}"), _code(_CONFIGURE.format(config=config.to_json()))]
    if config.notebook_rollout_mode in ("saved", "both"):
        cells += [_code(_LOAD.format(assets=assets)), _code(_SHOW)]
    if config.notebook_rollout_mode in ("live", "both"):
        cells.append(_code(_RECORD))
    about = json.dumps(result.metadata, indent=2, default=str)
    cells.append(_text(f"## How they were recorded\n\n```json\n{about}\n```"))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def write_render_notebook(result: RenderResult, config: RenderConfig, path: str | Path) -> Path:
    """Write the notebook of a run.

    Args:
        result: recorded episodes, with their metadata.
        config: of the run.
        path: the file.
    """
    target = Path(path)
    notebook = build_notebook(result, config)
    for number, cell in enumerate(notebook["cells"]):
        cell["id"] = f"cell-{number}"
    write_atomic(target, json.dumps(notebook, indent=1) + "\n")
    return target


def _text(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source.splitlines(keepends=True)}


def _code(source: str) -> dict[str, Any]:
    lines = source.splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": lines}
