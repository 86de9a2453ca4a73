"""Public names and members are upstream's, as recorded."""

import inspect
import re
from importlib import import_module

import pytest

from flambeau.core.testing.golden import upstream_facts

CLASSES = {
    "tensordict.base.TensorDictBase": "flambeau.data.tensordict.TensorDictBase",
    "tensordict._td.TensorDict": "flambeau.data.tensordict.TensorDict",
    "tensordict._lazy.LazyStackedTensorDict": "flambeau.data.tensordict.LazyStackedTensorDict",
    "tensordict.nn.params.TensorDictParams": "flambeau.data.tensordict.TensorDictParams",
}
# Older spellings that only warned upstream.
GONE = {"lock", "unlock", "rename_key"}


def recorded() -> dict:
    return upstream_facts("tensordict", __file__)


def ours(path: str):
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def parameters(signature: str) -> list[str]:
    """Names in a recorded signature, without types and defaults."""
    flat = re.sub(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|<[^>]*>", "", signature.rpartition(") ->")[0] or signature[:-1])[1:]
    return [part.partition(":")[0].partition("=")[0].strip() for part in re.sub(r"\([^)]*\)", "", flat).split(",")]


@pytest.mark.parametrize("path", CLASSES)
def test_every_recorded_member_is_here(path):
    cls = ours(CLASSES[path])
    missing = {name for name in recorded()["definitions"][path]["members"] if not hasattr(cls, name)}
    assert missing - GONE == set()


def members() -> list[str]:
    return [
        name
        for name, signature in recorded()["definitions"]["tensordict.base.TensorDictBase"]["members"].items()
        if signature.startswith("(self") and not name.startswith("__")
    ]


@pytest.mark.parametrize("name", members())
def test_members_take_the_recorded_arguments(name):
    wanted = parameters(recorded()["definitions"]["tensordict.base.TensorDictBase"]["members"][name])
    found = inspect.signature(getattr(ours(CLASSES["tensordict.base.TensorDictBase"]), name)).parameters
    catches_rest = {p.kind for p in found.values()} & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    missing = [one for one in wanted if one.strip("*/") and not one.startswith("*") and one not in found]
    assert not missing or catches_rest, missing
