"""Photo Tourism patches: small pieces of photographs that show the same point, or not.

References:
    Winder and Brown 2007, Learning Local Image Descriptors. CVPR. doi:10.1109/CVPR.2007.382971
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.core.files import replace
from flambeau.vision.datasets.utils import list_files, verify_str_arg
from flambeau.vision.datasets.vision import VisionDataset

__all__ = ["PhotoTour"]

_MATCHES = "m50_100000_100000_0.txt"
_HARRIS = "http://matthewalunbrown.com/patchdata/"
_OTHERS = "http://icvl.ee.ic.ac.uk/vbalnt/"
# name -> address, MD5, patches, mean, standard deviation
_SCENES = {
    "notredame_harris": (_HARRIS, "69f8c90f78e171349abdf0307afefe4d", 325_295, 0.4854, 0.1864),
    "yosemite_harris": (_HARRIS, "a73253d1c6fbd3ba2613c45065c00d46", 450_912, 0.4844, 0.1818),
    "liberty_harris": (_HARRIS, "c731fcfb3abb4091110d0ae8c7ba182c", 379_587, 0.4437, 0.2019),
    "notredame": (_OTHERS, "509eda8535847b8c0a90bbb210c83484", 468_159, 0.4854, 0.1864),
    "yosemite": (_OTHERS, "533b2e8eb7ede31be40abc317b2fd4f0", 633_587, 0.4844, 0.1818),
    "liberty": (_OTHERS, "fdd9152f138ea5ef2091746689176414", 450_092, 0.4437, 0.2019),
}
_INFO = DatasetInfo(
    name="phototour",
    task="image-matching",
    sizes={name: patches for name, (_, _, patches, *_) in _SCENES.items()},
    files=tuple(
        DatasetFile(
            url=f"{address}{name}.zip",
            md5=md5,
            extract=name,
            contents=tuple(Content(f"{name}/{file}") for file in ("info.txt", _MATCHES, "patches0000.bmp")),
            splits=(name,),
        )
        for name, (address, md5, *_) in _SCENES.items()
    ),
    schema=(Field("patch", "tensor", shape=(64, 64), dtype="uint8"),),
    license="unknown; cite the paper",
    citation="@inproceedings{winder2007learning, author={Winder, Simon and Brown, Matthew}, title={Learning Local "
    "Image Descriptors}, booktitle={CVPR}, year={2007}}",
    homepage="http://matthewalunbrown.com/patchdata/patchdata.html",
    description="Patches of 64x64 pixels from photographs of three sights, with the point each shows.",
)


@register_dataset(info=_INFO)
class PhotoTour(VisionDataset):
    """Patches of 64x64 pixels from tourists' photographs of three sights, with the point in space that each shows.

    Args:
        root: folder that holds, or shall hold, a folder of the scene's name.
        name: "notredame", "yosemite" or "liberty"; with "_harris" for the points of another detector.
        train: items are patches, otherwise the 100,000 pairs of patches to test with.
        transform: called with each patch.
        download: fetch the scene's archive where its files are not in place.

    Attributes:
        data: [patches, 64, 64], uint8.
        labels: [patches], int64, the number of the point.
        matches: [pairs, 3], int64: two patches, and 1 where they show the same point.
        mean, std: of the patches, in [0, 1].

    Items are a [64, 64] uint8 tensor, or for the test (tensor, tensor, 1 or 0).
    What was read is kept in `<name>.pt` beside the folder.

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
    """

    means: ClassVar[dict[str, float]] = {name: scene[3] for name, scene in _SCENES.items()}
    stds: ClassVar[dict[str, float]] = {name: scene[4] for name, scene in _SCENES.items()}
    lens: ClassVar[dict[str, int]] = {name: scene[2] for name, scene in _SCENES.items()}

    def __init__(
        self,
        root: str | Path,
        name: str,
        train: bool = True,
        transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform)
        self.name = verify_str_arg(name, "name", _SCENES)
        self.train = train
        self.mean, self.std = self.means[name], self.stds[name]
        self._base = prepare_dataset(_INFO, root, download=download, splits=(name,))
        if not self._cache_is_new():
            self.cache()
        self.data, self.labels, self.matches = torch.load(self._cached, weights_only=True)

    @property
    def _cached(self) -> Path:
        return self._base / f"{self.name}.pt"

    def _cache_is_new(self) -> bool:
        sources = [self._base / self.name / file for file in ("info.txt", _MATCHES, "patches0000.bmp")]
        made = self._cached.stat().st_mtime_ns if self._cached.exists() else -1
        return made >= max(path.stat().st_mtime_ns for path in sources)

    def cache(self) -> None:
        """Read the scene's files and keep the result in one."""
        folder = self._base / self.name
        # "172 0": the point that each patch shows, and an unused number.
        points = [int(line.split()[0]) for line in (folder / "info.txt").read_text(encoding="ascii").splitlines()]
        rows = [line.split() for line in (folder / _MATCHES).read_text(encoding="ascii").splitlines()]
        # A row has: patch, its point, unused, other patch, its point, and unused ones.
        matches = [[int(row[0]), int(row[3]), int(row[1] == row[4])] for row in rows]
        patches = _patches([Path(path) for path in list_files(folder, ".bmp", prefix=True)], len(points))
        made = self._base / f".{self.name}.pt.incoming"
        torch.save((patches, torch.tensor(points), torch.tensor(matches).reshape(-1, 3)), made)
        replace(made, self._cached)

    def __getitem__(self, index: int) -> Any:
        """Patch number `index`, or for the test (patch, patch, same) number `index`, transformed."""
        if self.train:
            return self._patch(index)
        first, second, same = self.matches[index]
        return self._patch(int(first)), self._patch(int(second)), same

    def _patch(self, index: int) -> Any:
        patch: Tensor = self.data[index]
        return patch if self.transform is None else self.transform(patch)

    def __len__(self) -> int:
        return len(self.data) if self.train else len(self.matches)

    def download(self) -> None:
        """Fetch and unpack the scene's archive where its files are not in place."""
        prepare_dataset(_INFO, self._base, download=True, splits=(self.name,))

    def extra_repr(self) -> str:
        """Which of the two parts this is."""
        return f"Split: {'Train' if self.train else 'Test'}"


def _patches(grids: list[Path], count: int) -> Tensor:
    """[count, 64, 64] from pictures that are grids of patches, row by row."""
    pieces = []
    for path in grids:
        with Image.open(path) as picture:
            grid = np.asarray(picture.convert("L"))
        height, width = grid.shape[0] // 64, grid.shape[1] // 64
        pieces.append(
            grid[: height * 64, : width * 64].reshape(height, 64, width, 64).swapaxes(1, 2).reshape(-1, 64, 64)
        )
    return torch.from_numpy(np.concatenate(pieces)[:count])
