"""The search in plain Python: what the native one has to agree with, and what serves where that is not there."""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from flambeau.audio.models.decoder._hypothesis import Path
from flambeau.audio.models.decoder._language_model import CTCDecoderLM
from flambeau.audio.models.decoder._options import DecoderOptions

__all__ = ["ReferenceEngine"]


class _Node:
    """A node of the lexicon's tree; `most` is the best score of a word below it."""

    def __init__(self) -> None:
        self.children: dict[int, _Node] = {}
        self.words: list[int] = []
        self.most = -math.inf

    def add(self, tokens: Sequence[int], word: int, score: float) -> None:
        node = self
        for token in tokens:
            node = node.children.setdefault(token, _Node())
        node.words.append(word)
        node.most = float(np.logaddexp(node.most, score))  # Upstream: homophones add up

    def smear(self) -> float:
        self.most = max([self.most, *(child.smear() for child in self.children.values())])
        return self.most


class _Trace(NamedTuple):
    before: _Trace | None
    token: int
    word: int


class _Hypothesis(NamedTuple):
    score: float
    state: Any
    node: _Node | None
    token: int
    blank: bool
    trace: _Trace | None


class _Units:
    """The language model as the search asks it: states are compared, units are the decoder's numbers."""

    def __init__(self, model: Any, units: np.ndarray[Any, Any]) -> None:
        self.model, self.units = model, units
        self.custom = isinstance(model, CTCDecoderLM)

    def start(self) -> Any:
        if self.custom:
            return self.model.start(False)
        return ((), None if self.model is None else self.model.start())

    def score(self, state: Any, unit: int) -> tuple[Any, float]:
        if self.custom:
            return self.model.score(state, unit)  # type: ignore[no-any-return]
        history, context = state
        if self.model is None:
            return ((*history, unit), None), 0.0
        word = int(self.units[unit]) if unit < len(self.units) else 0
        after, score = self.model.next(context, word)
        return ((*history, unit), after), score

    def finish(self, state: Any) -> tuple[Any, float]:
        if self.custom:
            return self.model.finish(state)  # type: ignore[no-any-return]
        return state, 0.0 if self.model is None else self.model.end(state[1])


class ReferenceEngine:
    """Searches one utterance after the other. Arguments as those of the native engine, the lexicon as its rows."""

    def __init__(
        self,
        options: DecoderOptions,
        blank: int,
        silence: int,
        spellings: Sequence[tuple[list[int], int, float]] | None,
        model: Any,
        units: np.ndarray[Any, Any],
        unknown: int,
    ) -> None:
        self.options, self.blank, self.silence, self.unknown = options, blank, silence, unknown
        self.units = _Units(model, units)
        self.root: _Node | None = None
        if spellings is not None:
            self.root = _Node()
            for tokens, word, score in spellings:
                self.root.add(tokens, word, score)
            self.root.smear()

    def decode(self, emissions: Tensor, lengths: Tensor, nbest: int) -> list[list[Path]]:
        """The best paths of each row of (batch, frames, tokens)."""
        found = []
        for rows, length in zip(emissions, lengths.tolist(), strict=True):
            search = self.search(emissions.shape[2])
            search.step(rows[:length])
            search.end()
            found.append(search.results(nbest))
        return found

    def search(self, width: int) -> _Search:
        """A search that takes its utterance in pieces."""
        return _Search(self, width)


