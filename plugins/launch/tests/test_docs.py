"""The examples of docstrings print what they say, and those of the README run."""

from __future__ import annotations

import doctest
import pkgutil
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

import flambeau.launch
from flambeau.core.cli import main
from flambeau.launch.runner import get_runner

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
PROGRAM = "import sys\nassert sys.argv[1:] == ['--epochs', '3']\n"
COMMANDS = [line for line in README.splitlines() if line.startswith("flambeau launch run ")]


def modules():
    """Those that can be imported here; some need a scheduler's client."""
    for module in pkgutil.walk_packages(flambeau.launch.__path__, "flambeau.launch."):
        try:
            yield import_module(module.name)
        except ImportError:
            continue


def examples():
    found = [test for module in modules() for test in doctest.DocTestFinder().find(module)]
    return {test.name: test for test in found if test.examples}


EXAMPLES = examples()


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_prints_what_it_says(name):
    assert doctest.DocTestRunner().run(EXAMPLES[name]).failed == 0


def test_there_are_examples():
    assert {"parse_nnodes", "safe_id"} <= {name.rpartition(".")[2] for name in EXAMPLES}


def words(command: str, *more: str) -> list[str]:
    """A command of the README, without the program's name and with further words of `run`."""
    _, launch, run, *rest = shlex.split(command)
    return [launch, run, *more, *rest]


def test_the_readmes_first_command_prints_what_it_says(capsys):
    printed = README.partition("The first prints\n\n```\n")[2].partition("\n```")[0]
    assert main(words(COMMANDS[0])) == 0
    # Ids are drawn.
    handle, line = (re.sub(r"echo-\w+", "echo-ID", text).splitlines() for text in (printed, capsys.readouterr().out))
    assert handle == line


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readmes_commands_make_requests(command, capsys):
    Path("train.py").write_text(PROGRAM)
    assert main(words(command, "--dryrun")) == 0
    assert "=== SCHEDULER REQUEST ===" in capsys.readouterr().out


@pytest.mark.slow
def test_the_readmes_program_runs(capsys):
    Path("train.py").write_text(PROGRAM)
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(program, "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[-1] == "SUCCEEDED"


def test_the_readmes_schedulers_are_all_there_is():
    table = README.partition("| scheduler | jobs |")[2].partition("\n\n")[0]
    named = re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines()[2:]))
    assert set(named) == set(get_runner().scheduler_backends())


def test_the_readmes_components_are_all_there_is(capsys):
    assert main(["launch", "builtins"]) == 0
    there = set(re.findall(r"\b(\w+\.\w+)\b", capsys.readouterr().out))
    (row,) = (line for line in README.splitlines() if line.startswith("| components |"))
    named = set(re.findall(r"`(\w+\.\w+)`", row))
    for room, names in re.findall(r"`(\w+)\.\{([\w,]+)\}`", row):
        named |= {f"{room}.{name}" for name in names.split(",")}
    assert named == there
