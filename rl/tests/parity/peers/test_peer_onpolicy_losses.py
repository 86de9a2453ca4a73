"""Losses on a policy's own steps return what torchrl's do, with the same gradients, names of parameters and keys."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch
from torch import nn

from flambeau.core.testing.differential import Cell, Suite
from flambeau.core.testing.fill import fill_, tensor
from flambeau.core.testing.programs import fixed_draws

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

from onpolicy_subjects import batch, choices, heads, on_policy_names, raw, team, team_loss, trained  # isort: skip

SUITE = Suite(
    "on-policy-losses",
    ours="flambeau.rl",
    peer="torchrl",
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=Path(__file__).with_name("differences.toml"),
    rtol=1e-4,
    atol=1e-5,
)
KINDS = ("reinforce", "a2c", "ppo", "clip", "klpen", "mappo", "ippo")
PPO = ("ppo", "clip", "klpen", "mappo")


def cell(area, name, case, call):
    SUITE.add(Cell(f"{area}/{name}/{case}", area, lambda library, given: call(on_policy_names(library)), effects=False,
                   printed=False))  # fmt: skip


def made(n, kind, actor=None, critic=None, **options):
    return n.classes[kind](actor or n.actor(), critic or n.critic(), **options)


def stepping(kind, options=None, data=batch, change=lambda n, loss, steps: None, shape=()):
    def call(n):
        chosen = {name: value(n) if callable(value) else value for name, value in (options or {}).items()}
        loss, steps = made(n, kind, **chosen), data(n, *shape)
        change(n, loss, steps)
        return trained(n, loss, steps)

    return call


# --- options: each alone, with advantages in the batch and without --------------------------------
def norm(n):
    return n.networks.PercentileValueNorm(shape=1, rate=1.0, min_scale=1e-3)


COMMON = {
    "plain": {}, "l1": {"loss_critic_type": "l1"}, "l2": {"loss_critic_type": "l2"},
    "huber": {"loss_critic_type": "huber"},
    "none": {"reduction": "none"}, "sum": {"reduction": "sum"}, "median": {"reduction": "median"},
    "separate": {"separate_losses": True}, "stateful": {"functional": False}, "gamma": {"gamma": 0.9},
    "advantage-key": {"advantage_key": "a"}, "target-key": {"value_target_key": "a"}, "unknown": {"nothing": 1},
    "clip-value": {"clip_value": 0.1}, "clip-value-tensor": {"clip_value": torch.tensor(0.3)},
    "clip-value-two": {"clip_value": torch.tensor([0.1, 0.2])}, "clip-value-text": {"clip_value": "a"},
    "clip-value-true": {"clip_value": True}, "clip-value-none": {"clip_value": 0.1, "reduction": "none"},
    "stateful-separate": {"functional": False, "separate_losses": True},
}  # fmt: skip
ENTROPY = {
    "no-bonus": {"entropy_bonus": False}, "coefficient": {"entropy_coeff": 0.3},
    "no-coefficient": {"entropy_coeff": None},
    "coefficient-tensor": {"entropy_coeff": torch.tensor(0.2)}, "coefficient-text": {"entropy_coeff": "a"},
    "former-coefficient": {"entropy_coef": 0.1}, "former-critic": {"critic_coef": 0.1}, "critic": {"critic_coeff": 0.5},
    "no-critic-loss": {"critic_coeff": None}, "critic-zero": {"critic_coeff": 0.0},
    "advantage-norm": {"advantage_norm": norm},
    "tanh": {"actor": lambda n: n.actor("TanhNormal")}, "samples": {"actor": lambda n: n.actor("TanhNormal"),
    "samples_mc_entropy": 3},
}  # fmt: skip
OWN = {
    "reinforce": {"delayed": {"delay_value": True}, "delayed-stateful": {"delay_value": True, "functional": False}},
    **{kind: {
        "normalized": {"normalize_advantage": True}, "normalized-0": {"normalize_advantage": True,
        "normalize_advantage_exclude_dims": (0,)},
        "normalized-1": {"normalize_advantage": True, "normalize_advantage_exclude_dims": (1,)},
        "normalized-2": {"normalize_advantage": True, "normalize_advantage_exclude_dims": (-1,)},
        "normalized-all": {"normalize_advantage": True, "normalize_advantage_exclude_dims": (0, 1, 2)},
        "normalized-none": {"normalize_advantage": True, "normalize_advantage_exclude_dims": ()},
        "normalized-wrong": {"normalize_advantage": True, "normalize_advantage_exclude_dims": (5,)},
        "two-norms": {"normalize_advantage": True, "advantage_norm": norm}, "value-key": {"value_key": "a"},
        "delayed": {"delay_actor": True}, "delayed-stateful": {"delay_actor": True, "functional": False},
        "most": {"max_importance_ratio": 0.1}, "most-much": {"max_importance_ratio": 100.0},
        "most-delayed": {"max_importance_ratio": 0.1, "delay_actor": True},
        "most-0": {"max_importance_ratio": 0}, "device": {"device": "cpu"}, "heads": {"entropy_coeff": {"action": 0.2}},
        **({} if kind == "klpen" else {"no-variance": {"log_explained_variance": False}}),
    } for kind in PPO},
}  # fmt: skip
CLIPPED = {
    "narrow": {"clip_epsilon": 0.01}, "two": {"clip_epsilon": (0.1, 0.3)}, "wide": {"clip_epsilon": (0.99, 5.0)},
    "two-list": {"clip_epsilon": [0.3, 0.1]}, "two-value": {"clip_epsilon": (0.1, 0.3), "clip_value": True},
    "two-value-number": {"clip_epsilon": (0.1, 0.3), "clip_value": 0.2}, "value-false": {"clip_value": False},
    "tensor": {"clip_epsilon": torch.tensor(0.3)}, "one-number": {"clip_epsilon": (0.1,)},
    "negative": {"clip_epsilon": (-0.1, 0.1)},
    "too-low": {"clip_epsilon": (1.0, 0.1)}, "wide-delayed": {"clip_epsilon": 0.05, "delay_actor": True},
}  # fmt: skip
OWN["clip"] |= CLIPPED
OWN["klpen"] |= {
    "target": {"dtarg": 3.0}, "large-target": {"dtarg": 100.0}, "beta": {"beta": 0.3}, "growth": {"increment": 3.0},
    "fall": {"dtarg": 100.0, "decrement": 0.1}, "shrinks": {"increment": 0.5}, "grows": {"decrement": 1.5},
}  # fmt: skip
OWN["mappo"] |= {
    "norm": {"value_norm": lambda n: n.networks.PopArtValueNorm(shape=1)},
    "running": {"value_norm": lambda n: n.networks.RunningValueNorm(shape=1)},
    "norm-clip": {"value_norm": lambda n: n.networks.PopArtValueNorm(shape=1), "clip_value": 0.2},
    "plain-advantage": {"normalize_advantage": False},
}  # fmt: skip
for _kind in KINDS:
    _table = {**COMMON, **({} if _kind == "reinforce" else ENTROPY), **OWN.get(_kind, {})}
    for (_case, _options), (_what, _data) in product(_table.items(), {"there": batch, "estimated": raw}.items()):
        cell("options", _kind, f"{_case}/{_what}", stepping(_kind, _options, _data))


# --- data -----------------------------------------------------------------------------------------
def without(*keys):
    return lambda n, loss, data: data.exclude(*keys, inplace=True)


def putting(**entries):
    return lambda n, loss, data: [data.set(name, make(data)) for name, make in entries.items()]


def masks(*names):
    def change(n, loss, data):
        for name in names:
            mask = tensor(name, data.shape) > -0.3
            if name == "shifted_valid":
                data.set(name, mask)
            else:
                data.set("collector", n.TensorDict({"mask": mask}, data.shape))

    return change


CHANGES = {
    "gaps": lambda n, loss, data: data.set("shifted_valid", tensor("sv", data.shape) > -0.3),
    "masked": masks("collector"), "shifted": masks("shifted_valid"), "both-masks": masks("collector", "shifted_valid"),
    "no-mask": lambda n, loss, data: (masks("collector")(n, loss, data), setattr(loss, "loss_mask_key", None)),
    "named-mask": lambda n, loss, data: (data.set("m", tensor("m", data.shape) > 0), setattr(loss, "loss_mask_key",
    "m")),
    "without-terminated": without(("next", "terminated")), "without-action": without("action"),
    "without-observation": without("observation"), "without-score": without("action_log_prob"),
    "without-target": without("value_target"), "without-value": without("state_value"),
    "without-reward": without("advantage", ("next", "reward")), "without-ends": without("advantage", ("next",
    "done"), ("next", "terminated")),
    "without-advantage": without("advantage"), "without-parameters": without("loc"),
    "all-done": lambda n, loss, data: data["next", "done"].fill_(True),
    "all-terminated": lambda n, loss, data: (data["next", "done"].fill_(True), data["next", "terminated"].fill_(True)),
    "none-done": lambda n, loss, data: (data["next", "done"].fill_(False), data["next", "terminated"].fill_(False)),
    "truncated": lambda n, loss, data: data["next", "terminated"].fill_(False),
    "several-steps": putting(steps_to_next_obs=lambda td: torch.full((*td.shape, 1), 3)),
    "flat-advantage": putting(advantage=lambda td: td["advantage"].squeeze(-1)),
    "flat-target": putting(value_target=lambda td: td["value_target"].squeeze(-1)),
    "wide-score": putting(action_log_prob=lambda td: td["action_log_prob"].unsqueeze(-1)),
    "score-with-gradient": putting(action_log_prob=lambda td: td["action_log_prob"].clone().requires_grad_()),
    "action-with-gradient": putting(action=lambda td: td["action"].clone().requires_grad_()),
    "constant-target": putting(value_target=lambda td: torch.ones_like(td["value_target"])),
    "constant-advantage": putting(advantage=lambda td: torch.ones_like(td["advantage"])),
    "near": lambda n, loss, data: data.set("action_log_prob",
    n.actor().log_prob(data).detach() + 0.1 * tensor("near", data.shape)),
    "same": lambda n, loss, data: data.set("action_log_prob", n.actor().log_prob(data).detach()),
    "far": putting(action_log_prob=lambda td: td["action_log_prob"] - 7),
    "locked": lambda n, loss, data: data.lock_(), "no-grad": lambda n, loss, data: loss.requires_grad_(False),
    "evaluated": lambda n, loss, data: loss.eval(), "double": lambda n, loss, data: None,
}  # fmt: skip
for _kind, (_case, _change), (_what, _data) in product(
    KINDS[:-1], CHANGES.items(), {"there": batch, "estimated": raw}.items()
):
    if _what == "there" or _case not in ("without-advantage", "without-target", "without-value", "flat-advantage",
                                         "flat-target", "constant-target", "constant-advantage"):  # fmt: skip
        cell("data", _kind, f"{_case}/{_what}", stepping(_kind, {}, _data, _change))
SHAPES = {"rows": (2, 3), "one": (1,), "one-one": (1, 1), "seven": (7,), "three": (2, 3, 4)}
for _kind, (_case, _shape), _reduction in product(KINDS[:-1], SHAPES.items(), ("mean", "none", "sum")):
    cell("shapes", _kind, f"{_case}/{_reduction}", stepping(_kind, {"reduction": _reduction}, batch, shape=_shape))
    cell(
        "shapes",
        _kind,
        f"{_case}/{_reduction}/estimated",
        stepping(_kind, {"reduction": _reduction}, raw, shape=_shape),
    )


# --- networks -------------------------------------------------------------------------------------
def chosen(n):
    return batch(n, discrete="one-hot")


def numbered(n):
    return batch(n, discrete="categorical")


def sharing(kind, **options):
    def call(n):
        return trained(n, n.classes[kind](*n.shared(), **options), batch(n))

    return call


def several(kind, named=True, **options):
    def call(n):
        loss = n.classes[kind](heads(n), n.critic(), **options)
        if named:
            loss.set_keys(action=["a", "b"], sample_log_prob=["a_log_prob", "b_log_prob"])
        return trained(n, loss, choices(n))

    return call


def two_values(kind, **options):
    def call(n):
        loss, data = n.classes[kind](n.actor(), n.critic(2), **options), batch(n)
        for name in ("advantage", "value_target", "state_value"):
            data.set(name, tensor(name, (*data.shape, 2)))
        return trained(n, loss, data)

    return call


for _kind in KINDS[:-1]:
    cell(
        "networks", _kind, "choices", lambda n, k=_kind: trained(n, made(n, k, n.chooser()), _with_logits(n, chosen(n)))
    )
    cell("networks", _kind, "numbers", lambda n, k=_kind: trained(
        n, made(n, k, n.chooser("Ordinal")), _with_logits(n, numbered(n))))  # fmt: skip
    cell("networks", _kind, "renamed", lambda n, k=_kind: trained(
        n, made(n, k, n.actor(out_keys=["act"])), batch(n).rename_key_("action",
            "act").rename_key_("action_log_prob", "act_log_prob")))  # fmt: skip
    cell("networks", _kind, "no-score", lambda n, k=_kind: trained(n, made(n, k, n.actor(log_prob=False)), batch(n)))
    cell("networks", _kind, "deterministic", lambda n, k=_kind: trained(n, made(n, k, n.deterministic()), batch(n)))
    cell("networks", _kind, "plain-actor", lambda n, k=_kind: trained(
        n, made(n, k, n.Module(fill_(nn.Linear(4, 3)), ["observation"], ["action"])), batch(n)))  # fmt: skip
    cell("networks", _kind, "other-critic", lambda n, k=_kind: trained(
        n, made(n, k, None, n.Module(fill_(nn.Linear(4, 1)), ["observation"], ["worth"])), batch(n)))  # fmt: skip
    cell("networks", _kind, "no-critic", lambda n, k=_kind: trained(n, n.classes[k](n.actor(), None), batch(n)))
    cell("networks", _kind, "no-critic-estimated", lambda n, k=_kind: trained(n, n.classes[k](n.actor(), None), raw(n)))
    cell("networks", _kind, "no-actor", lambda n, k=_kind: n.classes[k](None, n.critic()))
    cell("networks", _kind, "former-names", lambda n, k=_kind: trained(
        n, n.classes[k](**({"actor_network": None} if k == "reinforce" else {}), actor=n.actor(), critic=n.critic()),
            batch(n)))  # fmt: skip
    for _case, _options in {"shared": {}, "shared-apart": {"separate_losses": True},
        "shared-stateful": {"functional": False},
                            "shared-stateful-apart": {"functional": False,
                            "separate_losses": True}}.items():  # fmt: skip
        cell("networks", _kind, _case, sharing(_kind, **_options))
    for _reduction in ("mean", "none"):
        cell("networks", _kind, f"two-values/{_reduction}", two_values(_kind, reduction=_reduction))
        for _named in (True, False):
            cell("heads", _kind, f"{_reduction}/{_named}", several(_kind, _named, reduction=_reduction))
for _kind, _coefficients in product(PPO, ({"a_entropy": 0.1, "b_entropy": 0.3}, {"a_entropy": 0.1}, {"a": 0.1,
    "b": 0.3},
                                          {"a_entropy": 0.1, "b_entropy": 0.2, "c_entropy": 1.0})):  # fmt: skip
    cell("heads", _kind, f"{sorted(_coefficients)}", several(_kind, entropy_coeff=_coefficients))
    cell("heads", _kind, f"{sorted(_coefficients)}/none", several(_kind, entropy_coeff=_coefficients, reduction="none"))


def _with_logits(n, data):
    return data.set("logits", tensor("former logits", (*data.shape, 3)))


# --- teams ----------------------------------------------------------------------------------------
for _kind, _each, _case in product(("mappo", "ippo"), (False, True), ("mean", "none", "sum")):
    cell("teams", _kind, f"{_case}/{_each}", lambda n, k=_kind, e=_each, r=_case: trained(
        n, team_loss(n, k, reduction=r), team(n, each_reward=e)))  # fmt: skip
for _name, _make in {"pop-art": lambda n: n.networks.PopArtValueNorm(shape=1),
    "running": lambda n: n.networks.RunningValueNorm(shape=1),
                     "percentile": norm}.items():  # fmt: skip
    cell("teams", "mappo", _name, lambda n, m=_make: trained(n, team_loss(n, "mappo", value_norm=m(n)), team(n)))
    cell("teams", "mappo", f"{_name}-twice", lambda n, m=_make: [
        trained(n, loss, team(n)) for loss in [team_loss(n, "mappo", value_norm=m(n))] for _ in range(2)])  # fmt: skip
    cell("teams", "mappo", f"{_name}-evaluated", lambda n, m=_make: trained(
        n, team_loss(n, "mappo", value_norm=m(n)).eval(), team(n)))  # fmt: skip


# --- estimators of values -------------------------------------------------------------------------
ESTIMATORS = {
    "td0": lambda n: {"value_type": n.losses.ValueEstimators.TD0, "gamma": 0.8},
    "td1": lambda n: {"value_type": n.losses.ValueEstimators.TD1, "gamma": 0.8},
    "td-lambda": lambda n: {"value_type": n.losses.ValueEstimators.TDLambda, "gamma": 0.8, "lmbda": 0.7},
    "gae": lambda n: {"value_type": n.losses.ValueEstimators.GAE, "gamma": 0.8, "lmbda": 0.7},
    "magae": lambda n: {"value_type": n.losses.ValueEstimators.MAGAE, "gamma": 0.8},
    "vtrace": lambda n: {"value_type": n.losses.ValueEstimators.VTrace, "gamma": 0.8},
    "default": lambda n: {}, "gamma": lambda n: {"gamma": 0.5}, "string": lambda n: {"value_type": "td1"},
    "unknown": lambda n: {"value_type": "nothing"}, "option": lambda n: {"nothing": 1},
    "class": lambda n: {"value_type": n.values.TD1Estimator, "gamma": 0.9},
    "average": lambda n: {"value_type": n.losses.ValueEstimators.GAE, "average_gae": True},
    "no-vmap": lambda n: {"deactivate_vmap": True}, "shifted": lambda n: {"shifted": True},
    "auto-reset": lambda n: {"value_type": n.losses.ValueEstimators.GAE, "auto_reset_env": True},
}  # fmt: skip
for _kind, (_case, _options), _functional in product(KINDS[:-1], ESTIMATORS.items(), (True, False)):
    cell("estimators", _kind, f"{_case}/{_functional}", stepping(
        _kind, {"functional": _functional}, raw, lambda n, loss, data,
            o=_options: loss.make_value_estimator(**o(n))))  # fmt: skip


# --- keys -----------------------------------------------------------------------------------------
def renamed(kind, data=batch, **keys):
    """A step with other keys of what every loss reads and writes."""

    def call(n):
        loss, steps = made(n, kind), data(n)
        loss.set_keys(**keys)
        for name, key in keys.items():
            if name in ("reward", "done", "terminated") and isinstance(key, str | tuple):
                steps["next"].rename_key_(name, key)
            else:
                former = {"value": "state_value", "sample_log_prob": "action_log_prob"}.get(name, name)
                if former in set(steps.keys()) and isinstance(key, str | tuple):
                    steps.rename_key_(former, key)
        keys_now = sorted(map(str, loss.in_keys)), sorted(map(str, loss.out_keys))
        return keys_now, sorted(vars(loss.tensor_keys).items()), trained(n, loss, steps)

    return call


KEYS = {
    "advantage": {"advantage": "gain"}, "target": {"value_target": "goal"}, "action": {"action": "act"},
    "score": {"sample_log_prob": "score"}, "reward": {"reward": "gain"}, "ends": {"done": "over", "terminated": "dead"},
    "nested": {"advantage": ("agent", "gain"), "reward": ("agent", "reward")}, "unknown": {"zzz": "a"},
    "none": {"advantage": None},
}  # fmt: skip
for _kind, (_case, _keys), (_what, _data) in product(
    KINDS[:-1], KEYS.items(), {"there": batch, "estimated": raw}.items()
):
    cell("keys", _kind, f"{_case}/{_what}", renamed(_kind, _data, **_keys))


# --- what a loss shows of itself ------------------------------------------------------------------
def dispatched(n, loss, data):
    given = {
        "_".join(key) if isinstance(key, tuple) else key: data[key] for key in loss.in_keys if key in data.keys(True)
    }
    with fixed_draws():
        return [each.detach() for each in loss(**given)]


def selected(n, loss, data):
    loss.select_out_keys(*loss.out_keys[:2])
    with fixed_draws():
        return loss.out_keys, sorted(map(str, loss(data).keys()))


def twice(n, loss, data):
    return [trained(n, loss, data.clone()) for _ in range(2)]


def reset(n, loss, data):
    trained(n, loss, data)
    return loss.reset(), {name: each.clone() for name, each in loss.named_buffers() if name == "beta"}


def called(method):
    def view(n, loss, data):
        found = getattr(loss, method)(data)
        found = found if isinstance(found, tuple) else (found,)
        return [each.detach() if isinstance(each, torch.Tensor) else each for each in found]

    return view


VIEWS = {
    "state": lambda n, loss, data: {key: (tuple(one.shape), one.dtype) for key, one in loss.state_dict().items()},
    "parameters": lambda n, loss, data: [(key, tuple(one.shape)) for key, one in loss.named_parameters()],
    "in-keys": lambda n, loss, data: sorted(map(str, loss.in_keys)), "out-keys": lambda n, loss, data: loss.out_keys,
    "tensor-keys": lambda n, loss, data: sorted(vars(loss.tensor_keys).items()), "functional": lambda n, loss,
    data: loss.functional,
    "dispatched": dispatched, "selected": selected, "twice": twice, "reset": reset, "critic": called("loss_critic"),
    "randomness": lambda n, loss, data: loss.vmap_randomness, "estimator": lambda n, loss,
    data: type(loss.value_estimator).__name__,
    "schedulable": lambda n, loss, data: sorted(loss._all_schedulable_buffers),
    "loaded": lambda n, loss, data: str(loss.load_state_dict(loss.state_dict())),
    "estimator-keys": lambda n, loss, data: sorted(vars(loss.value_estimator.tensor_keys).items()),
    "options": lambda n, loss, data: [
        str(getattr(loss, name, None)) for name in ("samples_mc_entropy", "loss_critic_type",
            "delay_actor",
        "normalize_advantage", "normalize_advantage_exclude_dims", "log_explained_variance", "max_importance_ratio",
        "entropy_coeff", "critic_coeff", "clip_value", "clip_epsilon", "dtarg", "increment", "decrement", "beta",
        "reduction")
    ],
}  # fmt: skip
VARIANTS = {"": {}, "-stateful": {"functional": False}, "-clipped": {"clip_value": 0.1}}
for _kind, (_variant, _options), (_case, _view) in product(KINDS[:-1], VARIANTS.items(), VIEWS.items()):
    cell("views", f"{_kind}{_variant}", _case, lambda n, k=_kind, o=_options, v=_view: v(n, made(n, k, **o), batch(n)))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
