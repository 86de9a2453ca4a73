"""What a plugin gives the kit to check it with: its `conformance` module, and samples of operators and transforms."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flambeau.core.testing.results import CheckFailed, NotApplicable

HOOKS: dict[str, str] = {
    "as_batch": "as_batch(model_name, transformed) -> tuple of positional inputs, from what `transforms()` returned",
    "dataset_fixture": "dataset_fixture(name, root) -> dict of config; writes a miniature in true layout below root",
    "example_inputs": "example_inputs(model_name, batch) -> tuple of positional inputs for a batch of that size",
    "expected_failures": 'expected_failures: dict "check:subject" (wildcards allowed) -> reason',
    "model_config": "model_config(model_name) -> dict of builder arguments",
    "op_samples": "op_samples() -> iterable of Sample",
    "raw_input": "raw_input(model_name) -> what the weights' transforms take: a picture, a text, a tuple of arguments",
    "recorded_state": "recorded_state(model_name) -> names of the state_dict in order, or a mapping name -> shape",
    "tensor_samples": "tensor_samples(type_name) -> iterable of instances",
    "training_loss": "training_loss(model_name, model, inputs) -> scalar tensor to differentiate",
    "transform_cases": "transform_cases() -> iterable of Sample",
}


@dataclass(frozen=True)
class Sample:
    """One operator or transform with inputs, and what it promises about them.

    Args:
        name: the operator's or transform's name, with a word for the sample where there are several.
        call: the public callable: a function, or an instance of a transform.
        args, kwargs: inputs for which it works.
        reference: the plain path it must agree with, called with the same inputs.
        dtypes: names of the dtypes its floating or integer tensor inputs may have.
        rejects: names of dtypes it refuses with an error.
        batched: positions of the tensor arguments that take further leading dimensions.
        differentiable: positions of the arguments it has gradients for, checked in float64.
        empty: inputs without elements.
        generator: it draws random numbers and takes `generator=`.
        compiles: it compiles as one graph.
        operator: qualified name of the `torch.library` operator behind it, such as "flambeau_vision::nms".
        rtol, atol: tolerances against the reference and between layouts.
    """

    name: str
    call: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    reference: Callable[..., Any] | None = None
    dtypes: Sequence[str] = ("float32", "float64")
    rejects: Sequence[str] = ()
    batched: Sequence[int] = ()
    differentiable: Sequence[int] = ()
    empty: tuple[Any, ...] | None = None
    generator: bool = False
    compiles: bool = True
    operator: str | None = None
    rtol: float = 1e-5
    atol: float = 1e-6


class Provision:
    """A plugin's `conformance` module, or any object with the same attributes; every hook may be absent.

    Args:
        source: the object; None for a plugin that provides nothing.
        origin: what to call it in messages.
    """

    def __init__(self, source: object | None, origin: str) -> None:
        self.source = source
        self.origin = origin

    def has(self, hook: str) -> bool:
        """Whether the plugin provides this hook."""
        return getattr(self.source, hook, None) is not None

    def ask(self, hook: str, *arguments: object) -> Any:
        """What the hook answers.

        Raises:
            NotApplicable: the plugin does not have it, or it answers None for these arguments.
        """
        if not self.has(hook):
            raise NotApplicable(f"{self.origin} has no `{hook}`; provide {HOOKS[hook]}.")
        answer = getattr(self.source, hook)(*arguments)
        if answer is None:
            raise NotApplicable(f"{self.origin}: `{hook}` answers None for {', '.join(map(str, arguments))}.")
        return answer

    def samples(self, hook: str) -> list[Sample]:
        """The samples a hook lists; empty where the plugin has none.

        Raises:
            CheckFailed: something else than a `Sample`, or two of one name.
        """
        if not self.has(hook):
            return []
        found = list(getattr(self.source, hook)())
        for sample in found:
            if not isinstance(sample, Sample):
                raise CheckFailed(f"{self.origin}: `{hook}` lists {sample!r}, expected flambeau.core.testing.Sample.")
        names = [sample.name for sample in found]
        if twice := {name for name in names if names.count(name) > 1}:
            raise CheckFailed(f"{self.origin}: `{hook}` lists {sorted(twice)} more than once; give each its own name.")
        return found

    @property
    def expected_failures(self) -> Mapping[str, str]:
        """Patterns of "check:subject" with the reason why each is expected to fail.

        Raises:
            CheckFailed: a reason is missing.
        """
        declared: Mapping[str, str] = getattr(self.source, "expected_failures", None) or {}
        for pattern, reason in declared.items():
            if not reason or not reason.strip():
                raise CheckFailed(f"{self.origin}: the expected failure {pattern!r} has no reason; say why it fails.")
        return declared


def provision(source: object | None, plugin: str) -> Provision:
    """What a plugin provides: `source` where the caller has it, else the module its manifest names.

    Args:
        source: an object with hooks, the name of a module, or None.
        plugin: the plugin's name.
    """
    if source is None:
        source = _declared_module(plugin)
    if isinstance(source, str):
        return Provision(importlib.import_module(source), source)
    origin = getattr(source, "__name__", None) or (f"plugin {plugin!r}" if source is None else type(source).__name__)
    return Provision(source, origin)


def _declared_module(plugin: str) -> str | None:
    from flambeau.core.manifest.reading import read_manifest
    from flambeau.core.plugins.manager import discover

    found = discover().get(plugin)
    if found is None or found.manifest_path is None:
        return None
    module = read_manifest(found.manifest_path).get("conformance")
    return str(module) if module else None
