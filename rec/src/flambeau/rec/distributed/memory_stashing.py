"""Give memory of an accelerator back while it is not needed: weights and states wait on the host for their next use.

Tables and what optimizers keep are not looked at between their look-up and their update. In between, they can make room
for activations: `stash_*` begins to copy them to the host and gives functions back that free their memory, bring them
back, and wait until they are there. These take an optional gradient, so that they can be hooks of tensors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["MemoryStashingManager", "chunked_copy_"]

_CHUNK_BYTES = 512 * 1024 * 1024

Hook = Callable[[Tensor | None], None]


def chunked_copy_(
    dst: Tensor,
    src: Tensor,
    chunk_size_bytes: int = _CHUNK_BYTES,
    non_blocking: bool = True,
    dummy_compute: bool = True,
) -> None:
    """Copy a tensor in parts, so that other copies can come in between.

    Args:
        dst: contiguous, of as many elements and the same dtype as `src`.
        src: contiguous.
        chunk_size_bytes: of a part; 0 or less for one.
        non_blocking: whether an accelerator is not waited for.
        dummy_compute: whether something small is computed between parts, where an accelerator would merge them.

    Raises:
        ValueError: sizes or dtypes differ.
    """
    if dst.numel() != src.numel() or dst.dtype != src.dtype:
        raise OptionError(
            f"dst has {dst.numel()} elements of {dst.dtype}, and src {src.numel()} of {src.dtype}; expected the same."
        )
    step = max(chunk_size_bytes // max(src.element_size(), 1), 1) if chunk_size_bytes > 0 else max(src.numel(), 1)
    for into, part in zip(dst.view(-1).split(step), src.view(-1).split(step), strict=True):
        into.copy_(part, non_blocking=non_blocking)
        if dummy_compute and dst.is_cuda:
            torch.zeros(1, device=dst.device).add_(1)


class _Stash:
    """Tensors that are on their way to the host, there, or on their way back.

    Args:
        tensors: whose memory is given back; nothing else views it.
        manager: whose streams copy.
    """

    def __init__(self, tensors: Iterable[Tensor], manager: type[MemoryStashingManager]) -> None:
        self._manager = manager
        self.tensors = [tensor for tensor in tensors if tensor.untyped_storage().size()]
        self._sizes = [tensor.untyped_storage().size() for tensor in self.tensors]
        self.host = [
            torch.empty(size, dtype=torch.uint8, pin_memory=tensor.is_cuda)
            for tensor, size in zip(self.tensors, self._sizes, strict=True)
        ]
        self._lock, self._freed = threading.Lock(), False
        self._gone = self._copy(self.host, [_bytes(tensor) for tensor in self.tensors], manager._d2h)
        self._back: torch.cuda.Event | None = None

    def _copy(
        self, into: list[Tensor], parts: list[Tensor], stream: torch.cuda.Stream | None
    ) -> torch.cuda.Event | None:
        if not any(tensor.is_cuda for tensor in self.tensors):
            for one, other in zip(into, parts, strict=True):
                chunked_copy_(one, other, self._manager._trunk_bytes, non_blocking=False)
            return None
        stream = stream or torch.cuda.current_stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for one, other in zip(into, parts, strict=True):
                chunked_copy_(one, other, self._manager._trunk_bytes)
            event = torch.cuda.Event()
            event.record(stream)
        return event

    def free(self, _grad: Tensor | None = None) -> None:
        """Give the memory back, once the copies on the host are whole."""
        with self._lock:
            if self._freed:
                return
            if self._gone is not None:
                self._gone.synchronize()
            for tensor in self.tensors:
                tensor.untyped_storage().resize_(0)
            self._freed = True

    def restore(self, _grad: Tensor | None = None) -> None:
        """Begin to bring the tensors back; nothing where their memory was never given back."""
        with self._lock:
            if not self._freed:
                return
            for tensor, size in zip(self.tensors, self._sizes, strict=True):
                tensor.untyped_storage().resize_(size)
            self._back = self._copy([_bytes(tensor) for tensor in self.tensors], self.host, self._manager._h2d)
            self._freed = False

    def wait(self, _grad: Tensor | None = None) -> None:
        """Have what comes next on the current stream wait for the tensors."""
        self.restore()
        if self._back is not None:
            torch.cuda.current_stream().wait_event(self._back)


def _bytes(tensor: Tensor) -> Tensor:
    """The whole memory of a tensor, as bytes."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


