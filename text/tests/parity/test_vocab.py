"""Golden values of vocabularies and of word vectors."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch

from flambeau.core.testing.golden import golden_values, parity_folder
from flambeau.text.vocab import CharNGram, Vectors, Vocab, build_vocab_from_iterator, load_vocab, vocab

COUNTS = {"b": 4, "a": 4, "c": 1, "<unk>": 9, "ᑌᑎIᑕOᗪᕮ": 3, "": 2}


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return golden_values("transforms", __file__)


def changing(v: Vocab) -> dict[str, Any]:
    """What the rows after one another do to a vocabulary of a, b, c."""
    return {
        "v = vocab of a,b,c: v['b']": lambda: v["b"],
        "v['x']": lambda: v["x"],
        "'x' in v, 'a' in v": lambda: ["x" in v, "a" in v],
        "len(v)": lambda: len(v),
        "v(['c','a'])": lambda: v(["c", "a"]),
        "v.forward([])": lambda: v.forward([]),
        "v.lookup_token(2)": lambda: v.lookup_token(2),
        "v.lookup_token(3)": lambda: v.lookup_token(3),
        "v.lookup_token(-1)": lambda: v.lookup_token(-1),
        "v.lookup_tokens([2,0])": lambda: v.lookup_tokens([2, 0]),
        "v.lookup_tokens([0,9])": lambda: v.lookup_tokens([0, 9]),
        "v.lookup_indices(['a','x'])": lambda: v.lookup_indices(["a", "x"]),
        "v.get_stoi()": v.get_stoi,
        "v.get_default_index()": v.get_default_index,
        "after set_default_index(0): v['x']": lambda: (v.set_default_index(0), v["x"])[1],
        "v.lookup_indices(['a','x','c'])": lambda: v.lookup_indices(["a", "x", "c"]),
        "set_default_index(99) is not checked: v['x']": lambda: (v.set_default_index(99), v["x"])[1],
        "after set_default_index(None): v['x']": lambda: (v.set_default_index(None), v["x"])[1],
        "insert_token('z',1): itos": lambda: (v.insert_token("z", 1), v.get_itos())[1],
        "stoi": v.get_stoi,
        "insert_token('z',0)": lambda: v.insert_token("z", 0),
        "insert_token('y',9)": lambda: v.insert_token("y", 9),
        "insert_token('y',4) (at the end)": lambda: (v.insert_token("y", 4), v.get_itos())[1],
        "insert_token('q',-1)": lambda: v.insert_token("q", -1),
        "append_token('w')": lambda: (v.append_token("w"), v.get_itos())[1],
        "append_token('w') again": lambda: v.append_token("w"),
        "v[3]": lambda: v[3],
        "insert_token after set_default_index(1) leaves the default index as it is": lambda: (
            v.set_default_index(1),
            v.insert_token("first", 0),
            v.get_default_index(),
        )[2],
    }


def built(text: str) -> Any:
    """The vocabulary that a row's text describes."""
    if text.startswith("build_vocab_from_iterator(["):
        lists, options = ast.literal_eval(
            text[len("build_vocab_from_iterator") :].removesuffix(".get_itos()").split(" (s")[0]
        )
        return lambda: build_vocab_from_iterator(lists, **options).get_itos()
    if text.startswith(("min_freq", "specials")):
        options = eval(f"dict({text})")
        return lambda: vocab(COUNTS, **options).get_itos()
    return {
        "vocab({})": lambda: vocab({}).get_itos(),
        "len(vocab({}))": lambda: len(vocab({})),
        "vocab(d, specials=['a']) removes 'a' from the caller's dict": None,
    }.get(text, lambda: vocab(COUNTS).get_itos())


def test_vocabularies_behave_as_upstreams(golden, check):
    steps = changing(Vocab(["a", "b", "c"]))
    for text, wanted in golden["vocab"]:
        if "counts" in text or "count as sequences" in text:
            with pytest.warns(UserWarning, match="characters count as tokens"):
                assert build_vocab_from_iterator(["ab", "bc"]).get_itos() == wanted
            continue
        compute = steps.get(text, None) or built(text)
        if compute is None:  # upstream takes the special out of the caller's dict; here it stays
            before = dict(COUNTS)
            vocab(COUNTS, specials=["a"])
            assert before == COUNTS
            continue
        check(compute, wanted, text)


def test_pickled_vocabularies_of_upstream_are_read(golden):
    facts = golden["pickled_vocab"]
    folder = parity_folder(__file__) / "vocabularies"
    with_default = load_vocab(folder / facts["file"])
    assert with_default.get_itos() == facts["itos"]
    assert with_default.get_default_index() == facts["default_index"]
    without = load_vocab(folder / facts["second_file"])
    assert without.get_itos() == facts["itos"]
    assert without.get_default_index() is None


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_vectors_are_upstreams(golden, check, tmp_path, monkeypatch, engine):
    from flambeau.text._vectors import reading

    if engine == "reference":
        monkeypatch.setattr(reading.LIBRARY, "load", lambda: None)
    facts = golden["vectors"]
    file = tmp_path / "v.vec"
    file.write_text(facts["file"], encoding="utf-8")
    (tmp_path / "charNgram.txt").write_text(facts["charngram_file"], encoding="utf-8")
    (tmp_path / "bad.vec").write_text("a 1 2\nb 1 2 3\n", encoding="utf-8")
    cache = tmp_path / "cache"
    ve = Vectors(str(file), cache=cache)
    grams = CharNGram(cache=tmp_path)
    calls = {
        "itos": lambda: ve.itos,
        "stoi": lambda: ve.stoi,
        "dim, len": lambda: [ve.dim, len(ve)],
        "ve['the'] (last row of a repeated word wins)": lambda: ve["the"],
        "ve['zzz']": lambda: ve["zzz"],
        "'Mill' in ve, 'mill' in ve": lambda: ["Mill" in ve, "mill" in ve],
        "get_vecs_by_tokens(['Mill','zzz'])": lambda: ve.get_vecs_by_tokens(["Mill", "zzz"]),
        "get_vecs_by_tokens('Mill')": lambda: ve.get_vecs_by_tokens("Mill"),
        "get_vecs_by_tokens(['THE','mill'], lower_case_backup=True)": lambda: ve.get_vecs_by_tokens(
            ["THE", "mill"], lower_case_backup=True
        ),
        "max_vectors=2: itos": lambda: Vectors(str(file), cache=cache, max_vectors=2).itos,
        "unk_init=ones: ['zzz']": lambda: Vectors(str(file), cache=cache, unk_init=torch.ones_like)["zzz"],
        "missing file, no url": lambda: Vectors("absent.vec", cache=cache),
        "rows of different length": lambda: Vectors(str(tmp_path / "bad.vec"), cache=cache),
        "CharNGram['ab']": lambda: grams["ab"],
        "CharNGram['zz']": lambda: grams["zz"],
        "CharNGram['<unk>']": lambda: grams["<unk>"],
    }
    for text, wanted in facts["rows"]:
        if text == "cache files":
            # The copies are safetensors here, which are mapped; upstream's were pickles.
            copies = sorted(path.name for path in cache.iterdir())
            assert copies == [name.replace(".pt", ".safetensors") for name in wanted if name != "v.vec"]
        else:
            check(calls[text], wanted, text)
