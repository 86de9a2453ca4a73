"""Quantizers, and look-ups in what they write: native kernels against plain torch, and what rows stand for."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from quantize_cases import CASES, LOOKUP, lookup

from flambeau.rec.ops import quantize_8bit, quantize_float8, quantize_mx, quantize_nbit

for _module in ("quantize_bfloat16", "tbe_inference"):
    importlib.import_module(f"flambeau.rec.ops.{_module}")
OPERATORS = sorted({name.partition("/")[0] for name in CASES})
ROWS = st.tuples(st.integers(1, 4), st.integers(1, 70), st.integers(0, 2**31), st.sampled_from([1e-3, 1.0, 1e3]))


def drawn(case):
    rows, columns, seed, size = case
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * size


def overload(name):
    return getattr(torch.ops.flambeau_rec, name.partition("/")[0]).default


def outcomes():
    return {name: overload(name)(*arguments) for name, arguments in CASES.items()}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """What every case gives in a process without native kernels."""
    path = tmp_path_factory.mktemp("reference") / "outcomes.pt"
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; import torch, test_quantize as t; "
        f"torch.save(t.outcomes(), {str(path)!r})"
    )
    environment = {**os.environ, "FLAMBEAU_NATIVE": "off"}
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return torch.load(path)


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_native_kernel_gives_what_plain_torch_gives(operator, reference):
    for name, arguments in CASES.items():
        if not name.startswith(f"{operator}/"):
            continue
        ours, expected = overload(name)(*arguments), reference[name]
        assert ours.dtype == expected.dtype and ours.shape == expected.shape, name
        if operator == LOOKUP and ours.dtype != torch.uint8:
            loose = 1e-2 if ours.dtype != torch.float32 else 1e-5
            torch.testing.assert_close(ours, expected, rtol=loose, atol=loose, msg=lambda text, n=name: f"{n}: {text}")
        elif operator == LOOKUP:
            assert (ours.int() - expected.int()).abs().max() <= 255  # sums may be rounded to other codes, see below
        else:
            torch.testing.assert_close(ours, expected, rtol=0, atol=0, msg=lambda text, n=name: f"{n}: {text}")


def test_pooled_rows_leave_as_codes_that_stand_for_them():
    coded = overload(LOOKUP)(*lookup(2, (16, 40), 0, 2, weighted=False, alignment=1))
    plain = overload(LOOKUP)(*lookup(2, (16, 40), 0, 0, weighted=False, alignment=1))
    parts = [quantize_8bit.to_float(part) for part in coded.split([24, 48, 24], 1)]
    for part, expected in zip(parts, plain.split([16, 40, 16], 1), strict=True):
        steps = (expected.amax(1) - expected.amin(1)) / 255
        assert ((part - expected).abs() <= steps[:, None] * 0.51 + 1e-6).all()


@pytest.mark.parametrize("operator", OPERATORS)
def test_torch_approves_of_the_registration(operator):
    name = next(name for name in CASES if name.startswith(f"{operator}/"))
    torch.library.opcheck(overload(name), CASES[name])


@pytest.mark.parametrize("operator", OPERATORS)
def test_gaps_between_numbers_make_no_difference(operator):
    name = next(name for name in CASES if name.startswith(f"{operator}/"))
    arguments, spread = CASES[name], list(CASES[name])
    for place in (12, 13) if operator == LOOKUP else (0,):
        given = arguments[place]
        spread[place] = torch.stack([given, given], -1).flatten(-2)[..., ::2]
    torch.testing.assert_close(overload(name)(*spread), overload(name)(*arguments), rtol=0, atol=0)


@settings(max_examples=50)
@given(case=ROWS)
def test_eight_bit_rows_are_off_by_half_a_step_at_most(case):
    values = drawn(case)
    step = (values.amax(1, keepdim=True) - values.amin(1, keepdim=True)) / 255
    error = (quantize_8bit.to_float(quantize_8bit.from_float(values)) - values).abs()
    assert (error <= step * 0.51 + 1e-6 * values.abs().amax()).all()


@settings(max_examples=50)
@given(case=ROWS, bits=st.sampled_from([1, 2, 4, 8]))
def test_rows_of_few_bits_are_off_by_half_a_step_at_most(case, bits):
    values = drawn(case)
    rows = quantize_nbit.from_float(values, bits)
    read = quantize_nbit.to_float(rows, bits)[:, : values.shape[1]]
    scale = rows[:, -4:].clone(memory_format=torch.contiguous_format).view(torch.float16)[:, :1].float()
    # Rounding the bias to sixteen bits may cut the ends of the range off.
    slack = values.abs().amax() * 2**-10
    assert ((read - values).abs() <= scale * 0.51 + 2 * slack).all()


@settings(max_examples=50)
@given(case=ROWS, bits=st.sampled_from([2, 4]))
def test_reading_and_writing_again_changes_nothing(case, bits):
    once = quantize_nbit.from_float(drawn(case)[:, : case[1] // (8 // bits) * (8 // bits)], bits)
    read = quantize_nbit.to_float(once, bits)
    if read.numel():
        again = quantize_nbit.to_float(quantize_nbit.from_float(read, bits), bits)
        torch.testing.assert_close(again, read, rtol=2e-2, atol=2e-2 * float(read.abs().max()))


@pytest.mark.parametrize(("ebits", "bias", "largest"), [(4, 7, 240.0), (5, 15, 57344.0), (4, 15, 0.9375)])
def test_every_eight_bit_float_is_written_as_it_was_read(ebits, bias, largest):
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    numbers = quantize_float8.to_float(codes, ebits, bias)
    kept = numbers.abs() <= largest
    torch.testing.assert_close(quantize_float8.from_float(numbers, ebits, bias, largest)[kept], codes[kept])


def test_eight_bit_floats_are_torchs_where_torch_has_the_format():
    values = torch.linspace(-240, 240, 5001)
    ours = quantize_float8.to_float(quantize_float8.from_float(values, 4, 7, 240.0), 4, 7)
    torch.testing.assert_close(ours, values.to(torch.float8_e4m3fn).float(), rtol=0, atol=0)


@settings(max_examples=50)
@given(case=ROWS, forward=st.booleans())
def test_scaled_rows_keep_two_or_three_digits(case, forward):
    values = drawn(case)
    read = quantize_float8.rows_to_float(quantize_float8.rows_from_float(values, forward=forward), forward=forward)
    most = values.abs().amax(1, keepdim=True)
    error = (read[:, : values.shape[1]] - values).abs()
    assert (error <= values.abs() * (0.0626 if forward else 0.126) + most * 2**-9).all()


def test_rounding_codes_by_chance_is_right_on_average():
    torch.manual_seed(0)
    values = torch.full((4000, 32), 0.6)
    values[:, 0] = 6.0
    rows = quantize_mx.quantize_mx4(values, rounding_mode=quantize_mx.FLOOR, stochastic=True)
    read = torch.ops.flambeau_rec.dequantize_mx4(rows, 32, 2, 1)
    assert abs(float(read[:, 1:].mean()) - 0.6) < 0.005
    assert {0.5, 1.0} == set(read[:, 1:].unique().tolist())


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("FloatToFused8BitRowwiseQuantized", (torch.zeros(4),), r"input has shape \(4,\), expected \(rows, columns\)"),
        ("FloatToFused8BitRowwiseQuantized", (torch.zeros(4, 4).half(),), "input has dtype torch.float16, expected"),
        ("FloatToFusedNBitRowwiseQuantizedSBHalf", (torch.zeros(4, 4), 3), "bit_rate is 3, expected 1, 2, 4 or 8"),
        ("Fused8BitRowwiseQuantizedToFloat", (torch.zeros(4, 7).byte(),), r"expected \(rows, columns \+ 8\) of uint8"),
        (
            "Fused8BitRowwiseQuantizedToFloatOrHalf", (torch.zeros(4, 9).byte(), 3),
            r"output_dtype is 3, expected 0 \(float32\), 1 \(float16\) or 5",
        ),
        ("FloatToHFP8Quantized", (torch.zeros(4), 9, 7, 1.0), "ebits is 9 and exponent_bias 7, expected 1 to 7"),
        ("FloatToPaddedFP8RowwiseQuantized", (torch.zeros(2, 4), True, 6), "row_dim is 6, expected a positive"),
        ("quantize_mx4", (torch.zeros(4, 4), 3, 2, 1, 2, False, 0), "mx_group_size is 3, expected a positive even"),
        ("quantize_mx4", (torch.zeros(4, 4), 4, 2, 2, 2, False, 0), "codes of 2 bits for exponents and 2 for"),
        ("dequantize_mx4", (torch.zeros(4, 4).byte(), 32, 2, 1), r"expected \(\.\.\., groups \* 17\) of uint8"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_what_would(name, arguments, message):
    with pytest.raises(RuntimeError, match=message):
        overload(name)(*arguments)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (12, torch.tensor([50]), "indices has 50 at 0, for feature 0 whose table has 7 rows; expected 0 to 6"),
        (13, torch.tensor([0, 5, 3]), "offsets has 3 entries for 3 features|offsets has 3 at 2"),
        (14, 3, "pooling_mode is 3, expected 0"),
        (16, 2, "output_dtype is int8, expected tables of int8 alone"),
        (15, torch.zeros(3), "indice_weights has shape"),
        (0, torch.zeros(4), "expected bytes"),
        (0, torch.zeros(4000, dtype=torch.uint8)[::2], "dev_weights has gaps"),
    ],
)
def test_a_lookup_refuses_what_it_cannot_read(place, value, message):
    arguments = list(lookup(0, (16, 40), 0, 0, weighted=False, alignment=1))
    arguments[place] = value
    if place == 12:
        arguments[13] = torch.tensor([0] + [1] * 15)
    with pytest.raises(RuntimeError, match=message):
        overload(LOOKUP)(*arguments)
