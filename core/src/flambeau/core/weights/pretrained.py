"""Building a model together with its pretrained weights, without initialising or copying what a file will bring."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from flambeau.core.errors import CheckpointError, FlambeauError
from flambeau.core.garbage import collection_paused
from flambeau.core.weights import missing_tensors
from flambeau.core.weights.checkpoints import read_checkpoint
from flambeau.core.weights.construction import empty_parameters, kept_outside, meta_device
from flambeau.core.weights.loading import Convert, assign_state
from flambeau.core.weights.sources import Checkpoint, is_remote, locate

if TYPE_CHECKING:
    from flambeau.core.weights.sources import Source

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=nn.Module)


class _Wanted(threading.local):
    values = True


_wanted = _Wanted()


@contextmanager
def architecture_only() -> Iterator[None]:
    """In this thread, pretrained builders build what their weights ask for, with empty parameters and without the file.

    Example:
        >>> with architecture_only():
        ...     model = get_model("vision/vit_b_16", weights="IMAGENET1K_SWAG_E2E_V1")
        >>> model.image_size
        384
    """
    before = _wanted.values
    _wanted.values = False
    try:
        with empty_parameters():
            yield
    finally:
        _wanted.values = before


def build_with_weights(
    builder: Callable[..., M],
    weights: Source | None,
    *args: Any,
    progress: bool = True,
    check_hash: bool = True,
    strict: bool = True,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    mmap: bool = True,
    convert: Convert | None = None,
    instant: bool = True,
    **kwargs: Any,
) -> M:
    """Build a model and load its weights; what every pretrained builder calls.

    The file is fetched while the model is built. The model is built with empty parameters, the file is memory-mapped
    and its tensors are assigned, so that neither initialisation nor copying takes place. A constructor that cannot work
    with empty parameters is run again, under `torch.device("meta")` and at last plainly: slower, with the same result.

    Args:
        builder: makes the module when called as `builder(*args, **kwargs)`.
        weights: a weights member, its registered name, a path, a URL, or None for new parameters.
        args: for the builder.
        progress: show a download on a terminal.
        check_hash: verify the digest that is known or part of the file's name.
        strict: False loads what fits; the rest is initialised by `reset_parameters` of its modules.
        device: where the module goes; None leaves it where the builder puts it.
        dtype: of floating parameters and buffers; None is what the builder gives, whatever the file has.
        mmap: False reads the file at once instead of mapping it.
        convert: makes the module's names and tensors of what the file holds, for example `lambda file: file["model"]`.
        instant: False builds plainly, with the values a plain constructor would give to parameters that are not loaded.
        kwargs: for the builder.

    Returns:
        The module, in the mode the builder left it in.

    Raises:
        CheckpointError: names or shapes do not fit; one message lists them.
        UnsafeCheckpointError, MissingCheckpointError, DownloadError: from reading and fetching.
    """
    if weights is None or not _wanted.values:
        module = builder(*args, **kwargs)
    else:
        arriving = _Arrival(weights, progress=progress, check_hash=check_hash)
        ladder = _Ladder(lambda: builder(*args, **kwargs), arriving, strict, dtype, mmap, convert)
        module = ladder.climb(instant)
    return module.to(device=device, dtype=dtype) if device is not None or dtype is not None else module


class _Arrival:
    """A checkpoint on its way: looked for at once, in a thread where it may have to be downloaded."""

    def __init__(self, source: Source, **options: bool) -> None:
        self._found: Checkpoint | None = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if is_remote(source):
            # A daemon, so that a failing constructor or an interrupt does not wait for the network.
            self._thread = threading.Thread(target=self._run, args=(source, options), name="weights", daemon=True)
            self._thread.start()
        else:
            self._found = locate(source, **options)

    def _run(self, source: Source, options: dict[str, bool]) -> None:
        try:
            self._found = locate(source, **options)
        except BaseException as error:  # raised in the caller's thread, by `wait`
            self._error = error

    def wait(self) -> Checkpoint:
        """The file, as soon as it is there."""
        if self._thread is not None:
            self._thread.join()
        if self._found is None:
            assert self._error is not None
            raise self._error
        return self._found


class _Unsuitable(Exception):
    """A way of building did not give a complete module; the next one is tried."""


@dataclass
class _Ladder:
    """Ways to build one model, the fastest first; all give the same result."""

    build: Callable[[], Any]
    arriving: _Arrival
    strict: bool
    dtype: torch.dtype | None
    mmap: bool
    convert: Convert | None

    def climb(self, instant: bool) -> Any:
        """The module, built in the first way that works for it."""
        generator = torch.get_rng_state()
        for way, context in self._ways(instant):
            try:
                return self._attempt(context)
            except _Unsuitable as reason:
                logger.debug("Building with %s: %s; going on without.", way, reason)
            torch.set_rng_state(generator)  # as if that attempt had not been
        module = self.build()
        self._load(module)
        return module

    @staticmethod
    def _ways(instant: bool) -> Iterator[tuple[str, AbstractContextManager[Any]]]:
        if instant:
            yield "empty parameters", empty_parameters()
            if torch.get_default_device().type == "cpu":  # else nothing would tell where the tensors belong
                yield "the meta device", meta_device()

    def _attempt(self, context: AbstractContextManager[Any]) -> Any:
        try:
            with context, collection_paused():
                module = self.build()
                held = kept_outside()
        except FlambeauError:
            raise  # a part's own weights did not load: no other way of building helps
        except (RuntimeError, TypeError) as error:
            # What tensors without values raise; any other fault comes again when the model is built plainly.
            raise _Unsuitable(f"the constructor failed ({error})") from error
        if held:
            raise _Unsuitable("the constructor keeps parameters outside of its modules")
        self._load(module)
        self._complete(module)
        return module

    def _complete(self, module: nn.Module) -> None:
        """Give values to what the checkpoint may leave out; see that nothing else is without."""
        if not self.strict:
            try:
                names = missing_tensors.initialise(module)
            except CheckpointError as error:
                raise _Unsuitable(str(error)) from error
            if names:
                logger.info("%s: initialised %s.", type(module).__name__, ", ".join(names))
        # A strict load can leave names out too, where a module's own way of loading allows it.
        if empty := [*missing_tensors.empty_names(module), *missing_tensors.stray_tensors(module)]:
            raise _Unsuitable(f"{', '.join(empty)} stayed empty")

    def _load(self, module: nn.Module) -> None:
        found = self.arriving.wait()
        with collection_paused():
            state = read_checkpoint(found.path, format=found.format, mmap=self.mmap, safe_globals=found.safe_globals)
            state = self.convert(state) if self.convert else state
            report = assign_state(module, state, strict=self.strict, dtype=self.dtype)
        if any(report):
            logger.info("%s: left out %s.", type(module).__name__, report)
