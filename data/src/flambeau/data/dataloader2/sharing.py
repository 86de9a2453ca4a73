"""Seeds and shards for the workers of a loader that knows nothing of pipes."""

from __future__ import annotations

from typing import Any

from flambeau.data.dataloader2.graph import set_graph_random_seed
from flambeau.data.dataloader2.random import SeedGenerator
from flambeau.data.datapipes._graph import is_pipe, upstream
from flambeau.data.datapipes.iter.sharding import is_sharding


def shard_worker(worker_id: int) -> None:
    """Give a pipeline in a worker of torch's `DataLoader` the seeds that all workers share, and its shard.

    torch's loader does so itself as long as torch has classes of pipes. With this as `worker_init_fn` the loader of
    any release works: `DataLoader(pipe, num_workers=4, worker_init_fn=shard_worker)`. Ranks are counted where a process
    group is initialized; seed them alike (`torch.manual_seed`), for their orders have to agree.

    Args:
        worker_id: as the loader gives it.

    Raises:
        RuntimeError: called outside of a worker, or for a data set that is no pipe.
    """
    import torch.distributed as dist
    from torch.utils.data import get_worker_info

    info = get_worker_info()
    if info is None:
        raise RuntimeError("shard_worker is called by the loader in a worker: pass it as worker_init_fn.")
    ranks, rank = (dist.get_world_size(), dist.get_rank()) if dist.is_available() and dist.is_initialized() else (1, 0)
    share(info.dataset, info.num_workers * ranks, rank * info.num_workers + worker_id, info.seed - worker_id)


def share(pipe: Any, count: int, index: int, seed: int) -> None:
    """Shard a pipeline, and seed its random pipes: before a sharding the same for all shards, after it by shard."""
    if not is_pipe(pipe):
        raise RuntimeError(f"the data set of the loader is no pipe but {type(pipe).__name__}.")
    for one in upstream(pipe):
        if is_sharding(one):
            one.apply_sharding(count, index)
    set_graph_random_seed(pipe, SeedGenerator(seed % (1 << 64)).spawn(index))
