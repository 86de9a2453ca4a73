"""Transforms of texts, images through networks, tokens, chunks and macro actions do what torchrl's do."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from learned_subjects import pictures, same, speaking, words
from scene_subjects import scene
from spec_describing import describe_rl
from transform_subjects import acting

from flambeau.core.testing.differential import Suite, cross, read_table

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")
pytest.importorskip("transformers", reason="needs transformers; `nox -s parity -- peers rl` has it")

HERE = Path(__file__).parent


class Names:
    """The names of several modules of a library."""

    def __init__(self, *modules: str) -> None:
        self.modules = modules

    def __getattr__(self, name: str) -> Any:
        for module in self.modules:
            try:
                return getattr(importlib.import_module(module), name)
            except AttributeError:
                continue
        raise AttributeError(name)


def names(root: str, tensordict: str) -> Names:
    return Names(
        f"{root}.envs.transforms", f"{root}.envs", f"{root}.data", f"{root}.data.vla", tensordict
    )  # fmt: skip


SUITE = Suite(
    "learned_transforms",
    ours=names("flambeau.rl", "flambeau.data.tensordict"),
    peer=names("torchrl", "tensordict"),
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict", "learned_subjects"),
    differences=HERE / "differences.toml",
    describers=[describe_rl],
    rtol=1e-4,
    atol=1e-5,
)
LENT = {
    "torch": torch, "acting": acting, "scene": scene, "speaking": speaking, "words": words, "pictures": pictures,
    "same": same,
}  # fmt: skip
for _area, _lines in read_table(HERE / "learned_programs.txt").items():
    # The networks of images are flambeau-vision's, which may be missing.
    if _area != "images" or find_spec("flambeau.vision") is not None:
        SUITE.add(*cross(_area, {"of": {}}, _lines, names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
