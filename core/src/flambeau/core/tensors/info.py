"""What a tensor type declares once, kept in one record per type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeGuard

from torch import Tensor

from flambeau.core.errors import TensorTypeError, close_names
from flambeau.core.tensors.fields import MISSING, Field
from flambeau.core.tensors.layout import Layout

Rule = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any], "Mapping[str, Any] | None"]
Policy = Literal["keep", "unwrap", "index"] | Rule
Tree = Literal["node", "leaf"]
IndexRule = Callable[[dict[str, Any], tuple[Any, ...]], "Mapping[str, Any] | None"]


@dataclass(frozen=True)
class Pad:
    """Batch samples of different sizes: pad each at the end to the largest, then stack.

    Args:
        value: what to pad with.
        lengths: name of a metadata field that receives, per sample, the size of the last dimension before padding;
            `unbatch` cuts it back to that.
    """

    value: float = 0.0
    lengths: str | None = None


Batch = Literal["stack", "list"] | Pad | Callable[[list[Any]], Any]


@dataclass(frozen=True, eq=False)
class TensorTypeInfo:
    """One tensor type's declaration, as `tensor_type` recorded it. `TensorTypeInfo.of(x)` finds it.

    Attributes:
        name: the short name in `TENSOR_TYPES`; empty for the abstract base.
        fields: metadata name -> `Field`, those of parent types first.
        layout: shapes and dtypes that fit.
        policies: torch function -> what its results become; `"index"` stands for the type's index rule.
        batch: how samples are collated.
        index: how metadata follows indexing, splitting and unbinding.
        tree: whether pytree takes such tensors apart (`"node"`) or leaves them whole (`"leaf"`).
        summary: `"module:function"`, value -> one line of text.
        plot: `"module:function"`, value -> HTML for notebooks.
    """

    name: str = ""
    fields: Mapping[str, Field] = field(default_factory=dict)
    layout: Layout = field(default_factory=Layout)
    policies: Mapping[Callable[..., Any], Policy] = field(default_factory=dict)
    batch: Batch = "stack"
    index: Literal["keep", "unwrap"] | IndexRule = "unwrap"
    tree: Tree = "node"
    summary: str | None = None
    plot: str | None = None
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.fields))

    @staticmethod
    def of(value: object) -> TensorTypeInfo:
        """The declaration of a typed tensor or of its class.

        Raises:
            TensorTypeError: not a typed tensor.
        """
        cls = value if isinstance(value, type) else type(value)
        if not issubclass(cls, Declared):
            raise TensorTypeError(f"{cls.__name__} is not a tensor type; derive it from TypedTensor.")
        return cls.__tensor_type__

    def complete(self, owner: str, metadata: Mapping[str, Any], *, check: bool = True) -> dict[str, Any]:
        """Given metadata plus defaults; values are checked unless they were before (stored ones, of batches too).

        Raises:
            TensorTypeError: a field is missing or unknown.
            MetadataError: a value is refused.
        """
        self.refuse_unknown(owner, metadata)
        complete: dict[str, Any] = {}
        missing = []
        for name, declared in self.fields.items():
            value = metadata.get(name, declared.default)
            if value is MISSING:
                missing.append(name)
            elif check and name in metadata:
                declared.check(owner, name, value)
            complete[name] = value
        if missing:
            words = ", ".join(missing)
            raise TensorTypeError(f"{owner}: missing metadata: {words}. Call it as {owner}(data, {missing[0]}=...).")
        return complete

    def refuse_unknown(self, owner: str, metadata: Mapping[str, Any]) -> None:
        """Refuse names that are no fields.

        Raises:
            TensorTypeError: names them, and the fields there are.
        """
        unknown = [name for name in metadata if name not in self.fields]
        if not unknown:
            return
        near = close_names(unknown[0], self.fields)
        hint = f" Did you mean {near[0]}?" if near else ""
        known = ", ".join(self.fields) or "none"
        raise TensorTypeError(f"{owner}: unknown metadata: {', '.join(unknown)}; its fields are: {known}.{hint}")

    def metadata(self, value: Tensor) -> dict[str, Any]:
        """The metadata of a typed tensor, by name."""
        return {name: getattr(value, name) for name in self.names}


class Declared(Tensor):
    """A tensor whose class has a declaration: the root of `TypedTensor`, for the modules beneath it."""

    __tensor_type__: ClassVar[TensorTypeInfo] = TensorTypeInfo()
    _carried: Tensor | None = None  # see `wrapping.Carriers`


class Known:
    """A class of typed tensors with its declaration."""

    def __init__(self, cls: type[Declared], info: TensorTypeInfo) -> None:
        self.cls = cls
        self.info = info
        self.parents = cls.__mro__


# Dynamo knows where what it finds in here came from. It could not use a class, or a class's attributes, that it met
# as the type of a tensor inside a graph.
CLASSES: dict[type[Declared], Known] = {}


def declare(cls: type[Declared], info: TensorTypeInfo) -> None:
    """Give a class its declaration."""
    cls.__tensor_type__ = info
    CLASSES[cls] = Known(cls, info)


def info_of(cls: type[Declared]) -> TensorTypeInfo:
    """The declaration of a class."""
    return CLASSES[cls].info


def is_typed(value: object) -> TypeGuard[Declared]:
    """Whether a value is a typed tensor."""
    return isinstance(value, Declared)
