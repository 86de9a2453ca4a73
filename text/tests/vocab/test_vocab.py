"""Vocabularies: look-ups, changes, copies, and pickles of others."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
import warnings
from collections import OrderedDict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.core.errors import CheckpointError, UnsafeCheckpointError
from flambeau.text.vocab import Vocab, build_vocab_from_iterator, load_vocab, vocab

TOKENS = st.lists(st.text(max_size=6), unique=True, max_size=20)


@given(tokens=TOKENS)
def test_looking_up_indices_and_tokens_are_inverse(tokens):
    v = Vocab(tokens)
    assert v.lookup_tokens(v(tokens)) == tokens
    assert v(tokens) == list(range(len(tokens))) == [v[token] for token in tokens]
    assert v.get_stoi() == {token: place for place, token in enumerate(tokens)}


@given(tokens=TOKENS, token=st.text(max_size=6), data=st.data())
def test_inserting_gives_what_a_list_would(tokens, token, data):
    v = Vocab(tokens)
    place = data.draw(st.integers(0, len(tokens)))
    if token in tokens:
        with pytest.raises(RuntimeError, match="in the vocabulary already"):
            v.insert_token(token, place)
        return
    v.insert_token(token, place)
    expected = [*tokens[:place], token, *tokens[place:]]
    assert v.get_itos() == expected
    assert v(expected) == list(range(len(expected)))


def test_unknown_tokens_get_the_default_index():
    v = Vocab(["<unk>", "a"])
    v.set_default_index(0)
    assert v(["b", "a", "c"]) == [0, 1, 0]
    assert "b" not in v


def test_an_unknown_token_is_named_with_the_remedy():
    v = Vocab(["a", "b"])
    with pytest.raises(RuntimeError, match=r"Token 'mill' not found .* 2 tokens .* set_default_index"):
        v(["a", "mill"])


@pytest.mark.parametrize("wrong", ["ab", {"a"}, None, 3])
def test_what_is_no_list_is_a_type_error(wrong):
    with pytest.raises(TypeError, match="list of str"):
        Vocab(["a", "b"])(wrong)


@pytest.mark.parametrize("wrong", [3, None, b"a", 1.5])
def test_what_is_no_token_is_a_type_error(wrong):
    v = Vocab(["a"])
    v.set_default_index(0)
    for call in (
        lambda: v(["a", wrong]),
        lambda: v[wrong],
        lambda: Vocab(["a", wrong]),
        lambda: v.append_token(wrong),
        lambda: v.insert_token(wrong, 0),
    ):
        with pytest.raises(TypeError, match="str"):
            call()
    assert v.get_itos() == ["a"]


@pytest.mark.parametrize("wrong", ["0", 1.0, True])
def test_what_is_no_index_is_a_type_error(wrong):
    v = Vocab(["a", "b"])
    for call in (v.set_default_index, v.lookup_token, lambda index: v.insert_token("c", index)):
        with pytest.raises(TypeError, match="expected an int"):
            call(wrong)


def test_tokens_must_differ():
    with pytest.raises(RuntimeError, match="'b' is at 1 and at 3"):
        Vocab(["a", "b", "c", "b"])


def test_a_string_is_no_list_of_tokens():
    with pytest.raises(TypeError, match="list of str"):
        Vocab("abc")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, Vocab, lambda v: pickle.loads(pickle.dumps(v))])
def test_copies_are_complete(copied):
    v = Vocab(["<unk>", "é", ""])
    v.set_default_index(0)
    other = copied(v)
    assert (other.get_itos(), other.get_default_index(), other(["é", "x"])) == (["<unk>", "é", ""], 0, [1, 0])


@pytest.mark.parametrize("copied", [copy.deepcopy, Vocab, lambda v: pickle.loads(pickle.dumps(v))])
def test_copies_are_independent(copied):
    v = Vocab(["a"])
    other = copied(v)
    other.append_token("b")
    other.set_default_index(0)
    assert (v.get_itos(), v.get_default_index()) == (["a"], None)


def test_what_the_getters_give_is_the_callers():
    v = Vocab(["a"])
    v.get_itos().append("b")
    v.get_stoi()["b"] = 1
    assert (len(v), "b" in v) == (1, False)


def test_the_callers_counts_stay_as_they_are():
    counts = OrderedDict({"a": 2, "<unk>": 1})
    assert vocab(counts, specials=["<unk>"]).get_itos() == ["<unk>", "a"]
    assert counts == {"a": 2, "<unk>": 1}


def test_default_names_the_token_of_unknown_ones():
    assert vocab({"a": 1}, specials=["<pad>", "<unk>"], default="<unk>")(["b"]) == [1]
    assert build_vocab_from_iterator([["a"]], specials=["<unk>"], default="<unk>")(["b"]) == [0]
    with pytest.raises(ValueError, match="add it to specials"):
        vocab({"a": 1}, default="<unk>")


@given(lists=st.lists(st.lists(st.sampled_from("abcdé"), max_size=8), max_size=8), min_freq=st.integers(0, 3))
def test_the_most_frequent_come_first_and_equals_by_code_points(lists, min_freq):
    flat = [token for tokens in lists for token in tokens]
    expected = sorted({t for t in flat if flat.count(t) >= min_freq}, key=lambda t: (-flat.count(t), t))
    assert build_vocab_from_iterator(iter(lists), min_freq=min_freq).get_itos() == expected


def test_texts_instead_of_lists_are_warned_about_once():
    with pytest.warns(UserWarning, match="characters count as tokens") as caught:
        build_vocab_from_iterator(["ab", "cd"])
    assert [warning.filename for warning in caught] == [__file__]


def test_scripting_says_what_to_do_instead():
    with pytest.raises(RuntimeError, match=r"torch\.export"):
        Vocab(["a"]).__prepare_scriptable__()
    assert not Vocab.is_jitable


def test_saved_vocabularies_are_loaded(tmp_path):
    v = Vocab(["<unk>", "é😀"])
    v.set_default_index(0)
    for legacy in (False, True):
        path = tmp_path / f"{legacy}.pt"
        torch.save(v, path, _use_new_zipfile_serialization=not legacy)
        loaded = load_vocab(path)
        assert (loaded.get_itos(), loaded.get_default_index()) == (["<unk>", "é😀"], 0)
    (tmp_path / "plain.pkl").write_bytes(pickle.dumps(v))
    assert load_vocab(tmp_path / "plain.pkl").get_itos() == ["<unk>", "é😀"]


class Calls:
    """Pickles to a call."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_calls_something_is_refused_and_not_run(tmp_path, protocol):
    path = tmp_path / "evil.pt"
    mark = tmp_path / "ran"
    path.write_bytes(pickle.dumps(Calls(io.open, str(mark), "w"), protocol))
    with pytest.raises(UnsafeCheckpointError, match="no vocabulary needs"):
        load_vocab(path)
    assert not mark.exists()


