"""Conversations, text and tokens turn into one another."""

from __future__ import annotations

import pytest
import torch

from flambeau.rl.data.llm import History
from flambeau.rl.modules.llm import ChatHistory, LogProbs, Masks, Text, Tokens
from flambeau.rl.modules.llm.policies.common import LogProbDistribution

CHATS = [
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}],
    [{"role": "user", "content": "What is the capital?"}, {"role": "assistant", "content": "Paris"}],
]


@pytest.fixture
def chats():
    prompt = History.from_chats([chat[:1] for chat in CHATS])
    return ChatHistory(prompt=prompt, full=History.from_chats(CHATS), batch_size=(2,))


def test_the_response_is_what_stands_behind_the_prompt(chats, tokenizer):
    text = chats.to_text(tokenizer)
    assert text.response == ["Hello.<|im_end|>\n", "Paris<|im_end|>\n"]
    assert [prompt + response for prompt, response in zip(text.prompt, text.response, strict=True)] == text.full


def test_tokens_keep_their_lengths(chats, tokenizer):
    tokens = chats.to_tokens(tokenizer)
    prompts, responses, fulls = (tokens.get(name, as_list=True) for name in ("prompt", "response", "full"))
    assert prompts[0].shape != prompts[1].shape
    for prompt, response, full in zip(prompts, responses, fulls, strict=True):
        assert torch.equal(torch.cat([prompt, response]), full)


def test_tokens_turn_back_into_conversations(chats, tokenizer):
    back = chats.to_tokens(tokenizer).to_history(tokenizer, "qwen")
    assert [row[-1] for row in back.full.content] == ["Hello.", "Paris"]
    assert back.response.content == [["Hello."], ["Paris"]]


def test_text_and_tokens_turn_into_one_another(tokenizer):
    text = Text(prompt=["one", "two words"], batch_size=(2,))
    assert text.to_tokens(tokenizer).to_text(tokenizer).prompt == ["one", "two words"]


def test_padding_cannot_be_undone(tokenizer):
    with pytest.raises(ValueError, match="padded"):
        Tokens(full=torch.zeros(1, 3, dtype=torch.int64), padded=True, batch_size=(1,)).to_text(tokenizer)
    with pytest.raises(ValueError, match="padding"):
        Text(full="a").to_tokens(tokenizer, padding=True)


@pytest.mark.parametrize(("kind", "dtype"), [(Tokens, torch.int64), (LogProbs, torch.float32)])
def test_specs_give_containers_of_the_asked_parts(kind, dtype):
    made = kind.default_spec((3,), keys=["full"]).zero()
    assert isinstance(made, kind)
    assert made.full.dtype == dtype
    assert made.prompt is None


def test_specs_of_masks_are_boolean():
    assert Masks.default_spec((3,)).zero().all_attention_mask.dtype == torch.bool


def test_reported_log_probabilities_stand_for_a_distribution():
    dist = LogProbDistribution(torch.tensor([[-1.0, -2.0]]), mask=torch.tensor([[True, False]]))
    assert dist.log_prob(torch.tensor([[3, 4]])).tolist() == [[-1.0, 0.0]]
    with pytest.raises(ValueError, match="shape"):
        dist.log_prob(torch.tensor([[3]]))
    with pytest.raises(NotImplementedError):
        dist.entropy()
