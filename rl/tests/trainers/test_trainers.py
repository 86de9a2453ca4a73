"""The trainer: in which order hooks are called, what is logged and saved; and what each hook does."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from flambeau.data.tensordict import TensorDict
from flambeau.rl.checkpoint import Checkpoint, CheckpointRotation
from flambeau.rl.data import LazyTensorStorage, PrioritizedSampler, TensorDictReplayBuffer
from flambeau.rl.trainers import (
    BatchSubSampler,
    CountFramesLog,
    DefaultOptimizationStepper,
    EarlyStopping,
    LogScalar,
    LRSchedulerHook,
    MixedPrecisionOptimizationStepper,
    OptimizerHook,
    ReplayBufferTrainer,
    RewardNormalizer,
    SelectKeys,
    TargetNetUpdaterHook,
    Trainer,
    UpdateWeights,
    mask_batch,
)
from flambeau.rl.trainers._hook_base import total_norm
from flambeau.rl.trainers.trainers import flatten_dict


class Batches:
    """A collector of five batches of ten steps; batch number i holds the value i."""

    init_random_frames = 0
    requested_frames_per_batch = 10
    policy = None

    def __init__(self, count=5):
        self.count, self.at, self.calls = count, 0, []

    def __iter__(self):
        while self.at < self.count:
            value = float(self.at)
            self.at += 1
            values = {"a": torch.full((10,), value), ("next", "reward"): torch.full((10, 1), value)}
            yield TensorDict(values, [10])

    def set_seed(self, seed, static_seed=False):
        self.calls.append(("seed", seed))
        return seed + 1

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]

    def shutdown(self):
        self.calls.append("shutdown")

    def update_policy_weights_(self, *args, **kwargs):
        self.calls.append("weights")


class Loss(nn.Module):
    """A weight times the mean of the batch, so that its gradient is this mean."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, batch):
        return TensorDict({"loss_a": (self.weight * batch["a"].mean()).sum(), "other": torch.ones(())}, [])


class Logged:
    def __init__(self):
        self.rows = []

    def log_scalar(self, name, value, step=None):
        self.rows.append((name, float(value), step))


def made(**options):
    loss = Loss()
    base = {
        "collector": Batches(),
        "total_frames": 50,
        "frame_skip": 1,
        "optim_steps_per_batch": 2,
        "loss_module": loss,
    }
    base |= {"optimizer": torch.optim.SGD(loss.parameters(), lr=0.1), "progress_bar": False, "log_interval": 10}
    return Trainer(**base | {"logger": Logged()} | options)


def test_each_step_moves_the_weight():
    trainer = made()
    trainer.train()
    assert float(trainer.loss_module.weight.detach()) == pytest.approx(1 - 0.1 * 2 * (0 + 1 + 2 + 3 + 4))
    assert (trainer.collected_frames, trainer._optim_count) == (50, 10)
    assert trainer.collector.calls == ["shutdown"]


def test_hooks_are_called_in_order():
    trainer, order = made(collector=Batches(1), optim_steps_per_batch=1), []

    def noted(name, result=None):
        def hook(*args):
            order.append(name)
            return {"td": args[0] if args else None, "dict": {name: 1.0}, None: None}[result]

        return hook

    for name in ("batch_process", "process_optim_batch", "post_loss", "pre_epoch"):
        trainer.register_op(name, noted(name, "td"))
    for name in ("pre_steps_log", "pre_epoch_log", "post_optim_log", "post_epoch_log", "post_steps_log"):
        trainer.register_op(name, noted(name, "dict"))
    trainer.register_op("post_optim_complete_log", noted("post_optim_complete_log", "dict"))
    trainer.register_op("process_loss", lambda batch, losses: order.append("process_loss"))
    for name in ("setup", "pre_optim_steps", "post_optim", "post_epoch", "post_steps", "shutdown"):
        trainer.register_op(name, noted(name))
    trainer.train()
    assert order == [
        "setup",
        "batch_process",
        "pre_steps_log",
        "pre_optim_steps",
        "pre_epoch_log",
        "pre_epoch",
        "process_optim_batch",
        "process_loss",
        "post_loss",
        "post_optim",
        "post_optim_log",
        "post_epoch_log",
        "post_epoch",
        "post_optim_complete_log",
        "post_steps",
        "post_steps_log",
        "shutdown",
    ]


