"""How records of published checkpoints are written, so that all families read alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flambeau.core.weights import Weights

__all__ = ["published"]

_FEATURES = "It has no head of its own, so no metric is stated."


def published(
    url: str,
    transforms: Callable[..., Any],
    *,
    num_params: int,
    license: str,
    recipe: str,
    paper: str,
    docs: str,
    sha256: str | None = None,
    size: int | None = None,
    metrics: Mapping[str, Mapping[str, float]] | None = None,
    **more: Any,
) -> Weights:
    """One published checkpoint.

    Args:
        url: where it is.
        transforms: makes token ids of texts, usually `lazy(...)`.
        num_params: number of parameters, tied ones once.
        license: of the weights.
        recipe: where the training is described.
        paper: the publication.
        docs: a sentence or two about how these weights came to be and what they are for.
        sha256: hexadecimal digest of the file, where it is on record.
        size: bytes, where that is on record.
        metrics: data set -> metric -> value, percent; None for a network that only gives features.
        more: further entries of `meta`.
    """
    return Weights(
        url=url,
        transforms=transforms,
        meta={
            "num_params": num_params,
            **more,
            "recipe": recipe,
            "paper": paper,
            "license": license,
            "_metrics": {name: dict(values) for name, values in (metrics or {}).items()},
            "_docs": docs if metrics else f"{docs} {_FEATURES}",
        },
        sha256=sha256,
        size=size,
    )
