"""Results of checks: what each status means, and how failures are declared to be expected."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from flambeau.core.testing import BoundCheck, CheckFailed, NotApplicable, Sample, run
from flambeau.core.testing.results import Catalogue, bind, expectation
from flambeau.core.testing.samples import HOOKS, Provision, provision


def passes() -> None:
    pass


def fails() -> None:
    raise CheckFailed("wrong by 2.")


def breaks() -> None:
    raise ZeroDivisionError("by zero")


def does_not_apply() -> None:
    raise NotApplicable("no such thing.")


@pytest.mark.parametrize(
    ("ask", "expected", "status", "ok", "message"),
    [
        (passes, None, "passed", True, ""),
        (fails, None, "failed", False, "wrong by 2."),
        (breaks, None, "failed", False, "ZeroDivisionError: by zero"),
        (does_not_apply, None, "not-applicable", True, "no such thing."),
        (fails, "issue 7", "xfailed", True, "issue 7 [wrong by 2.]"),
        (passes, "issue 7", "xpassed", False, "expected to fail (issue 7), but passes"),
        (does_not_apply, "issue 7", "not-applicable", True, "no such thing."),
    ],
)
def test_a_status_follows_from_what_happened_and_what_was_expected(
    ask: Callable[[], None], expected: str | None, status: str, ok: bool, message: str
) -> None:
    [result] = run([BoundCheck("model", "works", "doc/net", "It works.", ask, expected)])

    assert (result.status, result.ok) == (status, ok)
    assert message in result.message
    assert result.seconds >= 0
    assert str(result).startswith(f"{status}: works:doc/net")


def test_one_failure_stops_nothing() -> None:
    bound = [BoundCheck("model", "a", "x", "", fails), BoundCheck("model", "b", "x", "", passes)]

    assert [result.status for result in run(bound)] == ["failed", "passed"]


def test_an_interruption_is_not_a_finding() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([BoundCheck("model", "a", "x", "", interrupted)])


def test_a_catalogue_keeps_order_names_and_questions() -> None:
    catalogue: Catalogue[object] = Catalogue("thing")

    @catalogue.check("first")
    def _first(subject: object) -> None:
        """Is first."""

    @catalogue.check("slow", level="full")
    def _slow(subject: object) -> None:
        """Takes long.

        More about it.
        """

    assert [(check.name, check.question) for check in catalogue.at("full")] == [
        ("first", "Is first."),
        ("slow", "Takes long."),
    ]
    assert [bound.name for bound in bind(catalogue, object(), "doc/x", level="default")] == ["first:doc/x"]


@pytest.mark.parametrize(
    ("patterns", "reason"),
    [
        ({"compiles:doc/net": "exact"}, "exact"),
        ({"compiles:doc/*": "any model"}, "any model"),
        ({"compiles:doc/*": "any", "compiles:doc/net": "this one"}, "this one"),
        ({"exports:doc/net": "other check", "compiles:doc/other": "other subject"}, None),
    ],
)
def test_an_expected_failure_is_found_by_name_or_pattern(patterns: dict[str, str], reason: str | None) -> None:
    assert expectation("compiles:doc/net", patterns) == reason


def test_an_expected_failure_without_a_reason_is_refused() -> None:
    with pytest.raises(CheckFailed, match="'a:b' has no reason"):
        _ = Provision(SimpleNamespace(expected_failures={"a:b": " "}), "doc").expected_failures


def test_a_hook_that_is_absent_or_answers_none_does_not_apply() -> None:
    provided = Provision(SimpleNamespace(example_inputs=lambda name, batch: None), "doc.conformance")

    with pytest.raises(NotApplicable, match=r"doc\.conformance has no `raw_input`; provide raw_input\(model_name\)"):
        provided.ask("raw_input", "net")
    with pytest.raises(NotApplicable, match="`example_inputs` answers None for net, 2"):
        provided.ask("example_inputs", "net", 2)


def test_every_hook_is_documented_in_the_kit() -> None:
    import flambeau.core.testing

    assert [hook for hook in HOOKS if hook not in str(flambeau.core.testing.__doc__)] == []


def test_samples_are_samples_with_names_of_their_own() -> None:
    one = Sample("one", abs)

    with pytest.raises(CheckFailed, match="expected flambeau"):
        Provision(SimpleNamespace(op_samples=lambda: [1]), "doc").samples("op_samples")
    with pytest.raises(CheckFailed, match=r"\['one'\] more than once"):
        Provision(SimpleNamespace(op_samples=lambda: [one, one]), "doc").samples("op_samples")
    assert Provision(None, "doc").samples("op_samples") == []


def test_samples_may_be_given_as_a_module_s_name() -> None:
    assert provision("json", "doc").source is __import__("json")
    assert provision("json", "doc").origin == "json"
