"""Options of tables that are trained: averages, states of sixteen bits, decay, outputs in place, rows written once."""

from __future__ import annotations

import inspect

import pytest
import torch

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType, SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    EmbeddingLocation,
    PoolingMode,
    SplitTableBatchedEmbeddingBagsCodegen,
    WeightDecayMode,
)
from flambeau.rec.fbgemm_gpu.tbe.config.optimizer_config import (
    CounterBasedRegularizationDefinition,
    EmainplaceModeDefinition,
    EnsembleModeDefinition,
    GlobalWeightDecayDefinition,
    StepMode,
    UserEnabledConfigDefinition,
)
from flambeau.rec.ops import _tbe_reference, tbe
from flambeau.rec.ops._tbe_rows import by_chance

HOST, CPU = EmbeddingLocation.HOST, ComputeDevice.CPU
ROWWISE = EmbOptimType.EXACT_ROWWISE_ADAGRAD


def tables(*shapes, **options):
    torch.manual_seed(0)
    made = SplitTableBatchedEmbeddingBagsCodegen([(r, d, HOST, CPU) for r, d in shapes], **options)
    made.init_embedding_weights_uniform(-1, 1)
    return made


def step(made, *rows):
    indices = torch.tensor(rows)
    output = made(indices, torch.arange(len(rows) + 1))
    output.sum().backward()
    return output.detach()


def test_arguments_are_in_upstreams_order():
    names = list(inspect.signature(SplitTableBatchedEmbeddingBagsCodegen).parameters)
    assert names[:6] == [
        "embedding_specs", "feature_table_map", "cache_algorithm", "cache_load_factor", "cache_sets",
        "cache_reserved_memory",
    ]  # fmt: skip
    assert names[-2:] == ["is_qr_tbe", "preallocated_host_buffers"]
    assert len(names) == 50


# ----- averages -------------------------------------------------------------------------------------------------------


def test_averages_begin_as_copies_and_take_the_place_of_tables():
    mode = EnsembleModeDefinition(step_ema=1, step_swap=2, step_start=1, step_ema_coef=0.75)
    made = tables((3, 4), optimizer=EmbOptimType.ENSEMBLE_ROWWISE_ADAGRAD, ensemble_mode=mode)
    first = made.split_embedding_weights()[0].clone()
    step(made, 0)  # the average is taken before the step
    (average,) = (state["sparse_ema"] for state in made.get_optimizer_state())
    assert torch.equal(average, first)
    trained = made.split_embedding_weights()[0].clone()
    expected = torch.lerp(first, trained, 0.25)
    with torch.no_grad():
        made(torch.tensor([0]), torch.tensor([0, 1]))
    torch.testing.assert_close(made.split_embedding_weights()[0], expected)
    torch.testing.assert_close(average, expected)


def test_averages_that_are_not_kept_cannot_be_swapped():
    with pytest.raises(OptionError, match="EXACT_SGD keeps no averages"):
        tables((3, 4)).ensemble_and_swap({"step_ema": 1.0})
    with pytest.raises(OptionError, match="averages go by steps"):
        tables(
            (3, 4), optimizer=EmbOptimType.ENSEMBLE_ROWWISE_ADAGRAD,
            ensemble_mode=EnsembleModeDefinition(step_mode=StepMode.USE_COUNTER),
        )  # fmt: skip


def test_rows_that_average_themselves_have_two_halves():
    options = {"optimizer": EmbOptimType.EMAINPLACE_ROWWISE_ADAGRAD}
    made = tables((3, 4), **options, emainplace_mode=EmainplaceModeDefinition(1, 0, 1.0))
    step(made, 1)
    table = made.split_embedding_weights()[0]
    assert torch.equal(table[0, :2], table[0, 2:])
    with pytest.raises(OptionError, match="averages halves of rows"):
        tables((3, 5), **options)


# ----- states and decay -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SparseType.FP16, SparseType.BF16])
def test_states_of_sixteen_bits_are_rounded_ones(kind):
    options = {"optimizer": EmbOptimType.ADAM, "learning_rate": 0.1}
    made = tables((5, 4), **options, optimizer_state_dtypes={"momentum1": kind, "momentum2": kind})
    whole = tables((5, 4), **options)
    for one in (made, whole):
        step(one, 1, 2, 1)
    assert {state.dtype for state in made.split_optimizer_states()[0]} == {kind.as_dtype()}
    for mine, exact in zip(made.split_optimizer_states()[0], whole.split_optimizer_states()[0], strict=True):
        torch.testing.assert_close(mine, exact.to(kind.as_dtype()))
    torch.testing.assert_close(made.split_embedding_weights()[0], whole.split_embedding_weights()[0])


