"""Registered data sets as pipelines."""

import pickle

import pytest
from torch.utils.data import IterableDataset, Subset

from flambeau.core.datasets import register_dataset
from flambeau.core.errors import UnknownNameError
from flambeau.data import load_dataset
from flambeau.data.dataloader2 import DataLoader2, MultiProcessingReadingService
from flambeau.data.datapipes.iter import IterableWrapper


@register_dataset("squares", plugin="streaming_test")
class Squares:
    def __init__(self, count=12):
        self.count, self.read = count, []

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        self.read.append(index)
        return range(self.count)[index] ** 2


@register_dataset("lines", plugin="streaming_test")
class Lines(IterableDataset):
    def __iter__(self):
        return iter([f"line {number}" for number in range(9)])


@register_dataset("piped", plugin="streaming_test")
def piped():
    return IterableWrapper(range(5))


def test_samples_come_in_order_with_a_length():
    pipe = load_dataset("streaming_test/squares", count=4)
    assert (list(pipe), len(pipe)) == ([0, 1, 4, 9], 4)


def test_short_names_and_unknown_names():
    assert len(load_dataset("squares")) == 12
    with pytest.raises(UnknownNameError):
        load_dataset("streaming_test/cubes")


def test_a_data_set_that_is_built_is_streamed_as_it_is():
    squares = Squares(6)
    pipe = load_dataset(Subset(squares, [5, 1]))
    assert (list(pipe), len(pipe), squares.read) == ([25, 1], 2, [5, 1])
    assert list(load_dataset(Lines())) == [f"line {number}" for number in range(9)]
    with pytest.raises(TypeError, match="Squares is built already and takes no count"):
        load_dataset(squares, count=3)
    with pytest.raises(TypeError, match="got int"):
        load_dataset(5)


def test_every_pass_is_shuffled_anew_and_a_seed_repeats_it():
    first, second = (load_dataset("squares", shuffle=True, seed=3) for _ in range(2))
    passes = [list(first), list(first)]
    assert passes == [list(second), list(second)]
    assert passes[0] != passes[1]
    assert sorted(passes[0]) == [number**2 for number in range(12)]


def test_a_shard_reads_its_own_samples_alone():
    pipe = load_dataset("squares")
    pipe.datapipe.apply_sharding(3, 1)
    assert list(pipe) == [1, 16, 49, 100]
    assert pipe.fn.dataset.read == [1, 4, 7, 10]


def test_workers_share_the_samples_of_any_kind_of_data_set():
    for name, expected in (("squares", 12), ("lines", 9), ("piped", 5)):
        pipe = load_dataset(name, shuffle=True)
        with DataLoader2(pipe, reading_service=MultiProcessingReadingService(2)) as loader:
            assert len(set(loader)) == expected


def test_a_state_is_small_and_exact():
    whole = list(load_dataset("squares", shuffle=True, seed=1))
    pipe = load_dataset("squares", shuffle=True, seed=1)
    reader = iter(pipe)
    head = [next(reader) for _ in range(5)]
    state = pickle.dumps(pipe.state_dict())
    again = load_dataset("squares", shuffle=True, seed=1)
    again.load_state_dict(pickle.loads(state))
    assert head + list(again) == whole
    assert len(state) < 1000


def test_sharding_can_be_left_out():
    assert "Sharding" not in str([type(load_dataset("lines", shard=False))])
