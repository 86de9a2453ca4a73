"""What the library `tokenizers` makes of our `tokenizer.json`."""

from __future__ import annotations

import json

import pytest

from flambeau.core.testing.golden import golden_values, parity_folder
from flambeau.text import transforms

tokenizers = pytest.importorskip("tokenizers")

TEXTS = ["", "hello world", " hello  world ", "don't  'll", "\thello\n\nhello", "aaaa é 中文 12!", "x\xa0y", "HELLO"]


def loaded(tokenizer, folder):
    path = folder / "tokenizer.json"
    differences = tokenizer.to_tokenizer_json(path)
    return tokenizers.Tokenizer.from_file(str(path)), differences


def test_other_runtimes_give_the_same_ids(tokenizer, tmp_path):
    other, _ = loaded(tokenizer, tmp_path)
    for text in TEXTS:
        if any(part in text for part in getattr(tokenizer, "_never_split", ())):
            continue  # differs as is told
        assert other.encode(text, add_special_tokens=False).ids == tokenizer.encode_ids(text), text


@pytest.mark.parametrize("tokenizer", ["gpt2"], indirect=True)
def test_what_the_schema_can_express_is_written_strictly(tokenizer, tmp_path):
    assert tokenizer.to_tokenizer_json(tmp_path / "tokenizer.json", strict=True) == []
    assert json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))["model"]["type"] == "BPE"


@pytest.mark.parametrize("tokenizer", ["gpt2_special", "clip", "bert"], indirect=True)
def test_what_it_cannot_is_told_and_refused_if_strict(tokenizer, tmp_path):
    with pytest.raises(ValueError, match="cannot express"):
        tokenizer.to_tokenizer_json(tmp_path / "tokenizer.json", strict=True)
    assert not (tmp_path / "tokenizer.json").exists()
    assert tokenizer.to_tokenizer_json(tmp_path / "tokenizer.json")


# Golden strings on which readers differ, each for a reason that `to_tokenizer_json` tells.
DIFFERING: dict[str, set[int]] = {
    "gpt2": set(),
    "clip": {230},
    "bert_uncased": {361, 362, 374},
    "bert_cased": {361, 362, 372, 374},
    "char_bpe": set(),
}


@pytest.mark.parametrize("name", list(DIFFERING))
def test_exports_give_the_golden_ids(name, tmp_path):
    golden = golden_values("tokenizers", __file__)
    vocabularies = parity_folder(__file__) / "vocabularies"
    how = dict(golden["cases"][name]["how"])
    kind = getattr(transforms, how.pop("cls").removeprefix("transforms."))
    options = {key: str(vocabularies / value) if key.endswith("path") else value for key, value in how.items()}
    tokenizer = kind(**options)
    other, _ = loaded(tokenizer, tmp_path)
    differing = {
        place
        for place, text in enumerate(golden["strings"])
        if other.encode(text, add_special_tokens=False).ids != tokenizer.encode_ids(text)
    }
    assert differing == DIFFERING[name]


def test_a_tokenizer_reads_what_it_wrote(tokenizer, tmp_path):
    tokenizer.to_tokenizer_json(tmp_path / "tokenizer.json")
    twin = type(tokenizer).from_tokenizer_json(tmp_path / "tokenizer.json")
    assert twin.vocab_size == tokenizer.vocab_size
    for text in TEXTS:
        if not any(
            part in text for part in getattr(tokenizer, "_never_split", ()) if part not in tokenizer._vocabulary
        ):
            assert twin(text) == tokenizer(text)
    tokens = type(tokenizer).from_tokenizer_json(tmp_path / "tokenizer.json", return_tokens=True)
    assert tokens("hello") == [tokenizer._tokens[identity] for identity in tokenizer.encode_ids("hello")]


@pytest.mark.parametrize("tokenizer", ["gpt2", "clip", "bert", "char_bpe"], indirect=True)
def test_a_file_of_another_tokenizer_is_refused(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizer.to_tokenizer_json(path)
    kinds = {
        transforms.GPT2BPETokenizer,
        transforms.CLIPTokenizer,
        transforms.BERTTokenizer,
        transforms.CharBPETokenizer,
    }
    for kind in kinds - {type(tokenizer)}:
        with pytest.raises(ValueError, match=r"describes no|is not that of"):
            kind.from_tokenizer_json(path)
    for content, message in (("[]", "holds a list"), ("{", "is not JSON"), ("{}", "describes no")):
        path.write_text(content)
        with pytest.raises(ValueError, match=message):
            type(tokenizer).from_tokenizer_json(path)
