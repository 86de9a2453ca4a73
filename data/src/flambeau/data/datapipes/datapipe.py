"""The classes every pipe derives from."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

from torch.utils.data import Dataset, IterableDataset

from flambeau.data.datapipes import _torch
from flambeau.data.datapipes._graph import upstream
from flambeau.data.datapipes._iteration import guarded
from flambeau.data.datapipes._methods import Methods, functional_datapipe
from flambeau.data.datapipes._state import check, gather
from flambeau.data.datapipes.chunk import DataChunk

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe"]

T_co = TypeVar("T_co", covariant=True)

_HOOKS = ("reduce_ex_hook", "getstate_hook")


class _Pickling:
    """Mixin: hooks around pickling, by which graph tools look at a pipe without copying its data."""

    reduce_ex_hook: ClassVar[Callable[..., Any] | None] = None
    getstate_hook: ClassVar[Callable[..., Any] | None] = None
    str_hook: ClassVar[Callable[..., str] | None] = None
    repr_hook: ClassVar[Callable[..., str] | None] = None
    _counterpart: ClassVar[type | None] = None

    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None:
        """Let `hook_fn(state)` make what pickling stores for pipes; None takes the hook away.

        Raises:
            RuntimeError: another hook is set.
        """
        cls._set_hook("getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None:
        """Let `hook_fn(pipe)` make the reduced form of pipes; where it raises NotImplementedError the usual one stands.

        Raises:
            RuntimeError: another hook is set.
        """
        cls._set_hook("reduce_ex_hook", hook_fn)

    @classmethod
    def _set_hook(cls, name: str, function: Callable[..., Any] | None) -> None:
        owner = next(base for base in cls.__mro__ if _Pickling in base.__bases__)
        if function is not None and getattr(owner, name) is not None:
            raise RuntimeError(f"{owner.__name__} has a {name} already; take it away with None first.")
        setattr(owner, name, staticmethod(function) if function is not None else None)

    def _hook(self, name: str) -> Callable[..., Any] | None:
        return _torch.hook(name, getattr(type(self), name), self._counterpart)

    def __getstate__(self) -> Any:
        state = self._configuration()
        hook = self._hook("getstate_hook")
        return state if hook is None else hook(state)

    def _configuration(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __reduce_ex__(self, *args: Any, **kwargs: Any) -> Any:
        hook = self._hook("reduce_ex_hook")
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass  # the hook's way to say that this pipe is pickled as usual
        return super().__reduce_ex__(*args, **kwargs)

    def __repr__(self) -> str:
        return type(self).__qualname__ if self.repr_hook is None else type(self).repr_hook(self)

    def __str__(self) -> str:
        return type(self).__qualname__ if self.str_hook is None else type(self).str_hook(self)


class IterDataPipe(Methods, _Pickling, IterableDataset[T_co]):
    """A pipe that is read from the beginning to the end; derive from it and write `__iter__`.

    A pipe has one live iterator: making another one makes the older one raise RuntimeError. Every new iterator calls
    `reset()` first. `len()` raises TypeError where the length is not known.

    Registered methods chain pipes: `pipe.map(f)` is `Mapper(pipe, f)`; `functional_datapipe` registers more.

    `state_dict()` gives the state of the pipe and of all pipes behind it, between any two samples. A class of your own
    needs nothing for that: it is resumed by replaying its sources. It resumes at once when it says what its state is:
    set `state_fields` to the names of the attributes that change while it is read (an empty tuple when none does), give
    them their first values in `reset()`, start `__iter__` from their values, and change them before each `yield`.

    Example:
        >>> class Every(IterDataPipe):
        ...     state_fields = ("_seen",)
        ...     def __init__(self, source, step):
        ...         self.source, self.step = source, step
        ...     def reset(self):
        ...         self._seen = 0
        ...     def __iter__(self):
        ...         for item in self.source:
        ...             self._seen += 1
        ...             if self._seen % self.step == 0:
        ...                 yield item
        >>> from flambeau.data.datapipes.iter import IterableWrapper
        >>> pipe = Every(IterableWrapper(range(7)), 2)
        >>> reader = iter(pipe)
        >>> next(reader)
        1
        >>> state = pipe.state_dict()
        >>> again = Every(IterableWrapper(range(7)), 2)
        >>> again.load_state_dict(state)
        >>> list(again)
        [3, 5]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    _counterpart = _torch.TORCH_ITER

    #: Attributes that are the state of a pass; None means that the pipe is resumed by replay.
    state_fields: ClassVar[tuple[str, ...] | None] = None
    #: Attributes that live in this process only, such as threads; never pickled.
    transient: ClassVar[tuple[str, ...]] = ()
    is_dataframe_pipe: ClassVar[bool] = False
    _replayable: ClassVar[bool] = True

    _live: object | None = None
    _saved: dict[str, Any] | None = None
    _begun: int = 0
    _yielded: int = 0
    _skip: int = 0
    _resuming: bool = False
    _touched: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__iter__" in cls.__dict__:
            cls.__iter__ = guarded(cls.__dict__["__iter__"])  # type: ignore[method-assign]

    def __iter__(self) -> Iterator[T_co]:
        return self  # type: ignore[return-value]  # a subclass with `__next__` is its own iterator

    def reset(self) -> None:
        """Go back to the beginning; called for each new iterator. A subclass gives its state the first values here."""

    def state_dict(self) -> dict[str, Any]:
        """Where this pipe and all pipes behind it are, between two samples: plain values that can be pickled.

        Returns:
            A dict with `_version` and one record for each pipe under `pipes`. Buffered samples are in it as they are;
            files in a buffer as what it takes to open them again.
        """
        return gather(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on, at the next `iter()`, where the pipeline was when `state_dict` was taken; later passes are whole ones.

        Args:
            state_dict: from `state_dict()` of a pipeline built in the same way.

        Raises:
            ValueError: the state is not of such a pipeline.
        """
        check(upstream(self), state_dict)
        self._saved = copy.copy(state_dict)

    def get_state(self) -> dict[str, Any] | None:
        """This pipe's own state without its sources'; None when it has to be replayed."""
        return None if self.state_fields is None else {name: getattr(self, name) for name in self.state_fields}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over this pipe's own state, in place of `reset()`."""
        for name, value in state.items():
            setattr(self, name, value)

    def get_origin(self, begun: bool) -> dict[str, Any] | None:
        """What this pipe needs to begin a pass as it began this one (`begun`), or the next one."""
        return None

    def load_origin(self, origin: dict[str, Any]) -> None:
        """Take over what `get_origin` gave."""

    def hold(self) -> None:
        """Stop threads that read ahead, so that a state can be taken; `release` follows."""

    def release(self) -> None:
        """Let threads go on."""

    def _has_begun(self, readers: list[Any]) -> bool:
        return self._resuming or (
            any(self._begun > reader._begun for reader in readers) if readers else self._begun > 0
        )

    def _configuration(self) -> dict[str, Any]:
        left_out = {*_RUNTIME, *(self.state_fields or ()), *self.transient}
        return {name: value for name, value in self.__dict__.items() if name not in left_out}


_RUNTIME = ("_live", "_begun", "_yielded", "_skip", "_resuming", "_touched")


class DFIterDataPipe(IterDataPipe[T_co]):
    """A pipe of data frames: pipes built on it can be used like a frame (see `trace_as_dataframe`)."""

    is_dataframe_pipe = True

    def _is_dfpipe(self) -> bool:
        return True


class MapDataPipe(Methods, _Pickling, Dataset[T_co]):
    """A pipe that is read by keys; derive from it and write `__getitem__` and, where it is known, `__len__`.

    Registered methods chain pipes: `pipe.map(f)` is `Mapper(pipe, f)`.
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    _counterpart = _torch.TORCH_MAP

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__qualname__} has no __getitem__; a MapDataPipe has to define one.")


_torch.register(IterDataPipe, _torch.TORCH_ITER)
_torch.register(MapDataPipe, _torch.TORCH_MAP)
