"""The transducer loss: values, gradients, tiers, lengths, compilation, errors."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from flambeau.audio.functional import rnnt_loss
from flambeau.audio.functional.rnnt_loss import _native, _native_backward, _reference, _reference_backward

OP, BACKWARD = torch.ops.flambeau_audio.rnnt_loss, torch.ops.flambeau_audio.rnnt_loss_backward


def batch(
    items: int = 3, frames: int = 5, labels: int = 3, classes: int = 6, dtype=torch.float64
) -> tuple[Tensor, ...]:
    """Logits, targets and lengths, the first item as long as can be."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(items, frames, labels + 1, classes, generator=generator, dtype=torch.float64).to(dtype)
    targets = torch.randint(1, classes, (items, labels), generator=generator, dtype=torch.int32)
    frames_of = torch.randint(1, frames + 1, (items,), generator=generator, dtype=torch.int32)
    labels_of = torch.randint(0, labels + 1, (items,), generator=generator, dtype=torch.int32)
    frames_of[0], labels_of[0] = frames, labels
    return logits, targets, frames_of, labels_of


def by_enumeration(log_probs: Tensor, targets: list[int], blank: int) -> float:
    """Minus the logarithm of the sum over all paths, each written out."""
    frames, total = log_probs.shape[0], -math.inf
    for emitted in itertools.combinations_with_replacement(range(frames), len(targets)):
        score, place = 0.0, 0
        for t in range(frames):
            while place < len(targets) and emitted[place] == t:
                score += log_probs[t, place, targets[place]].item()
                place += 1
            score += log_probs[t, place, blank].item()
        total = max(total, score) + math.log1p(math.exp(-abs(total - score)))
    return -total


@pytest.mark.parametrize("blank", [0, -1])
def test_the_loss_is_the_sum_over_all_paths(blank):
    logits, targets, frames_of, labels_of = batch()
    if blank == -1:
        targets = targets - 1
    losses = rnnt_loss(logits, targets, frames_of, labels_of, blank=blank, reduction="none")
    for n, loss in enumerate(losses.tolist()):
        time, labels = int(frames_of[n]), int(labels_of[n])
        log_probs = logits[n, :time, : labels + 1].log_softmax(-1)
        assert loss == pytest.approx(by_enumeration(log_probs, targets[n, :labels].tolist(), blank), rel=1e-9)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("classes", [6, 37])
def test_gradients_are_exact(fused, classes):
    logits, *rest = batch(frames=4, classes=classes)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: rnnt_loss(x, *rest, blank=0, reduction="none", fused_log_softmax=fused), (logits,)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("clamp", [-1.0, 0.05])
@pytest.mark.parametrize("native", [True, False], ids=["ctypes", "reference"])
def test_the_lower_tiers_agree_with_the_dispatcher(dtype, fused, clamp, native):
    inputs = batch(dtype=dtype, classes=21)
    forward, backward = (_native, _native_backward) if native else (_reference, _reference_backward)
    served = OP(*inputs, 0, fused, clamp)
    for ours, theirs in zip(forward(*inputs, 0, fused, clamp), served, strict=True):
        torch.testing.assert_close(ours, theirs)
    costs, normalisers, alphas = served
    call = (torch.rand(3, dtype=dtype), *inputs, normalisers, alphas, costs, 0, fused, clamp)
    torch.testing.assert_close(backward(*call), BACKWARD(*call))


def test_a_clamp_cuts_each_items_gradient_before_it_is_weighed():
    logits, *rest = batch()
    logits.requires_grad_()
    (rnnt_loss(logits, *rest, blank=0, clamp=0.01, reduction="sum") * 5).backward()
    assert logits.grad.abs().max() == pytest.approx(0.05)


def test_reductions_are_those_of_the_items():
    inputs = batch()
    losses = rnnt_loss(*inputs, blank=0, reduction="none")
    torch.testing.assert_close(rnnt_loss(*inputs, blank=0), losses.mean())
    torch.testing.assert_close(rnnt_loss(*inputs, blank=0, reduction="sum"), losses.sum())


def test_padding_is_neither_read_nor_given_a_gradient():
    logits, targets, frames_of, labels_of = batch()
    expected = rnnt_loss(logits, targets, frames_of, labels_of, blank=0)
    inside = torch.zeros(logits.shape, dtype=torch.bool)
    for n in range(3):
        inside[n, : frames_of[n], : labels_of[n] + 1] = True
        targets[n, labels_of[n] :] = -100
    padded = logits.masked_fill(~inside, torch.nan).requires_grad_()
    loss = rnnt_loss(padded, targets, frames_of, labels_of, blank=0)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert padded.grad[~inside].abs().max() == 0 and padded.grad[inside].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_single(dtype):
    logits, *rest = batch(dtype=dtype)
    exact = rnnt_loss(logits.float(), *rest, blank=0)
    half = logits.clone().requires_grad_()
    loss = rnnt_loss(half, *rest, blank=0)
    assert loss.dtype == dtype and loss.item() == pytest.approx(exact.item(), rel=1e-2)
    loss.backward()
    assert half.grad.dtype == dtype


