"""Generation: beams find what an exhaustive search finds, drawing follows its options, caches change nothing."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from flambeau.text._generation import logits
from flambeau.text.models import T5Conf, T5Model
from flambeau.text.prototype.generate import GenerationUtils

END, SIZE = 1, 4


class Table(nn.Module):
    """A decoder whose next token depends on the last one alone."""

    def __init__(self, scores: torch.Tensor) -> None:
        super().__init__()
        self.scores = scores

    def prepare_inputs_for_generation(self, input_ids: torch.Tensor) -> dict:
        return {"ids": input_ids}

    def forward(self, ids: torch.Tensor) -> dict:
        return {"decoder_output": self.scores[ids]}


def t5() -> T5Model:
    torch.manual_seed(3)
    sizes = {"embedding_dim": 16, "qkv_dim": 4, "num_attention_heads": 4, "ffn_dimension": 24, "vocab_size": 30}
    return T5Model(T5Conf(linear_head=True, num_encoder_layers=1, num_decoder_layers=2, **sizes)).eval()


def score(logs: torch.Tensor, text: list[int], penalty: float) -> float:
    """The score of a text with what it begins with."""
    return sum(float(logs[a, b]) for a, b in itertools.pairwise(text)) / (len(text) - 1) ** penalty


def best_score(logs: torch.Tensor, begin: int, length: int, penalty: float) -> float:
    """That of the best of all texts that end, or have the full length."""
    scores = []
    for size in range(1, length):
        for text in itertools.product(range(SIZE), repeat=size):
            if END not in text[:-1] and (text[-1] == END or size == length - 1):
                scores.append(score(logs, [begin, *text], penalty))
    return max(scores)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), penalty=st.sampled_from([0.0, 1.0, 2.0]))
def test_wide_beams_find_the_best_of_all_texts(seed, penalty):
    table = torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(seed)) * 2
    utils = GenerationUtils(Table(table), is_encoder_decoder=False)
    found = utils.generate(torch.tensor([[2], [3]]), num_beams=64, max_length=5, length_penalty=penalty, eos_idx=END)
    for row, begin in zip(found, (2, 3), strict=True):
        text = row.tolist()
        if END in text:
            end = text.index(END) + 1
            assert not any(text[end:])
            text = text[:end]
        logs = table.double().log_softmax(-1)
        assert score(logs, text, penalty) == pytest.approx(best_score(logs, begin, 5, penalty), abs=1e-5)


def test_beams_with_the_cache_follow_the_same_texts_as_without():
    model = t5()
    tokens = torch.randint(2, 30, (3, 7), generator=torch.Generator().manual_seed(0))
    tokens[1, 4:] = 0
    cached = GenerationUtils(model).generate(tokens, num_beams=3, max_length=9)
    model._reorder_cache = None  # nothing to reorder: everything is computed anew
    prepare = model.prepare_inputs_for_generation
    model.prepare_inputs_for_generation = lambda ids, encoder_outputs, encoder_padding_mask: (
        prepare(ids, encoder_outputs, encoder_padding_mask) | {"return_past_key_values": False}
    )
    assert torch.equal(GenerationUtils(model).generate(tokens, num_beams=3, max_length=9), cached)
    one_by_one = [GenerationUtils(model).generate(tokens[row : row + 1], num_beams=3, max_length=9) for row in range(3)]
    for row, alone in enumerate(one_by_one):
        assert cached[row, : alone.shape[1]].tolist() == alone[0].tolist()


def test_a_cost_per_token_does_not_grow_with_the_text():
    model, seen = t5(), []
    prepare = model.prepare_inputs_for_generation

    def spy(ids, **kwargs):
        arguments = prepare(ids, **kwargs)
        seen.append(arguments["decoder_tokens"].shape[1])
        return arguments

    model.prepare_inputs_for_generation = spy
    GenerationUtils(model).generate(torch.tensor([[5, 6, 7]]), max_length=6, eos_idx=None)
    assert seen == [1] * 5


def test_drawing_is_repeatable_and_bounded_by_its_options():
    table = torch.randn(6, 6, generator=torch.Generator().manual_seed(1))
    table[2, 2] = -0.5
    utils = GenerationUtils(Table(table), is_encoder_decoder=False)
    begin = torch.full((200, 1), 2)

    def draw(**options):
        generator = torch.Generator().manual_seed(5)
        return utils.generate(begin, max_length=2, do_sample=True, generator=generator, **options)[:, 1]

    assert torch.equal(draw(), draw())
    assert len(draw().unique()) > 3
    assert set(draw(top_k=2).tolist()) <= set(table[2].topk(2).indices.tolist())
    assert draw(top_k=1).unique().tolist() == [int(table[2].argmax())]
    assert draw(top_p=0.0).unique().tolist() == [int(table[2].argmax())]
    assert draw(temperature=1e-3).unique().tolist() == [int(table[2].argmax())]
    assert 2 in draw().tolist()
    assert 2 not in draw(repetition_penalty=1e3).tolist()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), top_p=st.floats(0, 1), top_k=st.integers(1, 9))
def test_restrictions_keep_the_likeliest(seed, top_p, top_k):
    probs = torch.randn(3, 7, generator=torch.Generator().manual_seed(seed)).softmax(-1)
    for kept in (logits.restrict_to_top_p(probs, top_p), logits.restrict_to_top_k(probs, top_k)):
        assert torch.equal(kept.argmax(-1), probs.argmax(-1))
        for row, original in zip(kept, probs, strict=True):
            left_out = original[row == 0]
            assert not len(left_out) or left_out.max() <= row[row > 0].min()
    share = logits.restrict_to_top_p(probs, top_p).sum(-1)
    assert ((share <= top_p + 1e-6) | (share <= probs.max(-1).values + 1e-6)).all()


def test_repetition_makes_positive_and_negative_scores_smaller():
    scores = torch.tensor([[2.0, -2.0, 1.0]])
    assert logits.apply_repetition_penalty(scores, torch.tensor([[0, 1, 1]]), 2.0).tolist() == [[1.0, -4.0, 1.0]]
    with pytest.raises(ValueError, match="positive"):
        logits.apply_repetition_penalty(scores, torch.tensor([[0]]), 0.0)


def test_contradictions_are_refused():
    utils = GenerationUtils(t5())
    tokens = torch.tensor([[5, 6]])
    for options, message in (
        ({"num_beams": 0}, "at least 1"),
        ({"num_beams": 2, "do_sample": True}, "not both"),
        ({"max_length": 0}, "max_length"),
        ({"do_sample": True, "temperature": 0.0}, "temperature"),
    ):
        with pytest.raises(ValueError, match=message):
            utils.generate(tokens, **options)
    assert utils.generate(tokens[:0], max_length=4).shape == (0, 1)
    assert utils.generate(tokens, max_length=1).tolist() == [[0]]
    given = torch.tensor([[4, 5]])
    assert utils._prepare_decoder_ids_for_generation(1, decoder_input_ids=given) is given
