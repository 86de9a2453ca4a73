"""The examples of docstrings print what they say, and the README's program runs."""

from __future__ import annotations

import doctest
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch import nn

import flambeau.influence

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
MODULES = [module.name for module in pkgutil.walk_packages(flambeau.influence.__path__, "flambeau.influence.")]


def examples():
    finder, names = doctest.DocTestFinder(), {"torch": torch, "nn": nn}
    found = [test for name in MODULES for test in finder.find(import_module(name), name, extraglobs=names)]
    return {test.name: test for test in found if test.examples}


EXAMPLES = examples()


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_prints_what_it_says(name):
    assert doctest.DocTestRunner().run(EXAMPLES[name]).failed == 0


def test_there_are_examples():
    assert {"TracInCP", "TracInCPFast", "EKFACInfluenceFunction"} <= {name.rpartition(".")[2] for name in EXAMPLES}


def test_the_readmes_program_finds_three_examples(capsys):
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(program, "README.md", "exec"), {})
    assert "indices=tensor([[" in capsys.readouterr().out


def test_every_method_of_the_readme_exists():
    methods = re.findall(r"^\| `(\w+)` \|", README.partition("## Speed")[0], re.MULTILINE)
    assert len(methods) >= 7
    for name in methods:
        assert getattr(flambeau.influence, name)
