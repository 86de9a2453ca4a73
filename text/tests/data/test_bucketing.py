"""Batches of similar length."""

from __future__ import annotations

import itertools
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset

from flambeau.data.datapipes.iter import IterableWrapper
from flambeau.text.data import bucket_batch, to_map_style_dataset

TEXTS = [["w"] * (1 + i * 37 % 50) for i in range(300)]


class Numbered(Dataset):
    """Only length and []."""

    def __len__(self):
        return len(TEXTS)

    def __getitem__(self, index):
        return index, TEXTS[index]


def length(sample):
    return len(sample[1])


def same(batch):
    return batch


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(1, 20), max_size=60),
    batch_size=st.integers(1, 7),
    pool=st.integers(1, 5),
    max_tokens=st.none() | st.integers(1, 60),
    shuffle=st.booleans(),
)
def test_every_sample_is_in_one_batch_within_the_bounds(lengths, batch_size, pool, max_tokens, shuffle):
    texts = ["x" * size for size in lengths]
    batches = list(bucket_batch(texts, batch_size, pool=pool, max_tokens=max_tokens, shuffle=shuffle))
    assert sorted(text for batch in batches for text in batch) == sorted(texts)
    for batch in batches:
        assert 0 < len(batch) <= batch_size
        if max_tokens is not None and len(batch) > 1:
            assert len(batch) * max(map(len, batch)) <= max_tokens


def test_little_of_a_batch_is_padding():
    batches = list(bucket_batch(TEXTS, 10, pool=30))
    padded = sum(len(batch) * max(map(len, batch)) for batch in batches)
    real = sum(map(len, TEXTS))
    assert padded < 1.1 * real
    lengths = [len(batch[0]) for batch in batches]
    assert lengths != sorted(lengths)


def test_a_seed_gives_one_order_and_passes_differ():
    first, second = bucket_batch(Numbered(), 8, length, seed=3), bucket_batch(Numbered(), 8, length, seed=3)
    passes = [list(first), list(first)]
    assert passes == [list(second), list(second)]
    assert passes[0] != passes[1]
    assert list(bucket_batch(Numbered(), 8, length, seed=4)) != passes[0]


@pytest.mark.parametrize(
    "source", [TEXTS, IterableWrapper(TEXTS), to_map_style_dataset(TEXTS)], ids=["list", "pipe", "map"]
)
def test_anything_with_samples_is_a_source(source):
    assert sum(map(len, bucket_batch(source, 16, shuffle=False))) == 300


def test_ranks_share_the_samples():
    shares = []
    for rank in range(3):
        pipe = bucket_batch(Numbered(), 8, length)
        next(one for one in shards(pipe)).apply_sharding(3, rank)
        shares.append([sample[0] for batch in pipe for sample in batch])
    assert sorted(itertools.chain.from_iterable(shares)) == list(range(300))
    assert {len(share) for share in shares} == {100}


def test_a_pipe_that_is_shared_already_is_not_shared_again():
    assert len(list(shards(bucket_batch(IterableWrapper(TEXTS).sharding_filter(), 8)))) == 1
    assert len(list(shards(bucket_batch(TEXTS, 8)))) == 1


def shards(pipe):
    from flambeau.data.dataloader2.graph import find_dps, traverse_dps
    from flambeau.data.datapipes.iter import ShardingFilter

    return find_dps(traverse_dps(pipe), ShardingFilter)


def test_workers_of_a_loader_share_the_samples():
    pipe = bucket_batch(Numbered(), 8, length)
    batches = list(DataLoader(pickle.loads(pickle.dumps(pipe)), batch_size=None, num_workers=2, collate_fn=same))
    assert sorted(sample[0] for batch in batches for sample in batch) == list(range(300))


@pytest.mark.parametrize(
    "options", [{"batch_size": 0}, {"batch_size": 1, "pool": 0}, {"batch_size": 1, "max_tokens": 0}]
)
def test_nothing_is_cut_into_nothing(options):
    with pytest.raises(ValueError, match="more than 0"):
        bucket_batch(TEXTS, **options)