@pytest.mark.parametrize("native", [True, False])
def test_averages_of_rows_are_corrected_by_their_own_steps(native, monkeypatch):
    if not native:
        monkeypatch.setattr(tbe, "kernels", lambda tensor: _tbe_reference)
    extra = UserEnabledConfigDefinition(use_rowwise_bias_correction=True)
    made = tables((5, 4), optimizer=EmbOptimType.ADAM, learning_rate=0.1, extra_optimizer_config=extra)
    for _ in range(3):
        step(made, 0)
    before = made.split_embedding_weights()[0][1].clone()
    step(made, 1)
    # Its first step, whichever the tables': Adam's first goes by the learning rate.
    torch.testing.assert_close(made.split_embedding_weights()[0][1], before - 0.1)
    assert made.get_optimizer_state()[0]["row_counter"].tolist() == [3, 1, 0, 0, 0]


@pytest.mark.parametrize("native", [True, False])
def test_rows_make_up_for_decay_when_they_are_looked_up(native, monkeypatch):
    if not native:
        monkeypatch.setattr(tbe, "kernels", lambda tensor: _tbe_reference)
    made = tables(
        (5, 4), optimizer=ROWWISE, weight_decay_mode=WeightDecayMode.DECOUPLE_GLOBAL, weight_decay=0.5,
        learning_rate=0.1, global_weight_decay=GlobalWeightDecayDefinition(start_iter=0, lower_bound=0.1),
    )  # fmt: skip
    step(made, 0)
    row = made.split_embedding_weights()[0][0].clone()
    for _ in range(3):
        step(made, 1)
    torch.testing.assert_close(step(made, 0)[0], row * 0.95**3)
    made.eval()
    made.set_optimizer_step(100)
    assert torch.equal(step(made, 1)[0].isfinite(), torch.ones(4, dtype=torch.bool))


def test_missed_decay_has_a_bound_and_a_beginning():
    options = {
        "optimizer": ROWWISE, "weight_decay_mode": WeightDecayMode.DECOUPLE_GLOBAL, "weight_decay": 0.5,
        "learning_rate": 1.0,
    }  # fmt: skip
    bounded = tables((5, 4), **options, global_weight_decay=GlobalWeightDecayDefinition(0, 0.4))
    late = tables((5, 4), **options, global_weight_decay=GlobalWeightDecayDefinition(50, 0.4))
    for made, kept in ((bounded, 0.4), (late, 1.0)):
        step(made, 0)
        row = made.split_embedding_weights()[0][0].clone()
        for _ in range(5):
            step(made, 1)
        torch.testing.assert_close(step(made, 0)[0], row * kept)


def test_the_largest_count_is_found_out_every_so_often():
    counters = CounterBasedRegularizationDefinition(max_counter_update_freq=2)
    made = tables(
        (5, 4), optimizer=ROWWISE, weight_decay_mode=WeightDecayMode.COUNTER, counter_based_regularization=counters
    )
    for _ in range(4):
        step(made, 0)
    assert float(made.max_counter) == 4  # as of before the fourth step, and one more


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_by_chance_is_that_of_the_kernels_and_right_on_average(dtype, monkeypatch):
    precision = SparseType.from_dtype(dtype)
    found = []
    for serving in (None, _tbe_reference):
        with monkeypatch.context() as patch:
            if serving is not None:
                patch.setattr(tbe, "kernels", lambda tensor, serving=serving: serving)
            made = tables((40, 16), weights_precision=precision, learning_rate=1e-3)
            for at in range(3):
                step(made, *range(at, 40))
            found.append(made.split_embedding_weights()[0].clone())
    assert torch.equal(*found)
    values = torch.full((4000, 1), 1.0 + 2**-12)
    mean = by_chance(values, dtype, 5, torch.arange(4000).unsqueeze(1)).double().mean()
    assert abs(float(mean) - float(values[0])) < 2e-4


# ----- without an optimizer, and into memory that is there ------------------------------------------------------------


@pytest.mark.parametrize("pooling", [PoolingMode.SUM, PoolingMode.NONE])
def test_without_an_optimizer_the_gradient_has_the_rows_that_were_looked_up(pooling):
    made = tables((5, 4), (3, 4), optimizer=EmbOptimType.NONE, pooling_mode=pooling)
    made(torch.tensor([1, 1, 4, 2]), torch.tensor([0, 2, 3, 4, 4])).sum().backward()
    gradient = made.weights_host.grad
    assert gradient.is_sparse
    assert gradient.shape == (8, 4)
    assert gradient.coalesce().indices().tolist() == [[1, 4, 7]]
    assert gradient.to_dense().sum(1).tolist() == [0, 8, 0, 0, 4, 0, 0, 4]


