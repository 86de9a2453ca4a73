"""All checks of a plugin: of what it registers, of the operators and transforms it samples, and of itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

from flambeau.core.testing.results import BoundCheck, CheckFailed, Level, NotApplicable, expectation
from flambeau.core.testing.samples import Provision, provision

KINDS = ("plugin", "model", "dataset", "tensor-type", "op", "transform")

_Test = TypeVar("_Test", bound=Callable[..., Any])


def plugin_checks(
    plugin: str, *, level: Level = "default", kinds: Collection[str] = KINDS, samples: object | None = None
) -> list[BoundCheck]:
    """Every check that applies to a plugin, ordered by subject.

    Args:
        plugin: its name.
        level: "full" asks checks that take long too.
        kinds: only subjects of these kinds, from "plugin", "model", "dataset", "tensor-type", "op", "transform".
        samples: a module or object with the hooks of a conformance module; by default the plugin's own.

    Raises:
        ValueError: a kind there is not.
        PluginError: no such plugin.
    """
    if unknown := sorted(set(kinds) - set(KINDS)):
        raise ValueError(f"there are no subjects of kind {unknown[0]!r}; kinds are {', '.join(KINDS)}.")
    provided = provision(samples, plugin)
    checks = [check for kind in KINDS if kind in kinds for check in _of_kind(kind, plugin, provided, level)]
    return [*checks, _declarations(plugin, provided)] if "plugin" in kinds else checks


def parametrize_with_checks(
    plugin: str, *, level: Level = "default", kinds: Collection[str] = KINDS, samples: object | None = None
) -> Callable[[_Test], _Test]:
    """Expand a test into one per check and subject of a plugin.

    ::

        @parametrize_with_checks("my-plugin")
        def test_conformance(check):
            check()

    What does not apply is skipped, with the reason; a declared failure is a strict `xfail`, which fails when it
    starts to pass.

    Args:
        plugin: its name. The test's argument is named `check`.
        level: "full" asks checks that take long too.
        kinds: only subjects of these kinds.
        samples: a module or object with the hooks of a conformance module; by default the plugin's own.
    """
    import pytest

    def parameters() -> Iterator[Any]:
        for bound in plugin_checks(plugin, level=level, kinds=kinds, samples=samples):
            marks = [pytest.mark.xfail(reason=bound.expected, strict=True)] if bound.expected is not None else []
            yield pytest.param(_skipping(bound), id=f"{bound.subject}-{bound.check}", marks=marks)

    return pytest.mark.parametrize("check", list(parameters()))


def _skipping(bound: BoundCheck) -> Callable[[], None]:
    def check() -> None:
        import pytest

        try:
            bound.ask()
        except NotApplicable as reason:
            pytest.skip(f"not applicable: {reason}")

    return check


def _of_kind(kind: str, plugin: str, provided: Provision, level: Level) -> list[BoundCheck]:
    from flambeau.core.registry import DATASETS, MODELS, TENSOR_TYPES

    if kind == "plugin":
        from flambeau.core.testing.plugins import bind_plugin

        return bind_plugin(plugin, samples=provided.source, level=level)
    if kind in ("op", "transform"):
        from flambeau.core.testing.operators import bind_op, bind_transform

        hook, bind_sample = ("op_samples", bind_op) if kind == "op" else ("transform_cases", bind_transform)
        expected = dict(provided.expected_failures)
        return [check for one in provided.samples(hook) for check in bind_sample(one, plugin, level, expected)]
    if kind == "model":
        from flambeau.core.testing.models import bind_model as bind_named

        registry = MODELS
    elif kind == "dataset":
        from flambeau.core.testing.datasets import bind_dataset as bind_named

        registry = DATASETS
    else:
        from flambeau.core.testing.tensor_types import bind_tensor_type as bind_named

        registry = TENSOR_TYPES
    names = [entry.id for entry in registry.entries(plugin=plugin)]
    return [check for name in names for check in bind_named(name, samples=provided.source, level=level)]


def _declarations(plugin: str, provided: Provision) -> BoundCheck:
    def ask() -> None:
        names = [bound.name for kind in KINDS for bound in _of_kind(kind, plugin, provided, "full")]
        for pattern in provided.expected_failures:
            if not any(expectation(name, {pattern: "declared"}) for name in names):
                raise CheckFailed(f"the expected failure {pattern!r} names no check of this plugin; remove it.")

    question = "Each failure that the plugin declares to expect is one of a check it is asked."
    return BoundCheck("plugin", "expected-failures-known", plugin, question, ask)
