"""Checks of tensor types: what a type knows stays with it where it should, and nothing else breaks.

A type that is no tensor itself but several of them together is asked the questions of `composite_types`.
"""

from __future__ import annotations

import copy
import functools
import io
import pickle
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flambeau.core.registry import TENSOR_TYPES, RegistryError
from flambeau.core.testing import composite_types
from flambeau.core.testing.comparing import require_equal
from flambeau.core.testing.composite_types import CompositeTypeSubject
from flambeau.core.testing.results import BoundCheck, Catalogue, CheckFailed, Level, NotApplicable, Result, bind, run
from flambeau.core.testing.samples import Provision, provision


class TensorTypeSubject:
    """One registered tensor type with the plugin's instances of it."""

    def __init__(self, name: str, provided: Provision) -> None:
        self.name = name
        self.short = name.rpartition("/")[2]
        self.provided = provided

    @functools.cached_property
    def cls(self) -> type[Tensor]:
        """The registered class."""
        found: type[Tensor] = TENSOR_TYPES.resolve(self.name)
        return found

    @functools.cached_property
    def samples(self) -> list[Any]:
        """The plugin's instances."""
        return list(self.provided.ask("tensor_samples", self.short))

    def metadata(self, value: Any) -> dict[str, Any]:
        """What an instance knows besides its elements."""
        from flambeau.core.tensors import TensorTypeInfo

        return dict(TensorTypeInfo.of(value).metadata(value))

    def require_same_kind(self, value: Any, sample: Any, what: str) -> None:
        """Fail unless `value` has the class, metadata and elements of `sample`."""
        if type(value) is not type(sample):
            raise CheckFailed(f"{what} gives a {type(value).__name__}, expected a {type(sample).__name__}.")
        require_equal(self.metadata(value), self.metadata(sample), f"{what} changes metadata", where="metadata")
        require_equal(_plain(value), _plain(sample), f"{what} changes elements", where="elements")


CHECKS: Catalogue[TensorTypeSubject] = Catalogue("tensor-type")


def check_tensor_type(name: str, *, samples: object | None = None, level: Level = "default") -> list[Result]:
    """Ask everything that tensor types are asked.

    Args:
        name: canonical id or short name of a registered tensor type.
        samples: a module or object with the hook `tensor_samples`; by default the plugin's conformance module.
        level: "full" asks checks that take long too.

    Raises:
        UnknownNameError, AmbiguousNameError: from the registry.
    """
    return run(bind_tensor_type(name, samples=samples, level=level))


def bind_tensor_type(name: str, *, samples: object | None = None, level: Level = "default") -> list[BoundCheck]:
    """The checks of one tensor type."""
    entry = TENSOR_TYPES.entry(name)
    provided = provision(samples, entry.plugin)
    expected = provided.expected_failures
    if _is_composite(entry.id):
        composite = CompositeTypeSubject(entry.id, provided)
        return bind(composite_types.CHECKS, composite, entry.id, level=level, expected_failures=expected)
    return bind(CHECKS, TensorTypeSubject(entry.id, provided), entry.id, level=level, expected_failures=expected)


def _is_composite(name: str) -> bool:
    try:
        cls = TENSOR_TYPES.resolve(name)
    except (ImportError, RegistryError):
        return False  # the checks will say so
    return isinstance(cls, type) and not issubclass(cls, Tensor)


def each(check: Callable[[TensorTypeSubject, Any], None]) -> Callable[[TensorTypeSubject], None]:
    """A check of one instance, asked of all."""

    @functools.wraps(check)
    def ask(subject: TensorTypeSubject) -> None:
        for sample in subject.samples:
            check(subject, sample)

    return ask


@CHECKS.check("samples")
def _samples(subject: TensorTypeSubject) -> None:
    """It derives from `TypedTensor`, and the plugin provides instances to judge it by."""
    from flambeau.core.tensors import TypedTensor

    if not issubclass(subject.cls, TypedTensor):
        raise CheckFailed(f"{subject.cls!r} does not derive from flambeau.core.tensors.TypedTensor.")
    if not subject.provided.has("tensor_samples"):
        raise CheckFailed(f"{subject.provided.origin} has no `tensor_samples(type_name)`.")
    if not subject.samples:
        raise CheckFailed(f"tensor_samples({subject.short!r}) lists nothing.")
    if stray := [sample for sample in subject.samples if not isinstance(sample, subject.cls)]:
        raise CheckFailed(f"tensor_samples lists a {type(stray[0]).__name__}, expected a {subject.cls.__name__}.")


