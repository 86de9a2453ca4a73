"""What is known about a dataset without its code: splits, files with checksums, licence, and what one item holds.

A `DatasetInfo` is plain facts. Its `record()` is the JSON object a manifest stores, `from_record` the way back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import PurePosixPath
from typing import Any, Literal, Self, TypeVar
from urllib.parse import unquote, urlsplit

from flambeau.core.errors import close_names

_T = TypeVar("_T")
_DIGEST_LENGTHS = {"sha256": 64, "md5": 32}


@dataclass(frozen=True)
class Content:
    """One file, or folder, that an archive leaves behind when it is unpacked.

    Args:
        path: where it lies below the dataset's root, with `/` between parts; of a folder only the presence is checked.
        sha256, md5: hexadecimal digest of its bytes; either, both or none.
        size: bytes.
    """

    path: str
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        _check_path(self.path)
        _check_digests(self)


@dataclass(frozen=True)
class DatasetFile:
    """One file a dataset is made of.

    Args:
        url: where it is fetched from; None for a file that can only be placed by hand.
        path: where it lies below the dataset's root, with `/` between parts; the URL's last part when left out.
        sha256, md5: hexadecimal digest; either, both or none. Whatever is given is checked before the file becomes
            visible below the root.
        size: bytes.
        mirrors: further URLs, tried in order after `url`.
        extract: True unpacks the archive into its own folder, a string into that folder below the root.
        contents: what unpacking leaves behind. Where these are in place the archive itself is not needed.
        splits: the splits that need this file; empty means all.

    Raises:
        ValueError: a path that leaves the root, a malformed digest, or neither `url` nor `path`.
    """

    url: str | None = None
    path: str = ""
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None
    mirrors: tuple[str, ...] = ()
    extract: bool | str = False
    contents: tuple[Content, ...] = ()
    splits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.path:
            if self.url is None:
                raise ValueError("a dataset file needs a `url`, a `path`, or both; got neither.")
            object.__setattr__(self, "path", unquote(PurePosixPath(urlsplit(self.url).path).name))
        _check_path(self.path)
        _check_digests(self)
        if isinstance(self.extract, str):
            _check_path(self.extract, allow_root=True)
        object.__setattr__(self, "mirrors", tuple(self.mirrors))
        object.__setattr__(self, "splits", tuple(self.splits))
        object.__setattr__(self, "contents", tuple(_as(Content, content) for content in self.contents))

    @property
    def urls(self) -> tuple[str, ...]:
        """Every address of the file, in the order they are tried."""
        return (self.url, *self.mirrors) if self.url else self.mirrors

    @property
    def extract_to(self) -> str | None:
        """Folder below the root the archive is unpacked into (`.` is the root), None for a file that stays as it is."""
        if isinstance(self.extract, str):
            return self.extract
        return str(PurePosixPath(self.path).parent) if self.extract else None


@dataclass(frozen=True)
class Field:
    """One part of a dataset's item.

    Args:
        key: its key where an item is a mapping; its name in the documentation where an item is a tuple.
        kind: what it is: "image", "video", "mask", "boxes", "keypoints", "waveform", "label", "int", "float", "bool",
            "text", "path", "bytes", "tensor", "list", "mapping", "any", or the id of a registered tensor type such as
            "vision/boxes".
        shape: sizes; a name such as "H" stands for a size that varies, "..." for any number of them.
            Images are (C, H, W) whatever object holds them.
        dtype: element type, such as "uint8" or "float32"; None where it varies or does not apply.
        classes: number of classes of a label, which then lies in [0, classes).
        optional: the value may be None, as labels of a test split are.
    """

    key: str
    kind: str
    shape: tuple[int | str, ...] | None = None
    dtype: str | None = None
    classes: int | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        if self.shape is not None:
            object.__setattr__(self, "shape", tuple(self.shape))


@dataclass(frozen=True)
class Gate:
    """Why a dataset cannot simply be fetched.

    Args:
        kind: "token": a personal token, sent with the request; "form": after filling in a form, which may hand out
            links or files; "manual": the files are placed by hand.
        url: where access is obtained.
        instructions: what to do there, in a sentence.
    """

    kind: Literal["token", "form", "manual"]
    url: str | None = None
    instructions: str = ""

    def __post_init__(self) -> None:
        if self.kind not in ("token", "form", "manual"):
            raise ValueError(f"gated kind is {self.kind!r}, expected 'token', 'form' or 'manual'.")


@dataclass(frozen=True)
class DatasetInfo:
    """The facts of one dataset.

    Args:
        name: short name, unique within its plugin.
        task: such as "image-classification"; None where there is no usual one.
        splits: names of its parts; the keys of `sizes` when left out.
        sizes: number of items per split, for the splits where it is known.
        files: what it is made of, empty for a dataset that makes its items or reads the user's own files.
            Plain dictionaries are accepted here, and in `schema` and `gated`.
        schema: what an item holds before any transform, in order: an item with one field is the value itself, a tuple
            has one field per position, a mapping one per key.
        license: SPDX identifier, or the owner's words.
        citation: BibTeX.
        homepage: URL.
        gated: None for a dataset anyone can fetch.
        description: one sentence.

    Raises:
        ValueError: a split in `sizes` or in a file that is not in `splits`, or a fault in one of the parts.
        TypeError: a dictionary with a key that the part does not have.
    """

    name: str
    task: str | None = None
    splits: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    files: tuple[DatasetFile, ...] = ()
    schema: tuple[Field, ...] = ()
    license: str | None = None
    citation: str | None = None
    homepage: str | None = None
    gated: Gate | None = None
    description: str = ""

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "splits", tuple(self.splits) or tuple(self.sizes))
        put(self, "sizes", dict(self.sizes))
        put(self, "files", tuple(_as(DatasetFile, file) for file in self.files))
        put(self, "schema", tuple(_as(Field, item) for item in self.schema))
        put(self, "gated", None if self.gated is None else _as(Gate, self.gated))
        named = {*self.sizes, *(split for file in self.files for split in file.splits)}
        if stray := sorted(named - set(self.splits)):
            raise ValueError(f"dataset {self.name!r} names splits {stray}, but its splits are {list(self.splits)}.")

    def record(self) -> dict[str, Any]:
        """The facts as a JSON object, without what is empty."""
        return {"name": self.name, **_without_empty(asdict(self))}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The facts from a manifest's record; keys this version does not know are ignored."""
        return cls(**_known(cls, record))

    def files_of(self, splits: Iterable[str] | None) -> tuple[DatasetFile, ...]:
        """The files that these splits need; all files for None.

        Raises:
            ValueError: a split the dataset does not have.
        """
        if splits is None:
            return self.files
        wanted = {splits} if isinstance(splits, str) else set(splits)
        if unknown := sorted(wanted - set(self.splits)):
            raise ValueError(f"dataset {self.name!r} has no split {unknown[0]!r}; its splits are {list(self.splits)}.")
        return tuple(file for file in self.files if not file.splits or wanted & set(file.splits))


