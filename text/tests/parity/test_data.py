"""Golden values of functions on data, of scores, and of prototypes."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from flambeau.core.testing.golden import golden_values
from flambeau.text import data
from flambeau.text.data.utils import RandomShuffler, dtype_to_attr, is_tokenizer_serializable, ngrams_iterator
from flambeau.text.prototype import transforms, vectors, vocab_factory
from flambeau.text.vocab import Vocab

REPLACED = data.custom_replace([("S", "s"), (r"\s+", " ")])


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return golden_values("transforms", __file__)


def of_data(text: str) -> Any:
    """What a row about functions on data computes."""
    lists = [["a", "c"], ["b"]]
    v = Vocab(["a", "b", "c"])
    return {
        "ngrams_iterator(['here','we','are'],2)": lambda: list(ngrams_iterator(["here", "we", "are"], 2)),
        "ngrams 3": lambda: list(ngrams_iterator(["a", "b", "c", "d"], 3)),
        "ngrams of []": lambda: list(ngrams_iterator([], 3)),
        "interleave_keys(10,3)": lambda: data.interleave_keys(10, 3),
        "interleave_keys(255,255)": lambda: data.interleave_keys(255, 255),
        "interleave_keys(0,1)": lambda: data.interleave_keys(0, 1),
        "get_tokenizer(None)('a  b')": lambda: data.get_tokenizer(None)("a  b"),
        "get_tokenizer('basic_english','de')": lambda: data.get_tokenizer("basic_english", "de"),
        "get_tokenizer('nope')": lambda: data.get_tokenizer("nope"),
        "get_tokenizer(str.upper)('a')": lambda: data.get_tokenizer(str.upper)("a"),
        "is_tokenizer_serializable spacy, moses": lambda: [
            is_tokenizer_serializable(n, "en") for n in ("spacy", "moses")
        ],
        "dtype_to_attr(torch.int32)": lambda: dtype_to_attr(torch.int32),
        "simple_space_split": lambda: list(data.simple_space_split(["a b  c", "", " d e "])),
        "custom_replace([('S','s'),(r'\\s+',' ')])": lambda: list(REPLACED(["SenTence   piece", "S"])),
        "numericalize_tokens_from_iterator": lambda: [
            list(ids) for ids in data.numericalize_tokens_from_iterator(v, lists)
        ],
        "numericalize, removed_tokens=['a']": lambda: [
            list(ids) for ids in data.numericalize_tokens_from_iterator(v, [["a", "c"], ["a"]], removed_tokens=["a"])
        ],
        "filter_wikipedia_xml(3)": lambda: list(data.filter_wikipedia_xml(3)),
        "to_map_style_dataset: len, [1], [-1]": lambda: (lambda d: [len(d), d[1], d[-1]])(
            data.to_map_style_dataset(iter("xyz"))
        ),
    }.get(text)


def test_functions_on_data_give_upstreams_results(golden, check):
    for text, wanted in golden["data"]:
        if text.startswith("filter_wikipedia_xml(["):
            lines = eval(text.removeprefix("filter_wikipedia_xml"))
            assert list(data.filter_wikipedia_xml(lines)) == wanted
        elif text.startswith("random.seed(3)"):
            random.seed(3)
            shuffle = RandomShuffler()
            assert [shuffle(list(range(8))), shuffle(list(range(8)))] == wanted
        else:
            check(of_data(text), wanted, text)


def test_bleu_is_upstreams(golden, check):
    for case in golden["bleu_score"]:
        wanted = case.pop("result")
        if isinstance(wanted, dict):
            check(lambda case=case: data.bleu_score(**case), wanted)
        else:
            assert data.bleu_score(**case) == pytest.approx(wanted, rel=1e-6)


def test_prototypes_give_upstreams_results(golden, check, tmp_path):
    facts = golden["prototype"]
    path = tmp_path / "vectors.txt"
    path.write_text(facts["vectors_file"])
    (tmp_path / "twice.txt").write_text("a 1 2 3\na 4 5 6\n")
    (tmp_path / "text.txt").write_text("b a a\nc b a\n\nd  c é\n", encoding="utf-8")
    (tmp_path / "lines.txt").write_text("b\na\nc\na\nb\na\n")
    pv = vectors.load_vectors_from_file_path(path, delimiter=" ")
    xy = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    built = vectors.build_vectors(["x", "y"], xy)
    v = Vocab(["a", "b", "c"])

    def put(token: str, values: list[Any]) -> torch.Tensor:
        pv[token] = torch.tensor(values)
        return pv[token]

    calls = {
        "load_vectors_from_file_path(f, delimiter=' ')['b']": lambda: pv["b"],
        "['zzz']": lambda: pv["zzz"],
        "lookup_vectors(['a','zzz'])": lambda: pv.lookup_vectors(["a", "zzz"]),
        "forward(['c'])": lambda: pv.forward(["c"]),
        "lookup_vectors([])": lambda: pv.lookup_vectors([]),
        "duplicates": lambda: vectors.load_vectors_from_file_path(tmp_path / "twice.txt", delimiter=" "),
        "pv['a'] = [7,7,7]": lambda: put("a", [7.0, 7.0, 7.0]),
        "pv['new'] = [1,1,1]": lambda: put("new", [1.0, 1.0, 1.0]),
        "int vector": lambda: put("a", [1, 1, 1]),
        "build_vectors(['x','y'], [[1,2],[3,4]]): ['y'], ['z']": lambda: [built["y"].tolist(), built["z"].tolist()],
        "build_vectors unk_tensor=[9,9]: ['z']": lambda: vectors.build_vectors(["x", "y"], xy, torch.full((2,), 9.0))[
            "z"
        ],
        "build_vectors([], empty)": lambda: vectors.build_vectors([], torch.empty(0, dtype=torch.float)),
        "build_vectors int": lambda: vectors.build_vectors(["x", "y"], xy.long()),
        "duplicate tokens": lambda: vectors.build_vectors(["x", "x"], xy),
        "PV.GloVe('6B', 7)": lambda: vectors.GloVe("6B", 7),
        "build_vocab_from_text_file('b a a/c b a//d  c é')": lambda: vocab_factory.build_vocab_from_text_file(
            tmp_path / "text.txt"
        ).get_itos(),
        "min_freq=2": lambda: vocab_factory.build_vocab_from_text_file(tmp_path / "text.txt", min_freq=2).get_itos(),
        "load_vocab_from_file(b,a,c,a,b,a lines)": lambda: vocab_factory.load_vocab_from_file(
            tmp_path / "lines.txt"
        ).get_itos(),
        "load_vocab_from_file min_freq=2": lambda: vocab_factory.load_vocab_from_file(
            tmp_path / "lines.txt", min_freq=2
        ).get_itos(),
        "VectorTransform(pv)(['b','c'])": lambda: transforms.VectorTransform(pv)(["b", "c"]),
        "prototype.VocabTransform(v)(['a'])": lambda: transforms.VocabTransform(v)(["a"]),
    }
    for text, wanted in facts["rows"]:
        check(calls[text], wanted, text)


@pytest.mark.parametrize("name", ["basic_english", "prototype_basic_english"])
def test_english_is_split_as_upstream_splits_it(name):
    facts = golden_values("tokenizers", __file__)
    tokenize = data.get_tokenizer("basic_english") if name == "basic_english" else transforms.basic_english_normalize()
    wanted = facts["cases"][name]["results"]
    assert {text: tokenize(text) for text in facts["strings"]} == dict(zip(facts["strings"], wanted, strict=True))