@CHECKS.check("indexing")
@each
def _indexing(subject: TensorTypeSubject, sample: Any) -> None:
    """Indexing gives the elements that a plain tensor gives."""
    if not sample.ndim or not len(sample):
        return
    mask = torch.arange(len(sample)) % 2 == 0
    for name, index in (("[0]", 0), ("[:1]", slice(1)), ("[..., :1]", (..., slice(1))), ("[mask]", mask)):
        require_equal(_plain(sample[index]), _plain(sample)[index], f"x{name}", where="elements")
    require_equal(
        [_plain(piece) for piece in sample.unbind(0)], list(_plain(sample).unbind(0)), "unbind", where="piece"
    )


@CHECKS.check("stack")
@each
def _stack(subject: TensorTypeSubject, sample: Any) -> None:
    """Stacking gives the elements that stacking plain tensors gives."""
    require_equal(_plain(torch.stack([sample, sample])), torch.stack([_plain(sample)] * 2), "stack", where="elements")


@CHECKS.check("cat")
@each
def _cat(subject: TensorTypeSubject, sample: Any) -> None:
    """Concatenating gives the elements that concatenating plain tensors gives."""
    if sample.ndim:
        require_equal(_plain(torch.cat([sample, sample])), torch.cat([_plain(sample)] * 2), "cat", where="elements")


@CHECKS.check("collate")
@each
def _collate(subject: TensorTypeSubject, sample: Any) -> None:
    """A batch of samples keeps the class, by Flambeau's `collate` and by torch's default."""
    from torch.utils.data import default_collate

    from flambeau.core.tensors import collate

    for name, function in (("collate", collate), ("default_collate", default_collate)):
        batch = function([sample, sample])
        parts = list(batch) if isinstance(batch, list | tuple) else [batch]
        if not all(isinstance(part, subject.cls) for part in parts):
            raise CheckFailed(f"{name} gives {type(parts[0]).__name__}, expected {subject.cls.__name__}.")
        if isinstance(batch, Tensor) and len(batch) != 2:
            raise CheckFailed(f"{name} of two samples has length {len(batch)}.")


@CHECKS.check("to")
@each
def _to(subject: TensorTypeSubject, sample: Any) -> None:
    """`to` another dtype or device keeps class and metadata."""
    target = torch.float64 if sample.is_floating_point() else torch.int32
    for name, moved in ((str(target), sample.to(target)), ("meta", sample.to("meta"))):
        if type(moved) is not type(sample):
            raise CheckFailed(f"to({name}) gives a {type(moved).__name__}, expected a {type(sample).__name__}.")
        require_equal(
            subject.metadata(moved), subject.metadata(sample), f"to({name}) changes metadata", where="metadata"
        )
    require_equal(_plain(sample.to(target)), _plain(sample).to(target), f"to({target})", where="elements")


@CHECKS.check("pin-memory")
@each
def _pin(subject: TensorTypeSubject, sample: Any) -> None:
    """Pinning memory keeps class and metadata."""
    if not torch.cuda.is_available():
        raise NotApplicable("pinning memory needs an accelerator.")
    subject.require_same_kind(sample.pin_memory(), sample, "pin_memory")


@CHECKS.check("pickle")
@each
def _pickle(subject: TensorTypeSubject, sample: Any) -> None:
    """A copy through pickle is the same."""
    subject.require_same_kind(pickle.loads(pickle.dumps(sample)), sample, "pickle")


@CHECKS.check("save-weights-only")
@each
def _save(subject: TensorTypeSubject, sample: Any) -> None:
    """A saved instance loads with `weights_only=True`."""
    file = io.BytesIO()
    torch.save(sample, file)
    file.seek(0)
    subject.require_same_kind(torch.load(file, weights_only=True), sample, "torch.load(weights_only=True)")


@CHECKS.check("deepcopy")
@each
def _deepcopy(subject: TensorTypeSubject, sample: Any) -> None:
    """A deep copy is the same and shares no memory."""
    twin = copy.deepcopy(sample)
    subject.require_same_kind(twin, sample, "deepcopy")
    if sample.numel() and twin.data_ptr() == sample.data_ptr():
        raise CheckFailed("deepcopy shares memory with the original.")


@CHECKS.check("compile")
@each
def _compile(subject: TensorTypeSubject, sample: Any) -> None:
    """A compiled function takes it and gives it back with class, metadata and elements."""
    from flambeau.core.tensors import compiled

    torch.compiler.reset()
    function: Any = compiled(lambda tree: {"again": tree["value"].clone()}, fullgraph=True, backend="aot_eager")
    subject.require_same_kind(function({"value": sample})["again"], sample, "compile")


