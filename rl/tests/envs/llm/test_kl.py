"""Divergences from a reference: log-probabilities of models, differences, rewards."""

from __future__ import annotations

import pytest
import torch
from conversing import environment, said

from flambeau.data.tensordict import TensorDict, lazy_stack
from flambeau.rl.envs.llm.transforms import KLComputation, KLRewardTransform, RetrieveKL, RetrieveLogProb
from flambeau.rl.modules.llm import TransformersWrapper

GEN, REF = ("gen", "full"), ("ref", "full")


def batch(rewards):
    generated, reference = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)
    following = TensorDict({GEN: generated, REF: reference, "reward": rewards}, [2])
    return TensorDict({"next": following}, [2])


@pytest.mark.parametrize("shape", [(2, 3, 1), (2, 1, 1), (2, 1)])
def test_differences_are_taken_off_rewards_token_by_token(shape):
    found = KLComputation(GEN, REF, coeff=0.5)(batch(torch.ones(shape)))["next"]
    expected = torch.arange(6.0).reshape(2, 3) - 1
    assert torch.equal(found["kl_penalty"], expected)
    assert torch.equal(found["reward"], 1 - 0.5 * expected.unsqueeze(-1))


def test_rewards_may_be_left_alone():
    found = KLComputation(GEN, REF, add_to_reward=False)(batch(torch.ones(2, 1, 1)))["next"]
    assert torch.equal(found["reward"], torch.ones(2, 1, 1))


def test_conversations_of_different_lengths_have_differences_of_different_lengths():
    rows = [TensorDict({GEN: torch.ones(n), REF: torch.zeros(n), "reward": torch.zeros(1, 1)}) for n in (2, 3)]
    found = KLComputation(GEN, REF)._step(TensorDict({}, [2]), lazy_stack(rows))
    assert [row["reward"].shape for row in found.unbind(0)] == [(2, 1), (3, 1)]
    assert all((row["kl_penalty"] == 1).all() for row in found.unbind(0))


def test_log_probabilities_must_be_there_and_of_the_same_tokens():
    with pytest.raises(KeyError, match="gen"):
        KLComputation(GEN, REF)(TensorDict({"next": TensorDict({}, [2])}, [2]))
    data = batch(torch.ones(2, 1, 1))
    data["next", "gen", "full"] = torch.ones(2, 4)
    with pytest.raises(ValueError, match="pad_output"):
        KLComputation(GEN, REF)(data)


@pytest.fixture
def scoring(model, tokenizer):
    def make(**options):
        return TransformersWrapper(
            model, tokenizer=tokenizer, input_mode="history", generate=False, return_log_probs=True, **options
        )

    return make


RESPONSES = ["hello hello", "hello"]


@pytest.mark.parametrize("pad", [True, False])
def test_only_what_the_assistant_said_counts(scoring, pad):
    env = environment(query=["hello", "hello there"])
    step = env.step(said(env.reset(), RESPONSES))
    everything = RetrieveLogProb(scoring(pad_output=pad), assistant_only=False)(step.copy())["next"]
    found = RetrieveLogProb(scoring(pad_output=pad))(step.copy())["next"]
    for row, whole in zip(found.unbind(0), everything.unbind(0), strict=True):
        kept = row["log_probs", "full"] != 0
        assert 0 < kept.sum() < (whole["log_probs", "full"] != 0).sum()
        assert torch.equal(row["log_probs", "full"][kept], whole["log_probs", "full"][kept])
        assert not row["log_probs", "full"].requires_grad


def test_a_model_does_not_differ_from_itself_and_rewards_are_tokens_rewards(scoring):
    generator = scoring(pad_output=True)
    reference = scoring(pad_output=True, log_probs_key="ref_log_probs")
    env = environment(RetrieveKL(generator, reference, add_to_reward=False), query=["hello", "hello there"])
    found = env.step(said(env.reset(), RESPONSES))["next"]
    assert found["kl_penalty"].shape == found["log_probs", "full"].shape
    assert not found["kl_penalty"].any() and found["ref_log_probs", "full"].any()


def test_the_older_form_reads_what_the_policy_wrote(scoring):
    transform = KLRewardTransform(scoring(pad_output=True), coef=2.0)
    env = environment(query=["hello", "hello there"])
    step = env.step(said(env.reset(), RESPONSES))
    scored = RetrieveLogProb(scoring(pad_output=True))(step.copy())["next", "log_probs", "full"]
    step.set(("log_probs", "full"), scored + (scored != 0) * 0.5)
    step["next", "reward"] = torch.ones(2, 1, 1)
    found = transform(step)["next"]
    expected = 0.5 * (scored != 0).float()
    assert torch.allclose(found["kl_penalty"], expected, atol=1e-5)
    assert torch.allclose(found["reward"], 1 - 2 * expected.unsqueeze(-1), atol=1e-4)
    assert transform.pad_output and transform.tokenizer is not None


def test_models_that_do_not_score_and_missing_references_are_refused(model, tokenizer, scoring):
    with pytest.raises(ValueError, match="generate=False"):
        RetrieveLogProb(TransformersWrapper(model, tokenizer=tokenizer, input_mode="history", generate=True))
    texts = TransformersWrapper(model, tokenizer=tokenizer, input_mode="text", generate=False, return_log_probs=True)
    with pytest.raises(ValueError, match="assistant_only"):
        RetrieveLogProb(texts)
    with pytest.raises(ValueError, match="ref_model"):
        RetrieveKL(scoring())
    with pytest.raises(ValueError, match="pad_output"):
        RetrieveKL(scoring(pad_output=True), scoring(pad_output=False))
    with pytest.raises(ValueError, match="ref_model"):
        KLRewardTransform()