def test_numbers_are_logged_at_intervals():
    trainer = made()
    trainer.train()
    assert trainer.logger.rows[:4] == [
        ("optim_steps", 4.0, 20),
        ("loss_a", pytest.approx(0.95), 20),
        ("other", 1.0, 20),
        ("grad_norm_0", 1.0, 20),
    ]
    assert {step for _, _, step in trainer.logger.rows} == {20, 40}


@pytest.mark.parametrize(
    ("options", "weight"), [({"clip_norm": 0.01}, 0.992), ({"clip_norm": 0.01, "clip_grad_norm": False}, 0.992)]
)
def test_gradients_are_clipped(options, weight):
    trainer = made(**options)
    trainer.train()
    assert float(trainer.loss_module.weight.detach()) == pytest.approx(weight)


@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float32), (torch.float32, torch.float64)])
@pytest.mark.parametrize(("clip_grad_norm", "clip_norm"), [(True, 0.1), (True, 100.0), (False, 0.1), (True, None)])
def test_norms_of_gradients_are_torchs(dtypes, clip_grad_norm, clip_norm):
    torch.manual_seed(0)
    ours = [nn.Parameter(torch.zeros(3, 2, dtype=dtype)) for dtype in dtypes]
    theirs = [nn.Parameter(torch.zeros(3, 2, dtype=dtype)) for dtype in dtypes]
    for mine, other in zip(ours, theirs, strict=True):
        mine.grad = torch.randn(3, 2).to(mine.dtype)
        other.grad = mine.grad.clone()
    without = nn.Parameter(torch.zeros(1))  # has no gradient
    expected = torch.nn.utils.get_total_norm([each.grad for each in theirs])
    if clip_norm is not None and clip_grad_norm:
        torch.nn.utils.clip_grad_norm_(theirs, clip_norm)
    elif clip_norm is not None:
        torch.nn.utils.clip_grad_value_(theirs, clip_norm)
    torch.testing.assert_close(total_norm([*ours, without], clip_grad_norm, clip_norm), expected)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, other.grad)


def test_without_gradients_the_norm_is_none():
    assert float(total_norm([nn.Parameter(torch.zeros(1))], True, 1.0)) == 0.0


@pytest.mark.parametrize(
    ("options", "count"), [({"num_epochs": 2}, 20), ({"total_frames": 25}, 6), ({"frame_skip": 5}, 2)]
)
def test_steps_are_as_many_as_asked_for(options, count):
    trainer = made(**options)
    trainer.train()
    assert trainer._optim_count == count


def test_first_random_batches_are_not_trained_with():
    trainer = made()
    trainer.collector.init_random_frames = 30
    trainer.train()
    assert trainer._optim_count == 6


def test_a_seed_reaches_the_collector_and_torch():
    trainer = made(seed=3)
    first = torch.rand(2)
    torch.manual_seed(4)
    assert trainer.collector.calls == [("seed", 3)]
    torch.testing.assert_close(torch.rand(2), first, rtol=0, atol=0)


def test_unknown_points_are_named_with_those_that_are_near():
    with pytest.raises(RuntimeError, match="no point 'post_step' in training, but 'post_steps'"):
        made().register_op("post_step", print)
    with pytest.raises(TypeError, match="a hook is called; got int"):
        made().register_op("post_steps", 3)


def halves(first, second):
    """Train with the first half of the batches, save, and go on with another trainer."""
    first.collector.count = 2
    first.total_frames = 20
    first.train()
    second.load_from_file(first.save_trainer_file or first.checkpoint_rotation.latest())
    second.train()
    return second


@pytest.mark.parametrize("kind", ["state", "checkpoint", "rotation"])
def test_training_goes_on_from_a_file(tmp_path, kind):
    def trainer():
        options = {
            "state": {"save_trainer_file": tmp_path / "state.pt"},
            "checkpoint": {"save_trainer_file": tmp_path / "checkpoint", "checkpoint": Checkpoint()},
            "rotation": {
                "checkpoint": Checkpoint(),
                "checkpoint_rotation": CheckpointRotation(tmp_path / "kept", keep_last=1),
            },
        }[kind]
        made_one = made(**options)
        LRSchedulerHook(torch.optim.lr_scheduler.ExponentialLR(made_one.optimizer, 0.5)).register(made_one)
        CountFramesLog(1).register(made_one)
        return made_one

    whole = trainer()
    whole.train()
    resumed = halves(trainer(), trainer())
    assert torch.equal(resumed.loss_module.weight, whole.loss_module.weight)
    assert (resumed.collected_frames, resumed._optim_count) == (50, 10)
    assert resumed._modules["count_frames_log"].frame_count == 50


