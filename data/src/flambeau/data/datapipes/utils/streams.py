"""Open files on their way through a pipeline: closed when they are no longer needed, and opened anew after a resume."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Iterator
from typing import Any, ClassVar


class StreamWrapper:
    """A file-like object that knows the archive it comes from.

    All attributes and methods of the stream are reachable. When the last child of an archive is closed, the archive
    closes too. It is pickled, and kept in states, as the recipe that opens it anew from its beginning.

    Args:
        file_obj: the stream.
        parent_stream: the wrapper of the archive that the stream is read from.
        name: shown by `repr`, and in the list of unclosed streams.
        recipe: (function, *arguments) whose call gives the stream again; the function is importable.

    Attributes:
        session_streams: the open streams and how often each is in use; filled only while `debug_unclosed_streams`.
        debug_unclosed_streams: keep `session_streams`.
    """

    session_streams: ClassVar[dict[Any, int]] = {}
    debug_unclosed_streams: ClassVar[bool] = False

    def __init__(
        self,
        file_obj: Any,
        parent_stream: StreamWrapper | None = None,
        name: str | None = None,
        *,
        recipe: tuple[Any, ...] | None = None,
    ) -> None:
        self.file_obj = file_obj
        self.parent_stream = parent_stream
        self.name = name
        self.child_counter = 0
        self.close_on_last_child = False
        self.closed = False
        self.recipe = None if recipe is None else [_name_of(recipe[0]), *recipe[1:]]
        if parent_stream is not None:
            if not isinstance(parent_stream, StreamWrapper):
                raise TypeError(f"parent_stream has to be a StreamWrapper, got {type(parent_stream).__name__}.")
            parent_stream.child_counter += 1
        if StreamWrapper.debug_unclosed_streams:
            StreamWrapper.session_streams[self] = 1

    @classmethod
    def close_streams(cls, v: Any, depth: int = 0) -> None:
        """Close all streams in a sample, looking into lists, tuples and dicts."""
        if depth > 10:
            return
        if isinstance(v, StreamWrapper):
            v.close()
        elif isinstance(v, dict):
            for item in v.values():
                cls.close_streams(item, depth + 1)
        elif isinstance(v, (list, tuple)):
            for item in v:
                cls.close_streams(item, depth + 1)

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Close the stream, and its archive when this was the last child in use."""
        if self.closed:
            return
        StreamWrapper.session_streams.pop(self, None)
        parent = self.parent_stream
        if parent is not None:
            parent.child_counter -= 1
            if parent.child_counter == 0 and parent.close_on_last_child:
                parent.close()
        self.file_obj.close(*args, **kwargs)
        self.closed = True

    def autoclose(self) -> None:
        """Close as soon as no child is in use."""
        self.close_on_last_child = True
        if self.child_counter == 0:
            self.close()

    def __enter__(self) -> StreamWrapper:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self.__dict__.get("closed", True):
            self.close()

    def __getattr__(self, name: str) -> Any:
        if name == "file_obj":  # not set yet
            raise AttributeError(name)
        return getattr(self.file_obj, name)

    def __iter__(self) -> Iterator[Any]:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.file_obj)})

    def __repr__(self) -> str:
        return (
            f"StreamWrapper<{self.file_obj!r}>"
            if self.name is None
            else f"StreamWrapper<{self.name},{self.file_obj!r}>"
        )

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if self.recipe is None:
            raise TypeError(
                f"{self!r} cannot be pickled: nobody said how to open it again. Read it before samples "
                "leave the process."
            )
        return reopened, (self.recipe,)


def reopened(recipe: Any) -> StreamWrapper:
    """The stream a recipe opens."""
    module, _, name = recipe[0].partition(":")
    function = getattr(importlib.import_module(module), name)
    made = function(*recipe[1:])
    if not isinstance(made, StreamWrapper):
        made = StreamWrapper(made, name=str(recipe[1]) if recipe[1:] else None)
    made.recipe = list(recipe)
    return made


def _name_of(function: Callable[..., Any] | str) -> str:
    return function if isinstance(function, str) else f"{function.__module__}:{function.__qualname__}"


def discard(sample: Any, depth: int = 0) -> None:
    """Close everything in a sample that nobody will read: wrapped streams, and plain files."""
    if isinstance(sample, (StreamWrapper, io.IOBase)):
        sample.close()
    elif isinstance(sample, dict) and depth < 10:
        for item in sample.values():
            discard(item, depth + 1)
    elif isinstance(sample, (list, tuple)) and depth < 10:
        for item in sample:
            discard(item, depth + 1)


def janitor(obj: Any) -> None:
    """Close a stream, or all streams in a list, tuple or dict; what is no stream is left alone.

    Put it after the pipe that has read them: `pipe.map(janitor)`.
    """
    StreamWrapper.close_streams(obj)
