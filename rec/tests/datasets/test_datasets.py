"""Data sets read what is in their files, share it among ranks and workers, and say what is wrong with it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.data.frame import dataframe
from flambeau.data.jagged import JaggedValues
from flambeau.rec.datasets.criteo import (
    BinaryCriteoUtils,
    InMemoryBinaryCriteoIterDataPipe,
    criteo_kaggle,
    criteo_terabyte,
)
from flambeau.rec.datasets.frames import frame_to_batch, jagged_features
from flambeau.rec.datasets.indexed import CriteoKaggle, MovieLens20M
from flambeau.rec.datasets.movielens import movielens_20m
from flambeau.rec.datasets.random import RandomRecDataset
from flambeau.rec.datasets.scripts import contiguous_preproc_criteo, npy_preproc_criteo, shuffle_preproc_criteo
from flambeau.rec.datasets.test_utils.criteo_test_utils import CriteoTest
from flambeau.rec.datasets.utils import idx_split_train_val
from flambeau.rec.errors import OptionError

ROW = "\t".join(["1", *map(str, range(13)), *(f"{at:08x}" for at in range(26))])


def arrays(folder, rows):
    paths = {"dense": [], "sparse": [], "labels": []}
    start = 0
    for day, count in enumerate(rows):
        numbers = np.arange(start, start + count)
        for kind, made in (
            ("dense", np.tile(numbers[:, None], (1, 13)).astype(np.float32)),
            ("sparse", np.tile(numbers[:, None], (1, 26)).astype(np.int64)),
            ("labels", (numbers % 2).astype(np.int32)[:, None]),
        ):
            paths[kind].append(str(folder / f"day_{day}_{kind}.npy"))
            np.save(paths[kind][-1], made)
        start += count
    return paths


def in_memory(paths, **options):
    chosen = {"stage": "train", "batch_size": 3, "rank": 0, "world_size": 1} | options
    return InMemoryBinaryCriteoIterDataPipe(
        dense_paths=paths["dense"], sparse_paths=paths["sparse"], labels_paths=paths["labels"], **chosen
    )


def test_missing_features_are_zero_and_empty(tmp_path):
    (tmp_path / "day").write_text("\t".join(["0", *[""] * 39]) + "\n")
    (row,) = criteo_terabyte([str(tmp_path / "day")])
    assert row["label"] == row["int_5"] == 0
    assert row["cat_25"] == ""


def test_rows_of_a_test_set_have_no_label(tmp_path):
    (tmp_path / "test.txt").write_text(ROW.partition("\t")[2] + "\n")
    (row,) = criteo_kaggle(str(tmp_path / "test.txt"))
    assert "label" not in row
    assert (row["int_0"], row["cat_0"]) == (0, "00000000")


def test_workers_share_the_files(tmp_path):
    for day in range(3):
        (tmp_path / f"day_{day}").write_text(f"{ROW}\n" * (day + 1))
    pipe = criteo_terabyte([str(tmp_path / f"day_{day}") for day in range(3)], row_mapper=len)
    loader = torch.utils.data.DataLoader(pipe, num_workers=2, batch_size=None)
    assert list(loader) == [40] * 6


def test_a_line_that_is_too_short_is_named(tmp_path):
    (tmp_path / "day").write_text(f"{ROW}\n1\t2\n")
    with pytest.raises(OptionError, match=r"day:2 has 2 columns; expected 40"):
        BinaryCriteoUtils.tsv_to_npys(str(tmp_path / "day"), *[str(tmp_path / f"{at}.npy") for at in range(3)])


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(1, 5))
def test_ranks_share_all_rows_and_none_twice(lengths, world_size):
    seen, share = [], []
    for rank in range(world_size):
        ranges, _ = BinaryCriteoUtils.get_file_row_ranges_and_remainder(lengths, rank, world_size)
        mine = [(file, row) for file, (low, high) in ranges.items() for row in range(low, high + 1)]
        seen += mine
        share.append(len(mine))
    assert seen == [(file, row) for file, length in enumerate(lengths) for row in range(length)]
    assert max(share) - min(share) <= 1


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("rows", [(7, 4), (1, 2), (12,), (5, 0, 8)])
def test_ranks_have_as_many_batches_and_all_rows_together(tmp_path, world_size, shuffled, rows):
    paths = arrays(tmp_path, rows)
    ranks = [
        in_memory(paths, rank=rank, world_size=world_size, shuffle_training_set=shuffled) for rank in range(world_size)
    ]
    seen = [batch.dense_features[:, 0].long().tolist() for rank in ranks for batch in rank]
    assert sorted(row for batch in seen for row in batch) == list(range(sum(rows)))
    if sum(rows) >= world_size:
        assert len({len(list(rank)) for rank in ranks}) == 1
    assert all(len(rank) >= len(list(rank)) for rank in ranks)


def test_a_batch_belongs_together(tmp_path):
    paths = arrays(tmp_path, (5, 4))
    for batch in in_memory(paths, shuffle_batches=True, shuffle_training_set=True):
        rows = batch.dense_features[:, 0].long()
        assert torch.equal(batch.labels, (rows % 2).int())
        assert torch.equal(batch.sparse_features["cat_3"].values(), rows)


def test_changing_a_batch_leaves_the_rows_as_they_are(tmp_path):
    dataset = in_memory(arrays(tmp_path, (4,)))
    next(iter(dataset)).dense_features.zero_()
    assert next(iter(dataset)).dense_features[:, 0].tolist() == [0.0, 1.0, 2.0]


def test_files_that_do_not_fit_together_are_refused(tmp_path):
    paths = arrays(tmp_path, (4,))
    np.save(paths["labels"][0], np.zeros((3, 1), dtype=np.int32))
    with pytest.raises(OptionError, match="must be as many"):
        in_memory(paths)


def test_rare_ids_become_one_and_the_others_are_numbered_as_they_come(tmp_path):
    ids = [7, 5, 7, 9, 5, 7]
    np.save(tmp_path / "s.npy", np.array(ids)[:, None])
    BinaryCriteoUtils.sparse_to_contiguous([str(tmp_path / "s.npy")], str(tmp_path), frequency_threshold=2, columns=1)
    assert np.load(tmp_path / "s_contig_freq.npy")[:, 0].tolist() == [2, 3, 2, 1, 3, 2]


def test_the_scripts_lead_from_text_to_shuffled_arrays(tmp_path):
    for day in range(24):
        (tmp_path / f"day_{day}").write_text(f"{ROW}\n" * (1 + day % 2))
    places = [str(tmp_path / name) for name in ("npy", "contiguous", "shuffled")]
    npy_preproc_criteo.main(["--input_dir", str(tmp_path), "--output_dir", places[0]])
    contiguous_preproc_criteo.main(["--input_dir", places[0], "--output_dir", places[1]])
    for day in range(24):  # where the next script looks for them
        made = tmp_path / "contiguous" / f"day_{day}_sparse_contig_freq.npy"
        made.rename(tmp_path / "contiguous" / f"day_{day}_sparse.npy")
    shuffle_preproc_criteo.main(
        ["--input_dir_labels_and_dense", places[0], "--input_dir_sparse", places[1], "--output_dir_shuffled", places[2]]
    )
    assert np.load(tmp_path / "shuffled" / "day_1_sparse.npy").tolist() == [[2] * 26] * 2


def test_movies_follow_their_ratings(tmp_path):
    (tmp_path / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,2,3.5,4\n")
    (tmp_path / "movies.csv").write_text('movieId,title,genres\n2,"A, b",C\n')
    (row,) = movielens_20m(str(tmp_path), include_movies_data=True)
    assert (row["rating"], row["title"]) == (3.5, "A, b")


def test_random_batches_come_again():
    dataset = RandomRecDataset(["a"], 2, ids_per_feature=1, num_dense=1, num_batches=4, num_generated_batches=2)
    first, _, third, _ = dataset
    assert first is third


def test_columns_of_lists_become_features_without_a_copy():
    items = JaggedValues(torch.tensor([5, 6, 7]), lengths=torch.tensor([2, 1]))
    features = jagged_features({"items": items})
    assert features.values().data_ptr() == items.values().data_ptr()
    both = jagged_features({"user": torch.tensor([1, 2]), "items": items})
    assert both.keys() == ["user", "items"]
    assert both["items"].to_dense()[0].tolist() == [5, 6]


def test_a_frame_becomes_a_batch():
    items = JaggedValues(torch.tensor([5, 6, 7]), lengths=torch.tensor([2, 1]))
    frame = {"age": torch.tensor([20, 30]), "items": items, "click": torch.tensor([0, 1])}
    batch = frame_to_batch(frame, dense=["age"], sparse=["items"], label="click")
    assert batch.dense_features.tolist() == [[20.0], [30.0]]
    assert batch.sparse_features["items"].lengths().tolist() == [2, 1]


def test_a_frame_of_columns_and_lists_becomes_a_batch():
    frame = dataframe({"age": [20, 30], "items": [[5, 6], [7]], "user": [3, 4], "click": [0, 1]})
    batch = frame_to_batch(frame, dense=["age"], sparse=["user", "items"], label="click")
    assert batch.dense_features.tolist() == [[20.0], [30.0]]
    assert batch.sparse_features["user"].values().tolist() == [3, 4]
    assert [row.tolist() for row in batch.sparse_features["items"].to_dense()] == [[5, 6], [7]]


def test_missing_ids_are_refused():
    frame = dataframe({"items": [1, None], "click": [0, 1]})
    with pytest.raises(OptionError, match=r"'items'.*missing"):
        frame_to_batch(frame, dense=[], sparse=["items"], label="click")


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(OptionError, match=r"\{'a': 2, 'b': 3\}"):
        jagged_features({"a": torch.zeros(2), "b": torch.zeros(3)})


class TestFiles(CriteoTest):
    """The base class of test cases writes files that can be read."""

    def test_written_rows_are_valid(self):
        with self._create_dataset_tsv(num_rows=3) as path:
            rows = list(criteo_terabyte([path]))
        assert len(rows) == 3
        for row in rows:
            self._validate_sample(row)

    def test_written_arrays_have_their_shapes(self):
        with self._create_dataset_npys(num_rows=3, generate_labels=False) as paths:
            assert [BinaryCriteoUtils.get_shape_from_npy(path) for path in paths] == [(3, 13), (3, 26)]


def test_a_share_out_of_range_is_refused():
    with pytest.raises(OptionError, match=r"train_perc is 1\.5"):
        idx_split_train_val(criteo_terabyte([]), 1.5)


def test_rows_by_index_are_those_of_the_pipe(tmp_path):
    folder = tmp_path / "ml-20m"
    folder.mkdir()
    (folder / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,2,3.5,4\n5,6,,8")
    (folder / "movies.csv").write_text("movieId,title,genres\n")
    dataset = MovieLens20M(tmp_path, transform=dict)
    assert [dataset[at] for at in range(len(dataset))] == list(movielens_20m(str(folder)))


def test_a_file_that_is_not_there_is_named_with_its_way_out(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"train\.txt"):
        CriteoKaggle(tmp_path)


def test_a_split_that_there_is_not_is_refused(tmp_path):
    with pytest.raises(OptionError, match="train, test"):
        CriteoKaggle(tmp_path, split="val")
