"""Pretrained word vectors: GloVe, fastText, CharNGram, and files of the same kind."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from flambeau.core.errors import UnknownNameError, close_names
from flambeau.text._vectors import cache as copies
from flambeau.text._vectors import checksums, reading

__all__ = ["CharNGram", "FastText", "GloVe", "Vectors", "pretrained_aliases"]

_ARCHIVES = (".zip", ".tar.gz", ".tgz")


class Vectors:
    """A vector for every word of a file.

    The file has a line for every word: the word, and its numbers, with one space between. A line with a single number
    is a header; words that are not UTF-8 are left out; of a word that occurs twice the last vector counts. The first
    time it is read, a copy is kept in the cache that later is mapped into memory and not read at all.

    Args:
        name: a file, or the name of one in the cache.
        cache: folder for downloads and copies, `.vector_cache` when None.
        url: where the file, or a zip or tar.gz with it, is fetched from when it is not in the cache.
        unk_init: gets a tensor of (dim,) to fill in for an unknown word, and returns it; zeros when None.
        max_vectors: read so many rows; usually files begin with the most frequent words.

    Attributes:
        itos: the words by row.
        stoi: the row of each word.
        vectors: (words, dim) float32.
        dim: numbers of a vector.

    Raises:
        RuntimeError: there is no such file and no `url`, or a vector is not as long as the others.
        ValueError: something that should be a number is none.
        HubError: the file could not be fetched, or is not what is published.
    """

    def __init__(
        self,
        name: str | os.PathLike[str],
        cache: str | os.PathLike[str] | None = None,
        url: str | None = None,
        unk_init: Callable[[Tensor], Tensor] | None = None,
        max_vectors: int | None = None,
    ) -> None:
        self.unk_init: Callable[[Tensor], Tensor] = torch.Tensor.zero_ if unk_init is None else unk_init
        self._norms: Tensor | None = None
        self.cache(name, ".vector_cache" if cache is None else cache, url=url, max_vectors=max_vectors)

    def __getitem__(self, token: str) -> Tensor:
        """(dim,) float32: the vector of a word, or what `unk_init` makes for an unknown one."""
        place = self.stoi.get(token)
        return self.vectors[place] if place is not None else self._unknown()

    def __contains__(self, token: object) -> bool:
        return token in self.stoi

    def __len__(self) -> int:
        return len(self.vectors)

    @cached_property
    def itos(self) -> list[str]:
        """The words by row."""
        return reading.split_words(self._words)

    @cached_property
    def stoi(self) -> dict[str, int]:
        """The row of each word, the last one of those that occur twice."""
        return dict(zip(self.itos, range(len(self.itos)), strict=True))

    def cache(
        self,
        name: str | os.PathLike[str],
        cache: str | os.PathLike[str],
        url: str | None = None,
        max_vectors: int | None = None,
    ) -> None:
        """Find the vectors and keep a copy; called by the constructor, whose arguments these are."""
        folder = Path(cache)
        path = Path(name) if Path(name).is_file() else folder / name
        suffix = f"_{max_vectors}" if max_vectors else ""
        copy = folder / f"{path.name}{suffix}.safetensors"
        theirs = folder / f"{path.name}{suffix}.pt"
        source = path if path.is_file() else None
        found = copies.load(copy, source)
        if found is None and (found := copies.load_upstream(theirs)) is not None:
            copies.save(copy, *found, source)
        if found is None:
            if source is None and url:
                self._fetch(url, folder)
            if not path.is_file():
                raise RuntimeError(f"No vectors found at {os.fspath(path)!r}: there is no such file, and no url given.")
            table = reading.read_text(path, most=max_vectors or None)
            found = table.words, torch.from_numpy(table.vectors)
            copies.save(copy, *found, path)
        self._words, self.vectors = found
        self.dim = int(self.vectors.shape[1])

    def get_vecs_by_tokens(self, tokens: str | list[str], lower_case_backup: bool = False) -> Tensor:
        """Vectors of words.

        Args:
            tokens: one word, or a list of words.
            lower_case_backup: look up unknown words in lower case.

        Returns:
            (dim,) for one word, (words, dim) for a list, float32.
        """
        words = tokens if isinstance(tokens, list) else [tokens]
        if lower_case_backup:
            words = [word if word in self.stoi else word.lower() for word in words]
        vectors = self._rows(words)
        return vectors if isinstance(tokens, list) else vectors[0]

    def nearest(self, query: str | Tensor, k: int = 10) -> list[tuple[str, float]]:
        """The words whose vectors point most nearly the same way.

        Args:
            query: a word, which is not itself among them; or any vector, (dim,).
            k: how many words.

        Returns:
            Words and the cosine of the angle to each, in [-1, 1], the nearest first.

        Raises:
            KeyError: the word is unknown.
            ValueError: the vector has another shape.

        Example:
            `v.nearest(v["king"] - v["man"] + v["woman"], k=5)`
        """
        if isinstance(query, str) and query not in self.stoi:
            close = ", ".join(close_names(query, self.itos[:20000]))
            raise UnknownNameError(f"There is no vector of {query!r}.{f' Close words: {close}.' if close else ''}")
        vector = self.vectors[self.stoi[query]] if isinstance(query, str) else query.to(torch.float32)
        if vector.shape != (self.dim,):
            raise ValueError(f"The vector has the shape {tuple(vector.shape)}; expected ({self.dim},).")
        if self._norms is None:
            self._norms = torch.linalg.vector_norm(self.vectors, dim=1).clamp_min_(torch.finfo(torch.float32).tiny)
        length = torch.linalg.vector_norm(vector).clamp_min(torch.finfo(torch.float32).tiny)
        cosines = torch.mv(self.vectors, vector / length) / self._norms
        # Repeated words have rows that cannot be looked up; room for those and for the word itself.
        best = cosines.topk(min(k + 1 + len(self.itos) - len(self.stoi), len(cosines)))
        found: list[tuple[str, float]] = []
        for cosine, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            word = self.itos[place]
            if len(found) < k and word != query and self.stoi[word] == place:
                found.append((word, cosine))
        return found

    def _rows(self, words: list[str]) -> Tensor:
        places = [self.stoi.get(word, -1) for word in words]
        vectors = self.vectors[torch.tensor(places, dtype=torch.int64)]
        for i, place in enumerate(places):
            if place < 0:
                vectors[i] = self._unknown()
        return vectors

    def _unknown(self) -> Tensor:
        return self.unk_init(torch.empty(self.dim))

    def _fetch(self, url: str, folder: Path) -> None:
        from flambeau.core import hub

        fetched = hub.fetch(url, root=folder, filename=url.rpartition("/")[2], sha256=self._checksum(url))
        if fetched.name.endswith(_ARCHIVES):
            hub.extract_archive(fetched, folder)

    def _checksum(self, url: str) -> str | None:
        """SHA-256 of what is published at a URL, None where it is not known."""
        return None


class GloVe(Vectors):
    """Vectors from how often words occur near each other.

    Args:
        name: of the corpus, by its number of tokens: "42B", "840B", "twitter.27B" or "6B".
        dim: 300; with "6B" also 50, 100, 200; with "twitter.27B" 25, 50, 100, 200.
        kwargs: as for `Vectors`.

    Raises:
        UnknownNameError: another name (a KeyError), or a length that was not published (a ValueError).

    References:
        J. Pennington, R. Socher and C. Manning (2014), "GloVe: Global Vectors for Word Representation".
    """

    url: ClassVar[dict[str, str]] = {
        "42B": "http://nlp.stanford.edu/data/glove.42B.300d.zip",
        "840B": "http://nlp.stanford.edu/data/glove.840B.300d.zip",
        "twitter.27B": "http://nlp.stanford.edu/data/glove.twitter.27B.zip",
        "6B": "http://nlp.stanford.edu/data/glove.6B.zip",
    }
    dims: ClassVar[dict[str, tuple[int, ...]]] = {
        "42B": (300,),
        "840B": (300,),
        "twitter.27B": (25, 50, 100, 200),
        "6B": (50, 100, 200, 300),
    }

    def __init__(self, name: str = "840B", dim: int | str = 300, **kwargs: Any) -> None:
        check_glove(name, dim)
        super().__init__(f"glove.{name}.{dim}d.txt", url=self.url[name], **kwargs)

    def _checksum(self, url: str) -> str | None:
        return next((checksums.GLOVE[name] for name, one in GloVe.url.items() if one == url), None)


class FastText(Vectors):
    """Vectors of words and of their parts, from Wikipedia.

    Args:
        language: of which Wikipedia, such as "en" or "simple".
        kwargs: as for `Vectors`.

    References:
        P. Bojanowski et al. (2016), "Enriching Word Vectors with Subword Information", arXiv:1607.04606.
    """

    url_base: ClassVar[str] = "https://dl.fbaipublicfiles.com/fasttext/vectors-wiki/wiki.{}.vec"

    def __init__(self, language: str = "en", **kwargs: Any) -> None:
        self.language = language
        url = self.url_base.format(language)
        super().__init__(url.rpartition("/")[2], url=url, **kwargs)

    def _checksum(self, url: str) -> str | None:
        return checksums.FAST_TEXT.get(self.language) if url == FastText.url_base.format(self.language) else None


class CharNGram(Vectors):
    """Vectors of words from those of their sequences of 2, 3 and 4 characters; (1, dim), the mean of the known ones.

    Args:
        kwargs: as for `Vectors`.

    References:
        K. Hashimoto et al. (2016), "A Joint Many-Task Model", arXiv:1611.01587.
    """

    name: ClassVar[str] = "charNgram.txt"
    url: ClassVar[str] = (
        "http://www.logos.t.u-tokyo.ac.jp/~hassy/publications/arxiv2016jmt/jmt_pre-trained_embeddings.tar.gz"
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(self.name, url=self.url, **kwargs)

    def __getitem__(self, token: str) -> Tensor:
        """(1, dim) float32: the mean of the vectors of a word's parts, or what `unk_init` makes where none is known."""
        places = [] if token == "<unk>" else self._parts(token)
        if not places:
            return self.unk_init(torch.zeros(1, self.dim))
        total = torch.zeros(1, self.dim)
        for place in places:  # one by one, as upstream adds: the last digit depends on it
            total += self.vectors[place]
        return total / len(places)

    def _rows(self, words: list[str]) -> Tensor:
        return torch.stack([self[word] for word in words]) if words else torch.empty(0, 1, self.dim)

    def _parts(self, token: str) -> list[int]:
        characters = ["#BEGIN#", *token, "#END#"]
        keys = (
            f"{n}gram-{''.join(characters[at : at + n])}" for n in (2, 3, 4) for at in range(len(characters) - n + 1)
        )
        return [self.stoi[key] for key in keys if key in self.stoi]


def check_glove(name: str, dim: int | str) -> None:
    """Raise UnknownNameError, a KeyError and a ValueError, unless such vectors of GloVe are published."""
    if name not in GloVe.dims:
        raise UnknownNameError(f"There is no GloVe of {name!r}; there are {', '.join(map(repr, GloVe.dims))}.")
    if str(dim) not in map(str, GloVe.dims[name]):
        raise UnknownNameError(f"GloVe {name!r} has no vectors of {dim!r}; it has {GloVe.dims[name]}.")


pretrained_aliases: dict[str, Callable[..., Vectors]] = {
    "charngram.100d": partial(CharNGram),
    "fasttext.en.300d": partial(FastText, language="en"),
    "fasttext.simple.300d": partial(FastText, language="simple"),
    **{
        f"glove.{name}.{dim}d": partial(GloVe, name=name, dim=str(dim))
        for name, dims in GloVe.dims.items()
        for dim in dims
    },
}
"""Names of published vectors, and what gives them."""
