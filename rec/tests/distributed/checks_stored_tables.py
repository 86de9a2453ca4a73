"""Checks that sharded models whose tables are on disk compute, train and are saved as those in memory."""

from __future__ import annotations

import copy

import numpy as np
import torch
from checks_training import CPU, KERNELS, Trained, env, local
from models import bag_tables, bags, batch, plan, sequence_tables, sequences
from processes import World
from torch.distributed._shard.sharded_tensor import ShardedTensor

from flambeau.rec.distributed.batched_embedding_kernel import KeyValueEmbeddingBag, ZeroCollisionKeyValueEmbeddingBag
from flambeau.rec.distributed.embedding import EmbeddingCollectionSharder
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.shard import shard
from flambeau.rec.fbgemm_gpu.tbe.ssd.utils.partially_materialized_tensor import PartiallyMaterializedTensor

KINDS = ["table_wise", "row_wise", "column_wise"]


def parts(tensor) -> list[torch.Tensor]:
    """Of a tensor, those here, in memory."""
    here = [one.tensor for one in tensor.local_shards()] if isinstance(tensor, ShardedTensor) else [tensor]
    return [one.full_tensor() if isinstance(one, PartiallyMaterializedTensor) else one for one in here]


def assert_equal(stored: dict, held: dict, what: str) -> None:
    assert set(stored) == set(held), what
    for name, tensor in held.items():
        for mine, other in zip(parts(stored[name]), parts(tensor), strict=True):
            assert torch.equal(mine, other), f"{what}: {name}"


def check_tables_on_disk_train_as_those_in_memory(world: World):
    for kind in KINDS:
        held, stored = Trained([kind], world), Trained([kind], world, kernel="key_value")
        kernels = [one for one in stored.model.modules() if isinstance(one, KeyValueEmbeddingBag)]
        kernels += [kernel for lookup in stored.model.module.bags._lookups for kernel in lookup._emb_modules]
        assert all(isinstance(one, KeyValueEmbeddingBag) for one in kernels)
        for step in range(6):
            assert stored.step(world.rank, step) == held.step(world.rank, step), f"{kind}, step {step}"
        assert_equal(stored.model.state_dict(), held.model.state_dict(), kind)
        mine, other = stored.optimizer.state_dict()["state"], held.optimizer.state_dict()["state"]
        for name in other:
            assert_equal(mine[name], other[name], f"{kind}: {name}")


def check_states_of_tables_on_disk_are_loaded(world: World):
    for kind in KINDS:
        stored, other = (Trained([kind], world, seed, kernel="key_value") for seed in (0, 5))
        for step in range(4):
            stored.step(world.rank, step)
        other.model.load_state_dict(stored.model.state_dict())
        other.optimizer.load_state_dict(stored.optimizer.state_dict())
        assert_equal(other.model.state_dict(), stored.model.state_dict(), kind)
        for step in range(4, 7):
            assert other.step(world.rank, step) == stored.step(world.rank, step), f"{kind}, step {step}"


def _virtual(world: World, kernel: str):
    """Bags whose tables are virtual, and such in memory that begin with the same rows."""
    made = {}
    for name in (kernel, "fused"):
        collection = bags()
        placing = plan(["row_wise"], bag_tables(), world.size, local(world), kernel=name)
        sharder = EmbeddingBagCollectionSharder(fused_params=dict(KERNELS))
        made[name] = sharder.shard(collection, placing, env(), CPU)
    stored, held = made[kernel], made["fused"]
    for mine, other in zip(stored._kernels(), held._kernels(), strict=True):
        assert isinstance(mine, ZeroCollisionKeyValueEmbeddingBag)
        for table, weight in enumerate(other.split_embedding_weights()):
            ids = np.arange(len(weight))
            weight.copy_(torch.from_numpy(mine.emb_module.tables.initial_rows(table, ids)))
    return stored, held


def check_virtual_tables_train_as_those_in_memory_and_hold_only_ids_that_came_up(world: World):
    for kernel in ("ssd_virtual_table", "dram_virtual_table", "dram_ssd_virtual_table"):
        stored, held = _virtual(world, kernel)
        for step in range(5):
            given = batch(world.rank, step)
            outputs = [module(given).values() for module in (stored, held)]
            assert torch.equal(*outputs), f"{kernel}, step {step}"
            for output in outputs:
                output.square().sum().backward()
        state, wanted = stored.state_dict(), held.state_dict()
        for table in bag_tables():
            name = f"embedding_bags.{table.name}"
            begin = wanted[f"{name}.weight"].local_shards()[0].metadata.shard_offsets[0]
            (rows,), (ids,) = parts(state[f"{name}.weight"]), parts(state[f"{name}.weight_id"])
            assert len(rows) == len(ids) == int(parts(state[f"{name}.bucket"])[0].sum())
            (whole,) = parts(wanted[f"{name}.weight"])
            assert torch.equal(rows, whole[ids.view(-1) - begin]), f"{kernel}: {name}"
            assert state[f"{name}.weight"].size(0) == state[f"{name}.weight_id"].size(0)

        # Loaded by tables that begin otherwise, the ids that came up have the same rows.
        again, _ = _virtual(world, kernel)
        again.load_state_dict(copy.copy(state))
        loaded = again.state_dict()
        for name, tensor in state.items():
            assert all(torch.equal(one, other) for one, other in zip(parts(loaded[name]), parts(tensor), strict=True))


def check_sequences_of_tables_on_disk_are_those_in_memory(world: World):
    found = {}
    for kernel in ("key_value", "fused"):
        placing = plan(["row_wise", "table_wise"], sequence_tables(), world.size, local(world), kernel=kernel)
        sharder = EmbeddingCollectionSharder(fused_params=dict(KERNELS))
        module = sharder.shard(sequences(), placing, env(), CPU)
        for step in range(3):
            output = module(batch(world.rank, step))
            sum(one.values().square().sum() for one in output.values()).backward()
        found[kernel] = [one.values() for one in module(batch(world.rank, 9)).values()]
    assert all(torch.equal(one, other) for one, other in zip(*found.values(), strict=True))


def check_a_table_of_any_size_is_sharded_in_no_time(world: World):
    from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig
    from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection

    tables = [EmbeddingBagConfig(num_embeddings=10**9, embedding_dim=32, name="t", feature_names=["f1"])]
    placing = plan(["row_wise"], tables, world.size, local(world), kernel="key_value")
    made = shard(EmbeddingBagCollection(tables, device=torch.device("meta")), placing, env(), CPU)
    from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

    ids = torch.tensor([0, 10**9 - 1, 5 * 10**8])
    output = made(KeyedJaggedTensor(["f1"], ids, lengths=torch.tensor([1, 2])))
    assert output.values().shape == (2, 32) and output.values().abs().max() <= 2 * (1 / 10**9) ** 0.5
    assert made.state_dict()["embedding_bags.t.weight"].size(0) == 10**9
