"""Transducers biased towards words of a list by a tree-constrained pointer (Sun et al. 2021, arXiv:2109.00627)."""

from __future__ import annotations

import math
from typing import Any, Optional

import torch
from torch import Tensor, nn

from flambeau.audio.models.rnnt import _JOINER_ACTIVATIONS, RNNT, _Predictor, _Transcriber

__all__ = ["RNNTBiasing", "TrieNode"]

# [children by symbol, index of the word that ends here or -1, range of the words below or None]
TrieNode = tuple[dict[int, "TrieNode"], int, Optional[tuple[int, int]]]  # noqa: UP045 - evaluated, with a name in it

_WORD_END = "\u2581"


class _JoinerBiasing(nn.Module):
    """A joiner that may add what the pointer points at, and also gives its last hidden layer.

    Args:
        input_dim: channels of the encodings.
        output_dim: symbols.
        activation: "relu" or "tanh".
        biasing: whether there is any biasing.
        deepbiasing: whether the joiner sees what the pointer points at.
        attndim: channels of that.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        activation: str = "relu",
        biasing: bool = False,
        deepbiasing: bool = False,
        attndim: int = 1,
    ) -> None:
        super().__init__()
        if activation not in _JOINER_ACTIVATIONS:
            raise ValueError(f"Unsupported activation {activation!r}, expected 'relu' or 'tanh'.")
        self.linear = nn.Linear(input_dim, output_dim)
        self.biasing, self.deepbiasing, self.attndim = biasing, deepbiasing, attndim
        if biasing and deepbiasing:
            self.biasinglinear = nn.Linear(attndim, input_dim)
        self.activation = _JOINER_ACTIVATIONS[activation]()

    def forward(
        self,
        source_encodings: Tensor,
        source_lengths: Tensor,
        target_encodings: Tensor,
        target_lengths: Tensor,
        hptr: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """See `RNNTBiasing.join`; returns logits, both lengths, and the hidden layer."""
        joint = source_encodings.unsqueeze(2) + target_encodings.unsqueeze(1)
        if self.biasing and self.deepbiasing and hptr is not None:
            joint = joint + self.biasinglinear(hptr)
        elif self.biasing and self.deepbiasing:
            joint = joint + _unused(self.biasinglinear)
        hidden = self.activation(joint)
        return self.linear(hidden), source_lengths, target_lengths, hidden


def _unused(*modules: nn.Module) -> Tensor:
    """Zero, by way of all parameters, so that distributed training sees each of them in every step."""
    return sum((0.0 * parameter.sum() for module in modules for parameter in module.parameters()), torch.zeros(()))


class RNNTBiasing(RNNT):
    """A transducer whose next symbols may be pointed at in a tree of words.

    Args:
        transcriber: encodes audio.
        predictor: encodes the symbols so far.
        joiner: joins both.
        attndim: channels of the pointer's attention.
        biasing: whether there is any biasing.
        deepbiasing: whether the joiner sees what the pointer points at.
        embdim: channels of symbols.
        jointdim: channels of the joiner.
        charlist: the symbols' texts, "<blank>" among them; those of a word's last piece end with U+2581.
        encoutdim: channels of the transcriber's output.
        dropout_tcpgen: probability in the pointer.
        tcpsche: epoch from which on the pointer is trained.
        DBaverage: deep biasing by the mean of the possible symbols, without a pointer.

    Raises:
        ValueError: `charlist` has no "<blank>".
    """

    def __init__(
        self,
        transcriber: _Transcriber,
        predictor: _Predictor,
        joiner: Any,
        attndim: int,
        biasing: bool,
        deepbiasing: bool,
        embdim: int,
        jointdim: int,
        charlist: list[str],
        encoutdim: int,
        dropout_tcpgen: float,
        tcpsche: int,
        DBaverage: bool,
    ) -> None:
        super().__init__(transcriber, predictor, joiner)
        if not charlist or "<blank>" not in charlist:
            raise ValueError(f"charlist has {len(charlist or ())} symbols without '<blank>', expected it among them.")
        self.attndim, self.deepbiasing, self.jointdim = attndim, deepbiasing, jointdim
        self.embdim, self.encoutdim = embdim, encoutdim
        self.char_list = charlist
        self.blank_idx = charlist.index("<blank>")
        self.nchars = len(charlist)
        self.DBaverage, self.biasing = DBaverage, biasing
        if biasing and deepbiasing and DBaverage:
            self.biasingemb = nn.Linear(self.nchars, attndim, bias=False)
        elif biasing:
            self.ooKBemb = nn.Embedding(1, embdim)
            self.Qproj_char = nn.Linear(embdim, attndim)
            self.Qproj_acoustic = nn.Linear(encoutdim, attndim)
            self.Kproj = nn.Linear(embdim, attndim)
            self.pointer_gate = nn.Linear(attndim + jointdim, 1)
        self.dropout_tcpgen = nn.Dropout(dropout_tcpgen)
        self.tcpsche = tcpsche

    def forward(  # type: ignore[override]
        self,
        sources: Tensor,
        source_lengths: Tensor,
        targets: Tensor,
        target_lengths: Tensor,
        tries: TrieNode,
        current_epoch: int,
        predictor_state: list[list[Tensor]] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, list[list[Tensor]], Tensor | None, Tensor | None]:
        """What training needs.

        Args:
            sources: (batch, time, input_dim).
            source_lengths: (batch,) valid frames.
            targets: (batch, symbols) integers, a blank first.
            target_lengths: (batch,) valid symbols.
            tries: the tree of words; an empty list for none.
            current_epoch: the pointer counts from `tcpsche` on.
            predictor_state: what a call before left, None for none.

        Returns:
            Logits (batch, frames, symbols, num_symbols), valid frames, valid symbols, the predictor's state, the
            pointer's distribution (batch, frames, symbols, num_symbols + 1), and the probability of pointing (batch,
            frames, symbols, 1); the latter two are None without a pointer.
        """
        sources, source_lengths = self.transcriber(sources, source_lengths)
        encoded, target_lengths, predictor_state = self.predictor(targets, target_lengths, predictor_state)
        hptr = distribution = gate = outside = None
        if self.biasing and current_epoch >= self.tcpsche and len(tries):
            impossible, outside = self.get_tcpgen_step_masks(targets, tries)
            hptr, distribution = self.forward_tcpgen(targets, impossible, sources)
            hptr = self.dropout_tcpgen(hptr)
        elif self.biasing:
            sources = sources + _unused(*self._pointer_parts())
        logits, source_lengths, target_lengths, hidden = self.joiner(
            sources, source_lengths, encoded, target_lengths, hptr
        )
        if hptr is not None and distribution is not None and outside is not None:
            gate = self.pointer_gate(torch.cat([hidden, hptr], dim=-1)).sigmoid()
            gate = gate.masked_fill(outside.bool()[:, None, :, None], 0.0)
        return logits, source_lengths, target_lengths, predictor_state, distribution, gate

    def _pointer_parts(self) -> list[nn.Module]:
        if self.deepbiasing and self.DBaverage:
            return [self.biasingemb]
        return [self.ooKBemb, self.Qproj_char, self.Qproj_acoustic, self.Kproj, self.pointer_gate]

    def get_tcpgen_distribution(self, query: Tensor, ptrdist_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Where the pointer points (equations 3 and 4 of the paper).

        Args:
            query: (batch, frames, symbols, attndim).
            ptrdist_mask: (batch, symbols, num_symbols + 1), not 0 where a symbol cannot follow.

        Returns:
            What is pointed at (batch, frames, symbols, attndim), and probabilities (batch, frames, symbols,
            num_symbols + 1), the last one for none of the list.
        """
        embeddings = torch.cat([self.predictor.embedding.weight.detach(), self.ooKBemb.weight])
        keys = self.dropout_tcpgen(self.Kproj(embeddings))
        scores = query @ keys.T / math.sqrt(query.shape[-1])
        distribution = scores.masked_fill(ptrdist_mask.bool()[:, None], -1e9).softmax(dim=-1)
        return distribution[..., :-1] @ keys[:-1], distribution

    def forward_tcpgen(
        self, targets: Tensor, ptrdist_mask: Tensor, source_encodings: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """What the pointer points at behind each prefix in each frame.

        Args:
            targets: (batch, symbols) integers.
            ptrdist_mask: see `get_tcpgen_distribution`.
            source_encodings: (batch, frames, encoutdim).

        Returns:
            As `get_tcpgen_distribution`; without a pointer (batch, 1, symbols, attndim), and None.
        """
        if self.DBaverage and self.deepbiasing:
            possible = (1 - ptrdist_mask[:, :, :-1]).to(source_encodings.dtype)
            return self.biasingemb(possible).unsqueeze(1), None
        symbols = self.Qproj_char(self.predictor.embedding(targets)).unsqueeze(1)
        return self.get_tcpgen_distribution(symbols + self.Qproj_acoustic(source_encodings).unsqueeze(2), ptrdist_mask)

    def get_tcpgen_step(self, vy: int, trie: TrieNode, resettrie: TrieNode) -> Any:
        """The node behind a symbol; a node without children where the symbol leaves the tree.

        Args:
            vy: the symbol.
            trie: the node before it.
            resettrie: the root.
        """
        children = trie[0]
        if vy == self.blank_idx:
            return resettrie
        if self.char_list[vy].endswith(_WORD_END):
            return children[vy] if vy in children and children[vy][0] else resettrie
        return children.get(vy, [{}])

    def get_tcpgen_step_masks(self, yseqs: Tensor, resettrie: TrieNode) -> tuple[Tensor, Tensor]:
        """What can follow each prefix, for pieces that mark the end of a word.

        Args:
            yseqs: (batch, symbols) integers.
            resettrie: the root of the tree.

        Returns:
            (batch, symbols, num_symbols + 1), 0 where a symbol can follow and 1 elsewhere, of the dtype of `yseqs`;
            and (batch, symbols) uint8, 1 where a prefix has left the tree.
        """
        impossible = yseqs.new_ones(*yseqs.shape, self.nchars + 1)
        outside = torch.zeros(yseqs.shape, dtype=torch.uint8)
        for item, symbols in enumerate(yseqs.tolist()):
            node: Any = resettrie
            for position, symbol in enumerate(symbols):
                node = self.get_tcpgen_step(symbol, node, resettrie)
                outside[item, position] = not node[0]
                impossible[item, position, list(node[0])] = 0
        return impossible, outside.to(yseqs.device)

    def get_tcpgen_step_masks_prefix(self, yseqs: Tensor, resettrie: TrieNode) -> tuple[Tensor, Tensor]:
        """What can follow each prefix, for pieces that mark the beginning of a word; see `get_tcpgen_step_masks`."""
        impossible = yseqs.new_ones(*yseqs.shape, self.nchars + 1)
        for item, symbols in enumerate(yseqs.tolist()):
            node: Any = resettrie
            for position, symbol in enumerate(symbols):
                begins = symbol != self.blank_idx and self.char_list[symbol].startswith(_WORD_END)
                children = resettrie[0] if begins else node[0]
                known = symbol != self.blank_idx and symbol in children
                node = children[symbol] if known else resettrie
                impossible[item, position, list(node[0])] = 0
                if known and node[1] != -1:  # a word may end here, and another begin
                    impossible[item, position, list(resettrie[0])] = 0
        return impossible, torch.zeros(yseqs.shape, dtype=torch.uint8, device=yseqs.device)

    def join(
        self,
        source_encodings: Tensor,
        source_lengths: Tensor,
        target_encodings: Tensor,
        target_lengths: Tensor,
        hptr: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Join encodings.

        Args:
            source_encodings: (batch, frames, encoding_dim).
            source_lengths: (batch,) valid frames.
            target_encodings: (batch, symbols, encoding_dim).
            target_lengths: (batch,) valid symbols.
            hptr: (batch, frames, symbols, attndim), what the pointer points at, or None.

        Returns:
            Logits (batch, frames, symbols, num_symbols), `source_lengths`, and the joiner's hidden layer.
        """
        logits, source_lengths, _, hidden = self.joiner(
            source_encodings, source_lengths, target_encodings, target_lengths, hptr
        )
        return logits, source_lengths, hidden
