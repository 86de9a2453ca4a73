"""The transforms after a tokenizer, and the functions behind them."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flambeau.text import functional
from flambeau.text.transforms import (
    AddToken,
    LabelToIndex,
    MaskTransform,
    PadTransform,
    Sequential,
    StrToIntTransform,
    ToTensor,
    Truncate,
    VocabTransform,
)
from flambeau.text.vocab import Vocab

IDS = st.lists(st.integers(-(2**40), 2**40), max_size=6)
WORDS = st.lists(st.text(max_size=3), max_size=6)
WRONG = [
    3,
    None,
    "abc",
    (1, 2),
    {1},
    [1, "a"],
    [[1], ["a"]],
    [[1], 2],
    [1, [2]],
    [1.5],
    [[1.5]],
    [None],
    [[[1]]],
    torch.tensor([1]),
]


@given(rows=st.lists(IDS, min_size=1, max_size=5))
def test_a_padded_tensor_holds_the_rows(rows):
    tensor = functional.to_tensor(rows, padding_value=-1)
    width = max(map(len, rows))
    assert tensor.dtype == torch.int64
    assert tensor.tolist() == [row + [-1] * (width - len(row)) for row in rows]


@given(ids=IDS)
def test_one_sequence_is_int64_whatever_is_asked_for(ids):
    tensor = functional.to_tensor(ids, padding_value=0, dtype=torch.float16)
    assert (tensor.dtype, tensor.tolist()) == (torch.int64, ids)


@given(rows=st.one_of(st.lists(IDS), st.lists(WORDS)), size=st.integers(-3, 8))
def test_many_are_truncated_as_each_is(rows, size):
    assert functional.truncate(rows, size) == [functional.truncate(row, size) for row in rows]


@given(rows=st.lists(WORDS, max_size=4), begin=st.booleans())
def test_a_token_is_added_to_each(rows, begin):
    expected = [["<s>", *row] if begin else [*row, "<s>"] for row in rows]
    before = copy.deepcopy(rows)
    # An empty list is one empty sequence.
    assert functional.add_token(rows, "<s>", begin) == (expected if rows else ["<s>"])
    assert rows == before


@given(rows=st.lists(IDS))
def test_strings_of_numbers_are_those_numbers(rows):
    assert functional.str_to_int([[str(number) for number in row] for row in rows]) == rows


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize(
    "call",
    [
        functional.to_tensor,
        lambda value: functional.truncate(value, 1),
        lambda value: functional.add_token(value, 1),
        functional.str_to_int,
    ],
    ids=["to_tensor", "truncate", "add_token", "str_to_int"],
)
def test_other_types_are_refused(call, wrong):
    with pytest.raises(TypeError):
        call(wrong)


def test_a_refusal_shows_what_came():
    with pytest.raises(TypeError, match=r"truncate takes a list of int or of str.*not a tuple: \(1, 2\)"):
        functional.truncate((1, 2), 1)
    with pytest.raises(TypeError, match="token 'z' for a list of int"):
        functional.add_token([1], "z")
    with pytest.raises(ValueError, match="1 to 2 ids; give padding_value"):
        functional.to_tensor([[1, 2], [3]])


def test_subclasses_count_as_their_base():
    class Text(str):
        __slots__ = ()

    assert functional.truncate([Text("a"), "b"], 1) == ["a"]
    assert functional.add_token([True], 0) == [0, True]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32])
def test_padding_a_tensor_keeps_its_dtype(dtype):
    padded = PadTransform(4, 7)(torch.ones(2, 3, 2, dtype=dtype))
    assert (padded.dtype, padded.shape) == (dtype, (2, 3, 4))
    assert padded[..., 2:].eq(7).all()


def test_labels_are_read_from_a_file(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text("pos\n\n  neg \nnëutral", encoding="utf-8")
    step = LabelToIndex(label_path=path)
    assert step.label_names == ["pos", "neg", "nëutral"]
    assert step("nëutral") == 2


def test_labels_are_read_from_a_url(tmp_path):
    (tmp_path / "labels.txt").write_text("neg\npos\n", encoding="utf-8")
    assert LabelToIndex(label_path=(tmp_path / "labels.txt").as_uri())("pos") == 1


def test_a_vocabulary_is_applied_to_one_and_to_many():
    step = VocabTransform(Vocab(["a", "b"]))
    assert (step(["b"]), step([["b"], []]), step([])) == ([1], [[1], []], [])
    for wrong in ("ab", ["a", ["b"]], [["a"], "b"], [["a"], 3], 3):
        with pytest.raises(TypeError):
            step(wrong)


def test_a_pipeline_is_pickled_whole():
    steps = Sequential(
        VocabTransform(Vocab(["a", "b"])),
        Truncate(1),
        AddToken(5),
        AddToken(6, begin=False),
        ToTensor(0),
        PadTransform(4, 9),
    )
    for other in (steps, copy.deepcopy(steps), pickle.loads(pickle.dumps(steps))):
        assert other([["b", "a"], []]).tolist() == [[5, 1, 6, 9], [5, 6, 0, 9]]
    assert StrToIntTransform()(["3"]) == [3]


def test_scripting_says_what_to_do_instead():
    with pytest.raises(RuntimeError, match=r"AddToken cannot be scripted.*torch\.export"):
        AddToken(1).__prepare_scriptable__()


def masked(seed, **options):
    tokens = torch.randint(10, 100, (8, 50), generator=torch.Generator().manual_seed(1))
    tokens[:, 0], tokens[:, 40:] = 0, 1
    step = MaskTransform(100, 3, 0, 1, generator=torch.Generator().manual_seed(seed), **options)
    return tokens, *step(tokens)


def test_masking_draws_from_its_generator_alone():
    first = masked(1)
    torch.rand(3)
    assert all(torch.equal(a, b) for a, b in zip(first, masked(1), strict=True))
    assert not torch.equal(first[1], masked(2)[1])


def test_padding_and_the_first_token_are_never_masked():
    tokens, result, targets, mask = masked(1, mask_prob=1.0)
    assert torch.equal(result[tokens < 2], tokens[tokens < 2])
    assert torch.equal(targets, tokens[tokens >= 2])
    assert torch.equal(mask, (tokens >= 2).int())


def test_subclasses_choose_what_is_masked():
    class First(MaskTransform):
        mask_mask_prob, rand_mask_prob = 1.0, 0.0

        def _random_masking(self, tokens, mask_prob):
            mask = torch.zeros_like(tokens, dtype=torch.int)
            mask[:, 1] = 1
            return mask

    tokens = torch.arange(20, 32).reshape(3, 4)
    result, targets, _ = First(100, 3, 0, 1)(tokens)
    assert result[:, 1].tolist() == [3, 3, 3]
    assert targets.tolist() == tokens[:, 1].tolist()
