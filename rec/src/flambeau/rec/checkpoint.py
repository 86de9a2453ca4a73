"""Checkpoints of models whose tables are spread over processes, which a model of any other plan can load.

A checkpoint is a folder::

    current             name of the folder below that is whole
    <name>/             a checkpoint of `torch.distributed.checkpoint`

`save` writes a new folder beside the one that is there, then replaces `current` by a rename, then removes the old one:
whoever is killed in between leaves a checkpoint that is whole, old or new.

    >>> from flambeau.rec.checkpoint import load, save
    >>> save(model, "run/checkpoint", optimizer)      # on 8 processes, tables by rows          # doctest: +SKIP
    >>> load(other, "run/checkpoint", optimizer)      # on 2, tables by columns                 # doctest: +SKIP
    >>> load(plain, "run/checkpoint")                 # on one, without a process group         # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from flambeau.core.files import write_atomic
from flambeau.rec.errors import OptionError

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist
    from torch import nn

__all__ = ["load", "save"]

T = TypeVar("T")

_CURRENT = "current"
_MODEL, _OPTIMIZER, _EXTRA = "model", "optimizer", "extra"


def save(
    model: nn.Module,
    path: str | os.PathLike[str],
    optimizer: Any = None,
    *,
    extra: Mapping[str, Any] | None = None,
    process_group: dist.ProcessGroup | None = None,
) -> None:
    """Write a model to a checkpoint; all processes that have parts of it call this.

    Tables are written as wholes, each part by the process that has it; what every process has is written once.

    Args:
        model: a `DistributedModelParallel`, or any other module; without a process group, of one process.
        path: a folder; a checkpoint that is there is replaced once the new one is whole. All processes see it.
        optimizer: with names of parameters, as a `CombinedOptimizer` of a model's `fused_optimizer` and of a
            `KeyedOptimizerWrapper` around the rest.
        extra: further values, such as the number of the step; on all processes the same.
        process_group: the processes; those of the default group by default.

    Raises:
        OptionError: the optimizer has no names of parameters.
    """
    from torch.distributed.checkpoint import state_dict_saver

    folder = Path(path)
    alone, name = _agreed(process_group, uuid.uuid4().hex)
    # Named for the write, so that nobody takes it for a checkpoint that stands for itself.
    target = folder / name
    if _first(process_group, alone):
        target.mkdir(parents=True)
    _together(process_group, alone)
    state = _on_all(process_group, alone, lambda: _state(model, optimizer))
    if extra is not None:
        state[_EXTRA] = dict(extra)
    with _knowingly_alone():
        state_dict_saver.save(state, checkpoint_id=target, process_group=process_group, no_dist=alone)
    if _first(process_group, alone):
        write_atomic(folder / _CURRENT, name)
        for other in folder.iterdir():
            if other.is_dir() and other.name != name:
                shutil.rmtree(other, ignore_errors=True)
    _together(process_group, alone)


def load(
    model: nn.Module,
    path: str | os.PathLike[str],
    optimizer: Any = None,
    *,
    strict: bool = True,
    through_first: bool = False,
    piece_bytes: int = 64 << 20,
    process_group: dist.ProcessGroup | None = None,
) -> dict[str, Any]:
    """Fill a model from a checkpoint; all processes that have parts of it call this.

    Plans and numbers of processes may differ from those that wrote it. Each process reads what it has parts of.

    Args:
        model: a `DistributedModelParallel`, or any other module; without a process group, of one process.
        path: of `save`; or a folder that `torch.distributed.checkpoint` wrote of {"model": ...}; or a file that
            `torch.save` wrote of the state of the model that is not spread, which is mapped, not read as a whole.
        optimizer: as in `save`; of one that trains the same way.
        strict: whether names that the checkpoint lacks are errors; else what they stand for stays as it is.
        through_first: whether only the first process reads, and sends the others piece by piece what it reads; for
            storage that only its host sees. What an optimizer keeps is read likewise.
        piece_bytes: memory of such a piece.
        process_group: the processes; those of the default group by default.

    Returns:
        What was saved as `extra`; empty where nothing was, and for a file of `torch.save`.

    Raises:
        FileNotFoundError: there is no checkpoint.
        OptionError: names are missing, or tensors are of other shapes, or the optimizer has no names of parameters.

    Note:
        Optimizers in kernels (`momentum1`) and those of torch (`sum`, `exp_avg`) call what they keep by names of their
        own; a table that one of them trains does not take the state of the other over.
    """
    place = Path(path)
    alone, _ = _agreed(process_group, "")
    if place.is_file():
        _from_file(model, place, strict)
        return {}
    if through_first and not alone:
        return _through_first(model, place, optimizer, strict, piece_bytes, process_group)
    return _each_its_own(model, place, optimizer, strict, alone, process_group)


# ----- processes ------------------------------------------------------------------------------------------------------


def _agreed(process_group: dist.ProcessGroup | None, value: Any) -> tuple[bool, Any]:
    """Whether this process is alone, and the first one's value."""
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        return True, value
    holder = [value]
    dist.broadcast_object_list(holder, group=process_group, group_src=0)
    return False, holder[0]


