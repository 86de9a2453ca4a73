"""Datasets as pipes: places are shuffled and shared out first, and a recording is decoded where it is used."""

import pytest
import torch
from torch.utils.data import DataLoader, Subset

from flambeau.audio.datasets import _recordings
from flambeau.core.datasets import list_datasets
from flambeau.core.testing.comparing import require_equal
from flambeau.data import load_dataset
from flambeau.data.dataloader2 import DataLoader2, MultiProcessingReadingService

NAMES = sorted(name.partition("/")[2] for name in list_datasets(plugin="audio"))
SUFFIXES = ("wav", "flac", "mp3", "sph")


@pytest.fixture
def decoded(monkeypatch):
    """Names of the recordings that have been decoded so far."""
    names = []
    read = _recordings.read_recording

    def reading(path, **part):
        names.append(str(path).rpartition("/")[2])
        return read(path, **part)

    monkeypatch.setattr(_recordings, "read_recording", reading)
    return names


def first_of(item):
    return item[1:]


@pytest.mark.parametrize("name", NAMES)
def test_every_dataset_is_a_pipe_of_its_items(miniature, name):
    dataset = miniature(name).dataset
    pipe = load_dataset(dataset)
    assert len(pipe) == len(dataset)
    require_equal(list(pipe), list(dataset), "as a pipe", where=name)


def test_a_name_and_a_root_are_enough(miniature):
    subject = miniature("speechcommands")
    dataset = subject.dataset
    pipe = load_dataset("audio/speechcommands", **subject.config, shuffle=True, seed=4)
    assert sorted(item[1:] for item in pipe) == sorted(item[1:] for item in dataset)


@pytest.mark.parametrize(("name", "argument"), [("librispeech", "url"), ("speechcommands", "subset")])
def test_a_split_is_asked_for_as_of_any_dataset(miniature, name, argument):
    config = dict(miniature(name).config)
    split = config.pop(argument, None) or {"librispeech": "train-clean-100", "speechcommands": "testing"}[name]
    wanted = [item[1:] for item in load_dataset(f"audio/{name}", **config, **{argument: split})]
    assert [item[1:] for item in load_dataset(f"audio/{name}", **config, split=split)] == wanted


def test_nothing_is_decoded_before_it_is_shuffled_and_shared_out(miniature, decoded):
    dataset = miniature("librispeech").dataset
    pipe = load_dataset(dataset, shuffle=True, seed=0)
    assert decoded == []
    pipe.datapipe.apply_sharding(len(dataset), 1)
    (item,) = pipe
    assert len(decoded) == 1 and item[1:] in [dataset.get_metadata(n)[1:] for n in range(len(dataset))]


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"cmudict"}))  # which has no recordings
def test_metadata_are_the_item_with_paths_for_waveforms_and_decode_nothing(miniature, decoded, name):
    dataset = miniature(name).dataset
    metadata = [dataset.get_metadata(n) for n in range(len(dataset))]
    assert decoded == []
    for told, item in zip(metadata, dataset, strict=True):
        assert len(told) == len(item)
        for part, decoded_part in zip(told, item, strict=True):
            paths = part if isinstance(part, list) else [part]
            if isinstance(decoded_part, torch.Tensor) or (name == "librimix" and isinstance(part, list)):
                assert all(isinstance(path, str) and path.rpartition(".")[2] in SUFFIXES for path in paths)
            else:
                assert part == decoded_part


def test_metadata_tell_what_is_worth_decoding(miniature, decoded):
    dataset = miniature("librispeech").dataset
    wanted = [n for n in range(len(dataset)) if dataset.get_metadata(n)[3] == 84]
    assert 0 < len(wanted) < len(dataset) and decoded == []
    speakers = [speaker for _, _, _, speaker, *_ in load_dataset(Subset(dataset, wanted))]
    assert speakers == [84] * len(wanted) and len(decoded) == len(wanted)


@pytest.mark.parametrize("name", ["librispeech", "tedlium", "speechcommands"])
def test_workers_decode_each_item_once(miniature, name):
    dataset = miniature(name).dataset
    expected = sorted(item[1:] for item in dataset)
    pipe = load_dataset(dataset, shuffle=True).map(first_of)
    with DataLoader2(pipe, reading_service=MultiProcessingReadingService(2)) as loader:
        assert sorted(loader) == expected
    assert sorted(map(tuple, DataLoader(pipe, batch_size=None, num_workers=2))) == expected
