"""Tables on disk train as tables in memory do, to the bit, and larger than any memory."""

from __future__ import annotations

import gc
import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType, SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    BoundsCheckMode,
    ComputeDevice,
    EmbeddingLocation,
    PoolingMode,
    SplitTableBatchedEmbeddingBagsCodegen,
    WeightDecayMode,
)
from flambeau.rec.fbgemm_gpu.tbe.config.optimizer_config import CounterBasedRegularizationDefinition
from flambeau.rec.fbgemm_gpu.tbe.ssd import SSDTableBatchedEmbeddingBags
from flambeau.rec.fbgemm_gpu.tbe.ssd.utils.partially_materialized_tensor import PartiallyMaterializedTensor

SPECS = [(1000, 8), (50, 8), (400, 12)]
FEATURES = [0, 1, 2, 0]
EVERY_OPTIMIZER = [
    EmbOptimType.EXACT_SGD, EmbOptimType.EXACT_ADAGRAD, EmbOptimType.EXACT_ROWWISE_ADAGRAD, EmbOptimType.ADAM,
    EmbOptimType.PARTIAL_ROWWISE_ADAM, EmbOptimType.LAMB, EmbOptimType.PARTIAL_ROWWISE_LAMB, EmbOptimType.LARS_SGD,
]  # fmt: skip


def on_disk(folder, specs=SPECS, features=FEATURES, cache_sets=10, **options):
    torch.manual_seed(0)
    return SSDTableBatchedEmbeddingBags(specs, features, cache_sets, str(folder), **options)


def in_memory(stored, features=FEATURES, **options):
    specs = [(*spec, EmbeddingLocation.HOST, ComputeDevice.CPU) for spec in stored.embedding_specs]
    made = SplitTableBatchedEmbeddingBagsCodegen(specs, features, **options)
    for mine, theirs in zip(made.split_embedding_weights(), stored.debug_split_embedding_weights(), strict=True):
        mine.copy_(theirs)
    return made