def test_several_modules_write_into_one_output():
    sizes = [[1, 2]]
    first, second = tables((5, 4)), tables((6, 8))
    places = [torch.tensor([[0], [12]]), torch.tensor([[4], [20]])]
    before = [made.split_embedding_weights()[0].clone() for made in (first, second)]
    output = torch.full((36,), 7.0)
    for made, place in zip((first, second), places, strict=True):
        output = made(
            torch.tensor([1, 2, 3]), torch.arange(4), batch_size_per_feature_per_rank=sizes, vbe_output=output,
            vbe_output_offsets=place,
        )  # fmt: skip
    expected = torch.cat([before[0][1], before[1][1], before[0][2:4].flatten(), before[1][2:4].flatten()])
    assert torch.equal(output.detach(), expected)
    output.backward(torch.ones(36))
    for made, table in zip((first, second), before, strict=True):
        torch.testing.assert_close(made.split_embedding_weights()[0][1:4], table[1:4] - 0.01)


def test_memory_may_be_given():
    weights = torch.ones(20)
    made = SplitTableBatchedEmbeddingBagsCodegen([(5, 4, HOST, CPU)], preallocated_host_buffers={"weights": weights})
    assert made.weights_host.data_ptr() == weights.data_ptr()
    for buffers, message in (
        ({"weights": torch.ones(3)}, "has 3 elements, expected 20"),
        ({"momentum1": weights}, "EXACT_SGD has weights"),
    ):
        with pytest.raises(OptionError, match=message):
            SplitTableBatchedEmbeddingBagsCodegen([(5, 4, HOST, CPU)], preallocated_host_buffers=buffers)


@pytest.mark.parametrize("pooling", [PoolingMode.SUM, PoolingMode.NONE])
def test_rows_that_are_written_take_their_first_gradient_alone(pooling):
    extra = UserEnabledConfigDefinition(use_writeback_bwd_prehook=True)
    made = tables((5, 4), (5, 4), learning_rate=1.0, pooling_mode=pooling, extra_optimizer_config=extra)
    before = [table.clone() for table in made.split_embedding_weights()]
    output = made(torch.tensor([1, 1, 2, 1, 3, 3]), torch.arange(7))
    output.backward(torch.ones_like(output))
    moved = [
        (old - new)[:, 0].round().tolist() for old, new in zip(before, made.split_embedding_weights(), strict=True)
    ]
    assert moved == [[0, 1, 1, 0, 0], [0, 1, 0, 1, 0]]


def test_rows_that_are_written_may_go_by_the_first_feature():
    extra = UserEnabledConfigDefinition(use_writeback_bwd_prehook=True, writeback_first_feature_only=True)
    made = tables((5, 4), (5, 4), learning_rate=1.0, extra_optimizer_config=extra)
    before = made.split_embedding_weights()[1].clone()
    output = made(torch.tensor([1, 1, 2, 1, 3, 3]), torch.arange(7))
    output.backward(torch.ones_like(output))
    # The second example repeats the first one's row, and goes as a whole.
    assert (before - made.split_embedding_weights()[1])[:, 0].round().tolist() == [0, 1, 0, 1, 0]
    with pytest.raises(OptionError, match="takes bags of one index"):
        made(torch.tensor([1, 1, 2]), torch.tensor([0, 2, 3])).sum().backward()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"enable_raw_embedding_streaming": True}, "needs a server"),
        ({"table_names": ["a"]}, "has 1 names for 2 tables"),
        ({"optimizer_state_dtypes": {"momentum1": SparseType.FP16}}, "EXACT_SGD has none"),
        ({"optimizer": ROWWISE, "optimizer_state_dtypes": {"momentum1": SparseType.INT8}}, "choose FP32, FP16 or BF16"),
        ({"optimizer": EmbOptimType.NONE}, "all tables are equally wide"),
        ({"weight_decay_mode": WeightDecayMode.DECOUPLE_GLOBAL}, "goes with row-wise Adagrad"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        tables((5, 4), (3, 8), **options)


def test_checkpoints_of_upstream_are_loaded():
    made = tables((5, 4))
    kept = {**made.state_dict(), "placeholder_autograd_tensor": torch.zeros(0)}
    kept["weights_host"] = torch.full((20,), 2.0)
    made.load_state_dict(kept)
    assert made.split_embedding_weights()[0].eq(2.0).all()
