"""Trees of files that others left, or of which a part is gone: what is enough to read a dataset."""

import shutil

import torch

from flambeau.vision.datasets import EMNIST, LFWPairs, Middlebury2014Stereo


def test_emnist_reads_unpacked_files_without_the_archive(miniature, tmp_path):
    subject = miniature("emnist")
    expected = subject.dataset  # unpacks its own two files
    raw = tmp_path / "EMNIST" / "raw"
    raw.mkdir(parents=True)
    for path in (subject.placed / "EMNIST" / "raw").glob("*-ubyte"):
        shutil.copy(path, raw)
    read = EMNIST(tmp_path, "letters")
    assert torch.equal(read.data, expected.data)
    assert torch.equal(read.targets, expected.targets)


def test_pairs_of_faces_need_no_list_of_names(miniature):
    subject = miniature("lfwpairs")
    expected = subject.dataset.pair_names
    (subject.placed / "lfw-py" / "lfw-names.txt").unlink()
    assert subject.build().pair_names == expected
    assert isinstance(subject.dataset, LFWPairs)


def test_middlebury_reads_the_scenes_of_the_test_that_lie_where_upstream_moves_them(miniature, tmp_path):
    scenes = miniature("middlebury2014stereo")
    _ = scenes.dataset
    folder = scenes.placed / "Middlebury2014"
    shutil.copytree(folder / "MiddEval3" / "testF", tmp_path / "Middlebury2014" / "test")
    assert len(Middlebury2014Stereo(tmp_path, split="test", calibration=None)) == 1
