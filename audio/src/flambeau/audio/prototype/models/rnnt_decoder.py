"""Beam search for transducers that are biased towards a list of words.

References:
    Sun et al. 2021, Tree-constrained Pointer Generator for End-to-End Contextual Speech Recognition. arXiv:2109.00627
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from flambeau.audio.models.rnnt import RNNT
from flambeau.audio.models.rnnt_decoder import RNNTBeamSearch, Search, State

__all__ = ["Hypothesis", "RNNTBeamSearchBiasing"]

TrieNode = Any
Hypothesis = tuple[list[int], Tensor, State, float, TrieNode]
"""As of the stable search, and where the tokens stand in the tree of words."""


class RNNTBeamSearchBiasing(RNNTBeamSearch):
    """`RNNTBeamSearch`, in which each hypothesis also goes along a tree of words, and the model may point into that.

    Args:
        model: the transducer, with a pointer where `biasing` is true (`conformer_rnnt_biasing`).
        blank: index of the blank, which has to be the last symbol where `biasing` is true.
        temperature, hypo_sort_key, step_max_tokens: as `RNNTBeamSearch`; hypotheses have the tree's node in addition.
        trie: root of the tree of words: (children by symbol, number of the word that ends here or -1, range of words).
        biasing: whether to bias.

    Raises:
        ValueError: `biasing` without a tree.

    References:
        Sun et al. 2021, Tree-constrained Pointer Generator for End-to-End Contextual Speech Recognition.
        arXiv:2109.00627
    """

    def __init__(
        self,
        model: RNNT,
        blank: int,
        temperature: float = 1.0,
        hypo_sort_key: Callable[[Hypothesis], float] | None = None,
        step_max_tokens: int = 100,
        trie: TrieNode | None = None,
        biasing: bool = False,
    ) -> None:
        super().__init__(model, blank, temperature, hypo_sort_key, step_max_tokens)  # type: ignore[arg-type]
        if biasing and trie is None:
            raise ValueError("trie is None, expected the root of the tree of words that biasing is towards.")
        self.resettrie = trie
        self.dobiasing = biasing

    def _begin(self, encoded: Tensor, given: Sequence[Any] | None) -> _BiasedSearch:
        return _BiasedSearch(self, encoded, given)


class _BiasedSearch(Search):
    """A search that knows where in the tree each sequence of tokens stands."""

    decoder: RNNTBeamSearchBiasing

    def __init__(self, decoder: RNNTBeamSearchBiasing, encoded: Tensor, given: Sequence[Any] | None) -> None:
        self._nodes: dict[int, TrieNode] = {}
        super().__init__(decoder, encoded, given)

    def _take_up(self, given: Sequence[Any]) -> None:
        super()._take_up(given)
        for hypothesis in given:
            self._nodes[self.prefixes.of(hypothesis[0])] = hypothesis[4]

    def _node(self, prefix: int) -> TrieNode:
        root = self.decoder.resettrie
        if not self.decoder.dobiasing or self.prefixes.parent(prefix) < 0:
            return root
        if prefix not in self._nodes:
            before = self._node(self.prefixes.parent(prefix))
            model: Any = self.decoder.model
            self._nodes[prefix] = model.get_tcpgen_step(self.prefixes.last(prefix), before, root)
        return self._nodes[prefix]

    def log_probabilities(self, frame: Tensor, prefixes: Sequence[int]) -> Tensor:
        """(sequences, symbols): log-probabilities of what comes next."""
        if not self.decoder.dobiasing:
            return super().log_probabilities(frame, prefixes)
        model: Any = self.decoder.model
        impossible = torch.ones(len(prefixes), 1, len(model.char_list) + 1, device=self.device)
        outside = torch.zeros(len(prefixes), 1, 1, 1, dtype=torch.bool, device=self.device)
        for row, prefix in enumerate(prefixes):
            children = list(self._node(prefix)[0])
            impossible[row, 0, children] = 0
            outside[row] = not children
        last = torch.tensor([[self.prefixes.last(prefix)] for prefix in prefixes], device=self.device)
        pointed, pointing = model.forward_tcpgen(last, impossible, frame)
        one = torch.ones(1, dtype=torch.int64, device=self.device)
        outputs = self.predictions.outputs(prefixes)
        joined, _, hidden = model.join(frame, one, outputs, one.expand(len(prefixes)), hptr=pointed)
        joined = torch.div(joined, self.decoder.temperature)
        if pointing is None:
            return joined.log_softmax(-1)[:, 0, 0]
        gate = model.pointer_gate(torch.cat([hidden, pointed], dim=-1)).sigmoid().masked_fill(outside, 0.0)
        return _mixed(joined.softmax(-1), pointing, gate).log()[:, 0, 0]

    def hypothesis(self, prefix: int, score: float | None = None) -> Any:
        """A sequence as callers get it, with the tree's node."""
        return *super().hypothesis(prefix, score), self._node(prefix)


def _mixed(generated: Tensor, pointing: Tensor, gate: Tensor) -> Tensor:
    """Probabilities of the symbols: from the model, and by the gate from the pointer (equations 6 and 7 of the paper).

    The pointer shares out what is not blank; its last entry, for none of the list, goes back to the model.
    """
    blank, others = generated[..., -1:], generated[..., :-1]
    pointed = pointing[..., :-2] * (1 - blank)
    return torch.cat([pointed * gate + others * (1 - gate + pointing[..., -1:] * gate), blank], dim=-1)
