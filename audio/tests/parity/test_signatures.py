"""Functions and modules take the arguments that upstream's take: same names, order, kinds and defaults."""

from __future__ import annotations

import ast
import importlib
import inspect

import pytest

from flambeau.core.testing.golden import upstream_facts

MODULES = ("functional", "transforms", "prototype.functional", "prototype.transforms")


def recorded() -> dict[str, str]:
    """Path below the root package -> signature, of functions and constructors."""
    modules = upstream_facts("api", __file__)["modules"]
    found = {}
    for module in MODULES:
        for name, about in modules[f"torchaudio.{module}"].items():
            found[f"{module}.{name}"] = about.get("signature") or about["init"]
            for member, signature in about.get("members", {}).items():
                found[f"{module}.{name}.{member}"] = signature
    return found


RECORDED = recorded()


def described(signature: str) -> list[tuple[str, bool, str | None]]:
    """Name, whether by keyword alone, and default of each recorded parameter; None where any are taken."""
    parsed = ast.parse(f"def f{signature}: ...").body[0]
    assert isinstance(parsed, ast.FunctionDef)
    arguments = parsed.args
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + [ast.unparse(d) for d in arguments.defaults]
    positional = [(each.arg, False, default) for each, default in zip(arguments.args, defaults, strict=True)]
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return positional + [
        (each.arg, True, None if default is None else ast.unparse(default)) for each, default in keywords
    ]


def ours(path: str) -> list[tuple[str, bool, object]]:
    module = next(each for each in sorted(MODULES, key=len, reverse=True) if path.startswith(each + "."))
    value = importlib.import_module(f"flambeau.audio.{module}")
    for name in path.removeprefix(module + ".").split("."):
        value = getattr(value, name)
    parameters = [each for each in inspect.signature(value).parameters.values() if each.name != "self"]
    return [(each.name, each.kind is each.KEYWORD_ONLY, each.default) for each in parameters]


@pytest.mark.parametrize("path", sorted(RECORDED))
def test_the_signature_is_the_recorded_one(path):
    if "*args" in RECORDED[path]:
        return  # a module without arguments, recorded as torch.nn.Module's constructor
    want, have = described(RECORDED[path]), ours(path)
    assert [each[:2] for each in have] == [each[:2] for each in want]
    for (name, _, default), (_, _, text) in zip(have, want, strict=True):
        if text is None:
            assert default is inspect.Parameter.empty, f"{name} has a default"
        elif isinstance(default, (int, float, str, type(None))):
            assert default == ast.literal_eval(text), f"{name} is {default!r} by default, recorded {text}"
        else:
            assert getattr(default, "__name__", str(default).removeprefix("torch.")) in text