def test_great_logits_do_not_overflow():
    logits, *rest = batch(dtype=torch.float32)
    logits = (logits * 1000).requires_grad_()
    loss = rnnt_loss(logits, *rest, blank=0)
    loss.backward()
    assert loss.isfinite() and logits.grad.isfinite().all()
    exact = rnnt_loss(logits.detach().double(), *rest, blank=0)
    assert loss.item() == pytest.approx(exact.item(), rel=1e-5)


def test_it_compiles_without_breaks():
    logits, *rest = batch()
    logits.requires_grad_()
    compiled = torch.compile(rnnt_loss, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(logits, *rest, blank=0), rnnt_loss(logits, *rest, blank=0))


def test_the_operator_keeps_torchs_contract():
    logits, *rest = batch()
    torch.library.opcheck(OP, (logits.requires_grad_(), *rest, 0, True, -1.0))


def test_a_second_derivative_is_refused():
    logits, *rest = batch()
    logits.requires_grad_()
    (first,) = torch.autograd.grad(rnnt_loss(logits, *rest, blank=0), logits, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivative"):
        first.sum().backward()


def wrong(change) -> tuple[Tensor, ...]:
    inputs = list(batch())
    change(inputs)
    return tuple(inputs)


def put(position: int, value):
    return lambda inputs: inputs.__setitem__(position, value(inputs[position]))


@pytest.mark.parametrize("tier", [OP, _native, _reference], ids=["dispatcher", "ctypes", "reference"])
@pytest.mark.parametrize(
    ("change", "word"),
    [
        (put(0, lambda x: x[0]), r"logits has shape \(5, 4, 6\)"),
        (put(0, lambda x: x.to(torch.int32)), "torch.int32"),
        (put(1, lambda x: x.long()), "expected int32"),
        (put(1, lambda x: x[:, 1:]), r"targets has shape \(3, 2\), expected \(3, 3\)"),
        (put(2, lambda x: x[1:]), r"expected \(3,\) both"),
        (put(2, lambda x: x.clamp(max=4)), "input length mismatch"),
        (put(3, lambda x: x.clamp(max=2)), "output length mismatch"),
        (put(2, lambda x: x - 5), "at least 1"),
        (put(1, lambda x: x + 6), "targets holds class"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_in_the_same_words(tier, change, word):
    with pytest.raises(RuntimeError, match=word):
        tier(*wrong(change), 0, True, -1.0)


def test_other_words_and_classes_are_refused():
    with pytest.raises(ValueError, match="'average'"):
        rnnt_loss(*batch(), reduction="average")
    with pytest.raises(RuntimeError, match="blank is class 6"):
        rnnt_loss(*batch(), blank=6)


COMPARE_TRITON = """
import contextlib, json, sys, torch

sys.path.insert(0, sys.argv[1])
import test_rnnt_loss as cases
from flambeau.audio.functional import _rnnt_loss_triton as kernels
from flambeau.audio.functional.rnnt_loss import _reference, _reference_backward

kernels._on = lambda device: contextlib.nullcontext()  # the interpreter works on tensors of the CPU
differ = []
for dtype in (torch.float32, torch.float64):
    for fused in (True, False):
        for clamp, classes in ((-1.0, 5), (0.05, 1100))[: 1 if dtype == torch.float64 else 2]:
            inputs = cases.batch(frames=3, classes=classes, dtype=dtype)
            inside = _reference(*inputs, 0, fused, clamp)[2] > -float("inf")
            ours, theirs = kernels.rnnt_loss(*inputs, 0, fused, clamp), _reference(*inputs, 0, fused, clamp)
            for name, one, other in zip(("costs", "normalisers", "alphas"), ours, theirs):
                some = slice(None) if name == "costs" else inside
                if not torch.allclose(one[some], other[some], rtol=1e-4, atol=1e-5):
                    differ.append([name, str(dtype), fused, clamp])
            call = (torch.rand(3, dtype=dtype), *inputs, ours[1], ours[2], ours[0], 0, fused, clamp)
            if not torch.allclose(kernels.rnnt_loss_backward(*call), _reference_backward(*call), rtol=1e-4, atol=1e-5):
                differ.append(["gradient", str(dtype), fused, clamp])
print(json.dumps(differ))
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton, whose interpreter needs no GPU")
def test_the_triton_kernels_give_the_references_numbers():
    done = subprocess.run(
        [sys.executable, "-c", COMPARE_TRITON, str(Path(__file__).parent)],
        capture_output=True, text=True, timeout=280, env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_accelerators_are_served_by_the_triton_kernels():
    from flambeau.audio._native import LIBRARY

    for name in ("rnnt_loss", "rnnt_loss_backward"):
        module, _, attribute = LIBRARY.operators[name]["triton"].partition(":")
        assert attribute == name
        origin = importlib.util.find_spec(module)
        assert origin is not None and f"def {name}(" in Path(str(origin.origin)).read_text(encoding="utf-8")
