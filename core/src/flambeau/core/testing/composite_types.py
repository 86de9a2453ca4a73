"""Checks of tensor types that are several tensors together, such as jagged ones: nodes of pytree that stay whole."""

from __future__ import annotations

import copy
import functools
import io
import pickle
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from flambeau.core.registry import TENSOR_TYPES
from flambeau.core.testing.comparing import require_equal
from flambeau.core.testing.results import Catalogue, CheckFailed
from flambeau.core.testing.samples import Provision

_LONGEST = 400  # characters of a repr


class CompositeTypeSubject:
    """One registered type that is no tensor itself, with the plugin's instances of it."""

    def __init__(self, name: str, provided: Provision) -> None:
        self.name = name
        self.short = name.rpartition("/")[2]
        self.provided = provided

    @functools.cached_property
    def cls(self) -> type:
        """The registered class."""
        found: type = TENSOR_TYPES.resolve(self.name)
        return found

    @functools.cached_property
    def samples(self) -> list[Any]:
        """The plugin's instances."""
        return list(self.provided.ask("tensor_samples", self.short))

    def require_same(self, value: Any, sample: Any, what: str) -> None:
        """Fail unless `value` has the class, the structure and the tensors of `sample`."""
        if type(value) is not type(sample):
            raise CheckFailed(f"{what} gives a {type(value).__name__}, expected a {type(sample).__name__}.")
        leaves, spec = pytree.tree_flatten(value)
        expected_leaves, expected = pytree.tree_flatten(sample)
        if spec != expected:
            raise CheckFailed(f"{what} changes the structure: {spec}, expected {expected}.")
        require_equal(leaves, expected_leaves, f"{what} changes elements", where="leaves")


CHECKS: Catalogue[CompositeTypeSubject] = Catalogue("tensor-type")


def each(check: Callable[[CompositeTypeSubject, Any], None]) -> Callable[[CompositeTypeSubject], None]:
    """A check of one instance, asked of all."""

    @functools.wraps(check)
    def ask(subject: CompositeTypeSubject) -> None:
        for sample in subject.samples:
            check(subject, sample)

    return ask


@CHECKS.check("samples")
def _samples(subject: CompositeTypeSubject) -> None:
    """It is a node of pytree that holds tensors, and the plugin provides instances to judge it by."""
    if not subject.provided.has("tensor_samples"):
        raise CheckFailed(f"{subject.provided.origin} has no `tensor_samples(type_name)`.")
    if not subject.samples:
        raise CheckFailed(f"tensor_samples({subject.short!r}) lists nothing.")
    for sample in subject.samples:
        if not isinstance(sample, subject.cls):
            raise CheckFailed(f"tensor_samples lists a {type(sample).__name__}, expected a {subject.cls.__name__}.")
        leaves = pytree.tree_leaves(sample)
        if leaves == [sample] or not any(isinstance(leaf, Tensor) for leaf in leaves):
            raise CheckFailed(
                f"{subject.cls.__name__} is neither a TypedTensor nor a node of pytree that holds tensors; derive it "
                "from flambeau.core.tensors.TypedTensor, or register it by torch.utils._pytree.register_pytree_node."
            )


@CHECKS.check("to")
@each
def _to(subject: CompositeTypeSubject, sample: Any) -> None:
    """`to` another device moves all its tensors and keeps class and structure."""
    moved = sample.to(torch.device("meta"))
    if type(moved) is not type(sample):
        raise CheckFailed(f"to(meta) gives a {type(moved).__name__}, expected a {type(sample).__name__}.")
    stray = [leaf for leaf in pytree.tree_leaves(moved) if isinstance(leaf, Tensor) and leaf.device.type != "meta"]
    if stray:
        raise CheckFailed(f"to(meta) leaves {len(stray)} of its tensors on {stray[0].device}.")
    subject.require_same(sample.to(torch.device("cpu")), sample, "to(cpu)")


@CHECKS.check("pickle")
@each
def _pickle(subject: CompositeTypeSubject, sample: Any) -> None:
    """A copy through pickle is the same."""
    subject.require_same(pickle.loads(pickle.dumps(sample)), sample, "pickle")


@CHECKS.check("save-weights-only")
@each
def _save(subject: CompositeTypeSubject, sample: Any) -> None:
    """A saved instance loads with `weights_only=True`."""
    file = io.BytesIO()
    torch.save(sample, file)
    file.seek(0)
    subject.require_same(torch.load(file, weights_only=True), sample, "torch.load(weights_only=True)")


@CHECKS.check("deepcopy")
@each
def _deepcopy(subject: CompositeTypeSubject, sample: Any) -> None:
    """A deep copy is the same and shares no memory."""
    twin = copy.deepcopy(sample)
    subject.require_same(twin, sample, "deepcopy")
    for mine, theirs in zip(pytree.tree_leaves(twin), pytree.tree_leaves(sample), strict=True):
        if isinstance(mine, Tensor) and mine.numel() and mine.data_ptr() == theirs.data_ptr():
            raise CheckFailed("deepcopy shares memory with the original.")


@CHECKS.check("pytree")
@each
def _pytree(subject: CompositeTypeSubject, sample: Any) -> None:
    """Taken apart as a tree and put together again, it is the same."""
    tree = {"a": [sample], "b": 1}
    leaves, spec = pytree.tree_flatten(tree)
    subject.require_same(pytree.tree_unflatten(leaves, spec)["a"][0], sample, "tree_unflatten")


@CHECKS.check("compile")
@each
def _compile(subject: CompositeTypeSubject, sample: Any) -> None:
    """A function compiled in one graph takes it and gives it back."""
    torch.compiler.reset()
    function: Any = torch.compile(_again, fullgraph=True, backend="aot_eager")
    subject.require_same(function({"value": sample})["again"], sample, "compile")


@CHECKS.check("export")
@each
def _export(subject: CompositeTypeSubject, sample: Any) -> None:
    """An exported module takes it and gives it back."""

    class Again(torch.nn.Module):
        def forward(self, value: Any) -> dict[str, Any]:
            return _again({"value": value})

    result = torch.export.export(Again(), (sample,)).module()(sample)
    subject.require_same(result["again"], sample, "export")


@CHECKS.check("repr")
@each
def _repr(subject: CompositeTypeSubject, sample: Any) -> None:
    """Its repr is one line with its class, never the elements."""
    text = repr(sample)
    if len(text.splitlines()) != 1 or len(text) > _LONGEST or type(sample).__name__ not in text:
        raise CheckFailed(f"repr is {text[:_LONGEST]!r}; expected one short line with {type(sample).__name__} in it.")


def _again(tree: dict[str, Any]) -> dict[str, Any]:
    return {"again": pytree.tree_map_only(Tensor, torch.clone, tree["value"])}