@CHECKS.check("pytree")
@each
def _pytree(subject: TensorTypeSubject, sample: Any) -> None:
    """It is the leaf or the node of a pytree that it is declared to be, and comes back the same."""
    from torch.utils import _pytree as pytree

    from flambeau.core.tensors import TensorTypeInfo

    tree = {"a": [sample], "b": 1}
    leaves, spec = pytree.tree_flatten(tree)
    declared = TensorTypeInfo.of(sample).tree
    if (leaves[0] is sample) != (declared == "leaf"):
        raise CheckFailed(
            f"tree_flatten gives a {type(leaves[0]).__name__}, but the type is declared to be a {declared}."
        )
    subject.require_same_kind(pytree.tree_unflatten(leaves, spec)["a"][0], sample, "tree_unflatten")
    mapped = pytree.tree_map(lambda leaf: leaf, tree)["a"][0]
    subject.require_same_kind(mapped, sample, "tree_map")


@CHECKS.check("vmap")
@each
def _vmap(subject: TensorTypeSubject, sample: Any) -> None:
    """A function under `torch.func.vmap` is called with instances of the class, and gives back what it returns."""
    from flambeau.core.tensors import through

    if not sample.ndim or not len(sample):
        raise NotApplicable("vmap needs a first dimension that is not empty.")
    seen: list[Any] = []

    def function(value: Any) -> Any:
        seen.append((type(value), subject.metadata(value)))
        return value.clone()

    result = through(torch.func.vmap)(function)(sample)
    if seen[0][0] is not type(sample):
        raise CheckFailed(f"vmap calls the function with a {seen[0][0].__name__}, expected a {type(sample).__name__}.")
    require_equal(seen[0][1], subject.metadata(sample), "vmap changes metadata", where="metadata")
    subject.require_same_kind(result, sample, "vmap")


@CHECKS.check("export")
@each
def _export(subject: TensorTypeSubject, sample: Any) -> None:
    """An exported module takes it, also as fake tensors, and gives it back with class, metadata and elements."""
    from flambeau.core.tensors import export, exported

    class Again(torch.nn.Module):
        def forward(self, value: Any) -> dict[str, Any]:
            # What a functional would do is decided while the module is exported.
            return {"again": value.clone(), "is": value * isinstance(value, subject.cls)}

    result = exported(export(Again(), (sample,)))(sample)
    subject.require_same_kind(result["again"], sample, "export")
    require_equal(_plain(result["is"]), _plain(sample) * True, "export loses the class", where="elements")


@CHECKS.check("repr")
@each
def _repr(subject: TensorTypeSubject, sample: Any) -> None:
    """Its repr is one line with class, sizes and metadata, never the elements."""
    from flambeau.core.tensors import wrap

    text = repr(sample)
    lines = len(text.splitlines())
    if lines != 1 or len(text) > 400:
        raise CheckFailed(f"repr has {lines} lines and {len(text)} characters; expected one short line.")
    zeros, ones = (repr(wrap(torch.full_like(_plain(sample), value), like=sample)) for value in (0, 1))
    if sample.numel() and zeros != ones:
        raise CheckFailed(f"repr shows elements: {text}")
    for part in (type(sample).__name__, *map(str, sample.shape), *subject.metadata(sample)):
        if part not in text:
            raise CheckFailed(f"repr lacks {part!r}: {text}")


@CHECKS.check("other-operations-unwrap")
@each
def _unwraps(subject: TensorTypeSubject, sample: Any) -> None:
    """An operation the type says nothing about gives a plain tensor, and `wrap` brings the type back."""
    from flambeau.core.tensors import wrap

    if not sample.ndim:
        return
    result = torch.roll(sample, 1, 0)
    require_equal(_plain(result), torch.roll(_plain(sample), 1, 0), "torch.roll", where="elements")
    if type(result) is not Tensor and not isinstance(result, subject.cls):
        raise CheckFailed(f"torch.roll gives a {type(result).__name__}, expected a plain tensor.")
    wrapped = wrap(_plain(result), like=sample)
    if type(wrapped) is not type(sample):
        raise CheckFailed(f"wrap gives a {type(wrapped).__name__}, expected a {type(sample).__name__}.")
    require_equal(subject.metadata(wrapped), subject.metadata(sample), "wrap changes metadata", where="metadata")


def _plain(value: Tensor) -> Tensor:
    return value.as_subclass(Tensor)
