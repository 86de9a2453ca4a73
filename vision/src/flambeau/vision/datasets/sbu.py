"""SBU Captioned Photos.

References:
    Ordonez, Kulkarni and Berg 2011, Im2Text: Describing Images Using 1 Million Captioned Photographs. NIPS.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.datasets import Content, DatasetFile, DatasetInfo, Field, prepare_dataset, register_dataset
from flambeau.core.errors import DiskFullError, DownloadError, OfflineError
from flambeau.vision.datasets._pictures import IMAGE, PictureDataset
from flambeau.vision.datasets.folder import default_loader

__all__ = ["SBU"]

_LISTS = tuple(f"dataset/SBU_captioned_photo_dataset_{what}.txt" for what in ("urls", "captions"))
_INFO = DatasetInfo(
    name="sbu",
    task="image-captioning",
    sizes={"urls": 1_000_000},
    files=(
        DatasetFile(
            url="https://www.cs.rice.edu/~vo9/sbucaptions/SBUCaptionedPhotoDataset.tar.gz",
            md5="9aec147b3488753cf758b4d493422285",
            extract=True,
            contents=tuple(Content(path) for path in _LISTS),
        ),
    ),
    schema=(IMAGE, Field("caption", "text")),
    license="unknown; the pictures belong to their owners",
    citation="@inproceedings{ordonez2011im2text, author={Ordonez, Vicente and Kulkarni, Girish and Berg, Tamara L.}, "
    "title={Im2Text: Describing Images Using 1 Million Captioned Photographs}, booktitle={NIPS}, year={2011}}",
    homepage="https://www.cs.rice.edu/~vo9/sbucaptions/",
    description="Up to a million photographs from Flickr, each with its caption.",
)


@register_dataset(info=_INFO)
class SBU(PictureDataset):
    """Up to a million photographs from Flickr, each with the caption of its owner; those that are on disk.

    Args:
        root: folder that holds, or shall hold, `dataset`.
        transform: called with the picture.
        target_transform: called with the caption.
        download: fetch the lists and then every photograph that is not there, one by one; what is gone is left out.
            Upstream: this is the default here.
        loader: opens a picture by path.

    Attributes:
        photos: file name of every item.
        captions: caption of every item.

    Items are (PIL image in RGB, caption).

    Raises:
        DatasetMissingError: the lists are missing, and `download` is False.
    """

    def __init__(
        self,
        root: str | Path,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = True,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        self._base = prepare_dataset(_INFO, root, download=download)
        if download:
            self._fetch_photographs()
        urls, captions = (_lines(self._base / path) for path in _LISTS)
        pairs = [(self._place(url), caption) for url, caption in zip(urls, captions, strict=True)]
        super().__init__(root, [pair for pair in pairs if pair[0].exists()], transform, target_transform, loader)
        self.photos = [Path(path).name for path, _ in self.samples]
        self.captions = [caption for _, caption in self.samples]

    def _place(self, url: str) -> Path:
        return self._base / "dataset" / url.rpartition("/")[2]

    def _fetch_photographs(self) -> None:
        from flambeau.core import hub

        for url in _lines(self._base / _LISTS[0]):
            place = self._place(url)
            if place.exists():
                continue
            try:
                hub.fetch(url, root=place.parent, filename=place.name)
            except (OfflineError, DiskFullError):
                raise
            except DownloadError:
                continue  # many of the photographs are gone; the others are worth having

    def download(self) -> None:
        """Fetch the lists and the photographs that are not there."""
        prepare_dataset(_INFO, self._base, download=True)
        self._fetch_photographs()


def _lines(path: Path) -> list[str]:
    return [line.rstrip() for line in path.read_text(encoding="utf-8").splitlines()]