def test_states_without_a_part_are_refused():
    state = made().state_dict()
    trainer = made()
    CountFramesLog(1).register(trainer)
    with pytest.raises(KeyError, match="count_frames_log"):
        trainer.load_state_dict(state)


def test_checkpoints_are_written_at_intervals(tmp_path):
    rotation = CheckpointRotation(tmp_path, keep_last=5)
    trainer = made(
        checkpoint=Checkpoint(),
        checkpoint_rotation=rotation,
        save_trainer_interval=15,
        checkpoint_metadata=lambda trainer: {"steps": trainer._optim_count},
    )
    trainer.train()
    assert [int(path.name[-12:]) for path in rotation.checkpoints()] == [20, 40, 50]
    assert Checkpoint.manifest(rotation.latest())["metadata"] == {"steps": 10}


def test_names_of_parts_are_unique():
    trainer = made()
    CountFramesLog(1).register(trainer)
    with pytest.raises(RuntimeError, match="a part 'count_frames_log' is registered already"):
        CountFramesLog(1).register(trainer)


def padded():
    batch = TensorDict({"a": torch.arange(20.0).reshape(2, 10)}, [2, 10])
    batch["next", "reward"] = batch["a"].unsqueeze(-1).clone()
    mask = torch.ones(2, 10, dtype=torch.bool)
    mask[1, 5:] = False
    batch["collector", "mask"] = mask
    return batch


def test_padding_does_not_count():
    batch = padded()
    assert mask_batch(batch).batch_size == (15,)
    assert CountFramesLog(2)(batch) == {"n_frames": 30, "log_pbar": False}
    assert LogScalar("a", "a", reduction="max")(batch)["a"] == 14


@pytest.mark.parametrize(("reduction", "value"), [("mean", 7.0), ("sum", 105.0), ("min", 0.0), ("max", 14.0)])
def test_numbers_of_batches_are_reduced(reduction, value):
    assert LogScalar("a", "a", include_std=False, reduction=reduction)(padded()) == {"a": value, "log_pbar": False}


def test_reductions_and_keys_are_checked():
    with pytest.raises(ValueError, match="one of mean, sum, min, max; got 'median'"):
        LogScalar(reduction="median")
    with pytest.raises(KeyError, match="LogScalar reads 'b'"):
        LogScalar("b")(padded())


def test_keys_are_selected():
    assert set(SelectKeys(["a"])(padded()).keys()) == {"a"}
    with pytest.raises(RuntimeError, match=r"Write \['abc'\]"):
        SelectKeys("abc")


@pytest.mark.parametrize(("size", "length", "shape"), [(6, 3, (2, 3)), (7, 3, (2, 3)), (6, 0, (1, 5)), (20, 0, (4, 5))])
def test_pieces_lie_within_their_trajectories(size, length, shape):
    pieces = BatchSubSampler(size, length)(padded())
    assert pieces.batch_size == shape
    assert (pieces["a"].diff(dim=-1) == 1).all()
    assert pieces["collector", "mask"].all()


def test_trajectories_that_are_too_short_are_left_out():
    pieces = BatchSubSampler(60, 6)(padded())
    assert float(pieces["a"].max()) < 10
    with pytest.raises(RuntimeError, match="no trajectory has 11 steps; the longest has 10"):
        BatchSubSampler(60, 11)(padded())


def test_rewards_are_normalized_by_what_came_so_far():
    hook = RewardNormalizer()
    hook.update_reward_stats(padded())
    rewards = hook.normalize_reward(padded())["next", "reward"].flatten()[:15]
    assert float(rewards.mean()) == pytest.approx(0, abs=1e-6)
    assert float(rewards.std()) == pytest.approx(1, abs=1e-6)
    again = RewardNormalizer()
    again.load_state_dict(hook.state_dict())
    torch.testing.assert_close(again.normalize_reward(padded())["next", "reward"].flatten()[:15], rewards)


@pytest.mark.parametrize("flat", [True, False])
def test_batches_go_through_a_buffer(flat):
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(30), batch_size=4)
    trainer = made()
    ReplayBufferTrainer(buffer, flatten_tensordicts=flat).register(trainer)
    trainer.train()
    assert len(buffer) == 30
    assert trainer._optim_count == 10


