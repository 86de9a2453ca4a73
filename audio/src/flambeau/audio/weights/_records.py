"""How records of published checkpoints are written, so that all families read alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flambeau.core.weights import Weights

__all__ = ["MODELS", "RECIPES", "published"]

MODELS = "https://download.pytorch.org/torchaudio/models/"
RECIPES = "https://github.com/pytorch/audio/tree/release/2.8/examples/"


def published(
    file: str,
    transforms: Callable[..., Any],
    *,
    sample_rate: int,
    docs: str,
    recipe: str,
    metrics: Mapping[str, Mapping[str, float]] | None = None,
    license: str | None = None,
    num_params: int | None = None,
    **more: Any,
) -> Weights:
    """One checkpoint of upstream's pipelines.

    Args:
        file: its name below upstream's folder of models, or a whole URL. No checksums are published for these files.
        transforms: the preprocessing, usually `lazy(...)`.
        sample_rate: Hz, of the waveforms that the network takes or makes.
        docs: a sentence or two about how these weights came to be and what they are for.
        recipe: where the training is described.
        metrics: data set -> metric -> value, percent unless the metric says otherwise; None where none is published.
        license: of the weights, None where upstream states none.
        num_params: number of parameters.
        more: further entries of `meta`: `labels`, `arguments` of the factory, and the like.
    """
    return Weights(
        url=file if "://" in file else MODELS + file,
        transforms=transforms,
        meta={
            "sample_rate": sample_rate,
            "num_params": num_params,
            **more,
            "recipe": recipe,
            "license": license,
            "_metrics": {dataset: dict(values) for dataset, values in (metrics or {}).items()},
            "_docs": docs,
        },
    )
