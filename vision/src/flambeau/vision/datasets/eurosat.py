"""EuroSAT: land use from Sentinel-2.

References:
    Helber et al. 2019, EuroSAT: A Novel Dataset and Deep Learning Benchmark for Land Use and Land Cover
    Classification. arXiv:1709.00029
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.vision.datasets._pictures import picture_and_label
from flambeau.vision.datasets.folder import ImageFolder, default_loader

__all__ = ["EuroSAT"]

_INFO = DatasetInfo(
    name="eurosat",
    task="image-classification",
    sizes={"all": 27_000},
    files=(
        DatasetFile(
            url="https://huggingface.co/datasets/torchgeo/eurosat/resolve/"
            "c877bcd43f099cd0196738f714544e355477f3fd/EuroSAT.zip",
            path="eurosat/EuroSAT.zip",
            md5="c8fa014336c82ac7804f0398fcb19387",
            extract=True,
            contents=(Content("eurosat/2750"),),
        ),
    ),
    schema=picture_and_label(10, image=Field("image", "image", shape=(3, 64, 64), dtype="uint8")),
    license="MIT",
    citation="@article{helber2019eurosat, author={Helber, Patrick and others}, title={EuroSAT: A Novel Dataset and "
    "Deep Learning Benchmark for Land Use and Land Cover Classification}, journal={IEEE JSTARS}, year={2019}}",
    homepage="https://github.com/phelber/EuroSAT",
    description="Satellite pictures of 64x64 pixels in ten classes of land use.",
)


@register_dataset(info=_INFO)
class EuroSAT(ImageFolder):
    """27,000 satellite pictures of 64x64 pixels at 10 m per pixel, in ten classes of land use.

    Args:
        root: folder that holds, or shall hold, `eurosat`.
        transform: called with the picture.
        target_transform: called with the class index.
        download: fetch the archive (90 MB) where the files are not in place.
        loader: opens a picture by path.

    Items are (PIL image in RGB, class index). Attributes as `ImageFolder`.

    Raises:
        DatasetMissingError: files are missing, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        folder = prepare_dataset(_INFO, root, download=download) / "eurosat" / "2750"
        super().__init__(folder, transform=transform, target_transform=target_transform, loader=loader)
        self.root = str(Path(root).expanduser())

    def download(self) -> None:
        """Fetch and unpack the archive where its files are not in place."""
        prepare_dataset(_INFO, self.root, download=True)
