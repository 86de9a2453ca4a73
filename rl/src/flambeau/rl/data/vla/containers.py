"""What models of vision, language and action read and write."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from flambeau.data.tensordict import TensorClass

__all__ = ["VLAAction", "VLAImages", "VLAObservation"]


class VLAImages(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """Images of a robot's cameras.

    Attributes:
        image: of the main camera, (*batch, channels, height, width).
        wrist_image: of the camera at the wrist, likewise.
        extra: a tensordict of images of others.
        padded: whether images of several sizes were padded to one.
    """

    image: Tensor | None = None
    wrist_image: Tensor | None = None
    extra: Any = None
    padded: bool | None = None


class VLAObservation(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """What a robot is told and sees.

    Attributes:
        images: of its cameras.
        state: what it knows of itself, (*batch, size).
        instruction: what it is to do, a text for each element of the batch.
        preprocessed: a tensordict of what a processor made of these.
    """

    images: VLAImages | None = None
    state: Tensor | None = None
    instruction: Any = None
    preprocessed: Any = None


class VLAAction(TensorClass["nocast", "shadow"]):  # type: ignore[misc,name-defined]
    """What a policy does next, as actions or as tokens of them.

    Attributes:
        chunk: the next H actions, (*batch, H, size). The method `chunk` of tensordicts is hidden by it.
        tokens: of these, (*batch, H, size), int64.
        raw_tokens: ids in a language model's vocabulary.
        logits: (*batch, H, size, number of tokens).
        log_probs: of the tokens, (*batch) or (*batch, H, size).
        mask: which tokens count.
        padded: whether chunks of several lengths were padded to one.
    """

    chunk: Tensor | None = None
    tokens: Tensor | None = None
    raw_tokens: Tensor | None = None
    logits: Tensor | None = None
    log_probs: Tensor | None = None
    mask: Tensor | None = None
    padded: bool | None = None
