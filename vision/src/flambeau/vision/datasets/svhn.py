"""Street View House Numbers.

References:
    Netzer et al. 2011, Reading Digits in Natural Images with Unsupervised Feature Learning. NIPS workshop.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from flambeau.core.datasets import DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import picture_and_label
from flambeau.vision.datasets._readers import load_mat
from flambeau.vision.datasets.utils import verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["SVHN"]

_URL = "http://ufldl.stanford.edu/housenumbers/"
_MD5 = {
    "train": "e26dedcc434d2e4c54c9b2d4a06d8373",
    "test": "eb5a983be6a315427106f1b164d9cef3",
    "extra": "a93ce644f1a588dc4d68dda5feec44a7",
}
_INFO = DatasetInfo(
    name="svhn",
    task="image-classification",
    sizes={"train": 73_257, "test": 26_032, "extra": 531_131},
    files=tuple(DatasetFile(url=f"{_URL}{split}_32x32.mat", md5=md5, splits=(split,)) for split, md5 in _MD5.items()),
    schema=picture_and_label(10, image=Field("image", "image", shape=(3, 32, 32), dtype="uint8")),
    license="non-commercial use",
    citation="@inproceedings{netzer2011reading, author={Netzer, Yuval and others}, title={Reading Digits in Natural "
    "Images with Unsupervised Feature Learning}, booktitle={NIPS Workshop}, year={2011}}",
    homepage="http://ufldl.stanford.edu/housenumbers/",
    description="Digits of house numbers, photographs of 32x32 pixels.",
)


@register_dataset(info=_INFO)
class SVHN(VisionDataset):
    """630,420 digits cut from photographs of house numbers, 32x32 pixels. Needs SciPy.

    Args:
        root: folder that holds, or shall hold, the three files.
        split: "train", "test" or "extra" (531,131 easier ones).
        transform: called with the picture.
        target_transform: called with the digit.
        download: fetch the split's file where it is not in place.

    Attributes:
        data: [items, 3, 32, 32], uint8.
        labels: [items], int64, 0 to 9.

    Items are (PIL image in RGB, digit).

    Raises:
        DatasetMissingError: the file is missing or damaged, and `download` is False.
        MissingReaderError: SciPy is not installed.
    """

    split_list: ClassVar[dict[str, list[str]]] = {
        split: [f"{_URL}{split}_32x32.mat", f"{split}_32x32.mat", md5] for split, md5 in _MD5.items()
    }

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split, "split", _MD5)
        folder = prepare_dataset(_INFO, root, download=download, splits=(split,))
        content = load_mat(folder / f"{split}_32x32.mat", "SVHN", squeeze=False)
        self.data: NDArray[np.uint8] = np.ascontiguousarray(content["X"].transpose(3, 2, 0, 1))
        # The file calls the digit 0 by 10.
        self.labels: NDArray[np.int64] = content["y"].astype(np.int64).reshape(-1) % 10

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """(picture, digit) number `index`, transformed."""
        pixels = np.ascontiguousarray(self.data[index].transpose(1, 2, 0))
        return self._transformed(Image.fromarray(pixels), int(self.labels[index]))

    def __len__(self) -> int:
        return len(self.data)

    def download(self) -> None:
        """Fetch the split's file where it is not in place."""
        prepare_dataset(_INFO, self.root, download=True, splits=(self.split,))

    def extra_repr(self) -> str:
        """The split."""
        return f"Split: {self.split}"