class MemoryStashingManager:
    """What is on the host for now, in this process."""

    _h2d: torch.cuda.Stream | None = None
    _d2h: torch.cuda.Stream | None = None
    _trunk_bytes = _CHUNK_BYTES
    _delay = False
    _pending: list[Callable[[], None]] = []
    _stashes: dict[str, list[_Stash]] = {"weights": [], "states": [], "caches": []}
    _threads: ThreadPoolExecutor | None = None

    # ----- settings ---------------------------------------------------------------------------------------------------

    @classmethod
    def set_streams(
        cls,
        host_to_device_stream: torch.cuda.Stream | None = None,
        device_to_host_stream: torch.cuda.Stream | None = None,
    ) -> None:
        """Copy on streams of their own.

        Args:
            host_to_device_stream: what brings tensors back.
            device_to_host_stream: what takes them away.
        """
        cls._h2d, cls._d2h = host_to_device_stream, device_to_host_stream

    @classmethod
    def is_enabled(cls) -> bool:
        """Whether there are streams to copy on."""
        return cls._h2d is not None and cls._d2h is not None

    @classmethod
    def h2d_stream(cls) -> torch.cuda.Stream:
        """What brings tensors back.

        Raises:
            AssertionError: there is no such stream; also a ValueError.
        """
        if cls._h2d is None:
            raise OptionError("there is no stream from the host to the device; call set_streams before.")
        return cls._h2d

    @classmethod
    def d2h_stream(cls) -> torch.cuda.Stream:
        """What takes tensors away.

        Raises:
            AssertionError: there is no such stream; also a ValueError.
        """
        if cls._d2h is None:
            raise OptionError("there is no stream from the device to the host; call set_streams before.")
        return cls._d2h

    @classmethod
    def set_trunk_size(cls, size_bytes: int) -> None:
        """Copy in parts of a size.

        Args:
            size_bytes: of a part; 0 or less for one.
        """
        cls._trunk_bytes = size_bytes

    @classmethod
    def set_delay_stash(cls, delay: bool) -> None:
        """Have tensors taken away when `execute_pending_stashes` is called, rather than at once.

        Args:
            delay: whether to.
        """
        cls._delay = delay

    @classmethod
    def execute_pending_stashes(cls) -> None:
        """Take away what was put off."""
        pending, cls._pending = cls._pending, []
        for stash in pending:
            stash()

    @classmethod
    def reset(cls) -> None:
        """Bring everything back, and forget all settings."""
        cls._pending = []
        for kind in cls._stashes:
            cls._restore(kind, None)
        if cls._threads is not None:
            cls._threads.shutdown()
        cls._h2d = cls._d2h = cls._threads = None
        cls._trunk_bytes, cls._delay = _CHUNK_BYTES, False

    # ----- threads ----------------------------------------------------------------------------------------------------

    @classmethod
    def thread_submit(cls, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function in a thread beside this one; one after another.

        Args:
            fn: the function.
            args: for it.
            kwargs: for it.
        """
        if cls._threads is None:
            cls._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="memory-stashing")
        return cls._threads.submit(fn, *args, **kwargs)

    # ----- tables -----------------------------------------------------------------------------------------------------

    @classmethod
    def _stash(cls, kind: str, tensors: Iterable[Tensor]) -> tuple[Hook, Hook, Hook]:
        chosen = list(tensors)
        made: list[_Stash] = []

        def begin() -> None:
            made.append(_Stash(chosen, cls))
            cls._stashes[kind].append(made[0])

        def free(_grad: Tensor | None = None) -> None:
            if made:
                made[0].free()

        def restore(_grad: Tensor | None = None) -> None:
            if made:
                made[0].restore()

        def wait(_grad: Tensor | None = None) -> None:
            if made:
                made[0].wait()
                if made[0] in cls._stashes[kind]:
                    cls._stashes[kind].remove(made[0])

        if cls._delay:
            cls._pending.append(begin)
        else:
            begin()
        return free, restore, wait

    @classmethod
    def _restore(cls, kind: str, sync_event: torch.cuda.Event | None) -> None:
        if sync_event is not None:
            torch.cuda.current_stream().wait_event(sync_event)
        stashes, cls._stashes[kind] = cls._stashes[kind], []
        for stash in reversed(stashes):
            stash.wait()

    @classmethod
    def stash_embedding_weights(cls, lookup: nn.Module) -> tuple[Hook, Hook, Hook] | None:
        """Take the weights of tables away whose configuration says `stash_weights`.

        Args:
            lookup: of a sharded collection: its kernels are in `_emb_modules`.

        Returns:
            What frees their memory, brings them back, and waits for them; None where there are none.
        """
        tensors = []
        for kernel in getattr(lookup, "_emb_modules", ()):
            tables = kernel.config.embedding_tables
            if tables and all(table.stash_weights for table in tables):
                tensors += [param.data for param in kernel.emb_module.parameters() if param.numel()]
        return cls._stash("weights", tensors) if tensors else None

    @classmethod
    def restore_embedding_weights(cls, _grad: Tensor | None = None, sync_event: torch.cuda.Event | None = None) -> None:
        """Bring all weights back, and wait for them.

        Args:
            _grad: so that it can be a hook.
            sync_event: what is waited for before.
        """
        cls._restore("weights", sync_event)

    @classmethod
    def restore_embedding_weights_threaded(cls) -> Future[None]:
        """The same in a thread beside this one."""
        return cls.thread_submit(cls.restore_embedding_weights)

    @classmethod
    def stash_emo_cache(cls, lookup: nn.Module, features: KeyedJaggedTensor) -> tuple[Hook, Hook] | None:
        """Take the caches of tables away that lie on the host, after they were flushed.

        Args:
            lookup: of a sharded collection.
            features: of the batch that was looked up last; its rows are fetched again when the caches are back.

        Returns:
            What brings them back, and waits for them; None where there are none.
        """
        caches = []
        for kernel in getattr(lookup, "_emb_modules", ()):
            cache = getattr(kernel.emb_module, "lxu_cache_weights", None)
            if cache is not None and cache.numel():
                kernel.flush()
                caches.append(cache)
        if not caches:
            return None
        free, restore, wait = cls._stash("caches", caches)
        free(None)
        return restore, wait

    @classmethod
    def restore_emo_cache(cls, _grad: Tensor | None = None, sync_event: torch.cuda.Event | None = None) -> None:
        """Bring all caches back, and wait for them.

        Args:
            _grad: so that it can be a hook.
            sync_event: what is waited for before.
        """
        cls._restore("caches", sync_event)

    @classmethod
    def staged_cpu_view_for(cls, obj: Tensor) -> Tensor | None:
        """What a tensor holds, on the host, while it is there; None where it is not.

        Args:
            obj: the tensor.
        """
        for stashes in cls._stashes.values():
            for stash in stashes:
                for tensor, host in zip(stash.tensors, stash.host, strict=True):
                    if tensor.untyped_storage()._cdata == obj.untyped_storage()._cdata:
                        whole = host.view(obj.dtype)
                        return whole.as_strided(obj.shape, obj.stride(), obj.storage_offset())
        return None

    # ----- optimizers -------------------------------------------------------------------------------------------------

    @classmethod
    def stash_optimizer_state(
        cls, optimizer: torch.optim.Optimizer, sync_event: torch.cuda.Event | None = None
    ) -> tuple[Hook, Hook]:
        """Take away what an optimizer keeps, and free its memory.

        Args:
            optimizer: the optimizer.
            sync_event: what is waited for before.

        Returns:
            What brings it back, and waits for it.
        """
        if sync_event is not None:
            torch.cuda.current_stream().wait_event(sync_event)
        kept = [
            value
            for state in optimizer.state.values()
            for value in (state.values() if isinstance(state, dict) else ())
            if isinstance(value, Tensor) and value.dim()
        ]
        free, restore, wait = cls._stash("states", kept)
        free(None)
        return restore, wait

    @classmethod
    def stash_optimizer_state_threaded(cls, optimizer: torch.optim.Optimizer) -> Future[tuple[Hook, Hook]]:
        """The same in a thread beside this one.

        Args:
            optimizer: the optimizer.
        """
        return cls.thread_submit(cls.stash_optimizer_state, optimizer)

    @classmethod
    def restore_optimizer_state(cls, _grad: Tensor | None = None, sync_event: torch.cuda.Event | None = None) -> None:
        """Bring back what optimizers keep, and wait for it.

        Args:
            _grad: so that it can be a hook.
            sync_event: what is waited for before.
        """
        cls._restore("states", sync_event)

    @classmethod
    def restore_optimizer_state_threaded(cls) -> Future[None]:
        """The same in a thread beside this one."""
        return cls.thread_submit(cls.restore_optimizer_state)
