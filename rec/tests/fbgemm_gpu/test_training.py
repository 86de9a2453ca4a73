"""Tables that are looked up and trained together: beside torch's own bags, and what becomes of bad input."""

from __future__ import annotations

import pytest
import torch

from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType, SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    BoundsCheckMode,
    ComputeDevice,
    EmbeddingLocation,
    PoolingMode,
    SplitTableBatchedEmbeddingBagsCodegen,
    WeightDecayMode,
)
from flambeau.rec.fbgemm_gpu.tbe.config.optimizer_config import CowClipDefinition

HOST, CPU = EmbeddingLocation.HOST, ComputeDevice.CPU


def tables(*shapes, **options):
    torch.manual_seed(0)
    made = SplitTableBatchedEmbeddingBagsCodegen([(r, d, HOST, CPU) for r, d in shapes], **options)
    made.init_embedding_weights_uniform(-1, 1)
    return made


@pytest.mark.parametrize("mode", [PoolingMode.SUM, PoolingMode.MEAN])
@pytest.mark.parametrize("features", [[0, 1], [1, 0, 1]])
def test_training_is_that_of_torchs_bags_with_sgd(mode, features):
    made = tables((7, 4), (5, 12), feature_table_map=features, pooling_mode=mode, learning_rate=0.5)
    weights = [table.clone().requires_grad_() for table in made.split_embedding_weights()]
    lengths = torch.tensor([2, 0, 3] * len(features))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    indices = torch.randint(0, 5, (int(lengths.sum()),))
    parts = [
        torch.nn.functional.embedding_bag(
            indices[offsets[3 * f] : offsets[3 * f + 3]], weights[table], offsets[3 * f : 3 * f + 3] - offsets[3 * f],
            mode=mode.name.lower(),
        )
        for f, table in enumerate(features)
    ]  # fmt: skip
    expected = torch.cat(parts, 1)
    output = made(indices, offsets)
    torch.testing.assert_close(output, expected)
    gradient = torch.randn(expected.shape)
    output.backward(gradient)
    expected.backward(gradient)
    for table, weight in zip(made.split_embedding_weights(), weights, strict=True):
        torch.testing.assert_close(table, (weight - 0.5 * weight.grad).detach())


def test_without_pooling_every_index_gives_a_row():
    made = tables((7, 4), (5, 4), pooling_mode=PoolingMode.NONE)
    first, second = made.split_embedding_weights()
    output = made(torch.tensor([6, 1, 4]), torch.tensor([0, 2, 3]))
    assert torch.equal(output, torch.stack([first[6], first[1], second[4]]))


def test_processes_may_bring_batches_of_different_sizes():
    made = tables((7, 2), (5, 3))
    first, second = made.split_embedding_weights()
    # Of feature 0: one example of the first process and two of the second; of feature 1: one and none.
    output = made(
        torch.tensor([1, 2, 3, 4]), torch.tensor([0, 1, 2, 3, 4]), batch_size_per_feature_per_rank=[[1, 2], [1, 0]]
    )
    assert torch.equal(output, torch.cat([first[1], second[4], first[2], first[3]]))


@pytest.mark.parametrize("optimizer", [EmbOptimType.ADAM, EmbOptimType.EXACT_ROWWISE_ADAGRAD, EmbOptimType.LARS_SGD])
def test_what_the_optimizer_keeps_has_a_name_and_a_place_in_the_checkpoint(optimizer):
    made, again = (tables((7, 4), (5, 3), optimizer=optimizer) for _ in range(2))
    made(torch.tensor([1, 2]), torch.tensor([0, 1, 2])).sum().backward()
    again.load_state_dict(made.state_dict())
    for mine, loaded in zip(made.get_optimizer_state(), again.get_optimizer_state(), strict=True):
        assert mine.keys() == loaded.keys()
        assert all(torch.equal(mine[name], loaded[name]) and mine[name].any() for name in mine)


