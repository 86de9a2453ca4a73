"""Evaluations: means of whole episodes, beside a training that goes on."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import TensorDictModule
from flambeau.rl.collectors import Evaluator
from flambeau.rl.data import Composite, Unbounded
from flambeau.rl.envs import EnvBase, SerialEnv


class Pays(EnvBase):
    """Pays as much as the action says, `length` times."""

    def __init__(self, length=4, gate=None):
        super().__init__()
        self.observation_spec = Composite(count=Unbounded((1,)))
        self.action_spec = Unbounded((1,))
        self.reward_spec = Unbounded((1,))
        self.length, self.gate, self.count = length, gate, 0

    def _reset(self, tensordict, **_):
        self.count = 0
        return TensorDict({"count": torch.zeros(1)})

    def _step(self, tensordict):
        if self.gate is not None:
            self.gate.wait()
        self.count += 1
        done = torch.tensor([self.count >= self.length])
        return TensorDict({"count": torch.ones(1) * self.count, "reward": tensordict["action"], "done": done})

    def _set_seed(self, seed):
        self.seed = seed


class Paid(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, count):
        return self.weight.expand(count.shape).clone()


def paid():
    return TensorDictModule(Paid(), in_keys=["count"], out_keys=["action"])


@pytest.fixture(autouse=True)
def forks(monkeypatch):
    monkeypatch.setattr("flambeau.rl.collectors._evaluation.default_method", lambda: "fork")


@pytest.mark.parametrize("backend", ["thread", "process"])
def test_a_result_has_means_of_whole_episodes(backend):
    with Evaluator(Pays, paid(), num_trajectories=3, backend=backend) as evaluator:
        result = evaluator.evaluate(step=7)
        assert result.pop("eval/fps") > 0
        assert result == {
            "eval/reward": 4.0,
            "eval/reward_std": 0.0,
            "eval/num_episodes": 3,
            "eval/episode_length": 4.0,
            "eval/step": 7,
        }
        policy = paid()
        nn.init.constant_(policy.module.weight, 2.0)
        assert evaluator.evaluate(policy)["eval/reward"] == 8.0
        assert evaluator.evaluate(evaluator.extract_weights(policy))["eval/reward"] == 8.0


def test_the_policy_in_training_is_not_the_one_that_is_evaluated():
    policy = paid()
    with Evaluator(Pays, policy, num_trajectories=1) as evaluator:
        nn.init.zeros_(policy.module.weight)
        assert evaluator.evaluate()["eval/reward"] == 4.0
        assert evaluator.evaluate(policy)["eval/reward"] == 0.0


def test_episodes_are_truncated_and_come_from_batches_of_environments():
    env = SerialEnv(2, Pays)
    with Evaluator(env, policy_factory=lambda env: paid(), num_trajectories=4, max_steps=3) as evaluator:
        result = evaluator.evaluate()
    assert result["eval/episode_length"] == 3.0
    assert result["eval/num_episodes"] == 4


@pytest.mark.parametrize(("busy", "results"), [("skip", 1), ("queue", 2)])
def test_evaluations_in_the_background_are_skipped_or_wait(busy, results):
    gate = threading.Event()
    with Evaluator(lambda: Pays(gate=gate), paid(), num_trajectories=1, busy_policy=busy) as evaluator:
        assert evaluator.trigger_eval()
        assert evaluator.pending
        assert evaluator.poll() is None
        assert evaluator.trigger_eval() == (busy == "queue")
        gate.set()
        assert [evaluator.wait(60)["eval/step"] for _ in range(results)] == list(range(results))
        assert evaluator.wait() is None
        assert not evaluator.pending


def test_an_evaluation_too_many_may_be_an_error():
    gate = threading.Event()
    with Evaluator(lambda: Pays(gate=gate), paid(), num_trajectories=1, busy_policy="error") as evaluator:
        evaluator.trigger_eval()
        with pytest.raises(RuntimeError, match="runs already"):
            evaluator.trigger_eval()
        gate.set()


def test_further_metrics_and_results_go_to_functions():
    seen = []
    with Evaluator(
        Pays, paid(), num_trajectories=2, metrics_fn=lambda td: {"steps": td["collector", "mask"].sum().item()},
        log_prefix="test", on_result=seen.append,
    ) as evaluator:  # fmt: skip
        assert evaluator.evaluate()["test/steps"] == 8
    assert seen[0]["test/reward"] == 4.0


def test_what_fails_is_raised_where_the_result_is_waited_for():
    def fails():
        raise ValueError("no environment")

    with Evaluator(fails, paid()) as evaluator:
        with pytest.raises(ValueError, match="no environment"):
            evaluator.evaluate()
        evaluator.trigger_eval()
        with pytest.raises(ValueError, match="no environment"):
            evaluator.wait()
    with pytest.raises(RuntimeError, match="is shut down"):
        evaluator.evaluate()


def test_counts_of_evaluations_are_kept():
    with Evaluator(Pays, paid(), num_trajectories=1) as evaluator:
        evaluator.load_state_dict({"step_counter": 5})
        assert evaluator.evaluate()["eval/step"] == 5
        assert evaluator.state_dict() == {"step_counter": 6}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"backend": "moon"}, ValueError, "backend must be one of"),
        ({"busy_policy": "wait"}, ValueError, "busy_policy must be one of"),
        ({"policy": None}, TypeError, "either policy or policy_factory"),
        ({"num_trajectories": 0}, ValueError, "num_trajectories must be 1 or more"),
        ({"max_steps": 0}, ValueError, "max_steps must be 1 or more"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        Evaluator(**({"env": Pays, "policy": paid()} | arguments))
