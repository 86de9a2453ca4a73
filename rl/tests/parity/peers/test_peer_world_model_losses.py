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

# --- DreamerV3 -------------------------------------------------------------------------------------
SAID = ("prior_logits", "posterior_logits", "reward", "reward_logits", "continue_pred", "reco_pixels")
MODEL_V3 = {
    "plain": {}, "weights": {"lambda_kl": 2.0, "lambda_reco": 0.5, "lambda_reward": 3.0},
    "continue": {"lambda_continue": 1.0}, "horizon": {"lambda_continue": 2.0, "continue_target_scale": 0.9},
    "separate": {"kl_mode": "separate", "lambda_kl": 3.0},
    "separate-mixed": {"kl_mode": "separate", "unimix": 0.1, "free_bits": 0.1, "lambda_dynamic": 2.0,
                       "lambda_representation": 3.0},
    "mixed": {"unimix": 0.1, "free_bits": 0.0}, "half": {"kl_alpha": 0.5, "free_bits": 0.1},
    "l1": {"reco_loss": "l1"}, "plain-pixels": {"reco_symlog": False}, "list": {"reco_symlog": [False]},
    "two-answers": {"reco_symlog": [True, False]}, "numbers": {"reward_two_hot": False},
    "average": {"global_average": True}, "attached": {"detach_output": False}, "bins": {"num_reward_bins": 101},
    "other-mode": {"kl_mode": "x"}, "huber": {"reco_loss": "smooth_l1"}, "unknown": {"nothing": 1},
}  # fmt: skip


def model_v3(options, shape=(2, 3), keys=None, change=None):
    def call(n):
        loss = n.losses.DreamerV3ModelLoss(dreamer.said(n, *SAID), **options)
        loss.set_keys(**(keys or {}))
        data = dreamer.seen(n, shape)
        if change is not None:
            change(data)
        return trained(loss, data)

    return call


def images(data):
    data["next", "pixels"] = (data["next", "pixels"].abs() * 100).to(torch.uint8)


def twice(data):
    data["next", "other"] = data["next", "pixels"] * 2
    data["said", "reward_logits"] = data["said", "reward_logits"] * 2


for _case, _options in MODEL_V3.items():
    cell("dreamer-v3-model", _case, model_v3(_options))
for _shape in ((4, 1), (2, 2, 3), (3,)):
    cell("dreamer-v3-model", f"shape-{len(_shape)}", model_v3({"lambda_continue": 1.0}, _shape))
cell("dreamer-v3-model", "images", model_v3({"reco_symlog": False}, change=images))
cell("dreamer-v3-model", "squashed-images", model_v3({}, change=images))
cell("dreamer-v3-model", "two-heads", model_v3(
    {"reco_symlog": [True, False]}, keys={"pixels": ["pixels", "other"], "reco_pixels": ["reco_pixels", "reco_pixels"]},
    change=twice))  # fmt: skip
cell("dreamer-v3-model", "done-alone", model_v3(
    {"lambda_continue": 1.0}, change=lambda data: data.exclude(("next", "terminated"), inplace=True)))  # fmt: skip
for _case, _options in {"plain": {}, "half": {"alpha": 0.5, "free_bits": 0.1}, "free": {"free_bits": 0.0}}.items():
    cell("dreamer-v3-model", f"balanced-{_case}", lambda n, o=_options: divergence(n.losses.categorical_kl_balanced, o))
for _case, _options in {"plain": {}, "mixed": {"unimix": 0.3}, "free": {"free_nats": 0.0, "unimix": 0.0}}.items():
    cell("dreamer-v3-model", f"terms-{_case}", lambda n, o=_options: divergence(n.losses.categorical_kl_terms, o))


def divergence(function, options):
    """Values and gradients of both sides."""
    sides = [(tensor(name, (4, 3, 5)) * 2).requires_grad_() for name in ("posterior", "prior")]
    found = function(*sides, **options)
    found = found if isinstance(found, tuple) else (found,)
    return [(one.detach(), torch.autograd.grad(one, sides, retain_graph=True, allow_unused=True)) for one in found]


ACTOR_V3 = {
    "plain": {}, "no-entropy": {"entropy_bonus": 0.0}, "entropy": {"entropy_bonus": 1.0},
    "all-alike": {"discount_loss": False}, "reinforce": {"use_reinforce": True},
    "reinforce-scaled": {"use_reinforce": True, "return_normalization_min_scale": 0.01},
    "scaled": {"return_normalization_min_scale": 0.01}, "as-it-is": {"return_normalization": False},
    "percentiles": {"return_normalization_quantiles": (0.2, 0.7)}, "at-once": {"return_normalization_rate": 0.5},
    "no-scale": {"return_normalization_min_scale": 0.0}, "upside-down": {"return_normalization_quantiles": (0.9, 0.1)},
    "gamma": {"gamma": 0.9}, "unknown": {"nothing": 1},
}  # fmt: skip


def actor_v3(options, estimator=ESTIMATORS["one-step"], shape=(5,), going_on=False, calls=1):
    def call(n):
        given = {"continuation_model": dreamer.goes_on(n)} if going_on else {}
        loss = n.losses.DreamerV3ActorLoss(
            dreamer.actor(n), dreamer.lifted_value(n), dreamer.env(n), imagination_horizon=3, **given, **options
        )
        loss.make_value_estimator(**estimator(n))
        for _ in range(calls - 1):
            with fixed_draws():
                loss(dreamer.latents(n, shape))
        found = trained(loss, dreamer.latents(n, shape))
        return found, loss.return_low, loss.return_high, loss.return_normalization_rate

    return call


