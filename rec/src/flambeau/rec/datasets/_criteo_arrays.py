"""Criteo's rows as NumPy arrays: made from text, given contiguous ids, shuffled, and read in parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flambeau.rec.datasets._criteo_columns import (
    CAT_FEATURE_COUNT,
    DAYS,
    FREQUENCY_THRESHOLD,
    INT_FEATURE_COUNT,
)
from flambeau.rec.datasets.utils import PATH_MANAGER_KEY, open_path
from flambeau.rec.errors import OptionError

__all__ = ["BinaryCriteoUtils"]

_RARE = 1
_FIRST_ID = 2
_DATASETS = ("criteo_1tb", "criteo_kaggle")


class BinaryCriteoUtils:
    """Functions on Criteo's rows as arrays: dense float32 (rows, 13), sparse int64 (rows, 26), labels int32 "
    "(rows, 1).
    """

    @staticmethod
    def tsv_to_npys(
        in_file: str,
        out_dense_file: str,
        out_sparse_file: str,
        out_labels_file: str,
        dataset_name: str = "criteo_1tb",
        path_manager_key: str = PATH_MANAGER_KEY,
    ) -> None:
        """Make arrays of a file of text.

        Dense features become ln(x - m + 2), m the smallest of the file; categories the numbers that they are in
        hexadecimal. What is missing is 0.

        Args:
            in_file: text, as it is published.
            out_dense_file: gets the dense features.
            out_sparse_file: gets the categories.
            out_labels_file: gets the labels.
            dataset_name: "criteo_1tb" or "criteo_kaggle", which are read alike.
            path_manager_key: not used.

        Raises:
            ValueError: a line has another number of columns.
        """
        dense, sparse, labels = [], [], []
        columns = 1 + INT_FEATURE_COUNT + CAT_FEATURE_COUNT
        with open_path(in_file, "r") as file:
            for number, line in enumerate(file):
                row = line.rstrip("\n").split("\t")
                if len(row) != columns:
                    raise OptionError(f"{in_file}:{number + 1} has {len(row)} columns; expected {columns}.")
                labels.append(int(row[0]))
                dense.append([int(value or 0) for value in row[1 : 1 + INT_FEATURE_COUNT]])
                sparse.append([int(value or "0", 16) for value in row[1 + INT_FEATURE_COUNT :]])
        numbers = np.array(dense, dtype=np.int64).reshape(-1, INT_FEATURE_COUNT)
        if len(numbers):
            numbers = numbers - (numbers.min() - 2)
        _save(out_dense_file, np.log(numbers.astype(np.float32)))
        _save(out_sparse_file, np.array(sparse, dtype=np.int64).reshape(-1, CAT_FEATURE_COUNT))
        _save(out_labels_file, np.array(labels, dtype=np.int32).reshape(-1, 1))

    @staticmethod
    def get_shape_from_npy(path: str, path_manager_key: str = PATH_MANAGER_KEY) -> tuple[int, ...]:
        """The shape of an array in a file, of which only the head is read.

        Args:
            path: of the file, or its address.
            path_manager_key: not used.
        """
        with open_path(path) as file:
            return _head(file)[0]

    @staticmethod
    def get_file_row_ranges_and_remainder(
        lengths: list[int],
        rank: int,
        world_size: int,
        start_row: int = 0,
        last_row: int | None = None,
    ) -> tuple[dict[int, tuple[int, int]], int]:
        """The rows that a rank reads, when all rows of several files are shared in order.

        Args:
            lengths: rows of each file.
            rank: of this process.
            world_size: number of ranks; the first ones have a row more, if it does not come out even.
            start_row: the first row that is shared, counted over all files.
            last_row: the last one; the last of all by default.

        Returns:
            Number of the file -> its first row and its last row, both of which belong to the rank; and how many ranks
            have a row more.
        """
        behind = (sum(lengths) if last_row is None else last_row + 1) - start_row
        share, remainder = divmod(behind, world_size)
        first = start_row + rank * share + min(rank, remainder)
        last = first + share + (rank < remainder) - 1
        ranges, start = {}, 0
        for number, length in enumerate(lengths):
            low, high = max(first - start, 0), min(last - start, length - 1)
            if low <= high:
                ranges[number] = (low, high)
            start += length
        return ranges, remainder

    @staticmethod
    def load_npy_range(
        fname: str,
        start_row: int,
        num_rows: int,
        path_manager_key: str = PATH_MANAGER_KEY,
        mmap_mode: bool = False,
    ) -> NDArray[Any]:
        """Some rows of an array in a file.

        Args:
            fname: the file, or its address.
            start_row: the first row.
            num_rows: how many.
            path_manager_key: not used.
            mmap_mode: map a local file into memory instead of reading it.

        Raises:
            ValueError: the array has not two dimensions or another type than float32, int32 or int64, or there are no
                such rows.
        """
        with open_path(fname) as file:
            shape, dtype = _head(file)
            if len(shape) != 2:
                raise OptionError(f"{fname} has an array of {len(shape)} dimensions; expected (rows, columns).")
            if dtype not in (np.float32, np.int32, np.int64):
                raise OptionError(f"{fname} has elements of {dtype}; expected float32, int32 or int64.")
            rows, columns = shape
            if not 0 <= start_row < rows:
                raise OptionError(f"start_row is {start_row}, but {fname} has the rows 0 to {rows - 1}.")
            if num_rows > rows - start_row:
                raise OptionError(
                    f"num_rows is {num_rows}, but {fname} has {rows - start_row} rows from start_row {start_row} on."
                )
            place = file.tell() + start_row * columns * dtype.itemsize
            if mmap_mode:
                return np.memmap(fname, dtype=dtype, mode="r", offset=place, shape=(num_rows, columns))
            file.seek(place)
            content = file.read(num_rows * columns * dtype.itemsize)
        return np.frombuffer(content, dtype=dtype).reshape(num_rows, columns).copy()

    @staticmethod
    def sparse_to_contiguous(
        in_files: list[str],
        output_dir: str,
        frequency_threshold: int = FREQUENCY_THRESHOLD,
        columns: int = CAT_FEATURE_COUNT,
        path_manager_key: str = PATH_MANAGER_KEY,
        output_file_suffix: str = "_contig_freq.npy",
    ) -> None:
        """Number the ids of each column in the order in which they come: from 2 on, and 1 for all rare ones.

        Args:
            in_files: arrays, (rows, columns), whose ids are numbered together.
            output_dir: folder of the new arrays.
            frequency_threshold: ids that come less often are rare.
            columns: how many there are.
            path_manager_key: not used.
            output_file_suffix: takes the place of `.npy` in the files' names.
        """
        arrays = [np.load(path) for path in in_files]
        sizes = np.cumsum([len(rows) for rows in arrays])[:-1]
        numbered = np.empty((sum(map(len, arrays)), columns), dtype=arrays[0].dtype if arrays else np.int64)
        for column in range(columns):
            ids = np.concatenate([rows[:, column] for rows in arrays])
            _, first, inverse, counts = np.unique(ids, return_index=True, return_inverse=True, return_counts=True)
            frequent = counts >= frequency_threshold
            new = np.full(len(first), _RARE)
            kept = np.flatnonzero(frequent)
            new[kept[np.argsort(first[kept])]] = np.arange(_FIRST_ID, _FIRST_ID + len(kept))
            numbered[:, column] = new[inverse.reshape(-1)]
        for path, rows in zip(in_files, np.split(numbered, sizes), strict=True):
            _save(str(Path(output_dir) / f"{Path(path).stem}{output_file_suffix}"), rows)

    @staticmethod
    def shuffle(
        input_dir_labels_and_dense: str,
        input_dir_sparse: str,
        output_dir_shuffled: str,
        rows_per_day: dict[int, int],
        output_dir_full_set: str | None = None,
        days: int = DAYS,
        int_columns: int = INT_FEATURE_COUNT,
        sparse_columns: int = CAT_FEATURE_COUNT,
        path_manager_key: str = PATH_MANAGER_KEY,
        random_seed: int = 0,
    ) -> None:
        """Shuffle the rows of all days but the last one, and write them as days of the same sizes.

        Args:
            input_dir_labels_and_dense: folder with `day_<n>_labels.npy` and `day_<n>_dense.npy`.
            input_dir_sparse: folder with `day_<n>_sparse.npy`.
            output_dir_shuffled: folder of the shuffled days, in files of the same names; the last day has its own
                order.
            rows_per_day: day -> rows.
            output_dir_full_set: gets all rows but the last day's in one array `full.npy`, (rows, 40), if given: dense
                features, categories, label.
            days: how many there are; the last one is not shuffled.
            int_columns: dense features.
            sparse_columns: categories.
            path_manager_key: not used.
            random_seed: of the order.

        Raises:
            ValueError: a file has another number of rows.
        """
        parts = []
        for day in range(days - 1):
            row = [
                np.load(Path(folder) / f"day_{day}_{kind}.npy")
                for folder, kind in (
                    (input_dir_labels_and_dense, "labels"),
                    (input_dir_labels_and_dense, "dense"),
                    (input_dir_sparse, "sparse"),
                )
            ]
            if {len(one) for one in row} != {rows_per_day[day]}:
                raise OptionError(
                    f"Day {day} has {[len(one) for one in row]} rows; rows_per_day says {rows_per_day[day]}."
                )
            parts.append([one.reshape(rows_per_day[day], -1) for one in row])
        labels, dense, sparse = (np.concatenate([part[at] for part in parts]) for at in range(3))
        if output_dir_full_set is not None:
            full = np.concatenate([dense, sparse.astype(np.float32), labels.astype(np.float32)], axis=1)
            _save(str(Path(output_dir_full_set) / "full.npy"), full)
        order = np.random.RandomState(random_seed).permutation(len(labels))
        last = f"day_{days - 1}"
        for kind, folder in (
            ("labels", input_dir_labels_and_dense),
            ("dense", input_dir_labels_and_dense),
            ("sparse", input_dir_sparse),
        ):
            _save(str(Path(output_dir_shuffled) / f"{last}_{kind}.npy"), np.load(Path(folder) / f"{last}_{kind}.npy"))
        start = 0
        for day in range(days - 1):
            chosen = order[start : start + rows_per_day[day]]
            start += rows_per_day[day]
            for kind, rows in (("labels", labels), ("dense", dense), ("sparse", sparse.astype(np.int32))):
                _save(str(Path(output_dir_shuffled) / f"day_{day}_{kind}.npy"), rows[chosen])


def _head(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array; the file is read up to its elements."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read(file)
    if by_columns:
        raise OptionError("The array lies column by column in its file; save it with numpy.ascontiguousarray.")
    return shape, dtype


def _save(path: str, rows: NDArray[Any]) -> None:
    with open_path(path, "wb") as file:
        np.save(file, rows)
