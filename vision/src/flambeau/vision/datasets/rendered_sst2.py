"""Rendered SST-2: sentences from film reviews, drawn as pictures, with their sentiment.

References:
    Socher et al. 2013, Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank. EMNLP.
    Rendered by Radford et al. 2021, arXiv:2103.00020.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import PictureDataset, index_of, picture_and_label
from flambeau.vision.datasets.folder import default_loader, make_dataset
from flambeau.vision.datasets.utils import verify_str_arg

__all__ = ["RenderedSST2"]

_INFO = DatasetInfo(
    name="renderedsst2",
    task="image-classification",
    sizes={"train": 6_920, "val": 872, "test": 1_821},
    files=(
        DatasetFile(
            url="https://openaipublic.azureedge.net/clip/data/rendered-sst2.tgz",
            md5="2384d08e9dcfa4bd55b324e610496ee5",
            extract=True,
            contents=(Content("rendered-sst2"),),
        ),
    ),
    schema=picture_and_label(2),
    license="none stated; cite the papers",
    citation="@inproceedings{socher2013recursive, author={Socher, Richard and others}, title={Recursive Deep Models "
    "for Semantic Compositionality Over a Sentiment Treebank}, booktitle={EMNLP}, year={2013}}",
    homepage="https://github.com/openai/CLIP/blob/main/data/rendered-sst2.md",
    description="Pictures of sentences from film reviews, negative or positive.",
)
_FOLDERS = {"train": "train", "val": "valid", "test": "test"}


@register_dataset(info=_INFO)
class RenderedSST2(PictureDataset):
    """9,613 sentences drawn in black on white, 448x448 pixels, negative (0) or positive (1).

    Args:
        root: folder that holds, or shall hold, `rendered-sst2`.
        split: "train", "val" or "test".
        transform: called with the picture.
        target_transform: called with the class index.
        download: fetch the archive where the files are not in place.
        loader: opens a picture by path.

    Attributes:
        classes: negative, positive.
        class_to_idx: class name -> index.

    Items are (PIL image in RGB, class index).

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
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        self._split = verify_str_arg(split, "split", _FOLDERS)
        folder = prepare_dataset(_INFO, root, download=download) / "rendered-sst2" / _FOLDERS[split]
        self.classes = ["negative", "positive"]
        self.class_to_idx = index_of(self.classes)
        samples = make_dataset(folder, self.class_to_idx, extensions=".png")
        super().__init__(root, samples, transform, target_transform, loader)

    def extra_repr(self) -> str:
        """The split."""
        return f"split={self._split}"
