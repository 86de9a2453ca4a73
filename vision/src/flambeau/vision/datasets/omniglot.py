"""Omniglot: characters of fifty alphabets, for learning from few examples.

References:
    Lake, Salakhutdinov and Tenenbaum 2015, Human-level concept learning through probabilistic program induction.
    doi:10.1126/science.aab3050
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import PictureDataset, picture_and_label
from flambeau.vision.datasets._split_names import by_split_name
from flambeau.vision.datasets.utils import list_dir, list_files

__all__ = ["Omniglot"]

_FOLDER = "omniglot-py"
_MD5 = {"background": "68d2efa1b9178cc56df9314c21c6e718", "evaluation": "6b91aef0f799c5bb55b94e3f2daec811"}
_INFO = DatasetInfo(
    name="omniglot",
    task="image-classification",
    sizes={"background": 19_280, "evaluation": 13_180},
    files=tuple(
        DatasetFile(
            url=f"https://raw.githubusercontent.com/brendenlake/omniglot/master/python/images_{split}.zip",
            path=f"{_FOLDER}/images_{split}.zip",
            md5=md5,
            extract=True,
            contents=(Content(f"{_FOLDER}/images_{split}"),),
            splits=(split,),
        )
        for split, md5 in _MD5.items()
    ),
    schema=picture_and_label(964, image=Field("image", "image", shape=(1, "H", "W"), dtype="uint8")),
    license="MIT",
    citation="@article{lake2015human, author={Lake, Brenden and Salakhutdinov, Ruslan and Tenenbaum, Joshua}, "
    "title={Human-level concept learning through probabilistic program induction}, journal={Science}, year={2015}}",
    homepage="https://github.com/brendenlake/omniglot",
    description="1,623 characters of fifty alphabets, each drawn by twenty people.",
)


class Omniglot(PictureDataset):
    """1,623 characters of fifty alphabets, each drawn once by twenty people, 105x105 pixels.

    Args:
        root: folder that holds, or shall hold, `omniglot-py`.
        background: the 964 characters of thirty alphabets to learn from, otherwise the 659 to be judged by.
        transform: called with the picture.
        target_transform: called with the index of the character.
        download: fetch the part's archive where its files are not in place.
        loader: opens a picture by path; None opens it as grey.

    Items are (PIL image of mode L, index of the character).

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        background: bool = True,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
        loader: Callable[[str | Path], Any] | None = None,
    ) -> None:
        self.background = background
        self._split = "background" if background else "evaluation"
        base = prepare_dataset(_INFO, root, download=download, splits=(self._split,)) / _FOLDER
        folder = base / f"images_{self._split}"
        self._characters = [
            f"{alphabet}/{name}" for alphabet in list_dir(folder) for name in list_dir(folder / alphabet)
        ]
        samples = [
            (path, label)
            for label, name in enumerate(self._characters)
            for path in list_files(folder / name, ".png", prefix=True)
        ]
        super().__init__(root, samples, transform, target_transform, loader or _grey)

    def download(self) -> None:
        """Fetch and unpack the part's archive where its files are not in place."""
        prepare_dataset(_INFO, self.root, download=True, splits=(self._split,))


def _grey(path: str) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("L")


_omniglot = register_dataset(info=_INFO)(by_split_name(Omniglot, "_omniglot", ("background", "evaluation")))
