"""CTC prefix beam search without a language model, on a GPU and on the CPU."""

from __future__ import annotations

import os
from typing import NamedTuple

import torch
from torch import Tensor

from flambeau.audio.models.decoder._prefix_search import prefix_search
from flambeau.audio.models.decoder._vocabulary import Dictionary

__all__ = ["CUCTCDecoder", "CUCTCHypothesis", "cuda_ctc_decoder"]


class CUCTCHypothesis(NamedTuple):
    """One transcript with its score.

    Args:
        tokens: indices of the tokens.
        words: their names.
        score: log-probability: of all paths that give these tokens, as far as the beam kept them.
    """

    tokens: list[int]
    words: list[str]
    score: float


class CUCTCDecoder:
    """CTC prefix beam search without a lexicon or a language model.

    A batch is decoded where its log-probabilities are, all utterances side by side.

    Args:
        vocab_list: names of the tokens, in the order of the model's outputs.
        blank_id: index of the blank, which has to be 0.
        beam_size: most prefixes.
        nbest: hypotheses to return for each utterance.
        blank_skip_threshold: frames in which the blank is more probable are skipped; in [0, 1], 1 skips none.
        cuda_stream: the stream to decode on; the current one when None.

    Raises:
        AssertionError: another blank, or a threshold outside [0, 1]. Upstream: that error.
        ValueError: `nbest` or `beam_size` below 1.

    References:
        Graves 2012, Supervised Sequence Labelling with Recurrent Neural Networks, section 7.5.3.
        doi:10.1007/978-3-642-24797-2
        Hannun et al. 2014, First-Pass Large Vocabulary Continuous Speech Recognition using Bi-Directional Recurrent
        DNNs.
        arXiv:1408.2873
    """

    def __init__(
        self,
        vocab_list: list[str],
        blank_id: int = 0,
        beam_size: int = 10,
        nbest: int = 1,
        blank_skip_threshold: float = 0.95,
        cuda_stream: torch.cuda.Stream | None = None,
    ) -> None:
        if blank_id != 0:
            raise AssertionError(f"blank_id is {blank_id}, expected 0: the blank must be the first token.")
        if not 0 <= blank_skip_threshold <= 1:
            raise AssertionError(f"blank_skip_threshold is {blank_skip_threshold}, expected 0 to 1.")
        for name, value in (("beam_size", beam_size), ("nbest", nbest)):
            if value < 1:
                raise ValueError(f"{name} is {value}, expected at least 1.")
        self.vocab_list, self.blank_id = list(vocab_list), blank_id
        self.beam_size, self.nbest = beam_size, min(nbest, beam_size)
        self.blank_skip_threshold = blank_skip_threshold
        self.cuda_stream = cuda_stream

    def __call__(self, log_prob: Tensor, encoder_out_lens: Tensor) -> list[list[CUCTCHypothesis]]:
        """Decode a batch.

        Args:
            log_prob: (batch, frames, tokens), float32: log-probabilities, on a GPU or the CPU.
            encoder_out_lens: (batch,), int32: the frames of each utterance, on the same device.

        Returns:
            For each utterance its hypotheses, best first, at most `nbest`.

        Raises:
            ValueError: another dtype, shape or device, or fewer tokens than names.
        """
        self._check(log_prob, encoder_out_lens)
        stream = self.cuda_stream if log_prob.is_cuda else None
        with torch.cuda.stream(stream):  # of None: as it is
            found = prefix_search(log_prob, encoder_out_lens, self.beam_size, self.nbest, self.blank_skip_threshold)
        return [
            [
                CUCTCHypothesis(tokens, [self.vocab_list[token] for token in tokens], score)
                for tokens, score in hypotheses
            ]
            for hypotheses in found
        ]

    def _check(self, log_prob: Tensor, lengths: Tensor) -> None:
        if log_prob.dtype != torch.float32 or log_prob.ndim != 3:
            raise ValueError(
                f"log_prob must be float32 of (batch, frames, tokens), got {log_prob.dtype} of {tuple(log_prob.shape)}."
            )
        if lengths.dtype != torch.int32 or lengths.shape != log_prob.shape[:1]:
            raise ValueError(
                f"encoder_out_lens must be int32 of ({len(log_prob)},), got {lengths.dtype} of {tuple(lengths.shape)}."
            )
        if lengths.device != log_prob.device:
            raise ValueError(f"encoder_out_lens is on {lengths.device}, expected {log_prob.device} as log_prob.")
        if log_prob.shape[-1] != len(self.vocab_list):
            raise ValueError(
                f"log_prob has {log_prob.shape[-1]} tokens, expected the decoder's {len(self.vocab_list)}."
            )


def cuda_ctc_decoder(
    tokens: str | os.PathLike[str] | list[str],
    nbest: int = 1,
    beam_size: int = 10,
    blank_skip_threshold: float = 0.95,
) -> CUCTCDecoder:
    """Make a prefix beam search decoder.

    Args:
        tokens: the tokens in the order of the model's outputs, the blank first, as a list or a file with one a line.
        nbest: hypotheses to return for each utterance.
        beam_size: most prefixes.
        blank_skip_threshold: frames in which the blank is more probable are skipped; in [0, 1], 1 skips none.

    Returns:
        The decoder.

    Raises:
        AssertionError: a threshold outside [0, 1].
        ValueError: `nbest` or `beam_size` below 1, or a token is there twice.
        FileNotFoundError: there is no such file.

    Example:
        >>> decoder = cuda_ctc_decoder(["<blk>", "a", "b"])
        >>> log_prob = torch.tensor([[[0.1, 0.8, 0.1], [0.2, 0.1, 0.7]]]).log()
        >>> decoder(log_prob, torch.tensor([2], dtype=torch.int32))[0][0].words
        ['a', 'b']
    """
    names = list(Dictionary.of(tokens if isinstance(tokens, list) else os.fspath(tokens)))
    return CUCTCDecoder(names, beam_size=beam_size, nbest=nbest, blank_skip_threshold=blank_skip_threshold)
