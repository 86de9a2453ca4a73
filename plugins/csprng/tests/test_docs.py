"""The examples of docstrings and of the README print what they say, and the README names every call that is taken."""

from __future__ import annotations

import doctest
import importlib.util
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest
import torch

import flambeau.csprng
from flambeau.csprng._calls import SUPPORTED

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
MODULES = [
    module.name
    for module in pkgutil.walk_packages(flambeau.csprng.__path__, "flambeau.csprng.")
    if module.name.rpartition(".")[2] not in ("_kernels", "_aes_triton")  # no module; needs Triton
]


def examples():
    finder, names = doctest.DocTestFinder(), {"torch": torch}
    found = [test for name in MODULES for test in finder.find(import_module(name), name, extraglobs=names)]
    return {test.name: test for test in found if test.examples}


EXAMPLES = examples()


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_prints_what_it_says(name):
    assert doctest.DocTestRunner().run(EXAMPLES[name]).failed == 0


def test_there_are_examples():
    assert {"encrypt", "fill_integers", "fill_normal"} <= {name.rpartition(".")[2] for name in EXAMPLES}


def test_the_readmes_program_prints_what_is_said(capsys):
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(program, "README.md", "exec"), {})
    assert capsys.readouterr().out == "".join(
        f"{line}\n" for line in re.findall(r"^# (tensor.*)$", program, re.MULTILINE)
    )


def test_the_readme_names_exactly_the_calls_that_take_a_generator():
    (section,) = re.findall(r"## Which calls take a generator\n(.*?)\nand whatever", README, re.DOTALL)
    rows = dict(re.findall(r"^\| (`.*?) \| (of .*) \|$", section, re.MULTILINE))
    named = set()
    for calls, whose in rows.items():
        names = re.findall(r"`(\w+)`", calls)
        of_tensors = names if whose.startswith("of tensors") else names[-2:] if "of tensors" in whose else []
        named |= {f"tensor.{name}" for name in of_tensors}
        named |= {f"torch.{name}" for name in names if not whose.startswith("of tensors")}
    assert named == set(SUPPORTED)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
def test_the_module_of_triton_kernels_imports():
    assert import_module("flambeau.csprng.ops._aes_triton").fill_normal
