"""Country211: in which country was a photograph taken?

References:
    Radford et al. 2021, Learning Transferable Visual Models From Natural Language Supervision. arXiv:2103.00020
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import picture_and_label
from flambeau.vision.datasets.folder import ImageFolder, default_loader
from flambeau.vision.datasets.utils import verify_str_arg

__all__ = ["Country211"]

_INFO = DatasetInfo(
    name="country211",
    task="image-classification",
    sizes={"train": 31_650, "valid": 10_550, "test": 21_100},
    files=(
        DatasetFile(
            url="https://openaipublic.azureedge.net/clip/data/country211.tgz",
            md5="84988d7644798601126c29e9877aab6a",
            extract=True,
            contents=(Content("country211"),),
        ),
    ),
    schema=picture_and_label(211),
    license="Creative Commons licences of the pictures, which are from YFCC100M",
    citation="@inproceedings{radford2021learning, author={Radford, Alec and others}, title={Learning Transferable "
    "Visual Models From Natural Language Supervision}, booktitle={ICML}, year={2021}}",
    homepage="https://github.com/openai/CLIP/blob/main/data/country211.md",
    description="Photographs with the country they were taken in, 211 countries.",
)


@register_dataset(info=_INFO)
class Country211(ImageFolder):
    """63,300 photographs from YFCC100M in 211 countries, as many of each.

    Args:
        root: folder that holds, or shall hold, `country211`.
        split: "train", "valid" or "test".
        transform: called with the picture.
        target_transform: called with the class index.
        download: fetch the archive (11 GB) where the files are not in place.
        loader: opens a picture by path.

    Items are (PIL image in RGB, class index); classes are two-letter country codes. Attributes as `ImageFolder`.

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
        self._split = verify_str_arg(split, "split", ("train", "valid", "test"))
        folder = prepare_dataset(_INFO, root, download=download) / "country211"
        super().__init__(folder / split, transform=transform, target_transform=target_transform, loader=loader)
        self.root = str(Path(root).expanduser())