@contextlib.contextmanager
def _knowingly_alone() -> Iterator[None]:
    """Within it, torch does not warn that a checkpoint is of one process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable or uninitialized", UserWarning)
        yield


def _first(process_group: dist.ProcessGroup | None, alone: bool) -> bool:
    import torch.distributed as dist

    return alone or dist.get_rank(process_group) == 0


def _on_all(process_group: dist.ProcessGroup | None, alone: bool, function: Callable[[], T]) -> T:
    """What a function finds, where it found something on all processes; else an error on each of them.

    Whoever went on alone would wait for the others in vain.
    """
    import torch.distributed as dist

    if alone:
        return function()
    found, error = None, None
    try:
        found = function()
    except (OSError, OptionError) as caught:
        error = caught
    said: list[str | None] = [None] * dist.get_world_size(process_group)
    dist.all_gather_object(said, None if error is None else str(error), group=process_group)
    if error is not None:
        raise error
    for rank, message in enumerate(said):
        if message is not None:
            raise OptionError(f"process {rank} of the group cannot go on: {message}")
    return found  # type: ignore[return-value]


def _together(process_group: dist.ProcessGroup | None, alone: bool) -> None:
    import torch.distributed as dist

    if not alone:
        dist.barrier(group=process_group)


# ----- states ---------------------------------------------------------------------------------------------------------


def _state(model: nn.Module, optimizer: Any) -> dict[str, Any]:
    state: dict[str, Any] = {_MODEL: model.state_dict()}
    if optimizer is not None:
        state[_OPTIMIZER] = optimizer.state_dict()
        unnamed = [key for key in state[_OPTIMIZER].get("state", {}) if not isinstance(key, str)]
        if unnamed or any(
            not isinstance(key, str) for group in state[_OPTIMIZER].get("param_groups", []) for key in group["params"]
        ):
            raise OptionError(
                f"{type(optimizer).__name__} knows parameters by number, which other plans number otherwise; put it "
                "into a KeyedOptimizerWrapper, which knows them by name."
            )
    return state


def _whole(place: Path) -> Path:
    """The folder of a checkpoint that is whole."""
    current = place / _CURRENT
    folder = place / current.read_text().strip() if current.is_file() else place
    if not (folder / ".metadata").is_file():
        raise FileNotFoundError(
            f"{place} is no checkpoint: it has neither a file {_CURRENT!r} nor .metadata; "
            "flambeau.rec.checkpoint.save writes one."
        )
    return folder


def _facts(folder: Path) -> Any:
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    return FileSystemReader(folder).read_metadata()


def _check(state: dict[str, Any], facts: Any, strict: bool) -> dict[str, Any]:
    """The part of a flat state that a checkpoint has, of the same shapes."""
    missing = sorted(name for name in state if name not in facts.state_dict_metadata)
    if missing and strict:
        raise OptionError(
            f"the checkpoint has nothing called {missing}; it has {sorted(facts.state_dict_metadata)[:20]}. "
            "strict=False leaves them as they are."
        )
    found = {name: value for name, value in state.items() if name not in missing}
    for name, value in found.items():
        stored = getattr(facts.state_dict_metadata[name], "size", None)
        size = value.size() if callable(getattr(value, "size", None)) else None
        if stored is not None and size is not None and tuple(stored) != tuple(size):
            raise OptionError(f"{name} is {tuple(stored)} in the checkpoint, and {tuple(size)} in the model.")
    return found


def _each_its_own(
    model: nn.Module,
    place: Path,
    optimizer: Any,
    strict: bool,
    alone: bool,
    process_group: dist.ProcessGroup | None,
) -> dict[str, Any]:
    from torch.distributed.checkpoint import state_dict_loader
    from torch.distributed.checkpoint._nested_dict import flatten_state_dict, unflatten_state_dict

    flat, paths = flatten_state_dict(_state(model, optimizer))

    def known() -> tuple[Path, Any, dict[str, Any]]:
        folder = _whole(place)
        facts = _facts(folder)
        return folder, facts, _check(flat, facts, strict)

    folder, facts, kept = _on_all(process_group, alone, known)
    extra = _extra_names(facts)
    wanted = {**kept, **dict.fromkeys(extra)}
    with _knowingly_alone():
        state_dict_loader.load(wanted, checkpoint_id=folder, process_group=process_group, no_dist=alone)
    found = unflatten_state_dict({**flat, **{name: wanted[name] for name in kept}}, paths)
    _give_back(model, optimizer, found)
    return {name.partition(".")[2]: wanted[name] for name in extra}


def _extra_names(facts: Any) -> list[str]:
    return [name for name in facts.state_dict_metadata if name.startswith(f"{_EXTRA}.")]


def _give_back(model: nn.Module, optimizer: Any, found: dict[str, Any]) -> None:
    model.load_state_dict(found[_MODEL])
    if optimizer is not None:
        optimizer.load_state_dict(found[_OPTIMIZER])


# ----- files ----------------------------------------------------------------------------------------------------------


def _from_file(model: nn.Module, file: Path, strict: bool) -> None:
    import torch

    state = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    if not isinstance(state, Mapping):
        raise OptionError(f"{file} holds a {type(state).__name__}, expected the state of a model.")
    state = state.get(_MODEL, state) if isinstance(state.get(_MODEL), Mapping) else state
    mine = model.state_dict()
    missing = sorted(set(mine) - set(state))
    if missing and strict:
        raise OptionError(f"{file} has nothing called {missing}; strict=False leaves them as they are.")
    for name in set(mine) & set(state):
        if tuple(mine[name].size()) != tuple(state[name].size()):
            raise OptionError(
                f"{name} is {tuple(state[name].size())} in {file}, and {tuple(mine[name].size())} in the model."
            )
    model.load_state_dict({name: state[name] for name in mine if name in state}, strict=not missing)


# ----- one process reads ----------------------------------------------------------------------------------------------


def _parts(value: Any) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    """The parts of a tensor that this process has, with where they lie in the whole."""
    from torch.distributed._shard.sharded_tensor import ShardedTensor  # type: ignore[attr-defined]
    from torch.distributed.tensor import DTensor

    if isinstance(value, ShardedTensor):
        for shard in value.local_shards():
            yield tuple(shard.metadata.shard_offsets), shard.tensor
    elif isinstance(value, DTensor):
        local: Any = value._local_tensor
        if not hasattr(local, "local_shards"):
            raise OptionError("a DTensor whose part is no LocalShardsWrapper cannot be read through the first process.")
        shards = local.local_shards()  # of none, there is an offset all the same
        yield from zip((tuple(one) for one in local.local_offsets()[: len(shards)]), shards, strict=True)
    else:
        yield (0,) * value.dim(), value


def _pieces(size: tuple[int, ...], element_bytes: int, piece_bytes: int) -> Iterator[tuple[int, int]]:
    """First rows and numbers of rows, of which as many lie in a piece as fit; a scalar has one."""
    if not size:
        yield 0, 1
        return
    width = element_bytes
    for one in size[1:]:
        width *= one
    rows = max(piece_bytes // max(width, 1), 1)
    for begin in range(0, size[0], rows):
        yield begin, min(rows, size[0] - begin)


def _read_rows(reader: Any, facts: Any, name: str, begin: int, count: int) -> torch.Tensor:
    """Some rows of a tensor of a checkpoint."""
    import torch
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata
    from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner
    from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

    stored = facts.state_dict_metadata[name]
    size = list(stored.size)
    offsets = [begin, *[0] * (len(size) - 1)] if size else []
    sizes = [count, *size[1:]] if size else []
    rows = torch.empty(sizes, dtype=stored.properties.dtype)
    chunk = ChunkStorageMetadata(offsets=torch.Size(offsets), sizes=torch.Size(sizes))
    items = create_read_items_for_chunk_list(name, stored, [chunk])

    class Rows(LoadPlanner):
        """Reads into `rows`."""

        def set_up_planner(self, state_dict: Any, metadata: Any = None, is_coordinator: bool = False) -> None:
            """Everything is known."""

        def create_local_plan(self) -> LoadPlan:
            return LoadPlan(items)

        def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
            return global_plan

        def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
            return central_plan

        def load_bytes(self, read_item: Any, value: Any) -> None:
            raise OptionError(f"{name} is no tensor in the checkpoint.")

        def resolve_tensor(self, read_item: Any) -> torch.Tensor:
            found = rows
            for axis, (at, length) in enumerate(zip(read_item.dest_offsets, read_item.lengths, strict=True)):
                found = found.narrow(axis, at, length)
            return found

        def commit_tensor(self, read_item: Any, tensor: torch.Tensor) -> None:
            """The tensor is a view of `rows`."""

    reader.read_data(reader.prepare_local_plan(LoadPlan(items)), Rows()).wait()
    return rows


def _put(parts: list[tuple[tuple[int, ...], torch.Tensor]], begin: int, rows: torch.Tensor) -> None:
    """Copy rows of a whole into the parts that they lie in."""
    for offsets, part in parts:
        if not part.dim():
            part.copy_(rows)
            continue
        first = max(begin, offsets[0])
        last = min(begin + rows.shape[0], offsets[0] + part.shape[0])
        if first >= last:
            continue
        source = rows[first - begin : last - begin]
        for axis in range(1, part.dim()):
            source = source.narrow(axis, offsets[axis], part.shape[axis])
        part[first - offsets[0] : last - offsets[0]].copy_(source)


def _through_first(
    model: nn.Module,
    place: Path,
    optimizer: Any,
    strict: bool,
    piece_bytes: int,
    process_group: dist.ProcessGroup | None,
) -> dict[str, Any]:
    import torch
    import torch.distributed as dist
    from torch.distributed.checkpoint._nested_dict import flatten_state_dict, unflatten_state_dict
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    first = dist.get_rank(process_group) == 0
    folder, facts, error = None, None, None
    if first:
        try:
            folder = _whole(place)
            facts = _facts(folder)
        except OSError as caught:  # the others wait for what the first process finds
            error = caught
    _, (facts, error) = _agreed(process_group, (facts, error))
    if error is not None:
        raise error
    flat, paths = flatten_state_dict(_state(model, optimizer))
    kept = _on_all(process_group, False, lambda: _check(flat, facts, strict))
    # What an optimizer keeps has a name only where there are parts of it, and all take part in all that is sent.
    names_of_all: list[list[str]] = [[] for _ in range(dist.get_world_size(process_group))]
    dist.all_gather_object(names_of_all, list(kept), group=process_group)
    names = sorted({name for of_one in names_of_all for name in of_one})
    tensors = [name for name in names if hasattr(facts.state_dict_metadata[name], "size")]
    others = sorted({*names, *_extra_names(facts)} - set(tensors))
    reader = None
    if folder is not None:
        reader = FileSystemReader(folder)
        reader.set_up_storage_reader(facts, is_coordinator=True)
    with torch.no_grad():
        for name in tensors:
            stored = facts.state_dict_metadata[name]
            parts = list(_parts(kept[name])) if name in kept else []
            device = parts[0][1].device if parts else torch.device("cpu")
            for begin, count in _pieces(tuple(stored.size), stored.properties.dtype.itemsize, piece_bytes):
                if reader is not None:
                    rows = _read_rows(reader, facts, name, begin, count).to(device)
                else:
                    shape = [count, *stored.size[1:]] if stored.size else []
                    rows = torch.empty(shape, dtype=stored.properties.dtype, device=device)
                dist.broadcast(rows, group=process_group, group_src=0)
                _put(parts, begin, rows)
    values: dict[str, Any] = dict.fromkeys(others)
    if folder is not None and others:
        from torch.distributed.checkpoint import state_dict_loader

        with _knowingly_alone():
            state_dict_loader.load(values, checkpoint_id=folder, no_dist=True)
    _, values = _agreed(process_group, values)
    mine = {name: value for name, value in values.items() if name in flat}
    _give_back(model, optimizer, unflatten_state_dict({**flat, **mine}, paths))
    return {name.partition(".")[2]: values[name] for name in _extra_names(facts)}
