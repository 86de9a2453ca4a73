"""Tables whose gradient is a tensor agree with `torch.nn.functional.embedding_bag`, table by table."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    DenseTableBatchedEmbeddingBagsCodegen,
    PoolingMode,
)

SHAPES = [(5, 4), (3, 8)]
LENGTHS = torch.tensor([[2, 0, 3], [1, 1, 4], [0, 2, 2]])  # of three features with three examples each


def batch(tables: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    indices = [torch.randint(0, SHAPES[table][0], (int(n.sum()),)) for table, n in zip(tables, LENGTHS, strict=True)]
    return torch.cat(indices), torch.cat([torch.zeros(1, dtype=torch.int64), LENGTHS.flatten().cumsum(0)])


def by_table(tables, weights, indices, offsets, mode, factors=None):
    """Each feature's bags by torch alone."""
    found = []
    for feature, table in enumerate(tables):
        part = offsets[feature * 3 : feature * 3 + 4]
        chosen = slice(int(part[0]), int(part[-1]))
        found.append(
            F.embedding_bag(
                indices[chosen], weights[table], part - part[0], mode=mode, include_last_offset=True,
                per_sample_weights=None if factors is None else factors[chosen],
            )
        )  # fmt: skip
    return torch.cat(found, 1)


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("tables", [[0, 0, 1], [1, 0, 1]], ids=["adjacent", "mixed"])
def test_results_and_gradients_are_those_of_embedding_bags(mode, tables):
    module = DenseTableBatchedEmbeddingBagsCodegen(SHAPES, tables, pooling_mode=PoolingMode[mode.upper()], use_cpu=True)
    weights = [one.clone().requires_grad_() for one in module.split_embedding_weights()]
    indices, offsets = batch(tables)

    output = module(indices, offsets)
    expected = by_table(tables, weights, indices, offsets, mode)
    torch.testing.assert_close(output, expected)

    towards = torch.randn(output.shape)
    output.backward(towards)
    expected.backward(towards)
    torch.testing.assert_close(module.weights.grad, torch.cat([one.grad.flatten() for one in weights]))


def test_factors_of_indices_have_gradients_too():
    module = DenseTableBatchedEmbeddingBagsCodegen(SHAPES, [0, 0, 1], use_cpu=True)
    weights = [one.clone().requires_grad_() for one in module.split_embedding_weights()]
    indices, offsets = batch([0, 0, 1])
    factors = [torch.rand(len(indices), generator=torch.Generator().manual_seed(2)).requires_grad_() for _ in range(2)]

    module(indices, offsets, factors[0]).square().sum().backward()
    by_table([0, 0, 1], weights, indices, offsets, "sum", factors[1]).square().sum().backward()

    torch.testing.assert_close(factors[0].grad, factors[1].grad)
    torch.testing.assert_close(module.weights.grad, torch.cat([one.grad.flatten() for one in weights]))


def test_without_pooling_each_index_gives_a_row():
    module = DenseTableBatchedEmbeddingBagsCodegen([(5, 4), (3, 4)], pooling_mode=PoolingMode.NONE, use_cpu=True)
    indices, offsets = torch.tensor([4, 0, 2, 2]), torch.tensor([0, 1, 2, 4, 4])

    first, second = module.split_embedding_weights()
    output = module(indices, offsets)
    output.sum().backward()

    torch.testing.assert_close(output, torch.stack([first[4], first[0], second[2], second[2]]))
    assert module.weights.grad.view(8, 4)[:, 0].tolist() == [1, 0, 0, 0, 1, 0, 0, 2]


def test_a_feature_may_be_left_out_of_the_gradient():
    module = DenseTableBatchedEmbeddingBagsCodegen(SHAPES, use_cpu=True)
    indices, offsets = torch.tensor([0, 1]), torch.tensor([0, 1, 2])

    module(indices, offsets, feature_requires_grad=torch.tensor([1, 0])).sum().backward()

    assert module.weights.grad.nonzero().flatten().tolist() == [0, 1, 2, 3]


def test_tables_of_half_precision_have_gradients_of_it():
    module = DenseTableBatchedEmbeddingBagsCodegen([(5, 4)], weights_precision=SparseType.FP16, use_cpu=True)
    module(torch.tensor([1, 1]), torch.tensor([0, 2])).sum().backward()

    assert module.weights.grad.dtype == torch.float16
    assert module.weights.grad.view(5, 4)[1].tolist() == [2, 2, 2, 2]


def test_an_optimizer_of_torch_trains_them():
    module = DenseTableBatchedEmbeddingBagsCodegen([(6, 4)], use_cpu=True)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
    indices, offsets = torch.arange(6), torch.arange(7)
    for _ in range(200):
        optimizer.zero_grad()
        (module(indices, offsets) - 1).square().sum().backward()
        optimizer.step()
    torch.testing.assert_close(module(indices, offsets), torch.ones(6, 4), atol=1e-2, rtol=0)


def test_an_index_outside_of_its_table_is_named():
    module = DenseTableBatchedEmbeddingBagsCodegen(SHAPES, use_cpu=True)
    with pytest.raises(RuntimeError, match=r"indices has 3 at 1, for feature 1 whose table has 3 rows"):
        module(torch.tensor([0, 3]), torch.tensor([0, 1, 2]))
