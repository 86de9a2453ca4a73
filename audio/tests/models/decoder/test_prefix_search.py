"""The prefix search: against the sum over all paths, and what it refuses."""

import importlib.util
import itertools
import math
import os
import subprocess
import sys

import pytest
import torch

from flambeau.audio.models.decoder import CUCTCDecoder, cuda_ctc_decoder

NAMES = ["<blk>", "a", "b", "c"]


def scores(seed, batch=3, frames=5):
    generator = torch.Generator().manual_seed(seed)
    return (1.5 * torch.randn(batch, frames, len(NAMES), generator=generator)).log_softmax(-1)


def summed(frames):
    """Every token sequence with the log of its probability, best first."""
    found = {}
    for path in itertools.product(range(frames.shape[1]), repeat=len(frames)):
        tokens = tuple(token for token, _ in itertools.groupby(path) if token)
        total = sum(frames[t, token].item() for t, token in enumerate(path))
        found.setdefault(tokens, []).append(total)
    sums = {tokens: math.log(sum(map(math.exp, totals))) for tokens, totals in found.items()}
    return sorted(sums.items(), key=lambda item: -item[1])


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_sums_over_all_paths(seed):
    log_prob, lengths = scores(seed), torch.tensor([5, 3, 0], dtype=torch.int32)
    decoder = cuda_ctc_decoder(NAMES, nbest=5, beam_size=500, blank_skip_threshold=1)
    for row, length, found in zip(log_prob, lengths.tolist(), decoder(log_prob, lengths), strict=True):
        expected = summed(row[:length])[:5]
        assert [tuple(h.tokens) for h in found] == [tokens for tokens, _ in expected]
        assert [h.score for h in found] == pytest.approx([score for _, score in expected], abs=1e-4)
        assert [h.words for h in found] == [[NAMES[token] for token in h.tokens] for h in found]


def test_a_narrow_beam_never_scores_above_the_sum():
    log_prob, lengths = scores(7, 1), torch.tensor([5], dtype=torch.int32)
    truth = dict(summed(log_prob[0]))
    for beam in (1, 2, 5):
        found = cuda_ctc_decoder(NAMES, nbest=beam, beam_size=beam, blank_skip_threshold=1)(log_prob, lengths)[0]
        assert len({tuple(h.tokens) for h in found}) == len(found) <= beam
        assert all(h.score <= truth[tuple(h.tokens)] + 1e-5 for h in found)


def test_frames_where_the_blank_is_probable_are_skipped():
    log_prob = scores(2, 1)
    sure = torch.tensor([[[0.97, 0.01, 0.01, 0.01]]]).log()
    longer = torch.cat([log_prob[:, :2], sure, log_prob[:, 2:], sure], dim=1)
    decoder = cuda_ctc_decoder(NAMES, nbest=3)
    lengths = torch.tensor([longer.shape[1]], dtype=torch.int32)
    short = torch.tensor([log_prob.shape[1]], dtype=torch.int32)
    assert decoder(longer, lengths)[0] == decoder(log_prob, short)[0]


@pytest.mark.parametrize("threshold", [-0.1, 1.1])
def test_a_threshold_that_is_no_probability_is_refused(threshold):
    with pytest.raises(AssertionError, match="expected 0 to 1"):
        cuda_ctc_decoder(NAMES, blank_skip_threshold=threshold)


def test_the_blank_has_to_be_first():
    with pytest.raises(AssertionError, match="blank must be the first"):
        CUCTCDecoder(NAMES, blank_id=3)


@pytest.mark.parametrize(
    ("log_prob", "lengths", "words"),
    [
        (torch.zeros(1, 2, 4, dtype=torch.float64), torch.tensor([2], dtype=torch.int32), "float32"),
        (torch.zeros(1, 2, 4), torch.tensor([2]), "int32"),
        (torch.zeros(1, 2, 4), torch.tensor([2, 2], dtype=torch.int32), r"int32 of \(1,\)"),
        (torch.zeros(1, 2, 5), torch.tensor([2], dtype=torch.int32), "5 tokens, expected the decoder's 4"),
    ],
)
def test_what_does_not_fit_is_refused(log_prob, lengths, words):
    with pytest.raises(ValueError, match=words):
        cuda_ctc_decoder(NAMES)(log_prob, lengths)


def test_tokens_come_from_a_file_too(tmp_path):
    path = tmp_path / "tokens.txt"
    path.write_text("".join(f"{name}\n" for name in NAMES))
    assert cuda_ctc_decoder(str(path)).vocab_list == NAMES


COMPARE_TRITON = """
import torch
from flambeau.audio.models.decoder import _prefix_search as plain, _prefix_search_triton as fused

for beam, tokens, tile in ((1, 17, 4096), (3, 5, 4096), (4, 70, 64)):
    fused._TILE = tile
    generator = torch.Generator().manual_seed(beam)
    state = plain._State(2, beam, torch.device("cpu"))
    for _ in range(4):
        frame = (2 * torch.randn(2, tokens, generator=generator)).log_softmax(-1)
        given = (state.blank, state.token, state.last, state.identity, state.parent, frame)
        for one, other in zip(fused.advance(*given), plain.advance(*given)):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
        state.step(plain.advance, frame, torch.ones(2, dtype=torch.bool), tokens)
print("agree")
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton, whose interpreter needs no GPU")
def test_the_triton_kernel_goes_through_a_frame_as_the_plain_version_does():
    done = subprocess.run(
        [sys.executable, "-c", COMPARE_TRITON],
        capture_output=True, text=True, timeout=280, env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split() == ["agree"]