def test_priorities_come_back_to_the_buffer():
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(10), sampler=PrioritizedSampler(10, 1.0, 1.0), batch_size=2, priority_key="td_error"
    )
    hook = ReplayBufferTrainer(buffer)
    hook.extend(TensorDict({"a": torch.arange(10)}, [10]))
    sample = hook.sample(None)
    hook.update_priority(sample.set("td_error", torch.full((2,), 7.0)))
    index = int(sample["index"][0])
    assert buffer._sampler._sum_tree[index] == pytest.approx(7.0, rel=1e-3)


def test_a_buffer_may_be_gone_through_again_and_again():
    from flambeau.rl.data import SamplerWithoutReplacement

    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(6), sampler=SamplerWithoutReplacement(), batch_size=3)
    hook = ReplayBufferTrainer(buffer, iterate=True)
    hook.extend(TensorDict({"a": torch.arange(6)}, [6]))
    for _ in range(3):
        seen = torch.cat([hook.sample(None)["a"] for _ in range(2)])
        assert sorted(seen.tolist()) == [0, 1, 2, 3, 4, 5]


def test_schedules_wait_for_the_first_step():
    trainer = made()
    trainer.collector.init_random_frames = 30
    hook = LRSchedulerHook(torch.optim.lr_scheduler.ExponentialLR(trainer.optimizer, 0.5))
    hook.register(trainer)
    trainer.train()
    assert trainer.optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 0.5**3)


def test_weights_are_sent_every_so_many_batches():
    trainer = made()
    UpdateWeights(trainer.collector, 2).register(trainer)
    trainer.train()
    assert trainer.collector.calls.count("weights") == 2


def test_target_networks_step_with_the_optimizer():
    class Counting:
        steps = 0

        def step(self):
            self.steps += 1

    updater, trainer = Counting(), made()
    TargetNetUpdaterHook(updater).register(trainer)
    trainer.train()
    assert updater.steps == 10
    with pytest.raises(ValueError, match="an updater of target networks is needed; got int"):
        TargetNetUpdaterHook(3)


@pytest.mark.parametrize(
    ("options", "frames"),
    [
        ({"mode": "min", "patience": 20}, 30),
        ({"mode": "max", "patience": 20}, 50),
        ({"mode": "min", "wait_for": 40}, 50),
    ],
)
def test_training_stops_when_nothing_gets_better(options, frames):
    trainer = made()
    LogScalar("a", "a").register(trainer)
    EarlyStopping(monitor="a", **{"wait_for": 0, "patience": 20} | options).register(trainer)
    trainer.train()
    assert trainer.collected_frames == frames


def test_training_stops_where_numbers_are_none():
    trainer = made()
    trainer.register_op("pre_steps_log", lambda batch: {"x": math.nan})
    EarlyStopping(monitor="x", wait_for=0).register(trainer)
    trainer.train()
    assert trainer.collected_frames == 10
    assert "nan" in trainer._stop_reason


def test_what_is_monitored_must_be_logged():
    trainer = made()
    EarlyStopping(monitor="x", wait_for=0).register(trainer)
    with pytest.raises(RuntimeError, match="looks at 'x', which was not logged"):
        trainer.train()


def test_one_of_several_losses_is_trained_with():
    loss = Loss()
    hook = OptimizerHook(torch.optim.SGD(loss.parameters(), lr=1.0), ["loss_a"])
    losses = loss(TensorDict({"a": torch.ones(2)}, [2])).set("loss_b", 100 * loss.weight.sum())
    hook(losses, True, None, 0)
    assert float(loss.weight.detach()) == 0
    with pytest.raises(ValueError, match="loss_components is empty"):
        OptimizerHook(hook.optimizer, [])


def test_steppers_take_the_place_of_the_optimizer():
    plain, stepped = made(), made(optimization_stepper=DefaultOptimizationStepper())
    plain.train()
    stepped.train()
    assert torch.equal(plain.loss_module.weight, stepped.loss_module.weight)


def test_gradients_of_several_batches_make_a_step():
    loss = Loss()
    stepper = MixedPrecisionOptimizationStepper(
        torch.optim.SGD(loss.parameters(), lr=0.1), gradient_accumulation_steps=2, clip_norm=None
    )
    trainer = made(loss_module=loss, optimizer=None, optimization_stepper=stepper)
    trainer.train()
    assert stepper.optimizer_step_count == 5
    assert float(loss.weight.detach()) == pytest.approx(1 - 0.1 * (0 + 1 + 2 + 3 + 4), abs=1e-6)


def test_dictionaries_are_flattened():
    assert flatten_dict({"a": {"b": {"c": 1}}, "d": 2}) == {"a.b.c": 1, "d": 2}
