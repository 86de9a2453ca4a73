"""Sequence learning by FBGEMM's Python names: functions, classes that are applied, shapes without data."""

from __future__ import annotations

import pytest
import torch

from flambeau.rec.fbgemm_gpu.sll import cpu, meta
from flambeau.rec.fbgemm_gpu.sll.cpu import cpu_sll
from flambeau.rec.fbgemm_gpu.sll.meta import meta_sll

LENGTHS, OFFSETS = torch.tensor([2, 0, 3]), torch.tensor([0, 2, 2, 5])
SQUARES, TOTALS = LENGTHS.square(), torch.tensor([0, 4, 4, 13])
X, MATRICES = torch.randn(5, 4), torch.randn(13)

APPLIED = {
    "JaggedDenseBmmCPU": ("cpu_jagged_dense_bmm_kernel", (X, torch.randn(3, 4, 2), OFFSETS, 3)),
    "JaggedJaggedBmm": ("cpu_jagged_jagged_bmm_kernel", (X, X, OFFSETS, 3)),
    "CPUJaggedDenseElementwiseMul": (
        "cpu_jagged_dense_elementwise_mul_jagged_out", (MATRICES, torch.randn(3, 3), LENGTHS, TOTALS, 3)
    ),
    "JaggedSoftmaxCPU": ("cpu_jagged_softmax", (X, OFFSETS, 3)),
    "ArrayJaggedBmmNopaddingCPU": (
        "cpu_array_jagged_bmm_jagged_out", (MATRICES, X, SQUARES, TOTALS, LENGTHS, OFFSETS, LENGTHS, OFFSETS, 3, False)
    ),
    "JaggedJaggedBmmNoPaddingCPU": (
        "cpu_jagged_jagged_bmm_jagged_out", (X, X, LENGTHS, OFFSETS, LENGTHS, OFFSETS, SQUARES, TOTALS, 3, False)
    ),
    "JaggedDenseAddCPU": ("cpu_jagged_dense_elementwise_add", (X, OFFSETS, torch.randn(3, 3, 4), 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", APPLIED)
def test_a_class_is_applied_as_its_function(name):
    function, arguments = APPLIED[name]
    assert torch.equal(getattr(cpu_sll, name).apply(*arguments), getattr(cpu_sll, function)(*arguments))


@pytest.mark.parametrize("transpose", [False, True])
def test_softmax_of_matrices_is_applied_with_offsets_of_rows_and_of_heads(transpose):
    made = cpu_sll.Jagged2SoftmaxCPU.apply(MATRICES, TOTALS, OFFSETS, OFFSETS, 3, 3, transpose)
    assert torch.equal(made, cpu_sll.cpu_jagged2_softmax(MATRICES, OFFSETS, TOTALS, 3, transpose))


@pytest.mark.parametrize("transpose", [0, 1])
def test_kernels_of_products_take_transposed_operands(transpose):
    made = cpu_sll.cpu_jagged_jagged_bmm_jagged_out_kernel(
        X, X.T, 3, LENGTHS, LENGTHS, SQUARES, OFFSETS, OFFSETS, TOTALS
    )
    torch.testing.assert_close(made[4:].view(3, 3), X[2:] @ X[2:].T)
    times = cpu_sll.cpu_array_jagged_bmm_jagged_out_kernel(
        MATRICES, X, SQUARES, LENGTHS, LENGTHS, TOTALS, OFFSETS, OFFSETS, 3, transpose=transpose
    )
    matrix = MATRICES[4:].view(3, 3)
    torch.testing.assert_close(times[2:], (matrix.T if transpose else matrix) @ X[2:])


def test_results_without_data_have_shapes_and_gradients():
    x, matrices = (one.to("meta").requires_grad_() for one in (X, MATRICES))
    one, total = (LENGTHS.to("meta"), OFFSETS.to("meta")), (SQUARES.to("meta"), TOTALS.to("meta"))
    softmax = meta_sll.meta_jagged2_softmax(matrices, one[1], total[1], 3, False)
    masked = meta_sll.meta_jagged_dense_elementwise_mul_jagged_out(
        softmax, torch.ones(3, 3, device="meta"), one[0], total[1], 3
    )
    items = meta_sll.meta_array_jagged_bmm_jagged_out(masked, x, *total, *one, *one, 3)
    scores = meta_sll.meta_jagged_jagged_bmm_jagged_out(x, x, *one, *one, SQUARES, TOTALS, 3)
    assert (softmax.shape, items.shape, scores.shape) == (matrices.shape, x.shape, matrices.shape)
    (items.sum() + scores.sum()).backward()
    assert matrices.grad.is_meta and matrices.grad.shape == matrices.shape and x.grad.shape == x.shape


def test_rooms_offer_the_functions_themselves():
    for room, module in ((cpu, cpu_sll), (meta, meta_sll)):
        names = [name for name in room.__all__ if not name.endswith("_sll")]
        assert names and all(getattr(room, name) is getattr(module, name) for name in names)
