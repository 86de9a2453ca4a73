"""Bundles' transforms, on small vocabulary files in place of the published ones."""

from __future__ import annotations

import json

import pytest
import torch

from flambeau.core.errors import HashMismatchError
from flambeau.core.testing.golden import parity_folder
from flambeau.core.testing.server import FileServer
from flambeau.text import models
from flambeau.text.functional import to_tensor
from flambeau.text.vocab import Vocab, vocab
from flambeau.text.weights import files
from flambeau.text.weights.files import PublishedFile, asset


@pytest.fixture
def replaced(tmp_path, monkeypatch):
    """Serve small files at addresses of their own, and let the table of published files name those."""
    monkeypatch.setenv("FLAMBEAU_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    with FileServer({}) as server:

        def replace(contents: dict[str, bytes]) -> FileServer:
            for name, data in contents.items():
                server.files[name] = data
                monkeypatch.setitem(files.FILES, name, PublishedFile(server.url(name)))
            return server

        yield replace


def saved(tokens: list[str], path) -> bytes:
    table: Vocab = vocab(dict.fromkeys(tokens, 1))
    torch.save(table, path)
    return path.read_bytes()


def test_roberta_reads_pieces_between_a_first_and_a_last_token(replaced, tmp_path):
    folder = parity_folder(__file__) / "vocabularies"
    encoder = (folder / "gpt2_encoder.json").read_bytes()
    ids = [str(identity) for identity in json.loads(encoder).values()]
    replaced(
        {
            "gpt2_bpe_encoder.json": encoder,
            "gpt2_bpe_vocab.bpe": (folder / "gpt2_vocab.bpe").read_bytes(),
            "roberta.vocab.pt": saved(["<s>", "<pad>", "</s>", *ids], tmp_path / "roberta.pt"),
        }
    )
    transform = models.ROBERTA_BASE_ENCODER.transform()
    short, long = transform(["the mill", "the river " * 400])
    assert (short[0], short[-1]) == (0, 2)
    assert len(long) == 254 + 2
    tokens = to_tensor([short, long[:9]], padding_value=1)
    sizes = {"embedding_dim": 16, "ffn_dimension": 24, "num_attention_heads": 2, "num_encoder_layers": 1}
    model = models.roberta_base(vocab_size=len(ids) + 3, **sizes).eval()
    assert model(tokens).shape == (2, 9, 16)
    assert len(models.Roberta_Large_Weights.DEFAULT.transforms()("the river " * 400)) == 510 + 2


def test_xlmr_reads_pieces_of_sentencepiece(replaced, tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    folder = parity_folder(__file__) / "vocabularies"
    data = (folder / "sp_unigram.model").read_bytes()
    pieces = sentencepiece.SentencePieceProcessor(model_proto=data)
    names = [pieces.IdToPiece(place) for place in range(pieces.GetPieceSize())]
    tokens = ["<s>", "<pad>", "</s>", *(name for name in names if name not in ("<s>", "</s>"))]
    replaced({"xlmr.sentencepiece.bpe.model": data, "xlmr.vocab.pt": saved(tokens, tmp_path / "x.pt")})
    found = models.XLMR_BASE_ENCODER.transform()("the mill")
    assert found == [0, *(tokens.index(piece) for piece in pieces.EncodeAsPieces("the mill")), 2]


def test_a_vocabulary_file_is_fetched_once_and_verified(replaced, tmp_path, monkeypatch):
    server = replaced({"t5_tokenizer_base.model": b"no model"})
    assert asset("t5_tokenizer_base.model").read_bytes() == b"no model"
    assert asset(files.FILES["t5_tokenizer_base.model"].url).read_bytes() == b"no model"
    assert len(server.requests("t5_tokenizer_base.model")) == 1
    server.files["other"] = b"other"
    monkeypatch.setitem(files.FILES, "other", PublishedFile(server.url("other"), "0" * 64))
    with pytest.raises(HashMismatchError):
        asset("other")
    with pytest.raises(FileNotFoundError, match=r"gpt2_bpe_encoder\.json"):
        asset("absent.txt")
    (tmp_path / "own.txt").write_text("x")
    assert asset(tmp_path / "own.txt") == tmp_path / "own.txt"
