"""Tensordicts between processes, through `torch.distributed`: by leaf, in the order of sorted keys, with one tag each.

Both sides walk tensordicts of the same structure. Where the receiver has none, `init_remote` and
`from_remote_init` send the structure first, as the JSON that consolidation uses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from flambeau.data.tensordict._layout import classes
from flambeau.data.tensordict._tensorcollection import TensorCollection
from flambeau.data.tensordict.memmap import consolidated, jsonable

_LONG = torch.int64


def leaves_of(td: Any) -> Iterator[tuple[Any, str, Tensor]]:
    """The holder, key and tensor of each leaf, sorted by key at each level."""
    if td._is_non_tensor:
        return
    if td._is_tensorclass:
        yield from leaves_of(td._tensordict)
        return
    parts = getattr(td, "tensordicts", None)
    if parts is not None:
        for part in parts:
            yield from leaves_of(part)
        return
    for key, value in sorted(td.items(), key=lambda item: item[0]):
        if isinstance(value, TensorCollection):
            yield from leaves_of(value)
        else:
            yield td, key, value


class Tags:
    """The tag of each message of a walk: counted up, or drawn from a generator that both sides seed alike."""

    def __init__(self, first: int, pseudo_rand: bool) -> None:
        self.last = first
        self.generator = torch.Generator().manual_seed(first) if pseudo_rand else None

    def next(self) -> int:
        """The next one."""
        if self.generator is None:
            self.last += 1
        else:
            self.last = int(torch.randint(0, 2**15, (), generator=self.generator))
        return self.last


def peer(rank: int | None, group_rank: int | None, group: Any, what: str) -> int:
    """The global rank of the other side.

    Raises:
        ValueError: not exactly one of both is given.
    """
    if rank is not None and group_rank is None:
        return rank
    if group_rank is not None and rank is None:
        return dist.get_global_rank(group or dist.group.WORLD, group_rank)  # type: ignore[arg-type]  # initialized
    raise ValueError(f"give the other process as `{what}` or as `group_{what}`, and not as both.")


def _sendable(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous()


def isend(td: Any, dst: int, group: Any, tags: Tags) -> list[Any]:
    """Begin to send every leaf; returns the work. The tensors must not change until it is done."""
    works = []
    for _, _, tensor in leaves_of(td):
        work = dist.isend(_sendable(tensor), dst=dst, group=group, tag=tags.next())
        works.append(work)
    return works


def send(td: Any, dst: int, group: Any, tags: Tags) -> None:
    """Send every leaf."""
    for _, _, tensor in leaves_of(td):
        dist.send(_sendable(tensor), dst=dst, group=group, tag=tags.next())


class Receiving:
    """A leaf on its way: what came is copied into the tensor when the work is done.

    Args:
        work: of `torch.distributed`.
        buffer: what is received into.
        target: the leaf; the same as `buffer` where that could be received into.
    """

    def __init__(self, work: Any, buffer: Tensor, target: Tensor) -> None:
        self.work, self.buffer, self.target = work, buffer, target

    def wait(self, *args: Any) -> None:
        """Block until the leaf is there."""
        self.work.wait(*args)
        if self.buffer is not self.target:
            self.target.copy_(self.buffer)

    def is_completed(self) -> bool:
        """Whether the message has come."""
        return bool(self.work.is_completed())


def irecv(td: Any, src: int | None, group: Any, tags: Tags) -> list[Receiving]:
    """Begin to receive every leaf in place."""
    works = []
    for _, _, tensor in leaves_of(td):
        target = tensor.detach()
        buffer = target if target.is_contiguous() else torch.empty_like(target, memory_format=torch.contiguous_format)
        works.append(Receiving(dist.irecv(buffer, src=src, group=group, tag=tags.next()), buffer, target))
    return works


def recv(td: Any, src: int | None, group: Any, tags: Tags) -> int:
    """Receive every leaf in place; returns the sender's rank."""
    sender = -1 if src is None else src
    for _, _, tensor in leaves_of(td):
        target = tensor.detach()
        buffer = target if target.is_contiguous() else torch.empty_like(target, memory_format=torch.contiguous_format)
        sender = dist.recv(buffer, src=src, group=group, tag=tags.next())
        if buffer is not target:
            target.copy_(buffer)
    return sender


# --- the structure


def pack(td: Any) -> tuple[Tensor, Tensor]:
    """A tensordict as the bytes of its structure and the bytes of its tensors."""
    whole = td if td.is_consolidated() else td.consolidate()
    known = whole._consolidated
    text = jsonable.dumps(known["metadata"])
    return torch.frombuffer(bytearray(text), dtype=torch.uint8), known["storage"].as_subclass(Tensor)


def unpack(text: Tensor, storage: Tensor) -> Any:
    """The tensordict of what `pack` gave, over the storage."""
    made = consolidated.adopt(consolidated.Structure(*json.loads(bytes(text.cpu().numpy()))), storage)
    made.unlock_()
    return made


