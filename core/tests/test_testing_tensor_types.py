"""The kit's checks of tensor types: a sound type passes all, and each check catches the one that is wrong its way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from flambeau.core.tensors import TypedTensor, tensor_type
from flambeau.core.testing import Result, run
from flambeau.core.testing.tensor_types import CHECKS, bind_tensor_type, check_tensor_type

pytestmark = pytest.mark.usefixtures("site")


@tensor_type(name="kit-wave", fields={"rate": int})
class Wave(TypedTensor):
    """Sound."""


def register(cls: type[Tensor]) -> str:
    from flambeau.core.registry import TENSOR_TYPES

    return TENSOR_TYPES.register("kit-wave", cls, replace=True).id


def samples_of(cls: type[Any]) -> SimpleNamespace:
    return SimpleNamespace(tensor_samples=lambda name: [cls(torch.arange(12.0).reshape(3, 4), rate=8000)])


def asked(check: str, cls: type[Any], samples: object | None = None) -> Result:
    bound = bind_tensor_type(register(cls), samples=samples or samples_of(cls))
    [result] = run(one for one in bound if one.check == check)
    return result


def test_a_sound_type_passes_every_check() -> None:
    results = check_tensor_type(register(Wave), samples=samples_of(Wave))

    wrong = {result.check: str(result) for result in results if result.status != "passed"}
    assert wrong.keys() <= {"pin-memory"}, wrong
    assert len(results) == len(CHECKS.checks)


def typed(name: str, *, fault: Any = None, **attributes: Any) -> type[Any]:
    """A subclass of `Wave` that goes wrong in one torch function, or has other attributes."""

    class Faulty(Wave):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = super().__torch_function__(func, types, args, kwargs or {})
            return fault(func, result) if fault else result

    Faulty.__name__ = Faulty.__qualname__ = name
    Faulty.__module__ = __name__
    for key, value in attributes.items():
        setattr(Faulty, key, value)
    globals()[name] = Faulty
    return Faulty


def shifted(*functions: Any) -> Any:
    """One off in what these functions give."""

    def fault(func: Any, result: Any) -> Any:
        if func not in functions:
            return result
        with torch._C.DisableTorchFunctionSubclass():
            return result + 1 if isinstance(result, Tensor) else result

    return fault


def plain(*functions: Any) -> Any:
    """These functions lose the type."""

    def fault(func: Any, result: Any) -> Any:
        return result.as_subclass(Tensor) if func in functions else result

    return fault


def forget(self: Any, memo: Any) -> Any:
    return Wave(self.as_subclass(Tensor).clone(), rate=1)


def shares(self: Any, memo: Any) -> Any:
    return self


def rebuilt(cls: Any, data: Tensor) -> Any:
    return cls(data, rate=1)


def loses_rate(self: Any, protocol: Any) -> Any:
    return rebuilt, (type(self), self.as_subclass(Tensor))


def show_all(self: Any, **kwargs: Any) -> str:
    return f"{type(self).__name__} {self.tolist()} (3, 4) rate=8000"


def show_many_lines(self: Any, **kwargs: Any) -> str:
    return f"{type(self).__name__}\n(3, 4)\nrate=8000"


def show_little(self: Any, **kwargs: Any) -> str:
    return f"{type(self).__name__} (3, 4)"


@tensor_type(name="kit-plain-batch", batch=lambda samples: torch.stack([one.as_subclass(Tensor) for one in samples]))
class PlainBatch(Wave):
    pass


@tensor_type(name="kit-unwraps-clone", propagate={"clone": "unwrap"})
class UnwrapsClone(Wave):
    pass


class Secret:
    """A class that no checkpoint may build."""


@tensor_type(name="kit-holds-secret", fields={"secret": object})
class HoldsSecret(Wave):
    def __new__(cls, data: Any, **metadata: Any) -> Any:
        return super().__new__(cls, data, **{"secret": Secret(), **metadata})


class TakenApart(Wave, tree="leaf"):
    """A leaf by its declaration."""


def test_a_type_that_is_no_leaf_against_its_declaration_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils import _pytree as pytree

    monkeypatch.setitem(pytree.SUPPORTED_NODES, TakenApart, pytree.SUPPORTED_NODES[Wave])

    result = asked("pytree", TakenApart)

    assert result.status == "failed", result
    assert "declared to be a leaf" in result.message


@pytest.mark.parametrize(
    ("cls", "check", "finding"),
    [
        (typed("WrongIndex", fault=shifted(Tensor.__getitem__)), "indexing", "x[0]"),
        (typed("WrongStack", fault=shifted(torch.stack)), "stack", "stack"),
        (typed("WrongCat", fault=shifted(torch.cat)), "cat", "cat"),
        (typed("LosesType", fault=plain(Tensor.to)), "to", "gives a Tensor"),
        (typed("ForgetsCopy", __deepcopy__=forget), "deepcopy", "gives a Wave"),
        (typed("SharesCopy", __deepcopy__=shares), "deepcopy", "shares memory"),
        (typed("LosesRate", __reduce_ex__=loses_rate), "pickle", "changes metadata"),
        (typed("ShowsAll", __repr__=show_all), "repr", "repr shows elements"),
        (typed("ShowsManyLines", __repr__=show_many_lines), "repr", "3 lines"),
        (typed("ShowsLittle", __repr__=show_little), "repr", "lacks 'rate'"),
        (PlainBatch, "collate", "collate gives Tensor"),
        (UnwrapsClone, "compile", "compile gives a Tensor"),
        (UnwrapsClone, "vmap", "vmap gives a Tensor"),
        (UnwrapsClone, "export", "export gives a Tensor"),
        (HoldsSecret, "save-weights-only", "Secret"),
        (typed("WrongRoll", fault=shifted(torch.roll)), "other-operations-unwrap", "torch.roll"),
    ],
)
def test_a_faulty_type_is_caught(cls: type[Any], check: str, finding: str) -> None:
    result = asked(check, cls)

    assert result.status == "failed", result
    assert finding in result.message


def test_a_pytree_rule_that_drops_metadata_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils import _pytree as pytree

    cls = typed("Torn")
    rule = pytree.NodeDef(
        cls, lambda value: ([value.as_subclass(Tensor)], None), lambda leaves, context: cls(leaves[0], rate=1), None
    )
    monkeypatch.setitem(pytree.SUPPORTED_NODES, cls, rule)

    result = asked("pytree", cls)

    assert result.status == "failed", result
    assert "changes metadata" in result.message


def test_a_subclass_of_torch_s_own_tensor_is_no_tensor_type() -> None:
    class Bare(Tensor):
        pass

    result = asked("samples", Bare, SimpleNamespace(tensor_samples=lambda name: []))

    assert result.status == "failed"
    assert "does not derive from" in result.message


@pytest.mark.parametrize(
    ("hooks", "finding"),
    [
        ({}, "no `tensor_samples"),
        ({"tensor_samples": lambda name: []}, "lists nothing"),
        ({"tensor_samples": lambda name: [torch.zeros(2)]}, "expected a Wave"),
    ],
)
def test_missing_or_wrong_samples_are_caught(hooks: dict[str, Any], finding: str) -> None:
    result = asked("samples", Wave, SimpleNamespace(**hooks))

    assert result.status == "failed"
    assert finding in result.message


def test_types_whose_batches_are_lists_collate() -> None:
    @tensor_type(name="kit-boxes", shape="N 4", batch="list")
    class Rows(TypedTensor):
        pass

    samples = SimpleNamespace(tensor_samples=lambda name: [Rows(torch.zeros(2, 4)), Rows(torch.zeros(0, 4))])
    from flambeau.core.registry import TENSOR_TYPES

    [name] = [entry.id for entry in TENSOR_TYPES.entries() if entry.name == "kit-boxes"]
    result = {r.check: r for r in check_tensor_type(name, samples=samples)}["collate"]

    assert result.status == "passed", result
