"""Prompts from data loaders, one for each conversation that begins."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import torch
from torch import Size, Tensor
from torch.nn.utils.rnn import pad_sequence

from flambeau.data.tensordict import (
    LazyStackedTensorDict,
    NonTensorData,
    TensorDict,
    TensorDictBase,
    is_tensor_collection,
    lazy_stack,
    maybe_dense_stack,
)
from flambeau.rl.data.tensor_specs import Composite, NonTensor, Unbounded
from flambeau.rl.envs.transforms import TensorDictPrimer
from flambeau.rl.envs.transforms.ray_service import RayTransform, _RayServiceMetaClass

__all__ = ["DataLoadingPrimer", "RayDataLoadingPrimer", "as_nested_tensor", "as_padded_tensor"]

T = TypeVar("T")


def as_padded_tensor(
    list_of_tds: Sequence[TensorDictBase], dim: int = 0, stack_method: Any = torch.stack
) -> TensorDictBase:
    """Tensordicts as one: tensors are filled up with zeros at their end to the longest of them.

    Args:
        list_of_tds: of the same keys; tensors (length, *).
        dim: where the new dimension is.
        stack_method: puts tensors of one shape together.
    """

    def padded(*values: Any) -> Any:
        if not isinstance(values[0], Tensor):
            return stack_method(values, dim)
        return stack_method(tuple(pad_sequence(list(values), batch_first=True)), dim)

    return _by_key(list_of_tds, dim, padded)


def as_nested_tensor(list_of_tds: Sequence[TensorDictBase]) -> TensorDictBase:
    """Tensordicts as one, with nested tensors, which keep each length.

    Args:
        list_of_tds: of the same keys.
    """

    def nested(*values: Any) -> Any:
        if not isinstance(values[0], Tensor):
            return torch.stack(values)
        return torch.nested.nested_tensor(list(values), layout=torch.jagged)

    return _by_key(list_of_tds, 0, nested)


def _by_key(rows: Sequence[TensorDictBase], dim: int, join: Callable[..., Any]) -> TensorDictBase:
    size = list(rows[0].batch_size)
    size.insert(dim, len(rows))
    made = TensorDict({}, size)
    for key in rows[0].keys(True, True):
        made.set(key, join(*[row.get(key) for row in rows]))
    return made


_STACKS: dict[Any, Callable[..., Any]] = {
    None: maybe_dense_stack, "as_nested_tensor": as_nested_tensor, "as_padded_tensor": as_padded_tensor,
}  # fmt: skip


class DataLoadingPrimer(TensorDictPrimer, metaclass=_RayServiceMetaClass):
    """Begins each episode with the next item of a data loader.

    Args:
        dataloader: gives dictionaries of one item, or with a batch size, of lists or tensors of several.
        dataloader_factory: makes it, instead.
        primers: specs of the items, with the batch size; default: those of the first batch.
        stack_method: puts the items of a batch together: a function of a list of tensordicts, or one of the two named
            ones here; default: densely where shapes allow.
        batch_size: how many items at a time, as many as the environment has episodes; default: the loader's.
        repeats: each item comes so many times in a row.
        device: of the items.
        group_repeats: those are one batch: the batch size is multiplied by `repeats`.
        use_ray_service: read the loader in an actor of Ray that many environments share; see `RayDataLoadingPrimer`.
        kwargs: of `RayDataLoadingPrimer`.

    Raises:
        ValueError: both a loader and a function that makes it, or neither.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> loader = DataLoader([{"query": "one"}, {"query": "two"}], batch_size=2)
        >>> DataLoadingPrimer(loader).primers.shape
        torch.Size([2])
    """

    _RayServiceClass = staticmethod(lambda: RayDataLoadingPrimer)

    def __init__(
        self,
        dataloader: Iterable[dict[str, Any]] | None = None,
        *,
        dataloader_factory: Callable[[], Iterable[dict[str, Any]]] | None = None,
        primers: Composite | None = None,
        stack_method: Callable[[Any], Any] | Literal["as_nested_tensor", "as_padded_tensor"] | None = None,
        batch_size: int | Size | tuple[int, ...] | None = None,
        repeats: int | None = None,
        device: Any = None,
        group_repeats: bool = False,
        use_ray_service: bool = False,
    ) -> None:
        if (dataloader is None) == (dataloader_factory is None):
            raise ValueError("DataLoadingPrimer reads a loader: give dataloader, or dataloader_factory, and not both.")
        self.__dict__["_loader"] = dataloader if dataloader_factory is None else dataloader_factory()
        self.__dict__["_items"] = deque()
        self.repeats = 1 if repeats is None else repeats
        self.stack_method: Any = _STACKS.get(stack_method, stack_method) if not callable(stack_method) else stack_method
        self.reset_dataloader()
        size = self._size(batch_size, group_repeats)
        if primers is None:
            primers = self._found(size, device)
        elif primers.shape != size:
            primers = primers.expand(size) if not primers.shape else primers
        super().__init__(
            primers=primers, default_value=self._batch_of, single_default_value=True, call_before_env_reset=True,
            device=device,
        )  # fmt: skip

    # Loaders

    @property
    def dataloader(self) -> Any:
        """The loader."""
        return self.__dict__["_loader"]

    @property
    def endless_dataloader(self) -> Iterator[Any]:
        """What the loader gives, again from its beginning after its end."""
        return self.__dict__["_endless"]  # type: ignore[no-any-return]

    @property
    def data_keys(self) -> list[Any]:
        """The keys of the items."""
        return list(self.primers.keys(True, True))

    def reset_dataloader(self) -> DataLoadingPrimer:
        """Begin the loader anew, and return the transform."""
        self.__dict__["_items"].clear()
        self.__dict__["_endless"] = _endlessly(self.dataloader)
        return self

    def _size(self, given: Any, group_repeats: bool) -> Size:
        if given is None:
            given = getattr(self.dataloader, "batch_size", None) or ()
        size = Size((given,) if isinstance(given, int) else given)
        if group_repeats:
            size = Size([size.numel() * self.repeats])
        return size

    def _found(self, size: Size, device: Any) -> Composite:
        """The specs of the first item."""
        self._fill()
        first = self.__dict__["_items"][0]
        return Composite({key: _spec(value, size, device) for key, value in first.items()}, shape=size)

    def _fill(self) -> None:
        """Read the next batch."""
        read = next(self.endless_dataloader)
        if not isinstance(read, Mapping) and not is_tensor_collection(read):
            raise TypeError(f"A loader of prompts gives dictionaries or tensordicts; it gave {type(read).__name__}.")
        batched = bool(getattr(self.dataloader, "batch_size", None))
        for item in _unbound(read) if batched else [_item(read)]:
            self.__dict__["_items"].extend([item] * self.repeats)

    def _next(self) -> Any:
        items = self.__dict__["_items"]
        if not items:
            self._fill()
        item = items.popleft().copy()
        return item if self.device_of_primers is None else item.to(self.device_of_primers)

    def _stacked(self, rows: list[Any], size: Size) -> Any:
        if not size:
            return rows[0]
        made = self.stack_method(rows)
        return made if len(size) == 1 else made.reshape(size)

    def _batch_of(self, reset: Tensor | None = None) -> Any:
        """Items for every episode."""
        size = self.primers.shape
        return self._stacked([self._next() for _ in range(size.numel())], size)

    def _keys(self) -> list[Any]:
        return list(self.primers.keys())

    # Data

    def _primed(self, tensordict: Any, into: Any) -> Any:
        mask = tensordict.get(self.reset_key, None)
        if all(into.get(key, None) is not None for key in self._keys()) and mask is None:
            return into  # given
        size = into.batch_size
        wanted = [True] * size.numel() if mask is None else mask.reshape(size.numel(), -1).any(-1).tolist()
        if not any(wanted):
            return self._kept(tensordict, into)
        if all(wanted):
            return _written(into, self._stacked([self._next() for _ in wanted], size))
        old = tensordict.select(*self._keys(), strict=False).reshape(-1)
        rows = [self._next() if new else row for new, row in zip(wanted, old.unbind(0), strict=True)]
        return _written(into, self._stacked(rows, size))

    def _kept(self, tensordict: Any, into: Any) -> Any:
        for key in self._keys():
            if tensordict.get(key, None) is not None:
                into.set(key, tensordict.get(key))
        return into

    def _reset_env_preprocess(self, tensordict: Any) -> Any:
        primed = super()._reset_env_preprocess(tensordict)
        self.__dict__["_primed_with"] = primed
        return primed

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        # What the environment was reset with is data of the episode, whether the environment gives it again or not.
        primed = self.__dict__.pop("_primed_with", None)
        if primed is None:
            return self._kept(tensordict, tensordict_reset)
        missing = [key for key in self._keys() if tensordict_reset.get(key, None) is None]
        return _written(tensordict_reset, primed.select(*missing)) if missing else tensordict_reset

    def __repr__(self) -> str:
        return f"{type(self).__name__}(primers={self.primers}, dataloader={self.dataloader})"


def _endlessly(loader: Iterable[Any]) -> Iterator[Any]:
    while True:
        empty = True
        for each in loader:
            empty = False
            yield each
        if empty:
            raise RuntimeError("The data loader gives nothing.")


def _item(values: Any) -> TensorDictBase:
    """One item as a tensordict without batch size."""
    made = TensorDict({}, [])
    for key, value in values.items():
        if isinstance(value, Tensor) or is_tensor_collection(value):
            made.set(key, value)
        else:
            made.set(key, NonTensorData(value, []))
    return made


def _unbound(batch: Any) -> list[Any]:
    """The items of a batch."""
    if is_tensor_collection(batch):
        return [_item(row) for row in batch.unbind(0)]
    lengths = {key: len(value) for key, value in batch.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"A batch of a loader has as many values for each key; got {lengths}.")
    number = next(iter(lengths.values()))
    return [_item({key: value[index] for key, value in batch.items()}) for index in range(number)]


def _spec(value: Any, size: Size, device: Any) -> Any:
    if isinstance(value, Tensor):
        return Unbounded((*size, *value.shape), dtype=value.dtype, device=device)
    if isinstance(value, TensorDictBase):
        return Composite({key: _spec(inner, size, device) for key, inner in value.items()}, shape=size)
    return NonTensor(size, example_data=getattr(value, "data", value))


def _written(into: Any, found: Any) -> Any:
    """What is read, in a tensordict; as a lazy stack where shapes differ."""
    if not isinstance(found, LazyStackedTensorDict) or isinstance(into, LazyStackedTensorDict):
        return into.update(found)
    return lazy_stack([row.copy().update(new) for row, new in zip(into.unbind(0), found.unbind(0), strict=True)])


class RayDataLoadingPrimer(RayTransform):
    """A `DataLoadingPrimer` in an actor of Ray, so that many environments read one data loader.

    Args:
        dataloader: as for `DataLoadingPrimer`; is sent to the actor.
        dataloader_factory: makes it there, instead.
        num_cpus: of the actor; default: the loader's number of workers, at least 1.
        num_gpus: of the actor.
        device: where items are here.
        actor_name: of an actor that is used where it exists already.
        kwargs: of `DataLoadingPrimer`.

    Raises:
        ImportError: Ray is not installed.
        ValueError: both a loader and a function that makes it, or neither.
    """

    def __init__(
        self,
        *,
        dataloader: Any = None,
        dataloader_factory: Any = None,
        num_cpus: int | None = None,
        num_gpus: int = 0,
        device: Any = None,
        actor_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        if (dataloader is None) == (dataloader_factory is None):
            raise ValueError(
                "RayDataLoadingPrimer reads a loader: give dataloader, or dataloader_factory, and not both."
            )
        if num_cpus is None:
            num_cpus = max(1, getattr(dataloader, "num_workers", 1) or 1)
        super().__init__(
            num_cpus=num_cpus, num_gpus=num_gpus, device=device, actor_name=actor_name,
            dataloader=dataloader, dataloader_factory=dataloader_factory, **kwargs,
        )  # fmt: skip

    def _create_actor(self, **kwargs: Any) -> Any:
        return self._hosted(DataLoadingPrimer, **kwargs)

    def _ask(self, name: str, *args: Any, **kwargs: Any) -> Any:
        # Which episodes begin is told here: the actor's primer belongs to no environment.
        if name == "_reset_env_preprocess" and args[0] is None:
            parent = self.parent
            size = self.primers.shape if parent is None else parent.batch_size
            args = (TensorDict({}, size),)
        return super()._ask(name, *args, **kwargs)

    def init(self, tensordict: Any) -> None:
        """Begin; the loader was read already, for its specs."""

    def reset_dataloader(self) -> Any:
        """Begin the loader anew, and return the transform."""
        self._ask("reset_dataloader")
        return self

    @property  # type: ignore[misc]
    def primers(self) -> Any:
        """Specs of the items."""
        return self._read("primers")

    @property
    def dataloader(self) -> Any:
        """A copy of the loader."""
        return self._read("dataloader")

    @property
    def endless_dataloader(self) -> Any:
        """What the loader gives, again from its beginning after its end: of a copy."""
        return _endlessly(self.dataloader)

    @property
    def stack_method(self) -> Any:
        """What puts the items of a batch together."""
        return self._read("stack_method")

    @property
    def repeats(self) -> int:
        """How many times each item comes."""
        return self._read("repeats")  # type: ignore[no-any-return]

    @property
    def data_keys(self) -> list[Any]:
        """The keys of the items."""
        return self._read("data_keys")  # type: ignore[no-any-return]
