"""MovieLens: ratings of movies by users, 20 and 25 million of them.

References:
    Harper and Konstan 2015, "The MovieLens Datasets: History and Context". https://grouplens.org/datasets/movielens/
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flambeau.data.datapipes.datapipe import IterDataPipe
from flambeau.data.datapipes.iter.callable import MapperIterDataPipe
from flambeau.rec.datasets.utils import LoadFiles, ReadLinesFromCSV, safe_cast

__all__ = [
    "COLUMN_TYPE_CASTERS",
    "DEFAULT_COLUMN_NAMES",
    "DEFAULT_MOVIES_COLUMN_NAMES",
    "DEFAULT_RATINGS_COLUMN_NAMES",
    "MOVIES_FILENAME",
    "RATINGS_FILENAME",
    "movielens_20m",
    "movielens_25m",
]

RATINGS_FILENAME = "ratings.csv"
MOVIES_FILENAME = "movies.csv"
DEFAULT_RATINGS_COLUMN_NAMES = ["userId", "movieId", "rating", "timestamp"]
DEFAULT_MOVIES_COLUMN_NAMES = ["movieId", "title", "genres"]
DEFAULT_COLUMN_NAMES = [*DEFAULT_RATINGS_COLUMN_NAMES, *DEFAULT_MOVIES_COLUMN_NAMES[1:]]


def _whole(value: str) -> int:
    return safe_cast(value, int, 0)  # type: ignore[arg-type, return-value]


def _real(value: str) -> float:
    return safe_cast(value, float, 0.0)  # type: ignore[arg-type, return-value]


def _text(value: str) -> str:
    return safe_cast(value, str, "")


COLUMN_TYPE_CASTERS: list[Callable[[str], int | float | str]] = [_whole, _whole, _real, _whole, _text, _text]
"""Makes a value of what stands in the file, for each column."""


def _default_row_mapper(example: list[str]) -> dict[str, int | float | str]:
    """A row as a dictionary by the columns' names; numbers that are none become 0."""
    pairs = zip(DEFAULT_COLUMN_NAMES, COLUMN_TYPE_CASTERS, example, strict=False)
    return {name: cast(value) for name, cast, value in pairs}


class _WithMovies(IterDataPipe[list[str]]):
    """Ratings with the movie's title and genres behind."""

    state_fields = ()

    def __init__(self, ratings: IterDataPipe[list[str]], movies: IterDataPipe[list[str]]) -> None:
        self.ratings = ratings
        self.movies = movies

    def __iter__(self) -> Iterator[list[str]]:
        about = {movie[0]: movie[1:] for movie in self.movies}
        for row in self.ratings:
            yield row + about[row[1]]


def _rows(path: Path, **open_kw: Any) -> IterDataPipe[list[str]]:
    files = LoadFiles((str(path),), mode="r", **open_kw)
    return ReadLinesFromCSV(files, skip_first_line=True, delimiter=",")


def _movielens(
    root: str,
    *,
    include_movies_data: bool = False,
    row_mapper: Callable[[list[str]], Any] | None = _default_row_mapper,
    **open_kw: Any,
) -> IterDataPipe[Any]:
    datapipe = _rows(Path(root) / RATINGS_FILENAME, **open_kw)
    if include_movies_data:
        datapipe = _WithMovies(datapipe, _rows(Path(root) / MOVIES_FILENAME, **open_kw))
    return datapipe if row_mapper is None else MapperIterDataPipe(datapipe, row_mapper)


def movielens_20m(
    root: str,
    *,
    include_movies_data: bool = False,
    row_mapper: Callable[[list[str]], Any] | None = _default_row_mapper,
    **open_kw: Any,
) -> IterDataPipe[Any]:
    """MovieLens 20M: 20,000,263 ratings of 27,278 movies by 138,493 users.

    Items are dictionaries: userId, movieId (int), rating (float, 0.5 to 5), timestamp (int, seconds since 1970), and
    with
    `include_movies_data` title and genres, which are separated by "|".

    Args:
        root: folder with `ratings.csv` and `movies.csv`.
        include_movies_data: add the movies' titles and genres.
        row_mapper: called with each row, a list of strings; None gives those.
        open_kw: as for `open`.
    """
    return _movielens(root, include_movies_data=include_movies_data, row_mapper=row_mapper, **open_kw)


def movielens_25m(
    root: str,
    *,
    include_movies_data: bool = False,
    row_mapper: Callable[[list[str]], Any] | None = _default_row_mapper,
    **open_kw: Any,
) -> IterDataPipe[Any]:
    """MovieLens 25M: 25,000,095 ratings of 62,423 movies by 162,541 users; see `movielens_20m`.

    Args:
        root: folder with `ratings.csv` and `movies.csv`.
        include_movies_data: add the movies' titles and genres.
        row_mapper: called with each row, a list of strings; None gives those.
        open_kw: as for `open`.
    """
    return _movielens(root, include_movies_data=include_movies_data, row_mapper=row_mapper, **open_kw)
