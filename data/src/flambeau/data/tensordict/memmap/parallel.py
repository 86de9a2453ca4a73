"""Writing many tensors into files with several threads, the work split by bytes.

A large tensor is cut into chunks that different threads write with `pwrite`; small ones are written many to a task. No
thread holds more than one descriptor or one chunk's copy.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flambeau.core.files import replace
from flambeau.data.tensordict.memmap.files import allocate, create, reopen, room_for

CHUNK_BYTES = 64 << 20
_BUNDLE_BYTES = 4 << 20
_MOST_PER_WRITE = 1 << 30  # Linux takes at most 2 GiB - 4 KiB in one call


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor on its way into a file.

    Attributes:
        path: the file, whose folder exists.
        tensor: dense, on any device, of any strides; None allocates zeros.
        nbytes: the file's size.
    """

    path: str
    tensor: Tensor | None
    nbytes: int


def write_leaves(leaves: Sequence[Leaf], *, num_threads: int = 0, fsync: bool = False) -> None:
    """Write each tensor's elements, row-major and without header, to its file.

    Args:
        leaves: what to write.
        num_threads: 0 or 1 works in the calling thread.
        fsync: flush each file to the disk before returning.

    Raises:
        StorageFullError: the disk is full; files may be left half-written.
    """
    tasks = [*_tasks(leaves, fsync)]
    if num_threads <= 1 or len(tasks) == 1:
        for _, task in tasks:
            task()
    else:
        tasks.sort(key=lambda task: -task[0])
        run_all([task for _, task in tasks], num_threads)


def write_complete(path: str, data: Tensor | None, nbytes: int) -> None:
    """Write a tensor's file so that it appears complete, or replaces another complete one."""
    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    try:
        write_leaves([Leaf(temporary, data, nbytes)])
        replace(Path(temporary), Path(path))
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def run_all(tasks: Iterable[Callable[[], Any]], num_threads: int) -> None:
    """Run tasks in threads; the first error stops those that have not begun, and is raised when the others ended."""
    with ThreadPoolExecutor(num_threads, thread_name_prefix="tensordict-write") as pool:
        futures: list[Future[Any]] = [pool.submit(task) for task in tasks]
        done, pending = wait(futures, return_when=FIRST_EXCEPTION)
        for future in pending:
            future.cancel()
        for future in done:
            future.result()


def _tasks(leaves: Sequence[Leaf], fsync: bool) -> Iterable[tuple[int, Callable[[], None]]]:
    bundle: list[Leaf] = []
    size = 0
    for leaf in leaves:
        if leaf.tensor is not None and leaf.nbytes > CHUNK_BYTES:
            _make(leaf)
            pieces = _pieces(leaf)
            for offset, piece in pieces:
                yield (
                    piece.nbytes,
                    functools.partial(_write_piece, leaf, offset, piece, fsync),
                )
            continue
        bundle.append(leaf)
        size += leaf.nbytes
        if size >= _BUNDLE_BYTES or len(bundle) == 64:
            yield size, functools.partial(_write_bundle, bundle, fsync)
            bundle, size = [], 0
    if bundle:
        yield size, lambda: _write_bundle(bundle, fsync)


def _pieces(leaf: Leaf) -> list[tuple[int, Tensor]]:
    """Parts of a large tensor that lie one after the other in its file, each at most about a chunk."""
    tensor = leaf.tensor
    assert tensor is not None
    if tensor.is_contiguous():
        flat = tensor.reshape(-1)
        step = max(1, CHUNK_BYTES // tensor.element_size())
        return [(start * tensor.element_size(), flat[start : start + step]) for start in range(0, flat.numel(), step)]
    rows: list[tuple[int, Tensor]] = []
    _cut(tensor, 0, rows)
    return rows


def _cut(tensor: Tensor, offset: int, out: list[tuple[int, Tensor]]) -> None:
    """Cut a strided tensor along its first dimensions until the parts, which must be copied, are small."""
    if tensor.nbytes <= CHUNK_BYTES or tensor.ndim == 0:
        out.append((offset, tensor))
        return
    row = tensor.nbytes // tensor.shape[0]
    if row > CHUNK_BYTES:
        for index in range(tensor.shape[0]):
            _cut(tensor[index], offset + index * row, out)
        return
    step = CHUNK_BYTES // row
    out.extend((offset + start * row, tensor[start : start + step]) for start in range(0, tensor.shape[0], step))


def _make(leaf: Leaf) -> None:
    descriptor = create(leaf.path)
    try:
        with room_for(leaf.path, leaf.nbytes):
            allocate(descriptor, leaf.nbytes)
    finally:
        os.close(descriptor)


def _write_piece(leaf: Leaf, offset: int, piece: Tensor, fsync: bool) -> None:
    descriptor = reopen(leaf.path)
    try:
        with room_for(leaf.path, leaf.nbytes):
            pwrite_all(descriptor, raw_bytes(piece), offset)
            if fsync:
                os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_bundle(bundle: Sequence[Leaf], fsync: bool) -> None:
    for leaf in bundle:
        descriptor = create(leaf.path)
        try:
            with room_for(leaf.path, leaf.nbytes):
                if leaf.tensor is None:
                    allocate(descriptor, leaf.nbytes)
                elif leaf.nbytes:
                    pwrite_all(descriptor, raw_bytes(leaf.tensor), 0)
                if fsync:
                    os.fsync(descriptor)
        finally:
            os.close(descriptor)


def raw_bytes(tensor: Tensor) -> memoryview:
    """The elements of a dense tensor, row-major, as bytes; over its own memory where it is contiguous on the CPU."""
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if type(plain) is not Tensor:
        plain = plain.as_subclass(Tensor)
    raw: Any = plain.reshape(-1).view(torch.uint8).numpy()
    return memoryview(raw)


def pwrite_all(descriptor: int, data: memoryview, offset: int) -> None:
    """Write all of `data` at an offset, however many calls that takes."""
    if not hasattr(os, "pwrite"):
        os.lseek(descriptor, offset, os.SEEK_SET)
        while data:
            data = data[os.write(descriptor, data[:_MOST_PER_WRITE]) :]
        return
    while data:
        written = os.pwrite(descriptor, data[:_MOST_PER_WRITE], offset)
        data, offset = data[written:], offset + written
