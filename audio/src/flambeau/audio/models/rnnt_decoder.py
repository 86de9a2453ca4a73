"""Time-synchronous beam search for RNN transducers.

References:
    Graves 2012, Sequence Transduction with Recurrent Neural Networks. arXiv:1211.3711
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.audio.models.rnnt import RNNT

__all__ = ["Hypothesis", "RNNTBeamSearch"]

State = list[list[Tensor]]
Hypothesis = tuple[list[int], Tensor, State, float]
"""Tokens, the first of which is the blank; the predictor's output (1, channels) and state after them; the score."""


class Prefixes:
    """Sequences of tokens by number: a tree, so that a longer one costs a look-up, and equal ones have one number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}
        self._parents: list[int] = []
        self._tokens: list[int] = []
        self._lengths: list[int] = []

    def longer(self, prefix: int, token: int) -> int:
        """The sequence with one more token; of -1, the empty one, too."""
        number = self._numbers.setdefault((prefix, token), len(self._parents))
        if number == len(self._parents):
            self._parents.append(prefix)
            self._tokens.append(token)
            self._lengths.append(1 + (self._lengths[prefix] if prefix >= 0 else 0))
        return number

    def of(self, tokens: Iterable[int]) -> int:
        """The number of a sequence."""
        prefix = -1
        for token in tokens:
            prefix = self.longer(prefix, token)
        return prefix

    def parent(self, prefix: int) -> int:
        """The sequence without its last token."""
        return self._parents[prefix]

    def last(self, prefix: int) -> int:
        """The last token."""
        return self._tokens[prefix]

    def length(self, prefix: int) -> int:
        """How many tokens."""
        return self._lengths[prefix]

    def tokens(self, prefix: int) -> list[int]:
        """The sequence."""
        found: list[int] = []
        while prefix >= 0:
            found.append(self._tokens[prefix])
            prefix = self._parents[prefix]
        return found[::-1]


class Predictions:
    """The predictor's outputs and states after sequences, in one tensor each, so that any of them make a batch.

    They stay from one frame to the next: most sequences that a frame tries were tried in the frame before.
    """

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._used = 0
        self._tensors: list[Tensor] = []
        self._layout: list[int] = []

    def __contains__(self, prefix: int) -> bool:
        return prefix in self._rows

    def add(self, prefixes: Sequence[int], output: Tensor, state: State) -> None:
        """Keep what the predictor gave for a batch of sequences: (batch, 1, channels), and states of (batch, ...)."""
        tensors = [output, *(tensor for layer in state for tensor in layer)]
        self._layout = [len(layer) for layer in state]
        end = self._used + len(prefixes)
        if not self._tensors:
            self._tensors = [tensor.new_empty(0, *tensor.shape[1:]) for tensor in tensors]
        if end > len(self._tensors[0]):
            self._tensors = [_enlarged(tensor, self._used, 2 * end + 16) for tensor in self._tensors]
        for kept, tensor in zip(self._tensors, tensors, strict=True):
            kept[self._used : end] = tensor
        self._rows.update(zip(prefixes, range(self._used, end), strict=True))
        self._used = end

    def take(self, prefixes: Sequence[int]) -> tuple[Tensor, State]:
        """A batch: output and state."""
        output, *tensors = (tensor.index_select(0, self._index(prefixes)) for tensor in self._tensors)
        parts = iter(tensors)
        return output, [[next(parts) for _ in range(count)] for count in self._layout]

    def outputs(self, prefixes: Sequence[int]) -> Tensor:
        """A batch of outputs alone."""
        return self._tensors[0].index_select(0, self._index(prefixes))

    def forget_all_but(self, prefixes: Sequence[int]) -> None:
        """Give room back, when there is more to give than to keep."""
        if self._used < 64 + 4 * len(prefixes):
            return
        index = self._index(prefixes)
        self._tensors = [tensor.index_select(0, index) for tensor in self._tensors]
        self._rows = {prefix: row for row, prefix in enumerate(prefixes)}
        self._used = len(prefixes)

    def _index(self, prefixes: Sequence[int]) -> Tensor:
        return torch.tensor([self._rows[prefix] for prefix in prefixes], device=self._tensors[0].device)


def _enlarged(tensor: Tensor, used: int, rows: int) -> Tensor:
    larger = tensor.new_empty(rows, *tensor.shape[1:])
    larger[:used] = tensor[:used]
    return larger


def _log_add(a: float, b: float) -> float:
    most, least = max(a, b), min(a, b)
    return most if least == -math.inf else most + math.log1p(math.exp(least - most))


class RNNTBeamSearch(nn.Module):
    """Beam search over the frames of one utterance, at once or as a stream.

    In each frame every hypothesis takes a blank or more tokens: sequences grow by their best tokens as long as
    that beats the worst of the `beam_width` best that have taken their blank; equal sequences add their probabilities.
    All hypotheses of a step share one call of the joiner, and one of the predictor for the sequences it has not seen.

    Args:
        model: the transducer.
        blank: index of the blank. Upstream: it has to be the last one; here it may be any.
        temperature: divides the joiner's output; larger values make hypotheses more alike.
        hypo_sort_key: gives a hypothesis the value by which the best of a frame are chosen, default its log-probability
            by its number of tokens plus one.
        step_max_tokens: most tokens in a frame.

    References:
        Graves 2012, Sequence Transduction with Recurrent Neural Networks. arXiv:1211.3711
    """

    def __init__(
        self,
        model: RNNT,
        blank: int,
        temperature: float = 1.0,
        hypo_sort_key: Callable[[Hypothesis], float] | None = None,
        step_max_tokens: int = 100,
    ) -> None:
        super().__init__()
        self.model = model
        self.blank = blank
        self.temperature = temperature
        self.hypo_sort_key = hypo_sort_key
        self.step_max_tokens = step_max_tokens

    def forward(self, input: Tensor, length: Tensor, beam_width: int) -> list[Hypothesis]:
        """Decode a whole utterance.

        Args:
            input: (time, features) or (1, time, features), with the right context that the model wants.
            length: () or (1,), its frames.
            beam_width: most hypotheses.

        Returns:
            The hypotheses, best first.

        Raises:
            ValueError: another shape, or a beam width below 1.
        """
        input, length = _checked(input, length, beam_width)
        encoded, _ = self.model.transcribe(input, length)
        return self._search(encoded, None, beam_width)

    def infer(
        self,
        input: Tensor,
        length: Tensor,
        beam_width: int,
        state: State | None = None,
        hypothesis: list[Hypothesis] | Hypothesis | None = None,
    ) -> tuple[list[Hypothesis], State]:
        """Go on with a stream by a segment.

        Args:
            input: (time, features) or (1, time, features): a segment with its right context.
            length: () or (1,), its frames.
            beam_width: most hypotheses.
            state: what the segment before left of the transcriber; None at the beginning.
            hypothesis: the hypotheses of the segment before, or one of them; None at the beginning.

        Returns:
            The hypotheses, best first, and the state of the transcriber.

        Raises:
            ValueError: another shape, or a beam width below 1.
        """
        input, length = _checked(input, length, beam_width)
        encoded, _, state = self.model.transcribe_streaming(input, length, state)
        given = [hypothesis] if isinstance(hypothesis, tuple) else hypothesis
        return self._search(encoded, given or None, beam_width), state

    @torch.no_grad()
    def _search(self, encoded: Tensor, given: Sequence[Any] | None, beam_width: int) -> list[Any]:
        search = self._begin(encoded, given)
        for frame in encoded.split(1, dim=1):
            search.step(frame, beam_width)
        return [search.hypothesis(prefix) for prefix in search.beam]

    def _begin(self, encoded: Tensor, given: Sequence[Any] | None) -> Search:
        return Search(self, encoded, given)


class Search:
    """One utterance of a beam search: which sequences are alive, and what the predictor says of them.

    Args:
        decoder: whose model and options are used.
        encoded: (1, frames, channels), to take the device from.
        given: hypotheses to go on with; None to begin.
    """

    def __init__(self, decoder: RNNTBeamSearch, encoded: Tensor, given: Sequence[Any] | None) -> None:
        self.decoder, self.device = decoder, encoded.device
        self.prefixes = Prefixes()
        self.predictions = Predictions()
        self.beam: dict[int, float] = {}
        if given is None:
            self._predict([self.prefixes.longer(-1, decoder.blank)])
            self.beam[0] = 0.0
        else:
            self._take_up(given)

    def _take_up(self, given: Sequence[Any]) -> None:
        for hypothesis in given:
            tokens, output, state, score = hypothesis[:4]
            prefix = self.prefixes.of(tokens)
            self.predictions.add([prefix], output.unsqueeze(0), state)
            self.beam[prefix] = score

    def step(self, frame: Tensor, beam_width: int) -> None:
        """Go on by a frame, (1, 1, channels)."""
        active = dict(self.beam)
        done: dict[int, float] = {}
        blank = self.decoder.blank
        for emitted in range(self.decoder.step_max_tokens + 1):
            log_probabilities = self.log_probabilities(frame, list(active)).float().cpu()
            for (prefix, score), rest in zip(active.items(), log_probabilities[:, blank].tolist(), strict=True):
                done[prefix] = _log_add(done.get(prefix, -math.inf), score + rest)
            if emitted == self.decoder.step_max_tokens:
                break
            least = heapq.nlargest(beam_width, done.values())[-1] if len(done) >= beam_width else -math.inf
            active = self._longer(active, log_probabilities, least, beam_width)
            if not active:
                break
        best = heapq.nlargest(beam_width, done, key=self._sort_key(done))
        self.predictions.forget_all_but(list(done))
        self.beam = {prefix: done[prefix] for prefix in best}

    def _longer(
        self, active: dict[int, float], log_probabilities: Tensor, least: float, beam_width: int
    ) -> dict[int, float]:
        """The best sequences with one more token that are better than `least`."""
        scores = torch.tensor(list(active.values())).unsqueeze(1) + log_probabilities
        scores[:, self.decoder.blank] = -math.inf
        values, places = scores.flatten().topk(min(beam_width, scores.numel()))
        symbols, parents = scores.shape[1], list(active)
        found = {
            self.prefixes.longer(parents[place // symbols], place % symbols): value
            for value, place in zip(values.tolist(), places.tolist(), strict=True)
            if value > least
        }
        if unknown := [prefix for prefix in found if prefix not in self.predictions]:
            self._predict(unknown)
        return found

    def _predict(self, prefixes: Sequence[int]) -> None:
        tokens = torch.tensor([[self.prefixes.last(prefix)] for prefix in prefixes], device=self.device)
        parents = [self.prefixes.parent(prefix) for prefix in prefixes]
        state = None if parents[0] < 0 else self.predictions.take(parents)[1]
        lengths = torch.ones(len(prefixes), dtype=torch.int64, device=self.device)
        output, _, state = self.decoder.model.predict(tokens, lengths, state)
        self.predictions.add(prefixes, output, state)

    def log_probabilities(self, frame: Tensor, prefixes: Sequence[int]) -> Tensor:
        """(sequences, symbols): log-probabilities of what comes next."""
        one = torch.ones(1, dtype=torch.int64, device=self.device)
        outputs = self.predictions.outputs(prefixes)
        joined, _, _ = self.decoder.model.join(frame, one, outputs, one.expand(len(prefixes)))
        return torch.log_softmax(joined[:, 0, 0] / self.decoder.temperature, dim=-1)

    def _sort_key(self, scores: dict[int, float]) -> Callable[[int], float]:
        chosen = self.decoder.hypo_sort_key
        if chosen is None:
            return lambda prefix: scores[prefix] / (self.prefixes.length(prefix) + 1)
        return lambda prefix: float(chosen(self.hypothesis(prefix, scores[prefix])))

    def hypothesis(self, prefix: int, score: float | None = None) -> Any:
        """A sequence as callers get it, with a score or that of the beam."""
        output, state = self.predictions.take([prefix])
        return self.prefixes.tokens(prefix), output[0], state, self.beam[prefix] if score is None else score


def _checked(input: Tensor, length: Tensor, beam_width: int) -> tuple[Tensor, Tensor]:
    if input.dim() != 2 and not (input.dim() == 3 and input.shape[0] == 1):
        raise ValueError(f"input has the shape {tuple(input.shape)}, expected (T, D) or (1, T, D); search one by one.")
    if length.shape not in ((), (1,)):
        raise ValueError(f"length has the shape {tuple(length.shape)}, expected one number, () or (1,).")
    if beam_width < 1:
        raise ValueError(f"beam_width is {beam_width}, expected at least 1.")
    return (input.unsqueeze(0) if input.dim() == 2 else input), length.reshape(1)
