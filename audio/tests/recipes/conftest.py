"""The recipes stand beside the package, not in it: their folder joins the path.

For those of recognisers: a miniature of LibriSpeech that espeak-ng speaks, and a small network that knows it by heart.
"""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "recipes"))
import librispeech_emformer_rnnt
from espeak import write_librispeech

SENTENCES = ("open the window", "turn it off now")


@pytest.fixture(scope="session")
def spoken(tmp_path_factory):
    """Folder of `LibriSpeech`: ten utterances to learn, two others."""
    if shutil.which("espeak-ng") is None:
        pytest.skip("the program espeak-ng is not installed")
    root = tmp_path_factory.mktemp("spoken")
    write_librispeech(root, "train-clean-100", {"en-us": SENTENCES * 3, "en-gb": SENTENCES * 2})
    write_librispeech(root, "dev-clean", {"en-us+m1": SENTENCES})
    return root


@pytest.fixture(scope="session")
def train(spoken):
    """Runs the command of the transducers' recipe on the miniature; returns its result."""

    def run(out, *words):
        data = ("--root", str(spoken), "--train", "train-clean-100")
        return librispeech_emformer_rnnt.main([*data, "--out", str(out), "--tiny", "--device", "cpu", *words])

    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory, train):
    """Folder of a finished run, and its result."""
    out, known = tmp_path_factory.mktemp("trained"), "train-clean-100"
    return out, train(out, "--held-out", known, "--tests", known, "--epochs", "120", "--beam-width", "4")
