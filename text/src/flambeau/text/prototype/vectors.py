"""Word vectors as a module that can be built, extended and changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.text._exporting import NotScripted
from flambeau.text._tokenizers import files
from flambeau.text._vectors import checksums, reading
from flambeau.text.utils import download_from_url, extract_archive
from flambeau.text.vocab import vectors as published

__all__ = ["FastText", "GloVe", "Vectors", "build_vectors", "load_vectors_from_file_path"]


def FastText(  # upstream's name
    language: str = "en",
    unk_tensor: Tensor | None = None,
    root: str | os.PathLike[str] = ".data",
    validate_file: bool = True,
    num_cpus: int = 32,
) -> Vectors:
    """Vectors of fastText (Bojanowski et al. 2016, arXiv:1607.04606), from Wikipedia.

    Args:
        language: of which Wikipedia.
        unk_tensor: (dim,) float32, for unknown tokens; zeros when None.
        root: folder for the download.
        validate_file: verify its digest, where one is published.
        num_cpus: accepted; torch's threads read.

    Raises:
        ValueError: a token occurs twice.
        DownloadError: the file could not be fetched.
    """
    url = published.FastText.url_base.format(language)
    digest = checksums.FAST_TEXT.get(language) if validate_file else None
    path = download_from_url(url, root=root, hash_value=digest)
    return load_vectors_from_file_path(path, " ", unk_tensor, num_cpus)


def GloVe(  # upstream's name
    name: str = "840B",
    dim: int = 300,
    unk_tensor: Tensor | None = None,
    root: str | os.PathLike[str] = ".data",
    validate_file: bool = True,
    num_cpus: int = 32,
) -> Vectors:
    """Vectors of GloVe (Pennington, Socher and Manning 2014). Of tokens that occur twice in "840B" the first counts.

    Args:
        name: of the corpus: "840B", "42B", "twitter.27B" or "6B".
        dim: 300; with "6B" also 50, 100, 200; with "twitter.27B" 25, 50, 100, 200.
        unk_tensor: (dim,) float32, for unknown tokens; zeros when None.
        root: folder for the download, and for what is in it.
        validate_file: verify its digest.
        num_cpus: accepted; torch's threads read.

    Raises:
        ValueError: such vectors are not published.
        DownloadError: the file could not be fetched.
    """
    published.check_glove(name, dim)
    digest = checksums.GLOVE[name] if validate_file else None
    archive = download_from_url(published.GloVe.url[name], root=root, hash_value=digest)
    files = [Path(file) for file in extract_archive(archive)]
    wanted = next(file for file in files if file.name == f"glove.{name}.{dim}d.txt")
    return _loaded(wanted, b" ", unk_tensor, repeated=name == "840B")


def load_vectors_from_file_path(
    filepath: str | os.PathLike[str], delimiter: str = ",", unk_tensor: Tensor | None = None, num_cpus: int = 10
) -> Vectors:
    """Read vectors from text: on each line a token, the delimiter, and numbers with spaces between.

    Args:
        filepath: the file, or its URL. Lines with one or two numbers before the first vector are a header.
        delimiter: one character of ASCII.
        unk_tensor: (dim,) float32, for unknown tokens; zeros when None.
        num_cpus: accepted; torch's threads read.

    Raises:
        ValueError: a token occurs twice, the delimiter is longer, or something that should be a number is none.
        RuntimeError: a vector is not as long as the others.
    """
    if len(delimiter) != 1 or not delimiter.isascii():
        raise ValueError(f"delimiter is {delimiter!r}; expected one character of ASCII.")
    return _loaded(files.local(filepath), delimiter.encode(), unk_tensor, repeated=False)


def build_vectors(tokens: list[str], vectors: Tensor, unk_tensor: Tensor | None = None) -> Vectors:
    """Vectors of tokens.

    Args:
        tokens: all different.
        vectors: (tokens, dim) float32.
        unk_tensor: (dim,) float32, for unknown tokens; zeros when None.

    Raises:
        TypeError: another dtype.
        ValueError: there are no vectors, so that nobody knows how long they are, and no `unk_tensor`.
        RuntimeError: a token occurs twice, or there are more or fewer tokens than vectors.
    """
    for name, tensor in (("vectors", vectors), ("unk_tensor", unk_tensor)):
        if tensor is not None:
            _check_float(name, tensor)
    if unk_tensor is None and vectors.numel() == 0:
        raise ValueError("There are no vectors; give unk_tensor, which says how long they are.")
    if len(tokens) != len(vectors):
        raise RuntimeError(f"There are {len(tokens)} tokens and {len(vectors)} vectors; each needs the other.")
    return Vectors(tokens, vectors, torch.zeros(vectors.shape[1]) if unk_tensor is None else unk_tensor)


class Vectors(NotScripted, nn.Module):
    """A vector for every token, and one for those that are unknown. Made by the functions of this module.

    Args:
        tokens: all different.
        vectors: (tokens, dim) float32.
        unk_tensor: (dim,) float32.

    Raises:
        RuntimeError: a token occurs twice.
    """

    def __init__(self, tokens: list[str], vectors: Tensor, unk_tensor: Tensor) -> None:
        super().__init__()
        self._places = dict(zip(tokens, range(len(tokens)), strict=True))
        if len(self._places) != len(tokens):
            repeated = next(token for place, token in enumerate(tokens) if self._places[token] != place)
            raise RuntimeError(f"The token {repeated!r} occurs twice; tokens have one vector each.")
        self._vectors = vectors
        self._unknown = unk_tensor
        # Tokens that were added; a tensor that grew with each would be copied each time.
        self._added: list[Tensor] = []

    def forward(self, tokens: list[str]) -> Tensor:
        """As `lookup_vectors`."""
        return self.lookup_vectors(tokens)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, token: str) -> Tensor:
        """(dim,) float32: a copy of the token's vector, or of that of unknown ones."""
        return self._row(token).clone()

    def __setitem__(self, token: str, vector: Tensor) -> None:
        """Change the vector of a token, or add one.

        Raises:
            TypeError: the vector is not float32.
            ValueError: it has another length.
        """
        _check_float("vector", vector)
        if vector.shape != self._unknown.shape:
            raise ValueError(f"The vector has the shape {tuple(vector.shape)}; expected {tuple(self._unknown.shape)}.")
        if token in self._places:
            self._row(token).copy_(vector)
        else:
            self._places[token] = len(self._places)
            self._added.append(vector.clone())

    def lookup_vectors(self, tokens: list[str]) -> Tensor:
        """The vectors of tokens.

        Returns:
            (tokens, dim) float32; (0, 0) for an empty list, as upstream.

        Raises:
            TypeError: this is no list of str.
        """
        if not isinstance(tokens, list):
            raise TypeError(f"lookup_vectors takes a list of str, got {type(tokens).__name__}.")
        return torch.stack([self._row(token) for token in tokens]) if tokens else torch.empty(0, 0)

    def extra_repr(self) -> str:
        """What the module's repr shows."""
        return f"{len(self)} tokens, dim={len(self._unknown)}"

    def _row(self, token: str) -> Tensor:
        place = self._places.get(token)
        if place is None:
            return self._unknown
        return self._vectors[place] if place < len(self._vectors) else self._added[place - len(self._vectors)]


def _loaded(path: Path, delimiter: bytes, unk_tensor: Tensor | None, *, repeated: bool) -> Vectors:
    if unk_tensor is not None:
        _check_float("unk_tensor", unk_tensor)
    table = reading.read_text(path, format=reading.Format(delimiter, header=2))
    tokens, vectors = reading.split_words(table.words), torch.from_numpy(table.vectors)
    first: dict[str, int] = {}
    for place, token in enumerate(tokens):
        first.setdefault(token, place)
    if len(first) < len(tokens):
        if not repeated:
            twice = next(token for place, token in enumerate(tokens) if first[token] != place)
            raise ValueError(f"{os.fspath(path)!r}: the token {twice!r} occurs twice; tokens have one vector each.")
        tokens, vectors = list(first), vectors[torch.tensor(list(first.values()))]
    return build_vectors(tokens, vectors, unk_tensor)


def _check_float(name: str, value: Any) -> None:
    if not isinstance(value, Tensor) or value.dtype != torch.float32:
        what = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"{name} is {what}; expected a tensor of torch.float32.")