class _Search:
    def __init__(self, engine: ReferenceEngine, width: int) -> None:
        self.engine, self.options, self.width = engine, engine.options, width
        trace = _Trace(None, engine.silence, -1)
        state = engine.units.start()
        self.beam = [_Hypothesis(0.0, state, engine.root, engine.silence, False, trace)]
        self._candidates: list[_Hypothesis] = []

    def step(self, emissions: Tensor) -> None:
        """Go on by (frames, tokens)."""
        for frame in emissions.tolist():
            best = heapq.nlargest(self.options.beam_size_token, range(len(frame)), key=frame.__getitem__)
            for hypothesis in self.beam:
                if self.engine.root is None:
                    self._extend(hypothesis, frame, best)
                else:
                    self._extend_spelling(hypothesis, frame, set(best))
            self._close()

    def end(self) -> None:
        """The utterance is over."""
        complete = [hypothesis for hypothesis in self.beam if hypothesis.node is self.engine.root]
        for hypothesis in complete or self.beam:
            state, score = self.engine.units.finish(hypothesis.state)
            total = hypothesis.score + self.options.lm_weight * score
            self._propose(hypothesis, total, state, hypothesis.node, self.engine.silence, False, -1)
        self._close()

    def results(self, nbest: int) -> list[Path]:
        """The best paths so far."""
        best = heapq.nlargest(nbest, self.beam, key=lambda hypothesis: hypothesis.score)
        return [self._path(hypothesis) for hypothesis in best]

    def _propose(
        self, before: _Hypothesis, score: float, state: Any, node: _Node | None, token: int, blank: bool, word: int
    ) -> None:
        self._candidates.append(_Hypothesis(score, state, node, token, blank, _Trace(before.trace, token, word)))

    def _emitted(self, hypothesis: _Hypothesis, frame: list[float], token: int) -> float:
        silence = self.options.sil_score if token == self.engine.silence else 0.0
        return hypothesis.score + frame[token] + silence

    def _extend(self, hypothesis: _Hypothesis, frame: list[float], tokens: list[int]) -> None:
        for token in tokens:
            score, state = self._emitted(hypothesis, frame, token), hypothesis.state
            blank = token == self.engine.blank
            if not blank and (token != hypothesis.token or hypothesis.blank):
                state, said = self.engine.units.score(state, token)
                score += self.options.lm_weight * said
            self._propose(hypothesis, score, state, None, token, blank, -1)

    def _extend_spelling(self, hypothesis: _Hypothesis, frame: list[float], tokens: set[int]) -> None:
        options, root, node = self.options, self.engine.root, hypothesis.node
        assert node is not None
        paid = 0.0 if node is root else node.most
        for token, child in node.children.items():
            if token not in tokens:
                continue
            score = self._emitted(hypothesis, frame, token)
            repeats = token == hypothesis.token
            if child.children and (hypothesis.blank or not repeats):
                ahead = score + options.lm_weight * (child.most - paid)
                self._propose(hypothesis, ahead, hypothesis.state, child, token, False, -1)
            for word in () if node is root and repeats else child.words:
                self._say(hypothesis, score + options.word_score, token, word, paid)
            if not child.words and options.unk_score > -math.inf:
                self._say(hypothesis, score + options.unk_score, token, self.engine.unknown, paid)
        if not hypothesis.blank or node is root:
            token = self.engine.silence if node is root else hypothesis.token
            self._propose(hypothesis, self._emitted(hypothesis, frame, token), hypothesis.state, node, token, False, -1)
        blank = self.engine.blank
        self._propose(hypothesis, hypothesis.score + frame[blank], hypothesis.state, node, blank, True, -1)

    def _say(self, hypothesis: _Hypothesis, score: float, token: int, word: int, paid: float) -> None:
        state, said = self.engine.units.score(hypothesis.state, word)
        total = score + self.options.lm_weight * (said - paid)
        self._propose(hypothesis, total, state, self.engine.root, token, False, word)

    def _close(self) -> None:
        candidates, self._candidates = self._candidates, []
        best = max((candidate.score for candidate in candidates if candidate.score == candidate.score), default=0.0)
        kept: dict[Hashable, list[_Hypothesis]] = {}
        for candidate in candidates:
            if candidate.score >= best - self.options.beam_threshold:
                state = id(candidate.state) if self.engine.units.custom else candidate.state[0]
                kept.setdefault((state, id(candidate.node), candidate.token, candidate.blank), []).append(candidate)
        merged = [self._merged(same) for same in kept.values()]
        self.beam = heapq.nlargest(self.options.beam_size, merged, key=lambda hypothesis: hypothesis.score)

    def _merged(self, same: list[_Hypothesis]) -> _Hypothesis:
        best = max(same, key=lambda hypothesis: hypothesis.score)
        if not self.options.log_add or len(same) == 1:
            return best
        return best._replace(score=float(np.logaddexp.reduce([hypothesis.score for hypothesis in same])))

    def _path(self, hypothesis: _Hypothesis) -> Path:
        path: list[_Trace] = []
        trace = hypothesis.trace
        while trace is not None:
            path.append(trace)
            trace = trace.before
        path.reverse()
        steps = [
            index
            for index, entry in enumerate(path)
            if entry.token != self.engine.blank and (index == 0 or entry.token != path[index - 1].token)
        ]
        return Path(
            tokens=torch.tensor([path[step].token for step in steps], dtype=torch.int64),
            timesteps=torch.tensor(steps, dtype=torch.int32),
            words=[entry.word for entry in path if entry.word >= 0],
            score=hypothesis.score,
        )