for _case, _options in ACTOR_V3.items():
    cell("dreamer-v3-actor", _case, actor_v3(_options))
    cell("dreamer-v3-actor", f"{_case}-going-on", actor_v3(_options, ESTIMATORS["default"], going_on=True))
for _case, _estimator in ESTIMATORS.items():
    cell("dreamer-v3-actor", f"returns-{_case}", actor_v3({}, _estimator))
    if _case not in ("td1", "one-step", "gamma"):  # that have no lambda
        cell("dreamer-v3-actor", f"returns-{_case}-going-on", actor_v3({}, _estimator, going_on=True))
cell("dreamer-v3-actor", "thrice", actor_v3({"return_normalization_min_scale": 0.01}, calls=3))
cell("dreamer-v3-actor", "rows", actor_v3({}, shape=(2, 3)))

VALUE_V3 = {
    "plain": {}, "all-alike": {"discount_loss": False}, "gamma": {"gamma": 0.5}, "none": {"reduction": "none"},
    "sum": {"reduction": "sum"}, "slow": {"slow_critic_regularization": 1.0},
    "slow-none": {"slow_critic_regularization": 0.5, "reduction": "none"}, "other": {"value_loss": "x"},
    "two-hot": {"value_loss": "two_hot"}, "two-hot-slow": {"value_loss": "two_hot", "slow_critic_regularization": 0.5},
    "unknown": {"nothing": 1},
}  # fmt: skip


def value_v3(options, shape=(4, 5), change=None):
    def call(n):
        model = dreamer.two_hot_value(n) if options.get("value_loss") == "two_hot" else dreamer.value_model(n)
        loss = n.losses.DreamerV3ValueLoss(model, **options)
        behind(loss)
        data = dreamer.latents(n, shape).set("lambda_target", tensor("target", (*shape, 1)) * 3)
        if change is not None:
            change(data)
        return trained(loss, data), loss.gamma

    return call


def behind(loss):
    """Targets that differ from what is trained."""
    with torch.no_grad():
        for name, buffer in loss.named_buffers():
            if name.startswith("target_"):
                buffer.mul_(0.9)


def weighed(data):
    data["discount_weight"] = tensor("weight", (*data.shape, 1)).abs()


for _case, _options in VALUE_V3.items():
    cell("dreamer-v3-value", _case, value_v3(_options))
    cell("dreamer-v3-value", f"{_case}-weighed", value_v3(_options, change=weighed))
for _shape in ((8,), (2, 3, 4)):
    cell("dreamer-v3-value", f"shape-{len(_shape)}", value_v3({}, _shape))

REPLAY = {
    "plain": {}, "short": {"horizon": 10.0}, "to-the-end": {"lmbda": 1.0}, "half": {"lmbda": 0.5},
}  # fmt: skip


def replayed(options, call_options, shape=(2, 5)):
    def call(n):
        model = dreamer.two_hot_value(n) if options.get("value_loss") == "two_hot" else dreamer.value_model(n)
        loss = n.losses.DreamerV3ValueLoss(model, **options)
        behind(loss)
        data = dreamer.latents(n, shape).set("bootstrap", tensor("bootstrap", shape))
        data["state"].requires_grad_()
        done = tensor("done", (*shape, 1)) > 0.4
        following = {"reward": tensor("reward", (*shape, 1)), "done": done}
        following["terminated"] = done & (tensor("term", (*shape, 1)) > 0)
        data["next"] = n.TensorDict(following, shape)
        found = loss.replay_value_loss(data, **call_options)
        sum(one.sum() for one in found.values()).backward()
        return seen(found), data["state"].grad, [one.grad for _, one in sorted(loss.named_parameters())]

    return call


for _case, _options in REPLAY.items():
    cell("dreamer-v3-value", f"replay-{_case}", replayed({}, _options))
for _case, _options in VALUE_V3.items():
    if _case not in ("unknown", "other", "plain"):
        cell("dreamer-v3-value", f"replay-with-{_case}", replayed(_options, {}))

WHOLE = {
    "plain": {}, "no-replay": {"replay_value_loss_weight": 0.0}, "heavy": {"replay_value_loss_weight": 2.0},
    "short": {"continuation_horizon": 5.0}, "half": {"lmbda": 0.5}, "detached": {"detach_output": True},
}  # fmt: skip


def whole(options):
    def call(n):
        options_of_model = {"reward_two_hot": False, "detach_output": options.get("detach_output", False)}
        model = n.losses.DreamerV3ModelLoss(dreamer.inferring(n), **options_of_model)
        model.set_keys(pixels="observation")
        value = dreamer.lifted_value(n)
        actor = n.losses.DreamerV3ActorLoss(
            dreamer.actor(n), value, dreamer.env(n), imagination_horizon=3, continuation_model=dreamer.goes_on(n)
        )
        critic = n.losses.DreamerV3ValueLoss(value, actor_loss=actor, slow_critic_regularization=1.0)
        behind(critic)
        rest = {key: one for key, one in options.items() if key != "detach_output"}
        loss = n.losses.DreamerV3Loss(model, actor, critic, **rest)
        data = dreamer.steps(n, (2, 4)).update(dreamer.latents(n, (2, 4)))
        return trained(loss, data.set("is_init", torch.zeros(2, 4, 1, dtype=torch.bool)))

    return call


for _case, _options in WHOLE.items():
    cell("dreamer-v3", _case, whole(_options))

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
