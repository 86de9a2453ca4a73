"""Parts of training programs, made from configurations."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import torch

from flambeau.rl.collectors import Collector, MultiSyncCollector
from flambeau.rl.data import LazyMemmapStorage, OneHot, PrioritizedSampler
from flambeau.rl.envs import ParallelEnv
from flambeau.rl.modules import MLP, DistributionalQValueActor, QValueActor, RandomPolicy
from flambeau.rl.objectives import DistributionalDQNLoss, DQNLoss, HardUpdate, SoftUpdate
from flambeau.rl.testing import ContinuousActionVecMockEnv
from flambeau.rl.trainers import helpers
from flambeau.rl.trainers.helpers.collectors import OffPolicyCollectorConfig, OnPolicyCollectorConfig, _grouped
from flambeau.rl.trainers.helpers.losses import LossConfig
from flambeau.rl.trainers.helpers.replay_buffer import ReplayArgsConfig


def configured(*kinds, **changed):
    values = {}
    for kind in kinds:
        values |= dataclasses.asdict(kind())
    return SimpleNamespace(**(values | changed))


def actor():
    return QValueActor(MLP(4, 2, num_cells=[4]), in_keys=["observation"], spec=OneHot(2))


@pytest.mark.parametrize(
    ("changes", "delayed", "updater"),
    [
        ({}, True, SoftUpdate),
        ({"loss": "single"}, False, type(None)),
        ({"hard_update": True, "value_network_update_interval": 5}, True, HardUpdate),
    ],
)
def test_losses_have_the_targets_that_they_are_configured_with(changes, delayed, updater):
    loss, found = helpers.make_dqn_loss(actor(), configured(LossConfig, distributional=False, gamma=0.9, **changes))
    assert type(loss) is DQNLoss
    assert loss.delay_value is delayed
    assert type(found) is updater
    assert loss.value_estimator.gamma == pytest.approx(0.9)
    if updater is SoftUpdate:
        assert found.eps == pytest.approx(0.999)
    if updater is HardUpdate:
        assert found.value_network_update_interval == 5


def test_values_may_be_distributions():
    atoms = 3
    model = DistributionalQValueActor(
        MLP(4, (atoms, 2), num_cells=[4]), in_keys=["observation"], spec=OneHot(2), support=torch.arange(3.0)
    )
    loss, _ = helpers.make_dqn_loss(model, configured(LossConfig, distributional=True))
    assert type(loss) is DistributionalDQNLoss


@pytest.mark.parametrize("changes", [{"loss": "other"}, {"loss": "single", "hard_update": True}])
def test_losses_that_there_are_not_are_refused(changes):
    with pytest.raises(NotImplementedError, match="loss"):
        helpers.make_dqn_loss(actor(), configured(LossConfig, distributional=False, **changes))


@pytest.mark.parametrize("prioritized", [False, True])
def test_buffers_lie_on_the_disk(tmp_path, prioritized):
    cfg = configured(
        ReplayArgsConfig, buffer_size=20, batch_size=4, buffer_scratch_dir=str(tmp_path), buffer_prefetch=2,
        prb=prioritized,
    )  # fmt: skip
    buffer = helpers.make_replay_buffer("cpu", cfg)
    assert isinstance(buffer._storage, LazyMemmapStorage)
    assert isinstance(buffer._sampler, PrioritizedSampler) is prioritized
    buffer.extend(ContinuousActionVecMockEnv().rollout(10))
    assert buffer.sample().shape == (4,)
    assert any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "per_collector", "collectors", "groups"),
    [(1, 2, 3, [2, 2, 2]), (6, 2, None, [2, 2, 2]), (6, None, 2, [3, 3]), (5, 2, 3, [2, 2, 1]), (1, 1, 2, None)],
)
def test_environments_are_shared_out_among_collectors(given, per_collector, collectors, groups):
    fns = ContinuousActionVecMockEnv if given == 1 else [ContinuousActionVecMockEnv] * given
    makers, options = _grouped(fns, None, per_collector, collectors)
    if groups is None:
        assert (makers, options) == ([ContinuousActionVecMockEnv] * 2, [{}, {}])
    else:
        assert [maker.args[0] for maker in makers] == groups
        assert all(maker.func is ParallelEnv for maker in makers)


@pytest.mark.parametrize(("given", "numbers"), [(1, (2, None)), (1, (None, 2)), (6, (1, 3)), (6, (None, None))])
def test_numbers_that_do_not_fit_are_refused(given, numbers):
    fns = ContinuousActionVecMockEnv if given == 1 else [ContinuousActionVecMockEnv] * given
    with pytest.raises(ValueError, match="num_env_per_collector"):
        helpers.sync_sync_collector(fns, None, *numbers)


def test_collectors_split_trajectories():
    cfg = configured(
        OnPolicyCollectorConfig, max_frames_per_traj=5, frames_per_batch=20, total_frames=20, num_workers=1,
        env_per_collector=1,
    )  # fmt: skip
    env = ContinuousActionVecMockEnv()
    collector = helpers.make_collector_onpolicy(ContinuousActionVecMockEnv, RandomPolicy(env.action_spec), cfg)
    assert type(collector) is Collector
    (batch,) = list(collector)
    assert batch.ndim == 2
    assert int(batch["collector", "mask"].sum()) == 20


def test_rewards_may_be_those_of_several_steps():
    cfg = configured(
        OffPolicyCollectorConfig, max_frames_per_traj=5, frames_per_batch=20, total_frames=20, num_workers=1,
        env_per_collector=1, multi_step=True, gamma=0.9, init_random_frames=0,
    )  # fmt: skip
    env = ContinuousActionVecMockEnv()
    collector = helpers.make_collector_offpolicy(ContinuousActionVecMockEnv, RandomPolicy(env.action_spec), cfg)
    (batch,) = list(collector)
    assert ("next", "original_reward") in batch.keys(True)


@pytest.mark.slow
def test_several_collectors_wait_for_one_another():
    collector = helpers.sync_sync_collector(
        ContinuousActionVecMockEnv, None, 1, 2, policy=None, frames_per_batch=20, total_frames=20
    )
    try:
        assert type(collector) is MultiSyncCollector
        assert sum(batch.numel() for batch in collector) == 20
    finally:
        collector.shutdown()
