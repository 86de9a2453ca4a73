"""How DreamerV3 is optimized, and how recorded steps give way to collected ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn import NormalParamExtractor, TensorDictModule
from flambeau.rl.collectors import Collector
from flambeau.rl.data import LazyTensorStorage, OfflineToOnlineReplayBuffer, TensorDictReplayBuffer
from flambeau.rl.envs import PendulumEnv, StepCounter, TransformedEnv
from flambeau.rl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from flambeau.rl.objectives import SACLoss, SoftUpdate
from flambeau.rl.trainers.algorithms import DreamerV3Optimizer, DreamerV3UpdateRatio, OfflineToOnlineTrainer
from flambeau.rl.trainers.algorithms.offline_to_online import OfflineToOnlineReplayBufferHook


def test_the_optimizer_finds_a_minimum():
    weight = nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = DreamerV3Optimizer([weight], lr=0.02, warmup_steps=10)
    for _ in range(400):
        optimizer.zero_grad()
        weight.square().sum().backward()
        optimizer.step()
    assert weight.abs().max() < 0.1


def test_updates_that_are_due_are_not_lost():
    schedule = DreamerV3UpdateRatio(0.3)
    counts = range(0, 1001, 7)
    assert abs(sum(schedule(count) for count in counts) - 0.3 * counts[-1]) <= 2


def steps(count, more=False):
    data = TensorDict(
        {
            "observation": torch.zeros(count, 3), "action": torch.zeros(count, 1),
            "next": {
                "observation": torch.zeros(count, 3), "reward": torch.zeros(count, 1),
                "done": torch.zeros(count, 1, dtype=torch.bool), "terminated": torch.zeros(count, 1, dtype=torch.bool),
            },
        },
        [count],
    )  # fmt: skip
    return data.set("loc", torch.ones(count, 1)) if more else data


def recorded():
    offline = TensorDictReplayBuffer(storage=LazyTensorStorage(50), batch_size=10)
    offline.extend(steps(50))
    return OfflineToOnlineReplayBuffer(offline, online_capacity=100, offline_fraction=0.5, batch_size=10)


def test_collected_steps_are_stored_like_recorded_ones():
    buffer = recorded()
    hook = OfflineToOnlineReplayBufferHook(buffer, batch_size=6)
    hook.extend(steps(20, more=True).reshape(4, 5))
    assert len(buffer.online_buffer) == 20
    assert "loc" not in buffer.online_buffer[:].keys()  # noqa: SIM118  # no dictionary
    assert hook.sample(None).shape == (6,)


def watching():
    """A pendulum whose observation is one vector."""
    from flambeau.rl.envs import CatTensors, UnsqueezeTransform

    env = TransformedEnv(PendulumEnv(), StepCounter(20))
    env.append_transform(UnsqueezeTransform(-1, in_keys=["th", "thdot"], in_keys_inv=["th", "thdot"]))
    return env.append_transform(CatTensors(["th", "thdot"], "observation", del_keys=False)), 2


def test_recorded_steps_give_way_to_collected_ones():
    torch.manual_seed(0)
    env, size = watching()
    layers = nn.Sequential(MLP(size, 2, num_cells=[8]), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(layers, ["observation"], ["loc", "scale"]), ["loc", "scale"], distribution_class=TanhNormal,
        spec=env.action_spec,
    )  # fmt: skip
    loss = SACLoss(actor, ValueOperator(MLP(size + 1, 1, num_cells=[8]), ["observation", "action"]))
    offline = TensorDictReplayBuffer(storage=LazyTensorStorage(40), batch_size=8)
    offline.extend(env.rollout(40, break_when_any_done=False).select(
        "observation", "action", ("next", "observation"), ("next", "reward"), ("next", "done"), ("next", "terminated")
    ))  # fmt: skip
    buffer = OfflineToOnlineReplayBuffer(offline, online_capacity=200, offline_fraction=0.75, batch_size=8)
    shares = []
    trainer = OfflineToOnlineTrainer(
        collector=Collector(env, actor, frames_per_batch=10, total_frames=40), total_frames=40, frame_skip=1,
        optim_steps_per_batch=2, loss_module=loss, optimizer=torch.optim.Adam(loss.parameters(), 1e-3),
        target_net_updater=SoftUpdate(loss, tau=0.1), replay_buffer=buffer, anneal_frames=30, batch_size=8,
        progress_bar=False,
    )  # fmt: skip
    trainer.register_op("post_steps", lambda: shares.append(buffer.offline_fraction))
    trainer.train()
    assert shares == pytest.approx([0.5, 0.25, 0.0, 0.0])
    assert len(buffer.online_buffer) == 40
