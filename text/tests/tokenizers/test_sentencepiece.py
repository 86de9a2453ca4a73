"""SentencePiece models: ids, spans, tensors, copies, and `tokenizer.json` there and back."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flambeau.core.testing.golden import golden_values, parity_folder
from flambeau.text._tokenizers import sentencepiece_json, sentencepiece_model
from flambeau.text.transforms import SentencePieceTokenizer
from flambeau.text.weights.files import asset

sentencepiece = pytest.importorskip("sentencepiece")

LINES = ["hello world", "the worlds of words are wide", "é is a letter, 中 is another", "words, words (words)!"]
KINDS = {
    "unigram": {},
    "bpe": {"byte_fallback": True},
    "char": {},
    "word": {},
    "marks": {"user_defined_symbols": "<mark>", "control_symbols": "<ctl>", "remove_extra_whitespaces": False},
    "plain": {"normalization_rule_name": "identity", "add_dummy_prefix": False, "required_chars": "<>/0x41ctlmarkun"},
}

FRAGMENTS = [*"helowrds 中é(!x\u3000", "  ", "<mark>", "<s>", "<unk>", "<0x41>"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model of each kind, small."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "text.txt").write_text("\n".join(LINES * 20), encoding="utf-8")
    for name, options in KINDS.items():
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "text.txt"), model_prefix=str(folder / name), minloglevel=2, hard_vocab_limit=False,
            vocab_size=300 if options.get("byte_fallback") else 45, num_threads=1,
            model_type=name if name in ("bpe", "char", "word") else "unigram", **options,
        )  # fmt: skip
    return folder


@pytest.fixture(params=KINDS)
def tokenizer(request, models):
    return SentencePieceTokenizer(models / f"{request.param}.model")


@pytest.mark.parametrize("tokenizer", ["unigram"], indirect=True)
def test_spans_are_places_in_the_text_given(tokenizer):
    text = "hello 中 é"
    encoding = tokenizer.encode_offsets(text)
    assert encoding.ids == tokenizer.encode_ids(text)
    assert "".join(text[begin:end] for begin, end in encoding.spans) == text
    data = text.encode()
    spans = tokenizer.encode_offsets([text], unit="byte")[0].spans
    assert [data[begin:end].decode() for begin, end in spans] == [text[begin:end] for begin, end in encoding.spans]
    with pytest.raises(ValueError, match="'word'"):
        tokenizer.encode_offsets(text, unit="word")


def test_many_texts_become_a_padded_tensor(tokenizer):
    ids = tokenizer.encode_ids(LINES)
    padded = tokenizer.to_tensor(LINES, padding_value=-1)
    assert padded.dtype == torch.int64
    for row, one in zip(padded.tolist(), ids, strict=True):
        assert row == one + [-1] * (padded.shape[1] - len(one))
    assert tokenizer.to_tensor(LINES[0]).tolist() == ids[0]
    assert tokenizer.to_tensor([]).shape == (0, 0)
    with pytest.raises(ValueError, match="padding_value"):
        tokenizer.to_tensor(["hello", "hello world, words"])


def test_copies_are_whole_and_scripting_says_what_to_do(tokenizer):
    for twin in (copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(tokenizer))):
        assert twin(LINES) == tokenizer(LINES)
    assert not tokenizer.is_jitable
    with pytest.raises(RuntimeError, match="to_tokenizer_json"):
        tokenizer.__prepare_scriptable__()


def test_lone_surrogates_other_types_and_unknown_ids_are_refused(tokenizer):
    for wrong in ("\ud800", ["a", "x\udfff"], 3, ("a",), ["a", None]):
        with pytest.raises(TypeError):
            tokenizer(wrong)
        with pytest.raises(TypeError):
            tokenizer.to_tensor(wrong)
    with pytest.raises(IndexError, match="99999 at place 1"):
        tokenizer.decode([0, 99999])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.lists(st.sampled_from([*"helowrds 中é(!x\u3000", "  ", "<mark>", "<s>", "<unk>", "<0x41>"])).map("".join)
)
@pytest.mark.parametrize("tokenizer", ["unigram", "bpe", "char", "plain"], indirect=True)
def test_other_runtimes_give_the_same_ids(tokenizer, tmp_path_factory, text):
    tokenizers = pytest.importorskip("tokenizers")
    path = tmp_path_factory.getbasetemp() / "tokenizer.json"
    if any("spells" in difference for difference in tokenizer.to_tokenizer_json(path)):
        text = text.replace("<", "")
    other = tokenizers.Tokenizer.from_file(str(path))
    assert other.encode(text, add_special_tokens=False).ids == tokenizer.encode_ids(text)


@pytest.mark.parametrize("name", ["sp_unigram", "sp_bpe_bytes"])
def test_exports_give_the_golden_ids_but_where_they_say_so(name, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    strings = golden_values("tokenizers", __file__)["strings"]
    tokenizer = SentencePieceTokenizer(parity_folder(__file__) / "vocabularies" / f"{name}.model")
    tokenizer.to_tokenizer_json(tmp_path / "tokenizer.json")
    other = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    differing = {
        text for text in strings if other.encode(text, add_special_tokens=False).ids != tokenizer.encode_ids(text)
    }
    assert differing == ({"<s>text</s>", "<unk>", "e\u0301\u0301\u0301"} if name == "sp_unigram" else set())
    ids = tokenizer.encode_ids("Hello world, how are you?")
    assert other.decode(ids) == tokenizer.decode(ids)


def test_a_tokenizer_reads_what_it_wrote(tokenizer, tmp_path):
    tokenizer.to_tokenizer_json(tmp_path / "tokenizer.json")
    twin = SentencePieceTokenizer.from_tokenizer_json(tmp_path / "tokenizer.json")
    texts = [*LINES, "", " ", "  hello  中中 zzz <mark>x", "<s>"]
    assert twin(texts) == tokenizer(texts)
    assert twin.encode_ids(texts) == tokenizer.encode_ids(texts)
    ids = tokenizer.encode_ids(LINES[0])
    assert twin.decode(ids) == tokenizer.decode(ids)
    assert pickle.loads(pickle.dumps(twin))(texts) == tokenizer(texts)


def test_a_model_survives_its_file(tokenizer):
    model = sentencepiece_model.read(tokenizer._model)
    assert sentencepiece_model.read(sentencepiece_model.write(model)) == model
    assert [piece.text for piece in model.pieces] == [
        tokenizer._engine.id_to_piece(place) for place in range(tokenizer.vocab_size)
    ]


@pytest.mark.parametrize("tokenizer", ["plain"], indirect=True)
def test_what_the_schema_can_express_is_written_strictly(tokenizer, tmp_path):
    assert tokenizer.to_tokenizer_json(tmp_path / "tokenizer.json", strict=True) == []


@pytest.mark.parametrize("tokenizer", ["unigram", "word", "marks"], indirect=True)
def test_what_the_schema_cannot_express_is_told(tokenizer, tmp_path):
    assert tokenizer.to_tokenizer_json(tmp_path / "tokenizer.json")
    with pytest.raises(ValueError, match="cannot express"):
        tokenizer.to_tokenizer_json(tmp_path / "strict.json", strict=True)


@pytest.mark.parametrize("tokenizer", ["unigram"], indirect=True)
def test_files_of_others_and_damaged_ones_are_refused(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizer.to_tokenizer_json(path)
    content = json.loads(path.read_text("utf-8"))
    content["normalizer"]["normalizers"].insert(0, {"type": "NFKC"})
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(ValueError, match="its normalizer is not that of"):
        SentencePieceTokenizer.from_tokenizer_json(path)
    for text, message in (("[]", "holds a list"), ("{", "is not JSON"), ("{}", "describes no")):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            SentencePieceTokenizer.from_tokenizer_json(path)
    with pytest.raises(ValueError, match="end with the mark"):
        sentencepiece_json.document(
            sentencepiece_model.Model((sentencepiece_model.ModelPiece("<unk>", 0.0, 2),), space_behind=True)
        )


@pytest.mark.parametrize("data", [b"\x0a\xff", b"\x0a", b"\x0b", b"\x80" * 11, b"", b"\x0a\x04\x0a\x02\xff\xfe"])
def test_a_damaged_model_is_a_value_error(data):
    with pytest.raises(ValueError, match=r"model|can\Wt decode"):
        sentencepiece_model.read(data)


def test_a_file_that_is_no_model_is_named(tmp_path):
    (tmp_path / "a.model").write_bytes(b"not a model")
    with pytest.raises(ValueError, match=r"a\.model"):
        SentencePieceTokenizer(tmp_path / "a.model")


def test_the_vocabulary_of_the_package_spells_every_text_and_holds_many_languages(monkeypatch):
    monkeypatch.setenv("FLAMBEAU_OFFLINE", "1")
    tokenizer = SentencePieceTokenizer(asset("manual_pages_8k.model"))
    texts = ["Affiche le nom du fichier.", "Показывает имя файла.", "ファイルの名前を表示する。", "𐍈 has no piece"]
    for text in texts:
        ids = tokenizer.encode_ids(text)
        assert max(ids) < 8000
        assert tokenizer.decode(ids) == text
    lengths = [len(text) / len(tokenizer.encode_ids(text)) for text in texts]
    assert min(lengths[:2]) > 2  # characters a piece
    assert lengths[2] > 1
