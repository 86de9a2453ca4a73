"""Alignment: best paths, batches, memory, gradients of scores, spans, errors."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from flambeau.audio.functional import TokenSpan, forced_align, merge_tokens
from flambeau.audio.functional.forced_align import _native, _reference

OP = torch.ops.flambeau_audio.forced_align


def log_probs(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(*shape, generator=generator, dtype=torch.float64)).log_softmax(-1).to(dtype)


def collapse(path: list[int], blank: int) -> list[int]:
    return [label for label, _ in itertools.groupby(path) if label != blank]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), frames=st.integers(1, 6), labels=st.lists(st.integers(1, 2), max_size=3))
def test_the_path_is_the_best_of_all(seed, frames, labels):
    repeats = sum(a == b for a, b in itertools.pairwise(labels))
    if frames < len(labels) + repeats:
        return
    scores = log_probs(1, frames, 3, seed=seed)
    path, found = forced_align(scores, torch.tensor([labels], dtype=torch.int64).reshape(1, -1))
    assert collapse(path[0].tolist(), 0) == labels
    best = max(
        sum(scores[0, t, label].item() for t, label in enumerate(one))
        for one in itertools.product(range(3), repeat=frames)
        if collapse(list(one), 0) == labels
    )
    assert found.sum().item() == pytest.approx(best, abs=1e-5)


def several(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    scores = log_probs(3, 40, 6, dtype=dtype)
    targets = torch.randint(1, 6, (3, 11), generator=torch.Generator().manual_seed(2), dtype=torch.int32)
    return scores, targets, torch.tensor([40, 25, 33]), torch.tensor([11, 4, 0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tier", [_native, _reference])
def test_the_lower_tiers_agree_with_the_dispatcher(dtype, tier):
    inputs = several(dtype)
    assert torch.equal(tier(*inputs, 0, 2**28), OP(*inputs, 0, 2**28))


@pytest.mark.parametrize("most_bytes", [0, 60, 200])
def test_little_memory_gives_the_same_path(most_bytes):
    scores, targets = log_probs(2, 500, 6), several()[1][:2]
    lengths = torch.tensor([500, 320]), torch.tensor([11, 7])
    assert torch.equal(OP(scores, targets, *lengths, 0, most_bytes), OP(scores, targets, *lengths, 0, 2**28))


def test_a_batch_gives_what_its_items_give():
    scores, targets, frames_of, labels_of = several()
    paths, found = forced_align(scores, targets, frames_of, labels_of)
    for n in range(3):
        time, labels = int(frames_of[n]), int(labels_of[n])
        path, score = forced_align(scores[n : n + 1, :time], targets[n : n + 1, :labels])
        assert torch.equal(path[0], paths[n, :time]) and torch.equal(score[0], found[n, :time])
        assert not paths[n, time:].any() and not found[n, time:].any()


def test_scores_are_those_of_the_path_and_have_gradients():
    scores = log_probs(1, 9, 5).requires_grad_()
    path, found = forced_align(scores, torch.tensor([[1, 2]]))
    torch.testing.assert_close(found, scores.gather(-1, path[..., None])[..., 0])
    found.sum().backward()
    assert scores.grad.sum() == 9


def test_the_blank_may_be_any_class():
    scores = log_probs(1, 12, 5)
    path, _ = forced_align(scores, torch.tensor([[0, 3, 3]]), blank=4)
    assert collapse(path[0].tolist(), 4) == [0, 3] or collapse(path[0].tolist(), 4) == [0, 3, 3]
    assert [label for label, _ in itertools.groupby(path[0].tolist())].count(3) == 2


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_paths_have_the_dtype_of_the_targets(dtype):
    path, scores = forced_align(log_probs(1, 9, 5).half(), torch.tensor([[1, 2]], dtype=dtype))
    assert (path.dtype, scores.dtype) == (dtype, torch.float16)


def test_it_compiles_without_breaks():
    scores, targets = log_probs(2, 20, 5), torch.tensor([[1, 2, 3], [3, 2, 1]])
    compiled = torch.compile(forced_align, fullgraph=True, backend="eager")
    for ours, theirs in zip(compiled(scores, targets), forced_align(scores, targets), strict=True):
        assert torch.equal(ours, theirs)


def test_the_operator_keeps_torchs_contract():
    torch.library.opcheck(OP, (*several(), 0, 2**28))


@pytest.mark.parametrize(
    ("targets", "lengths", "error", "word"),
    [
        ([[1, 0, 2]], (None, None), ValueError, "blank"),
        ([[1, 5, 2]], (None, None), ValueError, "class 5"),
        ([[1, 1, 1, 1]], (None, None), RuntimeError, "too long for CTC"),
        ([[1, 2]], (torch.tensor([5]), None), RuntimeError, "input length mismatch"),
        ([[1, 2]], (None, torch.tensor([1])), RuntimeError, "target length mismatch"),
        ([[1, 2], [1, 2]], (None, None), RuntimeError, "shapes"),
        ([[1.0, 2.0]], (None, None), RuntimeError, "torch.float32"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(targets, lengths, error, word):
    with pytest.raises(error, match=word):
        forced_align(log_probs(1, 6, 5), torch.tensor(targets), *lengths)


@pytest.mark.parametrize("tier", [OP, _native, _reference])
@pytest.mark.parametrize(
    ("position", "value", "word"),
    [
        (0, torch.zeros(3, 6), "log_probs has shape"),
        (0, torch.zeros(3, 40, 6, dtype=torch.float16), "log_probs has dtype"),
        (1, torch.zeros(3, 11), "targets has shape"),
        (1, torch.zeros(3, 11, dtype=torch.int32), "without blank"),
        (2, torch.tensor([40, 25]), "lengths have shapes"),
        (2, torch.tensor([40, 0, 3]), "at least 1"),
        (2, torch.tensor([40, 3, 33]), "too long for CTC"),
        (3, torch.tensor([10, 4, 0]), "target length mismatch"),
    ],
)
def test_every_tier_refuses_in_the_same_words(tier, position, value, word):
    inputs = list(several())
    inputs[position] = value
    with pytest.raises(RuntimeError, match=word):
        tier(*inputs, 0, 2**28)


def test_spans_gather_equal_frames_without_blanks():
    tokens = torch.tensor([0, 3, 3, 0, 3, 4, 4, 4])
    scores = torch.tensor([0.1, 0.5, 1.0, 0.1, 0.25, 0.5, 0.5, 0.8])
    spans = merge_tokens(tokens, scores)
    assert spans[:2] == [TokenSpan(3, 1, 3, 0.75), TokenSpan(3, 4, 5, 0.25)]
    assert (spans[2].token, spans[2].start, spans[2].end, len(spans[2])) == (4, 5, 8, 3)
    assert spans[2].score == pytest.approx(0.6)


@given(tokens=st.lists(st.integers(0, 3), max_size=30))
def test_spans_cover_each_label_once_and_in_order(tokens):
    spans = merge_tokens(torch.tensor(tokens, dtype=torch.int64), torch.ones(len(tokens)))
    rebuilt = [0] * len(tokens)
    for span in spans:
        rebuilt[span.start : span.end] = [span.token] * len(span)
    assert rebuilt == tokens and [span.token for span in spans] == collapse(tokens, 0)


@pytest.mark.parametrize(("tokens", "scores"), [(torch.zeros(1, 3), torch.zeros(3)), (torch.zeros(3), torch.zeros(2))])
def test_spans_need_two_rows_of_one_length(tokens, scores):
    with pytest.raises(ValueError, match="expected"):
        merge_tokens(tokens, scores)
