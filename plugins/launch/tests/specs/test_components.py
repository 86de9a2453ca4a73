"""Components: found, checked, given arguments from command lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from flambeau.launch.specs.builders import materialize_appdef
from flambeau.launch.specs.file_linter import validate
from flambeau.launch.specs.finder import (
    ComponentNotFoundException,
    ComponentValidationException,
    get_builtin_source,
    get_component,
    get_components,
)

SOURCE = '''
from __future__ import annotations
from typing import Dict, List, Optional
from flambeau.launch import specs

def train(a: int, b: str = "x", c: Optional[float] = None, flag: bool = False, items: Optional[List[int]] = None,
          d: Dict[str, str] = {}, e: int | None = None, *rest: str) -> specs.AppDef:
    """Trains it.

    Args:
        a: the first
        rest: the rest
    """
    values = (a, b, c, flag, items, d, e, rest)
    return specs.AppDef("t", [specs.Role("r", "i", entrypoint="echo", args=[repr(values)])])

def untyped(a) -> specs.AppDef:
    """Has no types."""

def callback(f: Callable[[], int]) -> specs.AppDef:
    """Takes what no command line holds."""

def wrong(a: int) -> int:
    """Gives a number."""

def nothing(a: int) -> specs.AppDef:
    """Gives nothing."""
'''


@pytest.fixture
def file():
    Path("comp.py").write_text(SOURCE)
    return "comp.py"


GIVEN = [
    ("--a 1", "(1, 'x', None, False, None, {}, None, ())"),
    (
        "--a=1 --b y --c 1.5 --flag True --items 1,2 --d k=v,l=w --e 4 r1 r2",
        "(1, 'y', 1.5, True, [1, 2], {'k': 'v', 'l': 'w'}, 4, ('r1', 'r2'))",
    ),
    ("-a 1 --flag false", "(1, 'x', None, False, None, {}, None, ())"),
    ("--a 1 -- --b z", "(1, 'x', None, False, None, {}, None, ('--b', 'z'))"),
    ("--a 1 program --b z", "(1, 'x', None, False, None, {}, None, ('program', '--b', 'z'))"),
]


@pytest.mark.parametrize(("words", "expected"), GIVEN)
def test_arguments_come_as_the_signature_types_them(file, words, expected):
    app = materialize_appdef(get_component(f"{file}:train").fn, words.split())
    assert app.roles[0].args == [expected]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "required: -a/--a"),
        ("--a x", "argument -a/--a: invalid int value: 'x'"),
        ("--a 1 --c y", "argument -c/--c: invalid float value: 'y'"),
        ("--a 1 --nobody 2", "unrecognized arguments: --nobody"),
        ("--a 1 --flag", "argument --flag: expected one argument"),
    ],
)
def test_missing_and_ill_typed_arguments_are_answered_with_the_usage(file, words, said, capsys):
    with pytest.raises(SystemExit) as stop:
        materialize_appdef(get_component(f"{file}:train").fn, words.split())
    told = capsys.readouterr().err
    assert stop.value.code == 2
    assert said in told and "usage: flambeau launch run <run args...> train" in told and "--items" in told


@pytest.mark.parametrize("words", ["--a 1 --items 1,x", "--a 1 --d kv"])
def test_an_ill_typed_element_names_its_argument(file, words):
    with pytest.raises(ValueError, match=r"argument --(items|d): "):
        materialize_appdef(get_component(f"{file}:train").fn, words.split())


def test_defaults_of_configuration_stand_over_those_of_the_signature_and_under_the_command_line(file):
    fn = get_component(f"{file}:train").fn
    assert materialize_appdef(fn, [], {"a": "5", "b": "file"}).roles[0].args[0].startswith("(5, 'file'")
    assert materialize_appdef(fn, ["--a", "6"], {"a": "5"}).roles[0].args[0].startswith("(6,")


@pytest.mark.parametrize(
    ("name", "said"),
    [("untyped", "'a' has no type"), ("callback", "which no command line can hold"), ("wrong", "returns an AppDef")],
)
def test_components_that_break_the_rules_are_not_run(file, name, said):
    with pytest.raises(ComponentValidationException, match=said):
        get_component(f"{file}:{name}")


def test_a_component_that_gives_no_application_is_told(file):
    with pytest.raises(TypeError, match="expected an AppDef"):
        materialize_appdef(get_component(f"{file}:nothing").fn, ["--a", "1"])


@pytest.mark.parametrize("name", ["utils.ecko", "nobody", "comp.py:nobody", "comp.py"])
def test_an_unknown_component_is_told(file, name):
    with pytest.raises(ComponentNotFoundException):
        get_component(name)


def test_a_near_name_is_suggested():
    with pytest.raises(ComponentNotFoundException, match=r"did you mean utils\.echo"):
        get_component("utils.ecko")


def test_a_missing_file_is_told():
    with pytest.raises(FileNotFoundError, match=r"no file 'nowhere.py'"):
        get_component("nowhere.py:train")


def test_a_file_that_is_not_python_is_told():
    Path("broken.py").write_text("def train(:\n")
    assert "is not Python" in validate("broken.py", "train")[0].description


def test_all_components_keep_the_rules_and_show_their_help(capsys):
    components = get_components()
    assert {
        "dist.ddp",
        "dist.spmd",
        "utils.echo",
        "utils.sh",
        "utils.python",
        "serve.torchserve",
        "metrics.tensorboard",
    } <= set(components)
    for component in components.values():
        assert not component.validation_errors
        with pytest.raises(SystemExit) as stop:
            materialize_appdef(component.fn, ["--help"])
        assert stop.value.code == 0
    assert "message" in capsys.readouterr().out


def test_the_source_of_a_component_can_be_run_as_it_is_printed(runner):
    Path("mine.py").write_text(get_builtin_source("utils.touch"))
    handle = runner.run_component("mine.py:touch", ["--file", "made"], "local_cwd")
    assert runner.wait(handle, 0.02).state.name == "SUCCEEDED" and Path("made").exists()
