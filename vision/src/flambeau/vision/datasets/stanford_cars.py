"""Stanford Cars: cars by make, model and year.

References:
    Krause et al. 2013, 3D Object Representations for Fine-Grained Categorization. 3dRR. doi:10.1109/ICCVW.2013.77
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flambeau.core.datasets import DatasetInfo, Gate, register_dataset
from flambeau.core.errors import GatedError
from flambeau.vision.datasets._pictures import PictureDataset, index_of, picture_and_label
from flambeau.vision.datasets._placed import require_placed
from flambeau.vision.datasets._readers import load_mat
from flambeau.vision.datasets.folder import default_loader
from flambeau.vision.datasets.utils import verify_str_arg

__all__ = ["StanfordCars"]

_INFO = DatasetInfo(
    name="stanfordcars",
    task="image-classification",
    sizes={"train": 8_144, "test": 8_041},
    schema=picture_and_label(196),
    license="non-commercial research use",
    citation="@inproceedings{krause2013object, author={Krause, Jonathan and others}, title={3D Object Representations "
    "for Fine-Grained Categorization}, booktitle={3dRR}, year={2013}}",
    homepage="https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
    gated=Gate(
        "manual",
        "https://github.com/pytorch/vision/issues/7545",
        "The original site is gone; copies are on Kaggle. `stanford_cars` holds cars_train, cars_test, devkit, and "
        "cars_test_annos_withlabels.mat.",
    ),
    description="Photographs of cars of 196 makes, models and years.",
)
_PARTS = {
    "train": ("cars_train", "devkit/cars_train_annos.mat"),
    "test": ("cars_test", "cars_test_annos_withlabels.mat"),
}


@register_dataset(info=_INFO)
class StanfordCars(PictureDataset):
    """16,185 photographs of cars of 196 makes, models and years. Needs SciPy.

    Args:
        root: folder that holds `stanford_cars`, with the parts of the publication below it.
        split: "train" or "test".
        transform: called with the picture.
        target_transform: called with the class index.
        download: cannot help: the original site is gone.
        loader: opens a picture by path.

    Attributes:
        classes: names such as "Acura Integra Type R 2001".
        class_to_idx: class name -> index.

    Items are (PIL image in RGB, class index).

    Raises:
        DatasetMissingError: files are missing.
        GatedError: files are missing, and `download` is True.
        MissingReaderError: SciPy is not installed.
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
        self._split = verify_str_arg(split, "split", _PARTS)
        self.root = root if isinstance(root, Path) else str(Path(root).expanduser())
        if download:
            self.download()
        pictures, annotations = _PARTS[split]
        needed = (pictures, annotations, "devkit/cars_meta.mat")
        folder = require_placed(_INFO, root, *(f"stanford_cars/{path}" for path in needed)) / "stanford_cars"
        rows = np.atleast_1d(load_mat(folder / annotations, "StanfordCars")["annotations"])
        names = np.atleast_1d(load_mat(folder / "devkit" / "cars_meta.mat", "StanfordCars")["class_names"])
        self.classes: list[str] = [str(name) for name in names]
        self.class_to_idx = index_of(self.classes)
        # Classes count from one in the file.
        samples = [(folder / pictures / str(row["fname"]), int(row["class"]) - 1) for row in rows]
        super().__init__(root, samples, transform, target_transform, loader)

    def download(self) -> None:
        """Check that the files are in place; nobody serves them any more.

        Raises:
            GatedError: they are not.
        """
        try:
            for part in _PARTS.values():
                require_placed(_INFO, str(self.root), *(f"stanford_cars/{path}" for path in part))
        except FileNotFoundError as error:
            raise GatedError(str(error)) from error
