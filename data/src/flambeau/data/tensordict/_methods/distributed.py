"""Sending, receiving and reducing tensordicts between processes."""

from __future__ import annotations

from typing import Any, Self

import torch

from flambeau.data.tensordict._tensorcollection import CollectionMethods

# torch.distributed takes long to import; `_distributed` is imported where it is used.


class DistributedMethods(CollectionMethods):
    """Tensordicts between processes, through `torch.distributed`; the process group is initialised by the caller."""

    def send(
        self,
        dst: Any = None,
        *,
        group: Any = None,
        group_dst: int | None = None,
        init_tag: int = 0,
        pseudo_rand: bool = False,
        consolidated: bool = False,
    ) -> None:
        """Send every tensor to a process that calls `recv` on a tensordict of the same structure.

        Args:
            dst: the process's global rank.
            group: the process group.
            group_dst: the process's rank in the group, instead of `dst`.
            init_tag: the first message has the tag after it; both sides give the same.
            pseudo_rand: draw the tags from a generator seeded with `init_tag`.
            consolidated: send one buffer instead, whose structure the receiver need not know; see `recv`.
        """
        from flambeau.data.tensordict._distributed import leaves as d

        if hasattr(dst, "send"):  # a pipe
            dst.send(self)
            return
        rank = d.peer(dst, group_dst, group, "dst")
        if consolidated:
            d.send_whole(self, rank, group)
        else:
            d.send(self, rank, group, d.Tags(init_tag, pseudo_rand))

    def recv(
        self,
        src: Any = None,
        *,
        group: Any = None,
        group_src: int | None = None,
        init_tag: int = 0,
        pseudo_rand: bool = False,
        consolidated: bool = False,
    ) -> int:
        """Receive every tensor, in place; returns the sender's rank. The arguments are those of `send`.

        With `consolidated`, all entries are replaced by those that were sent.
        """
        from flambeau.data.tensordict._distributed import leaves as d

        if hasattr(src, "recv"):  # a pipe
            src.recv(self)
            return 0
        rank = d.peer(src, group_src, group, "src") if src is not None or group_src is not None else None
        if consolidated:
            if rank is None:
                raise ValueError("recv(consolidated=True) needs the sender: pass `src`.")
            self.update(d.recv_whole(rank, group))
            return rank
        return d.recv(self, rank, group, d.Tags(init_tag, pseudo_rand))

    def isend(
        self,
        dst: int | None = None,
        *,
        group: Any = None,
        group_dst: int | None = None,
        init_tag: int = 0,
        pseudo_rand: bool = False,
        return_early: bool = False,
    ) -> Any:
        """As `send`, while both sides go on with other work.

        Args:
            dst: see `send`.
            group: see `send`.
            group_dst: see `send`.
            init_tag: see `send`.
            pseudo_rand: see `send`.
            return_early: return the list of works, to `wait()` for, instead of the last tag.
        """
        from flambeau.data.tensordict._distributed import leaves as d

        tags = d.Tags(init_tag, pseudo_rand)
        works = d.isend(self, d.peer(dst, group_dst, group, "dst"), group, tags)
        if return_early:
            return works
        for work in works:
            work.wait()
        return tags.last

    def irecv(
        self,
        src: int | None = None,
        *,
        group: Any = None,
        group_src: int | None = None,
        return_premature: bool = False,
        init_tag: int = 0,
        pseudo_rand: bool = False,
    ) -> Any:
        """As `recv`, with all messages underway at once.

        Args:
            src: see `send`.
            group: see `send`.
            group_src: see `send`.
            return_premature: return the list of works, to `wait()` for, instead of waiting here.
            init_tag: see `send`.
            pseudo_rand: see `send`.
        """
        from flambeau.data.tensordict._distributed import leaves as d

        rank = d.peer(src, group_src, group, "src")
        works = d.irecv(self, rank, group, d.Tags(init_tag, pseudo_rand))
        if return_premature:
            return works
        for work in works:
            work.wait()
        return None

    def init_remote(
        self,
        dst: int | None = None,
        group: Any = None,
        device: torch.device | None = None,
        use_broadcast: bool = False,
        _tensorclass_type: str | None = None,
    ) -> None:
        """Send structure and tensors to a process that calls `from_remote_init`.

        Args:
            dst: its rank.
            group: the process group.
            device: to send from, such as the GPU for nccl.
            use_broadcast: send to all processes of the group instead.
        """
        from flambeau.data.tensordict._distributed import leaves as d

        if use_broadcast:
            d.broadcast_whole(self, torch.distributed.get_rank(), group, device)
        elif dst is None:
            raise ValueError("init_remote needs the receiver: pass `dst`, or use_broadcast=True.")
        else:
            d.send_whole(self, dst, group, device)

    @classmethod
    def from_remote_init(
        cls, src: int, group: Any = None, device: torch.device | None = None, use_broadcast: bool = False
    ) -> Any:
        """The tensordict that another process sends with `init_remote`.

        Args:
            src: its rank.
            group: the process group.
            device: to receive on.
            use_broadcast: as the sender says.
        """
        from flambeau.data.tensordict._distributed import leaves as d

        if use_broadcast:
            return d.broadcast_whole(None, src, group, device)
        return d.recv_whole(src, group, device)

    remote_init = from_remote_init

    def broadcast(
        self, src: int, *, group: Any = None, device: torch.device | None = None, _tensorclass_type: str | None = None
    ) -> Self:
        """Give all processes the entries of one; what they have is replaced.

        Args:
            src: its rank.
            group: the process group.
            device: to send and receive on.
        """
        from flambeau.data.tensordict._distributed import leaves as d

        made = d.broadcast_whole(self, src, group, device)
        if made is not self:
            self.clear()
            self.update(made)
        return self

    def scatter(
        self, src: int, tensordicts: list[Any] | None = None, *, group: Any = None, device: torch.device | None = None
    ) -> Self:
        """Give every process its own of the tensordicts that one process has; the entries there are replaced.

        Args:
            src: rank of the process that has them.
            tensordicts: one for each process of the group, in order; there alone.
            group: the process group.
            device: to send and receive on.

        Raises:
            ValueError: not as many tensordicts as processes.
        """
        from flambeau.data.tensordict._distributed import leaves as d

        mine = d.scatter(src, tensordicts, group, device)
        self.clear()
        return self.update(mine)

    def gather_and_stack(self, dst: int, group: Any = None) -> Any:
        """The stack of all processes' tensordicts, in the process `dst`; None in the others.

        All have the same keys, shapes and dtypes. The new first dimension counts the processes.
        """
        from flambeau.data.tensordict._distributed import leaves as d

        return d.gather_and_stack(self, dst, group)

    def all_gather(self, *, group: Any = None) -> list[Any]:
        """The tensordicts of all processes, which have the same keys, shapes and dtypes."""
        from flambeau.data.tensordict._distributed import leaves as d

        return d.all_gather(self, group)

    def reduce(
        self, dst: int, op: Any = None, async_op: bool = False, return_premature: bool = False, group: Any = None
    ) -> Any:
        """Reduce every tensor over all processes into the process `dst`, in place.

        Args:
            dst: its rank.
            op: a `torch.distributed.ReduceOp`, by default the sum.
            async_op: have all leaves underway at once.
            return_premature: with `async_op`, return the works to `wait()` for.
            group: the process group.
        """
        from flambeau.data.tensordict._distributed import leaves as d

        return _finish(d.reduce_(self, dst, op, group, async_op), return_premature)

    def all_reduce(self, op: Any = None, *, group: Any = None, async_op: bool = False) -> Any:
        """Reduce every tensor over all processes, in place in each; with `async_op`, returns the works."""
        from flambeau.data.tensordict._distributed import leaves as d

        return _finish(d.reduce_(self, None, op, group, async_op), async_op)

    async def asend(self, dst: Any) -> None:
        """Send through a pipe: anything with the coroutines `asend(td)` and `arecv(td, device=)`."""
        await dst.asend(self)

    async def arecv(self, src: Any, *, device: Any = None) -> Any:
        """Receive through a pipe, see `asend`."""
        return await src.arecv(self, device=device)


def _finish(works: list[Any], early: bool) -> list[Any] | None:
    if early:
        return works
    for work in works:
        work.wait()
    return None
