"""Fetching upstream's files for decoding."""

import pytest

from flambeau.audio.models.decoder import download_pretrained_files
from flambeau.core.errors import UnknownNameError


@pytest.mark.parametrize(("model", "files"), [("librispeech", 2), ("librispeech-3-gram", 3)])
def test_files_are_taken_from_where_upstream_keeps_them(tmp_path, monkeypatch, model, files):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    folder = tmp_path / "hub" / "torchaudio" / "decoder-assets" / model
    folder.mkdir(parents=True)
    for name in ("lexicon.txt", "tokens.txt", "lm.bin"):
        (folder / name).write_text("x")
    found = download_pretrained_files(model)
    assert found.tokens == str(folder / "tokens.txt")
    assert sum(path is not None for path in found) == files
    assert found.lm == (str(folder / "lm.bin") if files == 3 else None)


def test_another_name_is_refused_with_those_there_are():
    with pytest.raises(UnknownNameError, match="librispeech-3-gram"):
        download_pretrained_files("librispeech-5-gram")
