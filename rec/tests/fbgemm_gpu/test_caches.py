"""Tables with a cache: results are those of the same tables without one, bit for bit, and what is counted."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.rec.distributed.batched_embedding_kernel import BatchedFusedEmbeddingBag
from flambeau.rec.distributed.embedding_types import (
    EmbeddingComputeKernel,
    GroupedEmbeddingConfig,
    ShardedEmbeddingTable,
)
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType, SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    CacheAlgorithm,
    ComputeDevice,
    EmbeddingLocation,
    PoolingMode,
    SplitTableBatchedEmbeddingBagsCodegen,
    UVMCacheStatsIndex,
)
from flambeau.rec.fbgemm_gpu.tbe.cache.cache_config import MultiPassPrefetchConfig
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import RecordCacheMetrics
from flambeau.rec.modules.embedding_configs import DataType, PoolingType
from flambeau.rec.ops import _tbe_reference, tbe
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

CPU, HOST, CACHED = ComputeDevice.CPU, EmbeddingLocation.HOST, EmbeddingLocation.MANAGED_CACHING
SHAPES = ((90, 4), (40, 12), (70, 8))


def tables(places=(CACHED, HOST, CACHED), *, shapes=SHAPES, **options):
    made = SplitTableBatchedEmbeddingBagsCodegen(
        [(rows, dim, place, CPU) for (rows, dim), place in zip(shapes, places, strict=True)], **options
    )
    torch.manual_seed(0)
    for table in made.split_embedding_weights():
        table.copy_(torch.rand(table.shape) - 0.5)
    return made


def batch(seed, *, features=3, size=5, high=40, most=6):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, most, (features * size,), generator=generator)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    total = int(offsets[-1])
    return torch.randint(0, high, (total,), generator=generator), offsets, torch.rand(total, generator=generator)


def state_of(made):
    return [made.split_embedding_weights(), made.split_optimizer_states()]


def equal(ours, theirs):
    if isinstance(ours, torch.Tensor):
        return torch.equal(ours, theirs)
    return len(ours) == len(theirs) and all(equal(a, b) for a, b in zip(ours, theirs, strict=True))


@settings(max_examples=15, deadline=None)
@given(
    algorithm=st.sampled_from(CacheAlgorithm),
    sets=st.integers(1, 3),
    pipeline=st.booleans(),
    pooling=st.sampled_from(PoolingMode),
    weighted=st.booleans(),
    precision=st.sampled_from([SparseType.FP32, SparseType.FP16, SparseType.BF16]),
    optimizer=st.sampled_from(
        [EmbOptimType.EXACT_SGD, EmbOptimType.EXACT_ROWWISE_ADAGRAD, EmbOptimType.ADAM, EmbOptimType.LARS_SGD]
    ),
    depth=st.integers(0, 3),
    passes=st.sampled_from([None, MultiPassPrefetchConfig(3, 1)]),
    native=st.booleans(),
    rounded=st.booleans(),
)
def test_results_are_those_without_a_cache(
    algorithm, sets, pipeline, pooling, weighted, precision, optimizer, depth, passes, native, rounded
):
    shapes = ((90, 8), (40, 8), (70, 8)) if pooling == PoolingMode.NONE else SHAPES
    common = {
        "pooling_mode": pooling, "weights_precision": precision, "optimizer": optimizer, "shapes": shapes,
        "feature_table_map": [0, 1, 0, 2], "learning_rate": 0.1, "stochastic_rounding": rounded,
    }  # fmt: skip
    cached = tables(
        cache_algorithm=algorithm, cache_sets=sets, prefetch_pipeline=pipeline, multipass_prefetch_config=passes,
        gather_uvm_cache_stats=True, **common,
    )  # fmt: skip
    plain = tables((HOST, HOST, HOST), **common)
    batches = [batch(seed, features=4) for seed in range(6)]
    fetched = 0
    with pytest.MonkeyPatch.context() as patch:
        if not native:
            patch.setattr(tbe, "kernels", lambda tensor: _tbe_reference)
        for at, (indices, offsets, factors) in enumerate(batches):
            while depth and fetched < min(at + depth, len(batches)):
                cached.prefetch(batches[fetched][0], batches[fetched][1])
                fetched += 1
            outputs, slopes = [], []
            for made in (cached, plain):
                own = factors.clone().requires_grad_() if weighted else None
                output = made(indices, offsets, own)
                output.square().sum().backward()
                outputs.append(output.detach())
                slopes.append(None if own is None else own.grad)
            assert torch.equal(*outputs)
            assert not weighted or pooling == PoolingMode.NONE or torch.equal(*slopes)
    if pipeline and not depth:
        assert not cached.lxu_cache_locking_counter.any()
    assert equal(state_of(cached), state_of(plain))


def test_a_batch_whose_rows_were_driven_out_before_its_backward_pass_trains_them_where_they_are():
    cached, plain = tables(cache_sets=1), tables((HOST, HOST, HOST))
    for made in (cached, plain):
        first = made(*batch(0)[:2])
        second = made(*batch(1, high=40)[:2])
        first.sum().backward()
        second.sum().backward()
    assert equal(state_of(cached), state_of(plain))


def test_checkpoints_have_what_is_in_the_cache():
    made = tables(optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD, cache_sets=2)
    made(*batch(0)[:2]).sum().backward()
    assert int((made.lxu_cache_state >= 0).sum()) > 0
    kept = copy.deepcopy(made.state_dict())
    assert "lxu_cache_state" not in kept

    again = tables(optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD, cache_sets=2)
    again(*batch(1)[:2])  # so that its cache is full of other rows
    again.load_state_dict(kept)

    assert equal(state_of(again), state_of(made))
    assert torch.equal(again(*batch(0)[:2]), made(*batch(0)[:2]))


def test_what_is_written_into_tables_is_looked_up():
    made = tables(cache_sets=2)
    indices, offsets, _ = batch(0)
    made(indices, offsets).sum().backward()
    for table in made.split_embedding_weights():
        table.fill_(1.0)
    assert torch.equal(made(indices, offsets)[:, 0], offsets[: len(offsets) // 3 + 1].diff().float())


def test_flushing_writes_rows_back_and_leaves_them_in_the_cache():
    made = tables(cache_sets=2, learning_rate=1.0)
    before = made.weights_uvm.detach().clone()
    made(*batch(0)[:2]).sum().backward()
    in_cache = made.lxu_cache_state.clone()
    stale = made.weights_uvm.detach().clone()
    made.flush()
    assert torch.equal(made.lxu_cache_state, in_cache)
    assert not torch.equal(made.weights_uvm, stale)
    assert not torch.equal(stale[90 * 4 : 90 * 4 + 40 * 12], before[90 * 4 : 90 * 4 + 40 * 12])  # it has no cache


@pytest.mark.parametrize(
    ("options", "sets"),
    [({"cache_sets": 3}, 3), ({"cache_load_factor": 0.5}, 3), ({"cache_load_factor": 0.0}, 1), ({}, 1)],
)
def test_the_cache_has_the_sets_that_are_asked_for(options, sets):
    made = tables(**options)
    assert made.lxu_cache_state.shape == (sets, 32)
    assert made.lxu_cache_weights.shape == (sets * 32, 8)


def test_calls_are_counted():
    made = tables(gather_uvm_cache_stats=True, cache_sets=4)
    indices, offsets = torch.tensor([5, 5, 6, 1, 2, 3]), torch.tensor([0, 3, 4, 6])
    made(indices, offsets)
    stats = dict(zip([one.name for one in UVMCacheStatsIndex], made.get_uvm_cache_stats().tolist(), strict=True))
    assert stats == {
        "num_calls": 1, "num_requested_indices": 6, "num_unique_indices": 4, "num_unique_misses": 4,
        "num_conflict_unique_misses": 0, "num_conflict_misses": 0,
    }  # fmt: skip
    made(indices, offsets)
    assert made.get_uvm_cache_stats(use_local_cache=True).tolist() == [1, 6, 4, 0, 0, 0]
    assert made.get_uvm_cache_stats().tolist() == [2, 12, 8, 4, 0, 0]
    made.print_uvm_cache_stats()
    made.reset_uvm_cache_stats()
    assert not made.get_uvm_cache_stats().any()


def test_misses_are_recorded_by_batch_and_table():
    made = tables(record_cache_metrics=RecordCacheMetrics(True, True), cache_sets=4)
    for _ in range(2):
        made(torch.tensor([5, 5, 6, 1, 2, 3]), torch.tensor([0, 3, 4, 6]))
    assert made.get_cache_miss_counter().tolist() == [1, 4]
    assert made.get_table_wise_cache_miss().tolist() == [2, 0, 2]


def test_rows_of_batches_in_flight_stay_in_the_cache():
    made = tables((CACHED,), shapes=((90, 4),), cache_sets=1, prefetch_pipeline=True)
    ends = torch.tensor([0, 20])
    made.prefetch(torch.arange(20), ends)
    made.prefetch(torch.arange(20, 40), ends)
    assert set(range(20)) <= set(made.lxu_cache_state[0].tolist())
    assert int((made.lxu_cache_locking_counter > 0).sum()) == 32
    made(torch.arange(20), ends).sum().backward()
    assert int((made.lxu_cache_locking_counter > 0).sum()) == 12


def test_batches_that_are_only_read_are_let_go_of():
    made = tables((CACHED,), shapes=((90, 4),), cache_sets=1, prefetch_pipeline=True)
    with torch.no_grad():
        made(torch.arange(20), torch.tensor([0, 20]))
    assert not made.lxu_cache_locking_counter.any()


@pytest.mark.parametrize(
    "call",
    [lambda t: t.get_uvm_cache_stats(), lambda t: t.reset_uvm_cache_stats(), lambda t: t.print_uvm_cache_stats()],
)
def test_a_cache_that_counts_nothing_says_so(call):
    with pytest.raises(OptionError, match="construct tables with gather_uvm_cache_stats=True"):
        call(tables())


def test_batches_that_are_fetched_are_looked_up():
    made = tables()
    made.max_prefetch_depth = 2
    indices, offsets, _ = batch(0)
    made.prefetch(indices, offsets)
    made.prefetch(indices, offsets)
    with pytest.raises(RuntimeError, match="2 batches were fetched and not looked up"):
        made.prefetch(indices, offsets)


def test_kernels_of_sharded_tables_fetch_into_their_caches():
    def kernel(compute):
        tables = [
            ShardedEmbeddingTable(
                num_embeddings=rows, embedding_dim=8, name=f"t{at}", embedding_names=[f"f{at}"],
                feature_names=[f"f{at}"], data_type=DataType.FP32, pooling=PoolingType.SUM, local_rows=rows,
                local_cols=8, compute_kernel=compute, weight_init_min=-1.0, weight_init_max=1.0,
            )
            for at, rows in enumerate((90, 40))
        ]  # fmt: skip
        options = {"cache_load_factor": 0.1, "prefetch_pipeline": True, "learning_rate": 0.5}
        config = GroupedEmbeddingConfig(DataType.FP32, PoolingType.SUM, False, False, compute, tables, options)
        torch.manual_seed(0)
        return BatchedFusedEmbeddingBag(config, None, torch.device("cpu"))

    cached, plain = kernel(EmbeddingComputeKernel.FUSED_UVM_CACHING), kernel(EmbeddingComputeKernel.FUSED)
    batches = []
    for seed in range(4):
        indices, offsets, _ = batch(seed, features=2)
        batches.append(KeyedJaggedTensor(["f0", "f1"], indices, offsets=offsets))
    cached.prefetch(batches[0])
    for now, later in zip(batches, [*batches[1:], None], strict=True):
        if later is not None:
            cached.prefetch(later)
        outputs = [made(now) for made in (cached, plain)]
        assert torch.equal(*(output.detach() for output in outputs))
        for output in outputs:
            output.square().sum().backward()
    assert int((cached.emb_module.lxu_cache_state >= 0).sum()) > 0
    assert not cached.emb_module.lxu_cache_locking_counter.any()
    for mine, other in zip(cached.split_embedding_weights(), plain.split_embedding_weights(), strict=True):
        assert torch.equal(mine, other)
