"""What HuBERT is pretrained with (Hsu et al. 2021, arXiv:2106.07447): span masks, cosine logits of cluster labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["GradMultiply", "LogitGenerator", "MaskGenerator", "_compute_logits", "_compute_mask_indices"]

_SPANS: dict[str, Callable[[int, int, float], Tensor]] = {
    "static": lambda count, length, other: torch.full((count,), length),
    "uniform": lambda count, length, other: torch.randint(int(other), 2 * length + 1, (count,)),
    "normal": lambda count, length, other: torch.normal(float(length), other, (count,)).round().clamp(min=1).long(),
    "poisson": lambda count, length, other: torch.poisson(torch.full((count,), float(length))).clamp(min=1).long(),
}


def _compute_mask_indices(
    shape: tuple[int, int],
    padding_mask: Tensor | None,
    mask_prob: float,
    mask_length: int,
    mask_type: str = "static",
    mask_other: float = 0.0,
    min_masks: int = 0,
    no_overlap: bool = False,
    min_space: int = 0,
) -> Tensor:
    """Random spans, as many frames in each item as in the one with the fewest.

    Args:
        shape: (batch, frames).
        padding_mask: (batch, frames) bool, True where a frame is padding and takes no span; None where none is.
        mask_prob: what fraction of the frames would be masked if spans did not overlap.
        mask_length: frames of a span, or their mean.
        mask_type: "static", "uniform" (from `mask_other` to twice `mask_length`), "normal" (deviation `mask_other`) or
            "poisson".
        mask_other: see `mask_type`.
        min_masks: the least number of spans.
        no_overlap: whether spans may not overlap.
        min_space: without overlap, the least number of frames between spans.

    Returns:
        (batch, frames) bool on the CPU, True where a frame is masked.

    Raises:
        ValueError: `mask_type` is unknown.
    """
    if mask_type not in _SPANS:
        raise ValueError(f"The mask selection is {mask_type!r}, expected one of {', '.join(_SPANS)}.")
    batch, frames = shape
    sizes = [frames] * batch if padding_mask is None else (frames - padding_mask.sum(1)).tolist()
    starts = torch.rand(1).item()
    items = []
    for size in sizes:
        count = max(int(mask_prob * size / mask_length + starts), min_masks)
        spans = _SPANS[mask_type](count, mask_length, mask_other)
        if not int(spans.sum()):
            spans = torch.tensor([min(mask_length, size - 1)])
        place = _apart if no_overlap else _anywhere
        items.append(place(size, spans.tolist(), min_space))
    fewest = min(len(item) for item in items)
    mask = torch.zeros(shape, dtype=torch.bool)
    for row, item in enumerate(items):
        mask[row, item[torch.randperm(len(item))[:fewest]]] = True
    return mask


def _anywhere(size: int, spans: list[int], min_space: int) -> Tensor:
    """Masked frames of one item, whose spans may overlap."""
    shortest = min(spans)
    if size - shortest <= len(spans):
        shortest = size - len(spans) - 1
    begins = torch.randperm(max(size - shortest, 0))[: len(spans)].tolist()
    taken = {begin + offset for begin, length in zip(begins, spans, strict=False) for offset in range(length)}
    return torch.tensor(sorted(frame for frame in taken if frame < size), dtype=torch.long)


def _apart(size: int, spans: list[int], min_space: int) -> Tensor:
    """Masked frames of one item, whose spans lie at least `min_space` apart; spans for which no room is left go."""
    free = [(0, size)]
    taken: list[int] = []
    for length in sorted(spans, reverse=True):
        room = torch.tensor([max(end - begin - length + 1, 0) for begin, end in free], dtype=torch.float)
        if not len(room) or room.sum() == 0:
            break
        begin, end = free.pop(int(torch.multinomial(room, 1)))
        start = begin + int(torch.randint(end - begin - length + 1, (1,)))
        taken.extend(range(start, start + length))
        parts = ((begin, start - min_space), (start + length + min_space, end))
        free.extend((left, right) for left, right in parts if right > left)
    return torch.tensor(sorted(taken), dtype=torch.long)


class MaskGenerator(nn.Module):
    """Put a learned vector in place of masked frames, and zero in place of masked channels.

    Args:
        encoder_embed_dim: channels.
        mask_prob: see `_compute_mask_indices`; 0 masks no frame.
        mask_selection: how long spans are.
        mask_other: parameter of `mask_selection`.
        mask_length: frames of a span.
        no_mask_overlap: whether spans may not overlap.
        mask_min_space: least distance of spans that do not overlap.
        mask_channel_prob: as `mask_prob`, for channels.
        mask_channel_selection: as `mask_selection`, for channels.
        mask_channel_other: as `mask_other`, for channels.
        mask_channel_length: as `mask_length`, for channels.
        no_mask_channel_overlap: as `no_mask_overlap`, for channels.
        mask_channel_min_space: as `mask_min_space`, for channels.
    """

    def __init__(
        self,
        encoder_embed_dim: int,
        mask_prob: float,
        mask_selection: str,
        mask_other: float,
        mask_length: int,
        no_mask_overlap: bool,
        mask_min_space: int,
        mask_channel_prob: float,
        mask_channel_selection: str,
        mask_channel_other: float,
        mask_channel_length: int,
        no_mask_channel_overlap: bool,
        mask_channel_min_space: int,
    ) -> None:
        super().__init__()
        self.mask_prob, self.mask_selection, self.mask_other = mask_prob, mask_selection, mask_other
        self.mask_length, self.no_mask_overlap, self.mask_min_space = mask_length, no_mask_overlap, mask_min_space
        self.mask_channel_prob, self.mask_channel_selection = mask_channel_prob, mask_channel_selection
        self.mask_channel_other, self.mask_channel_length = mask_channel_other, mask_channel_length
        self.no_mask_channel_overlap, self.mask_channel_min_space = no_mask_channel_overlap, mask_channel_min_space
        self.mask_embedding = nn.Parameter(torch.empty(encoder_embed_dim))
        nn.init.uniform_(self.mask_embedding)

    def forward(self, x: Tensor, padding_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Mask.

        Args:
            x: (batch, frames, channels); it is left as it is.
            padding_mask: (batch, frames) bool, True where a frame is padding, or None.

        Returns:
            The masked frames, and (batch, frames) bool, True where one is masked; None without a mask.
        """
        mask = None
        if self.mask_prob > 0:
            mask = _compute_mask_indices(
                (x.shape[0], x.shape[1]),
                padding_mask,
                self.mask_prob,
                self.mask_length,
                self.mask_selection,
                self.mask_other,
                min_masks=2,
                no_overlap=self.no_mask_overlap,
                min_space=self.mask_min_space,
            ).to(x.device)
            x = torch.where(mask[..., None], self.mask_embedding.to(x.dtype), x)
        if self.mask_channel_prob > 0:
            channels = _compute_mask_indices(
                (x.shape[0], x.shape[2]),
                None,
                self.mask_channel_prob,
                self.mask_channel_length,
                self.mask_channel_selection,
                self.mask_channel_other,
                no_overlap=self.no_mask_channel_overlap,
                min_space=self.mask_channel_min_space,
            ).to(x.device)
            x = x.masked_fill(channels[:, None, :], 0.0)
        return x, mask


