"""Losses of world models, of what is trained in them, and of controllers return what torchrl's do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from flambeau.core.testing.differential import Cell, Suite
from flambeau.core.testing.fill import tensor
from flambeau.core.testing.programs import fixed_draws

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

import dreamer_subjects as dreamer  # isort: skip
from offpolicy_subjects import names  # isort: skip

SUITE = Suite(
    "world-model-losses",
    ours="flambeau.rl",
    peer="torchrl",
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=Path(__file__).with_name("differences.toml"),
    rtol=1e-4,
    atol=1e-5,
)


def cell(area, case, call):
    SUITE.add(Cell(f"{area}/{case}", area, lambda library, given: call(names(library)), effects=False, printed=False))


def seen(data):
    return {str(key): data.get(key).detach() for key in sorted(data.keys(True, True), key=str)}


def trained(loss, *data):
    """Losses, gradients, states, and the batch that comes back."""
    with fixed_draws():
        found = loss(*data)
    out, back = found if isinstance(found, tuple) else (found, None)
    total = sum(out[key].sum() for key in sorted(out.keys()) if key.startswith("loss"))
    if isinstance(total, torch.Tensor) and total.requires_grad:
        total.backward()
    return {
        "out": seen(out),
        "batch size": tuple(out.batch_size),
        "differentiable": sorted(key for key, one in out.items() if one.requires_grad),
        "gradients": {name: one.grad for name, one in sorted(loss.named_parameters()) if one.grad is not None},
        "state": sorted(key for key in loss.state_dict()),
        "back": back is not None and seen(back),
        "left": sorted(map(str, data[0].keys(True, True))),
    }


# --- the first Dreamer -----------------------------------------------------------------------------
MODEL = {
    "plain": {}, "weights": {"lambda_kl": 2.0, "lambda_reco": 0.5, "lambda_reward": 3.0},
    "reco-l1": {"reco_loss": "l1"},
    "reward-l1": {"reward_loss": "l1"}, "huber": {"reward_loss": "huber"}, "none-free": {"free_nats": 0},
    "two-free": {"free_nats": 2}, "later": {"delayed_clamp": True},
    "later-all-free": {"delayed_clamp": True, "free_nats": 9},
    "average": {"global_average": True}, "average-none": {"global_average": True, "free_nats": 0},
    "average-later": {"global_average": True, "delayed_clamp": True}, "unknown": {"nothing": 1},
}  # fmt: skip
MOMENTS = ("prior_mean", "prior_std", "posterior_mean", "posterior_std")


def model_loss(options, shape=(2, 3), keys=None):
    def call(n):
        loss = n.losses.DreamerModelLoss(dreamer.world_model(n, *MOMENTS), **options)
        loss.set_keys(**(keys or {}))
        return trained(loss, dreamer.seen(n, shape))

    return call


for _case, _options in MODEL.items():
    cell("dreamer-model", _case, model_loss(_options))
for _shape in ((4, 1), (2, 2, 3), (3,)):
    cell("dreamer-model", f"shape-{len(_shape)}", model_loss({}, _shape))
cell("dreamer-model", "renamed", model_loss({}, keys={"true_reward": "gain"}))
cell("dreamer-model", "unknown-key", model_loss({}, keys={"zzz": "gain"}))


def densities(n):
    loss = n.losses.DreamerModelLoss(dreamer.world_model(n, *MOMENTS))
    x, mean = tensor("x", (2, 3)), tensor("mean", (2, 3))
    return loss.normal_log_probability(x, mean, x.abs() + 0.5), loss.kl_loss(mean, x.abs() + 1, x, mean.abs() + 1)


cell("dreamer-model", "functions", densities)

ACTOR = {
    "plain": {}, "all-alike": {"discount_loss": False}, "long": {"imagination_horizon": 6}, "gamma": {"gamma": 0.9},
    "lmbda": {"lmbda": 0.9}, "unknown": {"nothing": 1},
}  # fmt: skip
ESTIMATORS = {
    "default": lambda n: {}, "one-step": lambda n: {"value_type": n.losses.ValueEstimators.TD0},
    "gamma": lambda n: {"value_type": n.losses.ValueEstimators.TD0, "gamma": 0.8},
    "td1": lambda n: {"value_type": n.losses.ValueEstimators.TD1},
    "gae": lambda n: {"value_type": n.losses.ValueEstimators.GAE},
}  # fmt: skip


def actor_loss(options, estimator, shape=(5,)):
    def call(n):
        loss = n.losses.DreamerActorLoss(
            dreamer.actor(n), dreamer.value_model(n), dreamer.env(n), **{"imagination_horizon": 3, **options}
        )
        loss.make_value_estimator(**estimator(n))
        return trained(loss, dreamer.latents(n, shape))

    return call


for _case, _options in ACTOR.items():
    cell("dreamer-actor", _case, actor_loss(_options, ESTIMATORS["one-step"]))
for _case, _estimator in ESTIMATORS.items():
    cell("dreamer-actor", f"returns-{_case}", actor_loss({}, _estimator))
for _shape in ((2, 3), (2,)):
    cell("dreamer-actor", f"shape-{len(_shape)}", actor_loss({}, ESTIMATORS["one-step"], _shape))

VALUE = {
    "plain": {}, "l1": {"value_loss": "l1"}, "smooth": {"value_loss": "smooth_l1"}, "huber": {"value_loss": "huber"},
    "all-alike": {"discount_loss": False}, "gamma": {"gamma": 0.5},
}  # fmt: skip


def value_loss(options, shape=(4, 5), keys=None):
    def call(n):
        loss = n.losses.DreamerValueLoss(dreamer.value_model(n), **options)
        loss.set_keys(**(keys or {}))
        data = dreamer.latents(n, shape)
        return trained(loss, data.set("lambda_target", tensor("target", (*shape, 1))))

    return call


for _case, _options in VALUE.items():
    cell("dreamer-value", _case, value_loss(_options))
cell("dreamer-value", "rows", value_loss({}, (2, 3, 4)))
cell("dreamer-value", "unknown-key", value_loss({}, keys={"zzz": "a"}))

# --- world models in general ------------------------------------------------------------------------
ALL = ["reward", "done", "reconstruction", "latent"]
WORLD = {
    "plain": {}, "all": {"losses": ALL}, "none": {"losses": []}, "other": {"losses": ["x"]},
    **{name: {"losses": [name]} for name in ALL}, "l1": {"losses": ALL, **{f"{name}_loss": "l1" for name in ALL}},
    "weights": {"losses": ALL, "reward_weight": 2.0, "done_weight": 0.5, "latent_weight": 3.0,
                "reconstruction_weight": 0.1},
    "huber": {"reward_loss": "huber"}, "unknown": {"nothing": 1},
}  # fmt: skip


def world_loss(options, shape=(3,), keys=None, change=None):
    def call(n):
        loss = n.losses.WorldModelLoss(dreamer.predictors(n), **options)
        loss.set_keys(**(keys or {}))
        data = dreamer.steps(n, shape)
        if change is not None:
            change(data)
        return trained(loss, data)

    return call


for _case, _options in WORLD.items():
    cell("world-model", _case, world_loss(_options))
for _shape in ((2, 3), (1,), ()):
    cell("world-model", f"shape-{len(_shape)}-{sum(_shape)}", world_loss({"losses": ALL}, _shape))
for _case, _keys in {"true": {"true_reward": "gain"}, "unknown-key": {"zzz": "a"}, "reward": {"reward": "gain"},
                     "observation": {"observation": ("next", "observation")}}.items():  # fmt: skip
    cell("world-model", f"keys-{_case}", world_loss({"losses": ALL}, keys=_keys))
cell("world-model", "masked", world_loss(
    {}, change=lambda data: data.set(("collector", "mask"), torch.tensor([True, False, True]))))  # fmt: skip

# --- costs -----------------------------------------------------------------------------------------
COST = {
    "plain": {}, "none": {"reduction": "none"}, "sum": {"reduction": "sum"}, "other": {"reduction": "median"},
    "target": {"target": tensor("target", (3,))}, "weights": {"weights": torch.diag(torch.tensor([1.0, 2.0, 0.5]))},
    "mixed": {"weights": torch.eye(3) + 0.2, "target": torch.ones(3), "reduction": "none"},
    "partly": {"weights": torch.diag(torch.tensor([1.0, 0.0, 0.5]))}, "row": {"weights": torch.ones(3)},
}  # fmt: skip


def cost(options, shape=(2,), keys=None):
    def call(n):
        loss = n.losses.ExponentialQuadraticCost(**options)
        loss.set_keys(**(keys or {}))
        root = tensor("root", (*shape, 3, 3))
        mean = tensor("mean", (*shape, 3)).requires_grad_()
        covariance = (root @ root.mT * 0.3 + torch.eye(3) * 0.1).requires_grad_()
        out = loss(n.TensorDict({"observation": {"mean": mean, "var": covariance}}, shape))
        sum(one.sum() for one in out.values()).backward()
        return seen(out), tuple(out.batch_size), mean.grad, covariance.grad, sorted(loss.state_dict())

    return call


for _case, _options in COST.items():
    cell("cost", _case, cost(_options))
for _shape in ((2, 4), ()):
    cell("cost", f"shape-{len(_shape)}", cost({"reduction": "none"}, _shape))
for _case, _keys in {"missing": {"loc": "l"}, "written": {"loss_cost": "loss_far"}, "unknown": {"zzz": "a"}}.items():
    cell("cost", f"keys-{_case}", cost({}, keys=_keys))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