def batch(step, specs=SPECS, features=FEATURES, size=20):
    torch.manual_seed(100 + step)
    lengths = torch.randint(0, 4, (len(features) * size,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    of_feature = torch.repeat_interleave(torch.arange(len(features) * size) // size, lengths)
    rows = torch.tensor([specs[table][0] for table in features])[of_feature]
    return (torch.rand(len(of_feature)) * rows).long(), offsets


def full(state):
    return state.full_tensor() if isinstance(state, PartiallyMaterializedTensor) else state


def assert_same(stored, held):
    for mine, theirs in zip(stored.debug_split_embedding_weights(), held.split_embedding_weights(), strict=True):
        assert torch.equal(mine, theirs)
    kept = [states for states in stored.split_optimizer_states() if states]
    for mine, theirs in zip(kept, held.split_optimizer_states(), strict=True):
        assert all(torch.equal(full(one), other) for one, other in zip(mine, theirs, strict=True))


@pytest.mark.parametrize("optimizer", EVERY_OPTIMIZER, ids=str)
def test_every_optimizer_does_what_it_does_in_memory(tmp_path, optimizer):
    stored = on_disk(tmp_path, optimizer=optimizer)
    held = in_memory(stored, optimizer=optimizer)
    for step in range(25):
        outputs = [table(*batch(step)) for table in (stored, held)]
        assert torch.equal(*outputs)
        gradient = torch.randn_like(outputs[0])
        for output in outputs:
            output.backward(gradient)
    assert stored.tables.counts.evicted > 0, "the cache was never too small: nothing was tested"
    assert_same(stored, held)


@pytest.mark.parametrize(
    "options",
    [
        {"pooling_mode": PoolingMode.MEAN},
        {"gradient_clipping": True, "max_gradient": 0.1},
        {"weight_decay": 0.1, "weight_decay_mode": WeightDecayMode.L2},
        {"max_norm": 0.01},
        {
            "weight_decay": 0.1,
            "weight_decay_mode": WeightDecayMode.COUNTER,
            "counter_based_regularization": CounterBasedRegularizationDefinition(),
        },
        {"weights_precision": SparseType.FP16, "stochastic_rounding": False},
        {"weights_precision": SparseType.BF16, "stochastic_rounding": False, "output_dtype": SparseType.BF16},
    ],
    ids=lambda options: "-".join(options),
)
def test_every_option_does_what_it_does_in_memory(tmp_path, options):
    options |= {"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD}
    stored = on_disk(tmp_path, **options)
    held = in_memory(stored, **options)
    for step in range(10):
        outputs = [table(*batch(step)) for table in (stored, held)]
        gradient = torch.randn_like(outputs[0])
        for output in outputs:
            output.backward(gradient)
    assert_same(stored, held)


def test_weights_of_bags_and_features_without_training_are_as_in_memory(tmp_path):
    stored = on_disk(tmp_path)
    held = in_memory(stored, optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD)
    indices, offsets = batch(0)
    weights = [torch.rand(len(indices), generator=torch.Generator().manual_seed(1)).requires_grad_() for _ in range(2)]
    wanted = torch.tensor([1, 0, 1, 0])
    for table, of_bags in zip((stored, held), weights, strict=True):
        table(indices, offsets, per_sample_weights=of_bags, feature_requires_grad=wanted).square().sum().backward()
    assert torch.equal(weights[0].grad, weights[1].grad)
    assert_same(stored, held)


def test_processes_may_bring_batches_of_different_sizes(tmp_path):
    stored = on_disk(tmp_path, features=[0, 2])
    held = in_memory(stored, [0, 2], optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD)
    sizes = [[1, 2], [1, 0]]
    indices, offsets = torch.tensor([1, 2, 3, 4]), torch.tensor([0, 1, 2, 3, 4])
    outputs = [table(indices, offsets, batch_size_per_feature_per_rank=sizes) for table in (stored, held)]
    assert torch.equal(*outputs)
    whole, places = torch.zeros(50), torch.tensor([[0, 30], [10, 49]])
    written = stored(
        indices, offsets, batch_size_per_feature_per_rank=sizes, vbe_output=whole, vbe_output_offsets=places
    )
    assert torch.equal(written[:8], outputs[0][:8]) and torch.equal(written[30:42], outputs[0][8:20])
    assert torch.equal(written[10:26], outputs[0][20:])


@pytest.mark.parametrize("order", ["late", "twice", "never", "interleaved"])
def test_a_backward_pass_may_come_late_or_twice_or_never(tmp_path, order):
    stored = on_disk(tmp_path, cache_sets=1)
    held = in_memory(stored, optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD)
    for table in (stored, held):
        first = table(*batch(0)).square().sum()
        second = table(*batch(1)).square().sum()
        for step in range(2, 6):  # the rows of the first batch leave the cache
            table(*batch(step))
        match order:
            case "late":
                first.backward()
            case "twice":
                first.backward(retain_graph=True)
                table(*batch(7)).sum().backward()
                first.backward()
            case "interleaved":
                second.backward()
                first.backward()
    assert_same(stored, held)


def test_fetching_rows_ahead_changes_nothing(tmp_path):
    stored = on_disk(tmp_path)
    held = in_memory(stored, optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD)
    for step in range(10):
        outputs = [table(*batch(step)) for table in (stored, held)]
        stored.prefetch(*batch(step + 1))
        for output in outputs:
            output.sum().backward()
        misses = stored.tables.counts.misses
    stored(*batch(10))
    assert stored.tables.counts.misses == misses
    assert_same(stored, held)


def test_a_table_takes_no_space_before_it_is_trained_and_little_after(tmp_path):
    stored = on_disk(tmp_path, [(10**9, 64)], [0])
    indices = torch.randint(0, 10**9, (100,))
    stored(indices, torch.arange(101)).sum().backward()
    stored.checkpoint()
    taken = sum(path.stat().st_blocks * 512 for path in stored.folder.iterdir() if path.suffix == ".rows")
    assert 100 * 256 <= taken <= 100 * 3 * 4096 * 4


def test_initial_rows_are_uniform_and_the_same_however_they_are_asked_for(tmp_path):
    stored = on_disk(tmp_path, [(20000, 5)], [0], ssd_uniform_init_lower=-2.0, ssd_uniform_init_upper=1.0)
    table = stored.split_embedding_weights()[0][0]
    whole = table.full_tensor()
    assert torch.equal(table.narrow(0, 777, 3), whole[777:780])
    assert -2 <= whole.min() < -1.99 and 0.99 < whole.max() < 1
    assert abs(float(whole.mean()) + 0.5) < 0.01 and abs(float(whole.std()) - 3 / 12**0.5) < 0.01
    assert len(whole.unique()) > 0.99 * whole.numel()


def test_the_cache_grows_where_a_batch_needs_more_rows_and_says_so(tmp_path, caplog):
    stored = on_disk(tmp_path, [(1000, 4)], [0], cache_sets=1)
    held = in_memory(stored, [0], optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD)
    indices, offsets = torch.arange(500), torch.arange(501)
    for table in (stored, held):
        table(indices, offsets).sum().backward()
    assert "needs 500 rows" in caplog.text
    assert_same(stored, held)


@pytest.mark.parametrize("mode", [BoundsCheckMode.FATAL, BoundsCheckMode.WARNING, BoundsCheckMode.IGNORE])
def test_stray_indices_are_found_before_any_row_is_fetched(tmp_path, mode):
    stored = on_disk(tmp_path, [(10, 4)], [0], bounds_check_mode=mode, table_names=["users"])
    indices, offsets = torch.tensor([3, 10]), torch.tensor([0, 1, 2])
    if mode == BoundsCheckMode.FATAL:
        with pytest.raises(RuntimeError, match="10 at 1, for feature 0 of users with 10 rows"):
            stored(indices, offsets)
    else:
        assert torch.equal(stored(indices, offsets)[1], stored.debug_split_embedding_weights()[0][0])


def test_tables_are_written_and_read_in_parts_as_tensors(tmp_path):
    stored = on_disk(tmp_path, [(300, 6)], [0])
    table = stored.split_embedding_weights()[0][0]
    new = torch.randn(300, 6)
    stored(torch.arange(40), torch.arange(41))  # some rows are cached
    table.copy_(new)
    assert table.shape == (300, 6) and table.dtype == torch.float32 and table.numel() == 1800
    assert torch.equal(torch.narrow(table, 0, 30, 20), new[30:50])
    assert torch.equal(stored(torch.arange(300), torch.arange(301)), new)
    assert bool(torch.isclose(table, new).all()) and bool((table == new).all())
    with pytest.raises(ValueError, match="rows 290 to 310"):
        table.narrow(0, 290, 20)
    with pytest.raises(ValueError, match="dim is 1"):
        table.narrow(1, 0, 2)
    with pytest.raises(ValueError, match="shape"):
        table.copy_(torch.zeros(3, 3))


def test_rows_are_overwritten_by_batch_and_by_number(tmp_path):
    stored = on_disk(tmp_path, [(10, 2), (10, 3)], [0, 1])
    stored.direct_write_embedding(
        torch.tensor([1, 1, 4]), torch.tensor([0, 2, 3]), torch.tensor([[1.0, 1, 0], [2, 2, 0], [3, 3, 3]])
    )
    first, second = stored.debug_split_embedding_weights()
    assert first[1].tolist() == [2, 2] and second[4].tolist() == [3, 3, 3]
    stored.evict(
        torch.tensor([[5.0, 5, 5], [6, 6, 6]]), torch.tensor([12, -1]), torch.tensor([2]), None, None, None, False
    )
    assert stored.debug_split_embedding_weights()[1][2].tolist() == [5, 5, 5]
    rows, cached = stored.fetch_from_l1_sp_w_row_ids(torch.tensor([12, 1]))
    assert not cached.any() and not rows[0].any()
    stored(torch.tensor([1, 2]), torch.tensor([0, 1, 2]))
    rows, cached = stored.fetch_from_l1_sp_w_row_ids(torch.tensor([12, 1, 3]))
    assert cached.tolist() == [True, True, False]
    assert rows[0].tolist() == [[5, 5, 5], [2, 2, 0], [0, 0, 0]]


def test_files_without_a_number_go_with_their_module(tmp_path):
    stored = on_disk(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    del stored
    gc.collect()
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked there")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_files_stay_when_a_forked_process_ends(tmp_path):
    stored = on_disk(tmp_path)
    child = os.fork()
    if not child:
        stored._closing()  # as when the module, or the process, comes to its end there
        os._exit(0)
    os.waitpid(child, 0)
    assert len(list(tmp_path.iterdir())) == 1
    stored._closing()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": EmbOptimType.SHAMPOO}, "SHAMPOO does not train"),
        ({"cache_sets": 0}, "cache_sets is 0"),
        ({"optimizer": EmbOptimType.NONE}, "NONE does not train"),
        ({"weight_decay_mode": WeightDecayMode.DECOUPLE_GLOBAL}, "DECOUPLE_GLOBAL"),
        ({"ps_hosts": (("host", 1),)}, "other machines"),
        ({"weight_decay_mode": WeightDecayMode.COUNTER}, "counter_based_regularization goes with"),
        ({"optimizer_state_dtypes": {"momentum1": SparseType.FP16}}, "FP32"),
        ({"features": [0, 7]}, "feature_table_map"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_options_that_do_not_fit_are_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        on_disk(tmp_path, **options)
    assert not list(tmp_path.iterdir())


@settings(max_examples=25)
@given(
    steps=st.lists(st.sampled_from(["train", "look", "prefetch", "flush", "clear", "checkpoint"]), max_size=12),
    cache_sets=st.integers(1, 4),
)
def test_whatever_is_called_in_between_tables_are_as_in_memory(tmp_path_factory, steps, cache_sets):
    specs, features = [(60, 4), (30, 4), (40, 2)], [2, 0, 1]
    stored = on_disk(tmp_path_factory.mktemp("tables"), specs, features, cache_sets)
    held = in_memory(stored, features, optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD)
    for number, step in enumerate(steps):
        given = batch(number, specs, features, size=6)
        match step:
            case "train":
                for table in (stored, held):
                    table(*given).square().sum().backward()
            case "look":
                with torch.no_grad():
                    assert torch.equal(stored(*given), held(*given))
            case "prefetch":
                stored.prefetch(*given)
            case "flush":
                stored.flush()
            case "clear":
                stored.clear_cache()
            case "checkpoint":
                stored.checkpoint()
    assert_same(stored, held)
    stored.close()
