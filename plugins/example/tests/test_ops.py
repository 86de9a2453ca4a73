"""The operator: native kernel against reference, values, errors."""

import math
import os
import subprocess
import sys

import pytest
import torch

from flambeau_plugin_example.ops import LIBRARY, reference, rotate


def points(*shape, dtype=torch.float32):
    return torch.randn(*shape, 2, dtype=dtype, generator=torch.Generator().manual_seed(0))


def test_a_quarter_turn():
    turned = rotate(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), math.pi / 2)
    torch.testing.assert_close(turned, torch.tensor([[0.0, 1.0], [-2.0, 0.0]]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(0,), (1,), (3, 5), (100_000,)])
def test_the_kernel_agrees_with_the_reference(shape, dtype):
    value = points(*shape, dtype=dtype)
    torch.testing.assert_close(rotate(value, 0.7), reference(value, 0.7))


def test_turning_back_gives_the_points_again():
    value = points(50, dtype=torch.float64)
    torch.testing.assert_close(rotate(rotate(value, 1.1), -1.1), value)


def test_any_strides():
    value = points(6, 4).transpose(0, 1)
    torch.testing.assert_close(rotate(value, 0.3), reference(value, 0.3))


def test_the_gradient_is_right():
    assert torch.autograd.gradcheck(lambda value: rotate(value, 0.4), points(3, dtype=torch.float64).requires_grad_())


@pytest.mark.parametrize(
    ("value", "message"), [(torch.zeros(3), "expected \\(..., 2\\)"), (torch.zeros(3, 2, dtype=torch.int64), "int64")]
)
def test_what_is_no_point_is_refused(value, message):
    with pytest.raises(RuntimeError, match=message):
        rotate(value, 0.1)


def test_the_native_kernel_is_built():
    assert LIBRARY.provider in ("dispatcher", "ctypes"), LIBRARY.reason


@pytest.mark.parametrize("tier", ["ctypes", "off"])
def test_every_tier_gives_the_same(tier):
    program = (
        "import torch; from flambeau_plugin_example.ops import LIBRARY, reference, rotate; x = torch.randn(9, 2); "
        "torch.testing.assert_close(rotate(x, 0.2), reference(x, 0.2)); print(LIBRARY.provider)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "FLAMBEAU_NATIVE": tier},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["python" if tier == "off" else tier]
