"""Recursions over time: what a loop gives, of any shape."""

from __future__ import annotations

import pytest
import torch

from flambeau.rl.ops import recursion


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(2, 5, 3), (1, 1, 1), (3, 7, 1), (0, 4, 2), (2, 0, 2), (2, 3, 0)], ids=str)
def test_each_step_is_worth_itself_and_what_follows_discounted(shape, dtype):
    generator = torch.Generator().manual_seed(0)
    values, discounts = (torch.randn(shape, generator=generator, dtype=dtype) for _ in range(2))
    expected = values.clone()
    for step in reversed(range(shape[1] - 1)):
        expected[:, step] += discounts[:, step] * expected[:, step + 1]
    torch.testing.assert_close(recursion.backward_recursion(values, discounts), expected)
    torch.testing.assert_close(recursion._reference(values, discounts), expected)


def test_tensors_may_be_strided():
    values = torch.arange(24.0).view(3, 2, 4).transpose(0, 2)
    discounts = torch.tensor(0.5).expand(4, 2, 3)
    expected = recursion.backward_recursion(values.contiguous(), discounts.contiguous())
    torch.testing.assert_close(recursion.backward_recursion(values, discounts), expected)


@pytest.mark.parametrize(
    ("values", "discounts", "message"),
    [
        (torch.ones(2, 3), torch.ones(2, 3), r"values have shape \(2, 3\), expected \(rows, time, features\)"),
        (torch.ones(1, 2, 3), torch.ones(1, 2, 2), r"discounts have shape \(1, 2, 2\), expected \(1, 2, 3\)"),
        (torch.ones(1, 2, 3), torch.ones(1, 2, 3).double(), "discounts have dtype .*float64, expected .*float32"),
        (torch.ones(1, 2, 3).int(), torch.ones(1, 2, 3).int(), "values have dtype .*int32, expected float32 or"),
    ],
)
def test_bad_input_is_named(values, discounts, message):
    for function in (recursion.backward_recursion, recursion._reference):
        with pytest.raises(RuntimeError, match=message):
            function(values, discounts)


def test_the_operator_keeps_torchs_rules():
    torch.library.opcheck(torch.ops.flambeau_rl.backward_recursion.default, (torch.ones(1, 3, 2), torch.ones(1, 3, 2)))
