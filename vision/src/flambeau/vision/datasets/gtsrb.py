"""German Traffic Sign Recognition Benchmark.

References:
    Stallkamp et al. 2012, Man vs. computer: Benchmarking machine learning algorithms for traffic sign recognition.
    Neural Networks 32. doi:10.1016/j.neunet.2012.02.016
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import PictureDataset, picture_and_label
from flambeau.vision.datasets.folder import make_dataset
from flambeau.vision.datasets.utils import verify_str_arg

__all__ = ["GTSRB"]

_URL = "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/"


def _archive(name: str, md5: str, split: str, content: str) -> DatasetFile:
    return DatasetFile(
        url=_URL + name, path=f"gtsrb/{name}", md5=md5, extract=True, contents=(Content(content),), splits=(split,)
    )


_INFO = DatasetInfo(
    name="gtsrb",
    task="image-classification",
    sizes={"train": 26_640, "test": 12_630},
    files=(
        _archive("GTSRB-Training_fixed.zip", "513f3c79a4c5141765e10e952eaa2478", "train", "gtsrb/GTSRB/Training"),
        _archive(
            "GTSRB_Final_Test_Images.zip",
            "c7e4e6327067d32654124b0fe9e82185",
            "test",
            "gtsrb/GTSRB/Final_Test/Images",
        ),
        _archive("GTSRB_Final_Test_GT.zip", "fe31e9c9270bbcd7b84b7f21a9d9d9e5", "test", "gtsrb/GT-final_test.csv"),
    ),
    schema=picture_and_label(43),
    license="unknown; cite the paper",
    citation="@article{stallkamp2012man, author={Stallkamp, Johannes and others}, title={Man vs. computer: "
    "Benchmarking machine learning algorithms for traffic sign recognition}, journal={Neural Networks}, volume={32}, "
    "year={2012}}",
    homepage="https://benchmark.ini.rub.de/gtsrb_news.html",
    description="Photographs of German traffic signs of 43 kinds.",
)


@register_dataset(info=_INFO)
class GTSRB(PictureDataset):
    """39,270 photographs of traffic signs of 43 kinds, of 15x15 to 250x250 pixels.

    Args:
        root: folder that holds, or shall hold, `gtsrb`.
        split: "train" or "test".
        transform: called with the picture.
        target_transform: called with the class index.
        download: fetch the archives of this split where the files are not in place.

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
    ) -> None:
        self._split = verify_str_arg(split, "split", ("train", "test"))
        base = prepare_dataset(_INFO, root, download=download, splits=(split,)) / "gtsrb"
        samples = make_dataset(base / "GTSRB/Training", extensions=".ppm") if split == "train" else _final_test(base)
        super().__init__(root, samples, transform, target_transform)

    def download(self) -> None:
        """Fetch and unpack what is not in place of this split."""
        prepare_dataset(_INFO, self.root, download=True, splits=(self._split,))


def _final_test(base: Path) -> list[tuple[str, int]]:
    with (base / "GT-final_test.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter=";", skipinitialspace=True))
    return [(str(base / "GTSRB/Final_Test/Images" / row["Filename"]), int(row["ClassId"])) for row in rows]
