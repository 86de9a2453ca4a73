"""A language model is trained by rewards of its answers, within groups."""

from __future__ import annotations

import pytest
import torch

from flambeau.data.tensordict import TensorDict, lazy_stack
from flambeau.rl.data import LazyStackStorage, ReplayBuffer, SamplerWithoutReplacement
from flambeau.rl.objectives.llm import GRPOLoss, MCAdvantage
from flambeau.rl.trainers.algorithms import GRPOTrainer

pytest.importorskip("transformers", reason="needs transformers; the extra `llm` has it")

GROUP, PROMPTS = 8, 2


class Answers:
    """A collector: answers to prompts, each a trajectory of one step, rewarded by a function of their tokens."""

    requested_frames_per_batch = GROUP * PROMPTS
    init_random_frames = 0

    def __init__(self, policy, reward):
        self.policy, self.reward, self.rewards, self.closed = policy, reward, [], False

    def __iter__(self):
        while True:
            prompts = [TensorDict(tokens=TensorDict(prompt=torch.tensor([60 + at, 61 + at]))) for at in range(PROMPTS)]
            answered = self.policy(lazy_stack(prompts))
            yield lazy_stack([self.step(answered[at, of], at) for at in range(PROMPTS) for of in range(GROUP)])

    def step(self, answer, group):
        reward = self.reward(answer["tokens"].response)
        self.rewards.append(float(reward))
        answer["query"] = torch.tensor(group)
        answer["next"] = TensorDict(reward=reward.reshape(1, 1), done=torch.ones(1, 1, dtype=torch.bool))
        return answer

    def set_seed(self, seed, static_seed=False):
        torch.manual_seed(seed)
        return seed

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass

    def shutdown(self):
        self.closed = True


class Sender:
    """Counts how often weights were to be brought."""

    def __init__(self):
        self.count = 0

    def update_weights(self):
        self.count += 1


@pytest.fixture
def make():
    from flambeau.rl.modules.llm import TransformersWrapper
    from flambeau.rl.testing.tiny_llm import tiny_causal_lm, tiny_tokenizer

    tokenizer = tiny_tokenizer()
    model = tiny_causal_lm(tokenizer, initializer_range=0.1)

    def made(batches, reward=lambda tokens: (tokens % 2 == 0).float().mean(), learning_rate=1e-2, **options):
        policy = TransformersWrapper(
            model, tokenizer=tokenizer, input_mode="tokens", num_samples=GROUP,
            generate_kwargs={"max_new_tokens": 3, "do_sample": True},
        )  # fmt: skip
        collector = Answers(policy, reward)
        loss = GRPOLoss(
            policy.get_new_version(generate=False, num_samples=None, generate_kwargs=None), entropy_bonus=False
        )
        buffer = ReplayBuffer(
            storage=LazyStackStorage(GROUP * PROMPTS), sampler=SamplerWithoutReplacement(), batch_size=GROUP,
            transform=MCAdvantage(GROUP, "query"),
        )  # fmt: skip
        return GRPOTrainer(**{
            "collector": collector, "total_frames": batches * GROUP * PROMPTS, "loss_module": loss, "seed": 0,
            "optimizer": torch.optim.Adam(model.parameters(), learning_rate), "replay_buffer": buffer,
            "empty_replay_buffer_on_weight_update": True, "progress_bar": False, "log_interval": 0, **options,
        })  # fmt: skip

    return made


def test_each_batch_is_trained_with_once_and_weights_are_brought(make):
    sender = Sender()
    trainer = make(2, weight_sync_sender=sender)
    before = [parameter.detach().clone() for parameter in trainer.loss_module.parameters()]
    trainer.train()
    assert (trainer.collected_frames, trainer._optim_count, sender.count) == (32, 4, 2)
    assert not len(trainer.replay_buffer)
    assert trainer.collector.closed
    assert any(not torch.equal(*pair) for pair in zip(before, trainer.loss_module.parameters(), strict=True))


def test_numbers_of_the_loss_and_rewards_are_logged(make):
    trainer = make(1)
    trainer.train()
    logged = trainer._log_dict
    assert {"loss_objective", "kl_approx", "clip_fraction", "ESS", "reward_mean", "optim_steps"} <= set(logged)
    assert logged["reward_mean"][0] == pytest.approx(sum(trainer.collector.rewards[-16:]) / 16, abs=0.5)


def test_divergences_are_left_out_of_the_log_where_asked(make):
    trainer = make(1, log_kl=False, log_rewards=False)
    trainer.train()
    assert not any("kl" in name or "reward" in name for name in trainer._log_dict)


def test_nothing_is_trained_with_before_a_group_is_complete(make):
    trainer = make(1)
    trainer.replay_buffer = ReplayBuffer(storage=LazyStackStorage(9), batch_size=2, transform=MCAdvantage(99, "query"))
    trainer.optim_steps(None)
    assert trainer._optim_count == 0


def test_gradients_of_several_batches_make_one_step(make):
    trainer = make(1, gradient_accumulation_steps=2)
    trainer.train()
    assert (trainer._optim_count, trainer.optimization_stepper.optimizer_step_count) == (2, 1)


def test_arguments_that_do_not_fit_are_refused(make):
    with pytest.raises(ValueError, match="optimizer"):
        make(1, optimizer=None)
    with pytest.raises(ValueError, match="weight_update_frequency"):
        make(1, weight_update_frequency=0)


@pytest.mark.slow
def test_a_model_learns_what_is_rewarded(make):
    trainer = make(40)
    trainer.train()
    rewards = trainer.collector.rewards
    first, last = (sum(part) / len(part) for part in (rewards[:64], rewards[-64:]))
    assert first < 0.65
    assert last > 0.9
