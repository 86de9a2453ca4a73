"""Features and text of the streaming transducers."""

from __future__ import annotations

import json
import math

import pytest
import torch

from flambeau.audio.pipelines import EMFORMER_RNNT_BASE_LIBRISPEECH, RNNTBundle
from flambeau.audio.pipelines.sentencepiece_pieces import read_pieces
from flambeau.core.testing.golden import parity_folder


@pytest.fixture
def bundle(tmp_path):
    """The LibriSpeech bundle with files of this test."""
    statistics = {"mean": [0.5] * 80, "invstddev": [2.0] * 80}
    (tmp_path / "stats.json").write_text(json.dumps(statistics))
    (tmp_path / "pieces.model").write_bytes(piece_model(["<unk>", "<s>", "</s>", "\u2581hel", "lo", "\u2581you"]))
    facts = {name: getattr(EMFORMER_RNNT_BASE_LIBRISPEECH, name) for name in RNNTBundle.__dataclass_fields__}
    changes = {"_global_stats_path": str(tmp_path / "stats.json"), "_sp_model_path": str(tmp_path / "pieces.model")}
    return RNNTBundle(**facts | changes)


def piece_model(pieces):
    """A SentencePiece model file with these pieces, and nothing else."""
    fields = (b"\x0a" + bytes([len(text)]) + text for text in (piece.encode() for piece in pieces))
    return b"".join(b"\x0a" + bytes([len(field)]) + field for field in fields)


def test_features_are_normalized_and_padded_for_the_right_context(bundle):
    from flambeau.audio.transforms import MelSpectrogram

    waveform = 0.1 * torch.randn(1600)
    features, length = bundle.get_feature_extractor()(waveform)
    mel = MelSpectrogram(16000, n_fft=400, n_mels=80, hop_length=160)(waveform).T * 32767.0**2
    logarithm = torch.where(mel > math.e, mel.log(), mel / math.e)
    assert features.shape == (15, 80)
    assert length.tolist() == [15]
    torch.testing.assert_close(features[:11], (logarithm - 0.5) * 2, rtol=1e-4, atol=1e-4)
    assert (features[11:] == 0).all()


def test_features_of_a_stream_are_not_padded(bundle):
    features, length = bundle.get_streaming_feature_extractor()(torch.zeros(1600))
    assert len(features) == int(length) == 11
    assert torch.isfinite(features).all()


def test_tokens_become_words_without_blank_and_special_pieces(bundle):
    processor = bundle.get_token_processor()
    assert processor([4096, 3, 4, 0, 2, 5]) == "hello you"
    assert processor([4096, 3, 4], lstrip=False) == " hello"


@pytest.mark.parametrize("content", [b"", b"no model", piece_model(["abc", "def"])[:-2]])
def test_what_is_no_model_is_refused(tmp_path, content):
    (tmp_path / "broken.model").write_bytes(content)
    with pytest.raises(ValueError, match="is no SentencePiece model"):
        read_pieces(tmp_path / "broken.model")


@pytest.mark.parametrize("name", ["sp_unigram", "sp_bpe_bytes"])
def test_pieces_are_those_that_the_library_reads(name):
    library = pytest.importorskip("sentencepiece")
    path = parity_folder(__file__) / "vocabularies" / f"{name}.model"
    expected, found = library.SentencePieceProcessor(model_file=str(path)), read_pieces(path)
    assert list(found.pieces) == [expected.id_to_piece(i) for i in range(len(expected))]
    assert (found.unk_id, found.bos_id, found.eos_id, found.pad_id) == (
        expected.unk_id(),
        expected.bos_id(),
        expected.eos_id(),
        expected.pad_id(),
    )