@pytest.mark.parametrize(
    "content", [b"", b"\x80", b"no pickle", pickle.dumps([1]), pickle.dumps({"a": 1}), b"PK\x03\x04"]
)
def test_a_file_that_is_none_is_refused(tmp_path, content):
    path = tmp_path / "damaged.pt"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="vocabulary"):
        load_vocab(path)


def test_any_truncated_vocabulary_is_refused(tmp_path):
    path = tmp_path / "cut.pkl"
    whole = pickle.dumps(Vocab(["a", "b"]))
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError):
            load_vocab(path)


def test_a_file_with_tensors_is_no_vocabulary(tmp_path):
    torch.save({"weight": torch.zeros(2)}, tmp_path / "state.pt")
    with pytest.raises((CheckpointError, UnsafeCheckpointError)):
        load_vocab(tmp_path / "state.pt")


def test_a_vocabulary_works_in_a_worker_that_is_spawned():
    code = (
        "import multiprocessing as mp\n"
        "from flambeau.text.vocab import Vocab\n"
        "v = Vocab(['a', 'b'])\n"
        "v.set_default_index(7)\n"
        "if __name__ == '__main__':\n"
        "    with mp.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(v, [['b', 'x']]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[[1, 7]]", done.stderr


def test_modules_are_silent_when_they_are_imported():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        code = "import flambeau.text.vocab.vectors, flambeau.text.transforms, flambeau.text.data.functional"
        done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_archive_whose_members_lie_before_its_beginning_is_damaged(tmp_path):
    path = tmp_path / "v.pt"
    torch.save(Vocab(["a"]), path)
    content = bytearray(path.read_bytes())
    # Where the directory says that it begins, in its short form and in its long one.
    for mark, distance, size in ((b"PK\x05\x06", 16, 4), (b"PK\x06\x06", 48, 8)):
        if mark in content:
            place = slice(content.rindex(mark) + distance, content.rindex(mark) + distance + size)
            content[place] = (int.from_bytes(content[place], "little") + 99_999).to_bytes(size, "little")
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"v\.pt is no vocabulary, or is damaged"):
        load_vocab(path)


def test_what_is_no_token_is_refused_and_not_absent():
    with pytest.raises(TypeError, match="3 is no token"):
        assert 3 not in Vocab(["a"])


def test_what_reaches_through_to_upstreams_inner_vocabulary_finds_itself():
    words = Vocab(["a", "b"])
    assert words.vocab.get_itos() == Vocab(words.vocab).get_itos() == ["a", "b"]
