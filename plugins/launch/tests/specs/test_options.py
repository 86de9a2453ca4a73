"""Options of schedulers: read from text, checked, completed."""

from __future__ import annotations

import pytest

from flambeau.launch.specs import InvalidRunConfigException, runopts


@pytest.fixture
def options():
    made = runopts()
    made.add("queue", type_=str, help="where", required=True)
    made.add("priority", type_=int, help="how soon", default=3)
    made.add("subnets", type_=list[str], help="networks")
    made.add("env", type_=dict[str, str], help="variables")
    made.add("quiet", type_=bool, help="say nothing", default=False)
    return made


READ = [
    ("queue=a", {"queue": "a"}),
    ("queue=a,priority=2,quiet=True", {"queue": "a", "priority": 2, "quiet": True}),
    ("subnets=a,b,queue=q", {"subnets": ["a", "b"], "queue": "q"}),
    ("subnets=a;b;c", {"subnets": ["a", "b", "c"]}),
    ("env=A:1;B:2,queue=q", {"env": {"A": "1", "B": "2"}, "queue": "q"}),
    ("queue=a;priority=2", {"queue": "a", "priority": 2}),
    ("nobody=1", {}),
    ("", {}),
]


@pytest.mark.parametrize(("text", "expected"), READ)
def test_options_are_read_from_text(options, text, expected):
    assert options.cfg_from_str(text) == expected


@pytest.mark.parametrize("text", ["queue", "queue=", "priority=x", "priority=1.5", "env=A", "a=b=c"])
def test_what_is_no_option_or_not_of_its_type_is_refused(options, text):
    with pytest.raises(ValueError):
        options.cfg_from_str(text)


def test_defaults_complete_what_is_given(options):
    resolved = options.resolve({"queue": "q", "of another scheduler": 1})
    assert resolved == {
        "queue": "q", "of another scheduler": 1, "priority": 3, "subnets": None, "env": None, "quiet": False,
    }  # fmt: skip


@pytest.mark.parametrize("cfg", [{}, {"queue": None}, {"queue": 1}, {"queue": "q", "subnets": [1]}])
def test_missing_and_ill_typed_options_are_named(options, cfg):
    with pytest.raises(InvalidRunConfigException, match=r"queue|subnets"):
        options.resolve(cfg)


def test_an_unknown_name_is_answered_with_the_nearest(options):
    assert options.unknown(["priorty"]) == "no option 'priorty'; did you mean priority?"
    assert options.unknown(["queue"]) == ""


def test_a_default_of_another_type_is_refused(options):
    with pytest.raises(TypeError, match="'wrong'"):
        options.add("wrong", type_=int, help="", default="x")
    with pytest.raises(ValueError, match="needs no default"):
        options.add("both", type_=int, help="", default=1, required=True)
