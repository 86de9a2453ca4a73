"""One process of `test_distributed.py`: runs one scenario and exits with 0 if everything arrived."""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist

from flambeau.data.tensordict import LazyStackedTensorDict, NonTensorData, TensorDict


def sample(value: float) -> TensorDict:
    ragged = LazyStackedTensorDict(TensorDict(r=torch.full((2,), value)), TensorDict(r=torch.full((3,), value)))
    data = {"z": torch.full((2, 3), value), "n": {"b": torch.full((2,), int(value)), "a": torch.full((2,), value)}}
    return TensorDict({**data, "l": ragged, "s": NonTensorData("text", batch_size=[2])}, batch_size=[2])


def holds(td, value: float) -> bool:
    parts = [td["z"], td["n", "a"], td["n", "b"], td["l"][0]["r"], td["l"][1]["r"]]
    return all(bool((part == value).all()) for part in parts) and td["s"] == "text"


def send_recv(rank: int, **options) -> bool:
    if rank == 0:
        sample(3.0).send(1, **options)
        return True
    td = sample(0.0)
    return td.recv(0, **options) == 0 and holds(td, 3.0)


def isend_irecv(rank: int) -> bool:
    if rank == 0:
        for work in sample(4.0).isend(1, return_early=True):
            work.wait()
        return True
    td = sample(0.0)
    works = td.irecv(0, return_premature=True)
    for work in works:
        work.wait()
    return len(works) == 5 and holds(td, 4.0)


def scatter(rank: int) -> bool:
    td = TensorDict(old=torch.zeros(1))
    td.batch_size = []
    td.scatter(0, [TensorDict(x=torch.zeros(2)), TensorDict(x=torch.ones(3))] if rank == 0 else None)
    return list(td.keys()) == ["x"] and bool((td["x"] == rank).all()) and len(td["x"]) == 2 + rank


def non_contiguous(rank: int) -> bool:
    if rank == 0:
        TensorDict(a=torch.arange(6.0).reshape(2, 3).T).send(1)
        return True
    td = TensorDict(a=torch.zeros(2, 3).T)
    td.recv(0)
    return bool((td["a"] == torch.arange(6.0).reshape(2, 3).T).all())


def remote_init(rank: int) -> bool:
    if rank == 0:
        sample(5.0).init_remote(1)
        return True
    td = TensorDict.from_remote_init(0)
    return holds(td, 5.0) and list(td.keys()) == ["z", "n", "l", "s"] and not td.is_locked


def remote_init_broadcast(rank: int) -> bool:
    if rank == 0:
        sample(5.0).init_remote(use_broadcast=True)
        return True
    return holds(TensorDict.from_remote_init(0, use_broadcast=True), 5.0)


def broadcast(rank: int) -> bool:
    td = sample(6.0) if rank == 0 else TensorDict({}, batch_size=[2])
    return holds(td.broadcast(0), 6.0)


def gather_and_stack(rank: int) -> bool:
    td = TensorDict({"b": torch.full((2,), float(rank)), "a": {"c": torch.full((2, 2), rank)}}, batch_size=[2])
    out = td.gather_and_stack(0)
    if rank:
        return out is None
    return out.batch_size == (2, 2) and out["b"].tolist() == [[0, 0], [1, 1]] and out["a", "c"][1].unique().item() == 1


def all_gather(rank: int) -> bool:
    out = TensorDict(a=torch.tensor([float(rank)])).all_gather()
    return [td["a"].item() for td in out] == [0.0, 1.0]


def reductions(rank: int) -> bool:
    td = TensorDict(a=torch.full((2, 2), float(rank + 1)).T, b={"c": torch.tensor(rank + 1)})
    td.reduce(0)
    right = rank != 0 or (td["a"].unique().item() == 3 and td["b", "c"].item() == 3)
    every = TensorDict(a=torch.tensor([float(rank + 1)]))
    every.all_reduce(dist.ReduceOp.MAX)
    for work in every.all_reduce(async_op=True):
        work.wait()
    return right and every["a"].item() == 4


SCENARIOS = {
    "send_recv": send_recv,
    "send_recv_random_tags": lambda rank: send_recv(rank, pseudo_rand=True, init_tag=7),
    "send_recv_consolidated": lambda rank: send_recv(rank, consolidated=True),
    "isend_irecv": isend_irecv,
    "non_contiguous": non_contiguous,
    "scatter": scatter,
    "remote_init": remote_init,
    "remote_init_broadcast": remote_init_broadcast,
    "broadcast": broadcast,
    "gather_and_stack": gather_and_stack,
    "all_gather": all_gather,
    "reductions": reductions,
}


def main() -> int:
    rank, store = int(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    failed = []
    for name, scenario in SCENARIOS.items():
        if not scenario(rank):
            failed.append(name)
        dist.barrier()
    dist.destroy_process_group()
    print(" ".join(failed))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