def _compute_logits(proj_x: Tensor, target: Tensor, label_embeddings: Tensor) -> Tensor:
    """Cosine similarities to the label embeddings, divided by the temperature 0.1 (equation 3 of the paper).

    Args:
        proj_x: (frames, dim).
        target: (frames,) labels.
        label_embeddings: (classes, dim).

    Returns:
        (frames, classes + 1): the target's in column 0, then every class, -inf where it is the target.
    """
    exact = torch.promote_types(proj_x.dtype, torch.float32)
    similarity = F.normalize(proj_x.to(exact), dim=-1) @ F.normalize(label_embeddings.to(exact), dim=-1).T
    logits = (similarity / 0.1).to(proj_x.dtype)
    target = target.long()[:, None]
    return torch.cat([logits.gather(1, target), logits.scatter(1, target, float("-inf"))], dim=1)


class LogitGenerator(nn.Module):
    """Logits of the masked and of the other frames.

    Args:
        encoder_embed_dim: channels of the encoder.
        num_classes: cluster labels.
        final_dim: channels of the label embeddings.
        skip_masked: compute none for masked frames.
        skip_nomask: compute none for the other frames.
    """

    def __init__(
        self, encoder_embed_dim: int, num_classes: int, final_dim: int, skip_masked: bool, skip_nomask: bool
    ) -> None:
        super().__init__()
        self.label_embeddings = nn.Parameter(torch.empty(num_classes, final_dim))
        nn.init.uniform_(self.label_embeddings)
        self.final_proj = nn.Linear(encoder_embed_dim, final_dim)
        self.skip_masked, self.skip_nomask = skip_masked, skip_nomask

    def forward(self, x: Tensor, label: Tensor, mask_m: Tensor, mask_u: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Compute.

        Args:
            x: (batch, frames, channels).
            label: (batch, frames) integers.
            mask_m: (batch, frames) bool, the masked frames.
            mask_u: (batch, frames) bool, the other ones.

        Returns:
            Two tensors (frames chosen, num_classes + 1), None where they are skipped.
        """
        x = self.final_proj(x)
        masked = None if self.skip_masked else _compute_logits(x[mask_m], label[mask_m], self.label_embeddings)
        others = None if self.skip_nomask else _compute_logits(x[mask_u], label[mask_u], self.label_embeddings)
        return masked, others


class GradMultiply(torch.autograd.Function):
    """The identity, whose gradient is scaled: `GradMultiply.apply(x, scale)`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        """`x` itself."""
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:
        """The gradient, scaled."""
        return grads[0] * ctx.scale, None