@pytest.mark.parametrize("mode", [BoundsCheckMode.WARNING, BoundsCheckMode.IGNORE])
def test_indices_outside_of_their_table_become_0(mode, caplog):
    made = tables((7, 2), (5, 2), bounds_check_mode=mode)
    output = made(torch.tensor([1, 9]), torch.tensor([0, 1, 2]))
    assert torch.equal(output[0, 2:], made.split_embedding_weights()[1][0])
    told = (
        "1 of 2 indices lie outside of their tables, and became 0; the first is 9 at 1, for feature 1 of table 1 with 5"
    )
    assert (told in caplog.text) == (mode == BoundsCheckMode.WARNING)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda t: t(torch.tensor([1, 9]), torch.tensor([0, 1, 2])),
            "indices has 9 at 1, for feature 1 whose table has 5",
        ),
        (lambda t: t(torch.tensor([1, -1]), torch.tensor([0, 1, 2])), "indices has -1 at 1"),
        (lambda t: t(torch.tensor([1, 2]), torch.tensor([0, 1])), "offsets has 2 entries for 2 features"),
        (lambda t: t(torch.tensor([1, 2]), torch.tensor([0, 3, 2])), "and fall; expected 0 to 2, rising"),
        (lambda t: t(torch.tensor([1, 2]), torch.tensor([0, 1, 4])), "offsets run from 0 to 4"),
        (lambda t: t(torch.tensor([1, 2]), torch.tensor([0, 1, 2]), torch.ones(3)), "has 3 entries for 2 indices"),
    ],
)
def test_what_does_not_fit_is_refused_where_that_is_fatal(call, message):
    with pytest.raises(RuntimeError, match=message):
        call(tables((7, 2), (5, 2), bounds_check_mode=BoundsCheckMode.FATAL))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature_table_map": [0, 2]}, "expected tables 0 to 1"),
        ({"pooling_mode": PoolingMode.NONE}, "equally wide"),
        ({"weight_decay_mode": WeightDecayMode.COUNTER}, "counter_based_regularization goes with"),
        ({"cowclip_regularization": CowClipDefinition()}, "goes with weight_decay_mode=COWCLIP"),
        ({"optimizer": EmbOptimType.SHAMPOO}, "does not train tables"),
        ({"weights_precision": SparseType.INT4}, "trained as fp32, fp16 or bf16"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        tables((7, 2), (5, 3), **options)


def test_hyper_parameters_change_from_the_next_step_on():
    made = tables((4, 4), learning_rate=1.0)
    made.update_hyper_parameters({"lr": 0.25, "eps": 1e-3})
    before = made.split_embedding_weights()[0][1].clone()

    made(torch.tensor([1]), torch.tensor([0, 1])).sum().backward()

    assert made.get_learning_rate() == 0.25
    torch.testing.assert_close(made.split_embedding_weights()[0][1], before - 0.25)
    with pytest.raises(ValueError, match="params_dict has speed; what can be changed are lr, beta1"):
        made.update_hyper_parameters({"lr": 3.0, "speed": 1.0})
    assert made.get_learning_rate() == 0.25
    assert made.get_optimizer_buffer("iter").tolist() == [0]  # gradient descent does not need to count steps


def test_pruned_rows_and_what_the_optimizer_kept_of_them_start_anew():
    made = tables((4, 4), (3, 8), optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD)
    made(torch.tensor([0, 1, 2, 0, 1]), torch.tensor([0, 3, 5])).sum().backward()

    made.reset_embedding_weight_momentum(
        torch.tensor([1, 2, 0]), torch.tensor([0, 2, 3]), torch.tensor([0, 1]), torch.tensor([0, 1])
    )

    first, second = made.split_embedding_weights()
    assert first.any(1).tolist() == [True, False, False, True]
    assert second.any(1).tolist() == [False, True, True]
    assert [one["sum"].ne(0).tolist() for one in made.get_optimizer_state()] == [
        [True, False, False, False],
        [False, True, False],
    ]
    with pytest.raises(RuntimeError, match="pruned_indices of table 1 are not all below its 3 rows"):
        made.reset_embedding_weight_momentum(
            torch.tensor([3]), torch.tensor([0, 1]), torch.tensor([0]), torch.tensor([1])
        )
    with pytest.raises(RuntimeError, match="do not fit together"):
        made.reset_embedding_weight_momentum(
            torch.tensor([0]), torch.tensor([0, 2]), torch.tensor([0]), torch.tensor([1])
        )
