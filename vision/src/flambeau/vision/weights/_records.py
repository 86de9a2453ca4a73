"""How records of published checkpoints are written, so that all families read alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from flambeau.core.weights import Weights, lazy
from flambeau.vision.weights.categories import categories as label_set

__all__ = ["NEW_RECIPE", "RECIPES", "SWAG_LICENSE", "UPSTREAM", "imagenet", "original", "published", "refreshed"]

UPSTREAM = "https://github.com/pytorch/vision/"
RECIPES = UPSTREAM + "tree/main/references/classification#"
NEW_RECIPE = UPSTREAM + "issues/3995#new-recipe"
SWAG_LICENSE = {
    "license": "CC-BY-NC-4.0",
    "license_url": "https://github.com/facebookresearch/SWAG/blob/main/LICENSE",
}


def published(
    file: str,
    transforms: Callable[..., Any],
    *,
    num_params: int,
    metrics: Mapping[str, Mapping[str, float]],
    gflops: float,
    mebibytes: float,
    recipe: str | None,
    docs: str,
    categories: str | None = None,
    license: str = "BSD-3-Clause",
    **more: Any,
) -> Weights:
    """One checkpoint of the upstream zoo.

    Args:
        file: its name below `https://download.pytorch.org/models/`, or a whole URL. Hexadecimal digits between
            the last dash and the suffix are the first ones of its SHA-256.
        transforms: the preprocessing, usually `lazy(...)`.
        num_params: number of parameters.
        metrics: data set -> metric -> value, percent unless the metric says otherwise.
        gflops: multiply-adds of one input, in units of 1e9.
        mebibytes: size of the file.
        recipe: where the training is described.
        docs: a sentence or two about how these weights came to be and what they are for.
        categories: a label set of `weights.categories`; None where there are no labels.
        license: of the weights.
        more: further entries of `meta`, such as `min_size` or `keypoint_names`.
    """
    return Weights(
        url=file if "://" in file else f"https://download.pytorch.org/models/{file}",
        transforms=transforms,
        meta={
            "num_params": num_params,
            **more,
            "categories": None if categories is None else label_set(categories),
            "recipe": recipe,
            "license": license,
            "_metrics": {dataset: dict(values) for dataset, values in metrics.items()},
            "_ops": gflops,
            "_file_size": mebibytes,
            "_docs": docs,
        },
        sha256=digest[1] if (digest := re.search(r"-([0-9a-f]{8,64})\.\w+$", file)) else None,
    )


def imagenet(
    file: str,
    *,
    accuracy: tuple[float, float],
    preset: Mapping[str, Any],
    min_size: tuple[int, int] = (1, 1),
    **facts: Any,
) -> Weights:
    """A classifier of the thousand classes of ImageNet-1K.

    Args:
        file: its name below `https://download.pytorch.org/models/`, or a whole URL.
        accuracy: top-1 and top-5 on the validation set, in percent.
        preset: keyword arguments of `transforms._presets.ImageClassification`.
        min_size: smallest height and width that the network takes.
        facts: the other arguments of `published`.
    """
    top1, top5 = accuracy
    return published(
        file,
        lazy("flambeau.vision.transforms._presets:ImageClassification", **preset),
        min_size=min_size,
        categories="imagenet_1000",
        metrics={"ImageNet-1K": {"acc@1": top1, "acc@5": top5}},
        **facts,
    )


original = partial(
    imagenet, preset={"crop_size": 224}, docs="Close to the results of the paper, from a plain training recipe."
)
refreshed = partial(
    imagenet,
    preset={"crop_size": 224, "resize_size": 232},
    docs="From a newer recipe: longer training, stronger augmentation, label smoothing, averaged weights.",
)
