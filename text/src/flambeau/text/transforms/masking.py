"""Masked language modelling: which tokens a model has to guess."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["MaskTransform"]


class MaskTransform(nn.Module):
    """Chooses tokens that a model has to guess, and hides most of them.

    Of a row of T tokens int(T * mask_prob) are drawn. Of those, eight in ten are replaced by the mask token, one in
    ten by a random token, and one in ten stays. Padding is never chosen, the first token of a text only on request; so
    that a loss can be computed, at least one token is chosen, [0, 0] if no other.

    Args:
        vocab_len: random tokens are drawn from 0 to vocab_len - 1.
        mask_idx: id of the mask token.
        bos_idx: id of the token that begins a text.
        pad_idx: id of padding.
        mask_bos: `bos_idx` may be chosen, too.
        mask_prob: share of a row, from 0 to 1.
        generator: of the random numbers, on the device of the tokens; torch's own when None. Positions are drawn on
            the CPU, from torch's own generator when this one is of another device.

    References:
        J. Devlin et al. (2018), "BERT", arXiv:1810.04805, section 3.1.
    """

    mask_mask_prob = 0.8
    rand_mask_prob = 0.1

    def __init__(
        self,
        vocab_len: int,
        mask_idx: int,
        bos_idx: int,
        pad_idx: int,
        mask_bos: bool = False,
        mask_prob: float = 0.15,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.vocab_len = vocab_len
        self.mask_idx = mask_idx
        self.bos_idx = bos_idx
        self.pad_idx = pad_idx
        self.mask_bos = mask_bos
        self.mask_prob = mask_prob
        self.generator = generator

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Hide tokens.

        Args:
            tokens: (N, T) int64.

        Returns:
            The tokens with the hidden ones replaced, (N, T) int64; what the chosen ones were, row by row, (chosen,)
            int64; and where they are, (N, T) int32 of 0 and 1.
        """
        mask, to_mask, to_random = self._generate_mask(tokens)
        targets = torch.masked_select(tokens, mask.bool())
        masked = self._mask_input(tokens, to_mask, self.mask_idx)
        shape, device = tuple(tokens.shape), tokens.device
        random = torch.randint(
            self.vocab_len, shape, dtype=tokens.dtype, device=device, generator=self.generator
        )  # fmt: skip
        return self._mask_input(masked, to_random, random), targets, mask

    def _random_masking(self, tokens: Tensor, mask_prob: float) -> Tensor:
        """(N, T) int32: so many ones a row. One permutation a row, so that draws come in upstream's order."""
        rows, length = tokens.shape
        count = int(length * mask_prob)
        generator = self.generator if self.generator is not None and self.generator.device.type == "cpu" else None
        orders = [torch.randperm(length, generator=generator) for _ in range(rows)]
        chosen = torch.stack(orders) < count if orders else torch.zeros(tokens.shape)
        return chosen.to(tokens.device, torch.int)

    def _select_tokens_to_mask(self, tokens: Tensor, mask_prob: float) -> Tensor:
        mask = self._random_masking(tokens, mask_prob)
        if not self.mask_bos:
            mask *= tokens != self.bos_idx
        return mask

    def _mask_input(self, tokens: Tensor, mask: Tensor, replacement: Tensor | int) -> Tensor:
        return tokens * (1 - mask) + replacement * mask

    def _generate_mask(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What is chosen, and of that what becomes the mask token and what a random one; 0 and 1."""
        mask = self._select_tokens_to_mask(tokens, self.mask_prob)
        mask *= tokens != self.pad_idx
        if mask.numel() and not mask.any():
            mask[0, 0] = 1
        draw = torch.rand(
            tuple(tokens.shape), dtype=torch.float, device=tokens.device, generator=self.generator
        )  # fmt: skip
        to_mask = (draw >= 1 - self.mask_mask_prob).long() * mask
        to_random = (draw < self.rand_mask_prob).long() * mask
        return mask, to_mask, to_random
