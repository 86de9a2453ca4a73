"""SUN397: scenes of 397 kinds.

References:
    Xiao et al. 2010, SUN database: Large-scale scene recognition from abbey to zoo. CVPR.
    doi:10.1109/CVPR.2010.5539970
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import PictureDataset, index_of, picture_and_label
from flambeau.vision.datasets.folder import default_loader

__all__ = ["SUN397"]

_INFO = DatasetInfo(
    name="sun397",
    task="image-classification",
    sizes={"all": 108_754},
    files=(
        DatasetFile(
            url="http://vision.princeton.edu/projects/2010/SUN/SUN397.tar.gz",
            md5="8ca2778205c41d23104230ba66911c7a",
            extract=True,
            contents=(Content("SUN397"),),
        ),
    ),
    schema=picture_and_label(397),
    license="research use; the pictures belong to their owners",
    citation="@inproceedings{xiao2010sun, author={Xiao, Jianxiong and others}, title={SUN database: Large-scale scene "
    "recognition from abbey to zoo}, booktitle={CVPR}, year={2010}}",
    homepage="https://vision.princeton.edu/projects/2010/SUN/",
    description="Photographs of 397 kinds of scenes.",
)


@register_dataset(info=_INFO)
class SUN397(PictureDataset):
    """108,754 photographs of 397 kinds of scenes.

    Args:
        root: folder that holds, or shall hold, `SUN397`.
        transform: called with the picture.
        target_transform: called with the class index.
        download: fetch the archive (37 GB) where the files are not in place.
        loader: opens a picture by path.

    Attributes:
        classes: names such as "abbey" and "apse/indoor", in the order of ClassName.txt.
        class_to_idx: class name -> index.

    Items are (PIL image in RGB, class index), sorted by path.

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
        loader: Callable[[str | Path], Any] = default_loader,
    ) -> None:
        folder = prepare_dataset(_INFO, root, download=download) / "SUN397"
        # A line is "/a/abbey": the folder of the class's first letter, then its name, which may have parts.
        lines = (folder / "ClassName.txt").read_text(encoding="utf-8").splitlines()
        self.classes = [line.strip()[3:] for line in lines if line.strip()]
        self.class_to_idx = index_of(self.classes)
        pictures = sorted(folder.rglob("sun_*.jpg"))
        labels = ["/".join(path.relative_to(folder).parts[1:-1]) for path in pictures]
        samples = [(path, self.class_to_idx[label]) for path, label in zip(pictures, labels, strict=True)]
        super().__init__(root, samples, transform, target_transform, loader)