def send_whole(td: Any, dst: int, group: Any, device: Any = None) -> None:
    """Send structure and tensors."""
    text, storage = pack(td)
    sizes = torch.tensor([text.numel(), storage.numel()], dtype=_LONG)
    for part in (sizes, text, storage):
        if part.numel():
            dist.send(_on(part, device), dst=dst, group=group)


def recv_whole(src: int | None, group: Any, device: Any = None) -> Any:
    """Receive what `send_whole` sent."""
    sizes = _on(torch.zeros(2, dtype=_LONG), device)
    sender = dist.recv(sizes, src=src, group=group)
    parts = [torch.empty(int(size), dtype=torch.uint8, device=device) for size in sizes.tolist()]
    for part in parts:
        if part.numel():
            dist.recv(part, src=sender, group=group)
    return unpack(*parts)


def broadcast_whole(td: Any, src: int, group: Any, device: Any = None) -> Any:
    """Give every process the tensordict of one; None stands for it elsewhere."""
    here = dist.get_rank() == src
    text, storage = pack(td) if here else (torch.empty(0, dtype=torch.uint8),) * 2
    sizes = _on(torch.tensor([text.numel(), storage.numel()], dtype=_LONG), device)
    dist.broadcast(sizes, src=src, group=group)
    parts = [
        _on(part, device) if here else torch.empty(int(size), dtype=torch.uint8, device=device)
        for part, size in zip((text, storage), sizes.tolist(), strict=True)
    ]
    for part in parts:
        if part.numel():
            dist.broadcast(part, src=src, group=group)
    return td if here else unpack(*parts)


def _on(tensor: Tensor, device: Any) -> Tensor:
    return tensor if device is None else tensor.to(device)


# --- collectives


def scatter(src: int, tds: list[Any] | None, group: Any, device: Any = None) -> Any:
    """This process's own of the tensordicts that `src` has."""
    if dist.get_rank() != src:
        return recv_whole(src, group, device)
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    if tds is None or len(tds) != len(ranks):
        raise ValueError(f"scatter: {len(tds or ())} tensordicts for {len(ranks)} processes; give one for each.")
    for rank, td in zip(ranks, tds, strict=True):
        if rank != src:
            send_whole(td, rank, group, device)
    return tds[ranks.index(src)]


def gather_and_stack(td: Any, dst: int, group: Any) -> Any:
    """The stack of all processes' tensordicts, in one of them; see `TensorDictBase.gather_and_stack`."""
    rank, world = dist.get_rank(), dist.get_world_size(group)
    gathered: list[dict[tuple[int, str], Tensor]] = [{} for _ in range(world)]
    for holder, key, tensor in leaves_of(td):
        source = _sendable(tensor)
        parts = [torch.empty_like(source) for _ in range(world)] if rank == dst else None
        dist.gather(source, parts, dst=dst, group=group)
        for index, part in enumerate(parts or ()):
            gathered[index][id(holder), key] = part
    if rank != dst:
        return None
    return torch.stack([_filled(td, values) for values in gathered], 0)


def all_gather(td: Any, group: Any) -> list[Any]:
    """The tensordicts of all processes."""
    world = dist.get_world_size(group)
    gathered: list[dict[tuple[int, str], Tensor]] = [{} for _ in range(world)]
    for holder, key, tensor in leaves_of(td):
        source = _sendable(tensor)
        parts = [torch.empty_like(source) for _ in range(world)]
        dist.all_gather(parts, source, group=group)
        for index, part in enumerate(parts):
            gathered[index][id(holder), key] = part
    return [_filled(td, values) for values in gathered]


def _filled(td: Any, values: dict[tuple[int, str], Tensor]) -> Any:
    """A collection of the same structure with other tensors."""
    if td._is_non_tensor:
        return td
    if td._is_tensorclass:
        return td._wrap(_filled(td._tensordict, values))
    parts = getattr(td, "tensordicts", None)
    if parts is not None:
        return type(td)(*[_filled(part, values) for part in parts], stack_dim=td.stack_dim)
    data = {
        key: values[id(td), key] if isinstance(value, Tensor) else _filled(value, values) for key, value in td.items()
    }
    return classes.make_td(data, td.batch_size, td.device, td._names_or_none())


def reduce_(td: Any, dst: int | None, op: Any, group: Any, async_op: bool) -> list[Any]:
    """Reduce every leaf in place, in one process or (without `dst`) in all."""
    op = dist.ReduceOp.SUM if op is None else op
    works = []
    for _, _, tensor in leaves_of(td):
        target = tensor.detach()
        buffer = target if target.is_contiguous() else target.contiguous()
        if dst is None:
            work = dist.all_reduce(buffer, op=op, group=group, async_op=async_op)
        else:
            work = dist.reduce(buffer, dst=dst, op=op, group=group, async_op=async_op)
        if async_op:
            works.append(Receiving(work, buffer, target))
        elif buffer is not target:
            target.copy_(buffer)
    return works