# Dataclass -> its fields that hold further ones.
_PARTS: dict[type, dict[str, type]] = {
    DatasetInfo: {"files": DatasetFile, "schema": Field, "gated": Gate},
    DatasetFile: {"contents": Content},
}


def _as(kind: type[_T], value: _T | Mapping[str, Any]) -> _T:
    """A part as it was given in code, where a key that means nothing is a mistake."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(f"a {kind.__name__}, or a dictionary of its fields, is expected; got {value!r}.")
    known = [item.name for item in fields(kind)]  # type: ignore[arg-type]  # every caller passes a dataclass
    if strange := sorted(set(value) - set(known)):
        near = close_names(str(strange[0]), known)
        hint = f" Close names: {', '.join(near)}." if near else ""
        raise TypeError(f"{kind.__name__} has no {strange[0]!r}; expected some of {', '.join(known)}.{hint}")
    return kind(**value)


def _known(kind: type, record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without the keys, on any level, that only a later version knows."""
    parts = _PARTS.get(kind, {})
    kept = {item.name: record[item.name] for item in fields(kind) if item.name in record}
    return {key: _known_part(parts[key], value) if key in parts else value for key, value in kept.items()}


def _known_part(kind: type, value: Any) -> Any:
    if isinstance(value, Mapping):
        return _known(kind, value)
    return [_known_part(kind, item) for item in value] if isinstance(value, list | tuple) else value


def _without_empty(record: Mapping[str, Any]) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return _without_empty(value)
        return [plain(item) for item in value] if isinstance(value, list | tuple) else value

    def empty(value: Any) -> bool:
        return value is None or value is False or value in ("", (), [], {})  # zero is a size, not an absence

    return {key: plain(value) for key, value in record.items() if not empty(value)}


def _check_path(path: str, *, allow_root: bool = False) -> None:
    parts = path.split("/")
    if allow_root and path == ".":
        return
    if not path or any(part in ("", ".", "..") for part in parts) or "\\" in path or "\0" in path or path[1:2] == ":":
        raise ValueError(
            f"{path!r} is not a path below the dataset's root; expected parts joined by '/', without '..'."
        )


def _check_digests(file: DatasetFile | Content) -> None:
    for kind, length in _DIGEST_LENGTHS.items():
        digest = getattr(file, kind)
        if digest is not None and not re.fullmatch(rf"[0-9a-f]{{{length}}}", digest):
            raise ValueError(f"{file.path}: {kind} is {digest!r}, expected {length} lower-case hexadecimal digits.")
