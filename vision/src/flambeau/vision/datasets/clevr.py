"""CLEVR as a classification task: how many objects does a rendered scene hold?

References:
    Johnson et al. 2017, CLEVR: A Diagnostic Dataset for Compositional Language and Elementary Visual Reasoning.
    arXiv:1612.06890. As a counting task: Zhai et al. 2019, arXiv:1910.04867.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import IMAGE, PictureDataset
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import verify_str_arg

__all__ = ["CLEVRClassification"]

_FOLDER = "clevr/CLEVR_v1.0"
_INFO = DatasetInfo(
    name="clevrclassification",
    task="image-classification",
    sizes={"train": 70_000, "val": 15_000, "test": 15_000},
    files=(
        DatasetFile(
            url="https://dl.fbaipublicfiles.com/clevr/CLEVR_v1.0.zip",
            path="clevr/CLEVR_v1.0.zip",
            md5="b11922020e72d0cd9154779b2d3d07d2",
            extract=True,
            contents=(Content(f"{_FOLDER}/images"), Content(f"{_FOLDER}/scenes")),
        ),
    ),
    schema=(IMAGE, Field("count", "int", optional=True)),
    license="CC-BY-4.0",
    citation="@inproceedings{johnson2017clevr, author={Johnson, Justin and others}, title={CLEVR: A Diagnostic Dataset "
    "for Compositional Language and Elementary Visual Reasoning}, booktitle={CVPR}, year={2017}}",
    homepage="https://cs.stanford.edu/people/jcjohns/clevr/",
    description="Rendered scenes of simple solids, labelled with the number of objects.",
)


@register_dataset(info=_INFO)
class CLEVRClassification(PictureDataset):
    """100,000 rendered scenes of 480x320 pixels with three to ten solids each.

    Args:
        root: folder that holds, or shall hold, `clevr`.
        split: "train", "val" or "test".
        transform: called with the picture.
        target_transform: called with the number of objects.
        download: fetch the archive (18 GB) where the files are not in place.
        loader: opens a picture by path.

    Items are (PIL image in RGB, number of objects 3 to 10); the number is None in "test".

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
        loader: Callable[[str | Path], Any] = default_loader,
    ) -> None:
        self._split = verify_str_arg(split, "split", ("train", "val", "test"))
        folder = prepare_dataset(_INFO, root, download=download) / _FOLDER
        pictures = sorted((folder / "images" / split).glob("*"))
        counts: dict[str, int] = {}
        if split != "test":
            scenes = json.loads((folder / "scenes" / f"CLEVR_{split}_scenes.json").read_text(encoding="utf-8"))
            counts = {scene["image_filename"]: len(scene["objects"]) for scene in scenes["scenes"]}
        samples = [(path, counts[path.name] if counts else None) for path in pictures]
        super().__init__(root, samples, transform, target_transform, loader)

    def extra_repr(self) -> str:
        """The split."""
        return f"split={self._split}"
