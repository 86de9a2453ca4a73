"""Flickr8k and Flickr30k: photographs with five captions each.

References:
    Hodosh, Young and Hockenmaier 2013, Framing Image Description as a Ranking Task. doi:10.1613/jair.3994
    Young et al. 2014, From image descriptions to visual denotations. doi:10.1162/tacl_a_00166
"""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from flambeau.core.datasets import DatasetInfo, Field, Gate, register_dataset
from flambeau.core.errors import DatasetMissingError
from flambeau.vision.datasets._pictures import IMAGE, PictureDataset
from flambeau.vision.datasets.folder import default_loader

__all__ = ["Flickr8k", "Flickr30k"]

_GATE = Gate("form", "https://shannon.cs.illinois.edu/DenotationGraph/", "Fill in the form there.")
_ABOUT: dict[str, Any] = {
    "task": "image-captioning",
    "schema": (IMAGE, Field("captions", "list")),
    "license": "non-commercial research use; the pictures are from Flickr and under its terms",
    "homepage": "https://shannon.cs.illinois.edu/DenotationGraph/",
    "gated": _GATE,
}
_INFO_8K = DatasetInfo(
    name="flickr8k",
    sizes={"all": 8_091},
    citation="@article{hodosh2013framing, author={Hodosh, Micah and Young, Peter and Hockenmaier, Julia}, "
    "title={Framing Image Description as a Ranking Task}, journal={JAIR}, year={2013}}",
    description="8,091 photographs with five captions each.",
    **_ABOUT,
)
_INFO_30K = DatasetInfo(
    name="flickr30k",
    sizes={"all": 31_783},
    citation="@article{young2014image, author={Young, Peter and others}, title={From image descriptions to visual "
    "denotations}, journal={TACL}, year={2014}}",
    description="31,783 photographs with five captions each.",
    **_ABOUT,
)


@register_dataset(info=_INFO_8K)
class Flickr8k(PictureDataset):
    """8,091 photographs with about five captions each.

    Args:
        root: folder of the pictures.
        ann_file: the annotation file, in HTML.
        transform: called with the picture.
        target_transform: called with the captions.
        loader: opens a picture by path.

    Attributes:
        ids: path of every item, sorted.
        annotations: path -> captions.

    Items are (PIL image in RGB, list of captions).

    Raises:
        DatasetMissingError: the annotation file, or a picture that it names, is missing.
    """

    def __init__(
        self,
        root: str | Path,
        ann_file: str,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        self.ann_file = str(Path(ann_file).expanduser())
        page = _Page()
        page.feed(_text(self.ann_file))
        folder = Path(root).expanduser()
        self.annotations = {_picture_of(folder, number): captions for number, captions in page.captions.items()}
        self.ids = sorted(self.annotations)
        samples = [(path, self.annotations[path]) for path in self.ids]
        super().__init__(root, samples, transform, target_transform, loader)


class _Page(HTMLParser):
    """Collects captions: in a table, a link whose address ends in the picture's number, then a list."""

    def __init__(self) -> None:
        super().__init__()
        self.captions: dict[str, list[str]] = {}
        self._in_table = False
        self._tag = ""
        self._number = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember where text stands."""
        self._tag = tag
        self._in_table = self._in_table or tag == "table"

    def handle_endtag(self, tag: str) -> None:
        """Text that follows stands nowhere."""
        self._tag = ""
        self._in_table = self._in_table and tag != "table"

    def handle_data(self, data: str) -> None:
        """A link's text, a caption, or the notice in a link's place that the picture is gone."""
        text = data.strip()
        if not self._in_table or not text:
            return
        if text == "Image Not Found":
            self._number = ""
        elif self._tag == "a":
            self._number = text.split("/")[-2]
            self.captions[self._number] = []
        elif self._tag == "li" and self._number:
            self.captions[self._number].append(text)


def _picture_of(folder: Path, number: str) -> str:
    found = sorted(folder.glob(f"{number}_*.jpg"))
    if not found:
        raise DatasetMissingError(f"{folder / number}_*.jpg is missing, which the annotations name. {_how_to()}")
    return str(found[0])


@register_dataset(info=_INFO_30K)
class Flickr30k(PictureDataset):
    """31,783 photographs with five captions each.

    Args:
        root: folder of the pictures.
        ann_file: the annotation file: a line has "<file>#<number>", a tab, and the caption.
        transform: called with the picture.
        target_transform: called with the captions.
        loader: opens a picture by path.

    Attributes:
        ids: file name of every item, sorted.
        annotations: file name -> captions.

    Items are (PIL image in RGB, list of captions).

    Raises:
        DatasetMissingError: the annotation file is missing.
    """

    def __init__(
        self,
        root: str,
        ann_file: str,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
    ) -> None:
        self.ann_file = str(Path(ann_file).expanduser())
        self.annotations: dict[str, list[str]] = {}
        for line in _text(self.ann_file).splitlines():
            name, _, caption = line.partition("\t")
            if caption:
                self.annotations.setdefault(name.rpartition("#")[0], []).append(caption)
        self.ids = sorted(self.annotations)
        folder = Path(root).expanduser()
        samples = [(folder / name, self.annotations[name]) for name in self.ids]
        super().__init__(root, samples, transform, target_transform, loader)


def _text(path: str) -> str:
    if not Path(path).is_file():
        raise DatasetMissingError(f"{path} is missing, the file of annotations. {_how_to()}")
    return Path(path).read_text(encoding="utf-8")


def _how_to() -> str:
    return f"It cannot be fetched by program: obtain it from {_GATE.url}. {_GATE.instructions}"
