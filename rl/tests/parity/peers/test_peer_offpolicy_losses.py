"""Off-policy losses return what torchrl's do, with the same gradients, names of parameters and keys."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
import torch

from flambeau.core.testing.differential import Cell, Suite
from flambeau.core.testing.fill import tensor
from flambeau.core.testing.programs import fixed_draws

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

from offpolicy_subjects import (
    ACT,
    LOSSES,
    batch,
    bounded,
    cat_actor,
    det_actor,
    gauss_actor,
    names,
    q,
    qv,
    refilled,
    trained,
    v,
    values_of_actions,
)  # fmt: skip  # isort: skip

SUITE = Suite(
    "offpolicy-losses",
    ours="flambeau.rl",
    peer="torchrl",
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=Path(__file__).with_name("differences.toml"),
    rtol=1e-4,
    atol=1e-5,
)
ENTROPIC = ("SACLoss", "SACLoss-v1", "DiscreteSACLoss", "CrossQLoss", "REDQLoss", "REDQLoss_deprecated", "CQLLoss",
            "DoubleREDQLoss_deprecated", "TQCLoss")  # fmt: skip
ALIKE = [name for name in LOSSES if name != "TQCLoss"]


def cell(area, name, case, call):
    SUITE.add(Cell(f"{area}/{name}/{case}", area, lambda library, given: call(names(library)), effects=False,
                   printed=False))  # fmt: skip


def made(n, name, **options):
    return refilled(LOSSES[name][0](n, **options))


def steps(n, name, shape=(6,)):
    return batch(n, shape, LOSSES[name][1])


def stepping(name, options, shape=(6,), change=lambda n, loss, data: None):
    def call(n):
        loss, data = made(n, name, **{k: o(n) if callable(o) else o for k, o in options.items()}), steps(n, name, shape)
        change(n, loss, data)
        return trained(loss, data)

    return call


# --- options: each alone ---------------------------------------------------------------------------
COMMON = {
    "plain": {}, "l1": {"loss_function": "l1"}, "l2": {"loss_function": "l2"}, "smooth": {"loss_function": "smooth_l1"},
    "huber": {"loss_function": "huber"}, "none": {"reduction": "none"}, "sum": {"reduction": "sum"},
    "no-reduction": {"reduction": "median"}, "separate": {"separate_losses": True}, "gamma": {"gamma": 0.9},
    "priority-key": {"priority_key": "p"}, "loop": {"deactivate_vmap": True}, "unknown": {"nothing": 1},
    "delay-actor": {"delay_actor": True}, "no-delay-actor": {"delay_actor": False},
    "delay-value": {"delay_value": True}, "no-delay-value": {"delay_value": False},
    "delay-qvalue": {"delay_qvalue": True}, "no-delay-qvalue": {"delay_qvalue": False},
    "one-net": {"num_qvalue_nets": 1}, "three-nets": {"num_qvalue_nets": 3},
    "weights": {"use_prioritized_weights": True}, "no-weights": {"use_prioritized_weights": False},
    "exclude": {"reduction": "none", "scalar_output_mode": "exclude"},
    "non-tensor": {"reduction": "none", "scalar_output_mode": "non_tensor"},
    "scalar-mean": {"scalar_output_mode": "exclude"}, "skip-done": {"skip_done_states": True},
}  # fmt: skip
ENTROPY = {
    "alpha": {"alpha_init": 0.5}, "fixed-alpha": {"fixed_alpha": True, "alpha_init": 0.3},
    "least-alpha": {"alpha_init": 0.3, "min_alpha": 0.2}, "most-alpha": {"alpha_init": 2.0, "max_alpha": 3.0},
    "few-alpha": {"alpha_init": 0.1, "min_alpha": 0.2}, "many-alpha": {"alpha_init": 5.0, "max_alpha": 3.0},
    "target": {"target_entropy": -1.5}, "spec": {"action_spec": bounded},
    "target-other": {"target_entropy": "manual"}, "target-tensor": {"target_entropy": torch.tensor(-2.0)},
}  # fmt: skip
OWN = {
    "TD3Loss": {
        "quiet": {"policy_noise": 0.0}, "noise": {"policy_noise": 0.9, "noise_clip": 0.1},
        "narrow": {"bounds": (-0.1, 0.2)},
        "spec": {"bounds": None, "action_spec": bounded}, "both": {"action_spec": bounded}, "neither": {"bounds": None},
        "tensors": {"bounds": (-torch.ones(ACT), torch.ones(ACT))}, "short": {"bounds": (1,)},
    },
    "TD3BCLoss": {
        "alpha": {"alpha": 0.5}, "quiet": {"policy_noise": 0.0}, "spec": {"bounds": None, "action_spec": bounded},
        "neither": {"bounds": None}, "both": {"action_spec": bounded},
    },
    "DiscreteSACLoss": {
        "weight": {"target_entropy_weight": 0.5}, "no-space": {"action_space": None},
        "no-number": {"num_actions": None},
        "spec": {"action_space": lambda n: n.data.OneHot(ACT), "num_actions": None},
        "other-space": {"action_space": "wonderful"},
    },
    "REDQLoss": {"sub": {"num_qvalue_nets": 3, "sub_sample_len": 1}, "too-many": {"sub_sample_len": 4},
                 "none-sub": {"sub_sample_len": 0}, "ten": {"num_qvalue_nets": 10, "sub_sample_len": 10}},
    "IQLLoss": {"temperature": {"temperature": 3.0}, "expectile": {"expectile": 0.8}, "hot": {"temperature": 100.0}},
    "DiscreteIQLLoss": {"temperature": {"temperature": 3.0}, "expectile": {"expectile": 0.8},
                        "categorical": {"action_space": "categorical"}, "no-space": {"action_space": None}},
    "CQLLoss": {
        "lagrange": {"with_lagrange": True}, "thresh": {"with_lagrange": True, "lagrange_thresh": 1.0},
        "max": {"max_q_backup": True}, "stochastic": {"deterministic_backup": False},
        "temperature": {"temperature": 0.5},
        "weight": {"min_q_weight": 3.0}, "ten": {"num_random": 10}, "no-spec": {"action_spec": None},
        "lagrange-none": {"with_lagrange": True, "lagrange_thresh": 1.0, "reduction": "none"},
        "wide": {"action_spec": lambda n: n.data.Bounded(-2, 2, (ACT,))},
        "max-stochastic": {"max_q_backup": True, "deterministic_backup": False},
    },
    "DiscreteCQLLoss": {"no-space": {"action_space": None}, "spec": {"action_space": lambda n: n.data.OneHot(ACT)}},
    "TQCLoss": {"drop-none": {"top_quantiles_to_drop_per_net": 0}, "drop-all": {"top_quantiles_to_drop_per_net": 9}},
}  # fmt: skip
for _name in LOSSES:
    _table = {**COMMON, **(ENTROPY if _name in ENTROPIC else {}), **OWN.get(_name, {})}
    for _case, _options in _table.items():
        cell("options", _name, _case, stepping(_name, _options))

# --- data ------------------------------------------------------------------------------------------
CHANGES = {
    "weighted": lambda n, loss, data: data.set("priority_weight", tensor("w", data.shape).abs() + 0.1),
    "weighted-wide": lambda n, loss, data: data.set("priority_weight", tensor("w", (*data.shape, 1)).abs() + 0.1),
    "no-terminated": lambda n, loss, data: data.exclude(("next", "terminated"), inplace=True),
    "several-steps": lambda n, loss, data: data.set("steps_to_next_obs", torch.full((*data.shape, 1), 3)),
    "all-done": lambda n, loss, data: data["next", "done"].fill_(True),
    "all-terminated": lambda n, loss, data: (data["next", "done"].fill_(True), data["next", "terminated"].fill_(True)),
    "no-scores": lambda n, loss, data: data.exclude("action_log_prob", inplace=True),
    "next-action": lambda n, loss, data: data.set(("next", "action"), data["action"].clone()),
    "locked": lambda n, loss, data: data.lock_(),
    "masked": lambda n, loss, data: data.set(("collector", "mask"), tensor("mask", data.shape) > -0.4),
    "masked-wide": lambda n, loss, data: data.set("shifted_valid", tensor("mask", (*data.shape, 1)) > -0.4),
    "no-grad": lambda n, loss, data: loss.requires_grad_(False),
    **{f"without-{'-'.join(key)}": lambda n, loss, data, key=key: data.exclude(key, inplace=True)
       for key in (("observation",), ("action",), ("next", "observation"), ("next", "reward"), ("next", "done"))},
}  # fmt: skip
for _name in LOSSES:
    for _case, _change in CHANGES.items():
        cell("data", _name, _case, stepping(_name, {}, change=_change))
    for _case in ("masked", "masked-wide"):
        cell("data", _name, f"{_case}-none", stepping(_name, {"reduction": "none"}, change=CHANGES[_case]))
        cell("data", _name, f"{_case}-rows", stepping(_name, {"reduction": "sum"}, (2, 3), change=CHANGES[_case]))
    for _case, _shape in {"rows": (2, 3), "one": (1,), "three": (2, 1, 3), "two": (2,), "none": ()}.items():
        cell("shapes", _name, _case, stepping(_name, {}, _shape))
        cell("shapes", _name, f"{_case}-none", stepping(_name, {"reduction": "none"}, _shape))


def heavier(n, loss, data):
    loss.log_alpha_prime.data.fill_(0.7)


cell("data", "CQLLoss", "multiplier", stepping("CQLLoss", {"with_lagrange": True}, change=heavier))

# --- estimators of values ------------------------------------------------------------------------------
ESTIMATORS = {
    "default": lambda n: {}, "td0": lambda n: {"value_type": n.losses.ValueEstimators.TD0, "gamma": 0.8},
    "td1": lambda n: {"value_type": n.losses.ValueEstimators.TD1, "gamma": 0.8},
    "td-lambda": lambda n: {"value_type": n.losses.ValueEstimators.TDLambda, "gamma": 0.8, "lmbda": 0.7},
    "gae": lambda n: {"value_type": n.losses.ValueEstimators.GAE},
    "vtrace": lambda n: {"value_type": n.losses.ValueEstimators.VTrace},
    "gamma": lambda n: {"gamma": 0.5}, "string": lambda n: {"value_type": "td1"},
    "unknown": lambda n: {"value_type": "nothing"}, "class": lambda n: {"value_type": n.losses.value.TD1Estimator},
    "option": lambda n: {"nothing": 1},
}  # fmt: skip
for _name in LOSSES:
    for _case, _options in ESTIMATORS.items():
        cell("estimators", _name, _case, stepping(
            _name, {}, (2, 6), lambda n, loss, data, o=_options: loss.make_value_estimator(**o(n))))  # fmt: skip


# --- keys ----------------------------------------------------------------------------------------------
def renamed(n, name, **keys):
    """A step of training with other keys of what every loss reads and writes."""
    loss, data = made(n, name), steps(n, name)
    loss.set_keys(**keys)
    for key, other in keys.items():
        if key in ("reward", "done", "terminated"):
            data["next"].rename_key_(key, other)
    before = sorted(map(str, loss.in_keys)), sorted(map(str, loss.out_keys))
    return before, trained(loss, data)


KEYS = {
    "reward": {"reward": "gain"}, "ends": {"done": "over", "terminated": "dead"}, "priority": {"priority": "urgency"},
    "unknown": {"zzz": "a"}, "no-key": {"reward": 1}, "nested": {"reward": ("agent", "reward")},
    "nested-priority": {"priority": ("agent", "priority")}, "weight": {"priority_weight": "weight"},
}  # fmt: skip
for _name in LOSSES:
    for _case, _keys in KEYS.items():
        cell("keys", _name, _case, lambda n, name=_name, keys=_keys: renamed(n, name, **keys))


# --- what a loss shows of itself -------------------------------------------------------------------------
def learned(loss):
    return {
        "state": {key: (tuple(one.shape), one.dtype) for key, one in loss.state_dict().items()},
        "parameters": [(key, tuple(one.shape)) for key, one in loss.named_parameters()],
        "buffers": sorted(key for key, _ in loss.named_buffers()),
    }


def dispatched(n, loss, data):
    """The same by arguments of names."""
    given = {
        "_".join(key) if isinstance(key, tuple) else key: data[key] for key in loss.in_keys if key in data.keys(True)
    }
    with fixed_draws():
        found = loss(**given)
    return [one.detach() for one in (found if isinstance(found, tuple) else (found,))]


def selected(n, loss, data):
    loss.select_out_keys(loss.out_keys[0])
    with fixed_draws():
        return loss.out_keys, sorted(map(str, loss(data).keys()))


def updated(n, loss, data):
    """After a step of an optimizer and one of the targets."""
    if not any(name.startswith("target_") for name, _ in loss.named_buffers()):
        return "no targets"
    target = n.losses.SoftUpdate(loss, eps=0.9)
    trained(loss, data)
    torch.optim.SGD(loss.parameters(), 0.1).step()
    target.step()
    return {name: one.detach().clone() for name, one in sorted(loss.named_buffers()) if name.startswith("target_")}


def wide(n, loss, data):
    loss = loss.double()
    return trained(loss, data.apply(lambda one: one.double() if one.is_floating_point() else one))


def called(method, *arguments):
    def view(n, loss, data):
        with fixed_draws():
            found = getattr(loss, method)(*(argument(n, data) for argument in arguments))
        found = found if isinstance(found, tuple) else (found,)
        return [
            sorted((str(k), x.detach()) for k, x in one.items() if isinstance(x, torch.Tensor)) if hasattr(one, "items")
            else one.detach() for one in found
        ]  # fmt: skip

    return view


def attribute(name):
    def view(n, loss, data):
        found = getattr(loss, name)
        return found.detach() if isinstance(found, torch.Tensor) else str(found)

    return view


VIEWS = {
    "state": lambda n, loss, data: learned(loss),
    "keys": lambda n, loss, data: (sorted(map(str, loss.in_keys)), sorted(map(str, loss.out_keys))),
    "order": lambda n, loss, data: loss.out_keys,
    "tensor-keys": lambda n, loss, data: sorted(vars(loss.tensor_keys).items(), key=str),
    "default-keys": lambda n, loss, data: sorted(vars(loss.default_keys()).items(), key=str),
    "left": lambda n, loss, data: (loss(data), sorted(map(str, data.keys(True, True))))[1],
    "dispatched": dispatched, "selected": selected, "updated": updated, "double": wide,
    "copied": lambda n, loss, data: trained(deepcopy(loss), data),
    "loaded": lambda n, loss, data: str(loss.load_state_dict(loss.state_dict())),
    "trained-twice": lambda n, loss, data: (trained(loss, data.clone()), trained(loss, data.clone())),
    "evaluated": lambda n, loss, data: trained(loss.eval(), data),
    "randomness": lambda n, loss, data: loss.vmap_randomness,
    "functional": attribute("functional"), "target_entropy": attribute("target_entropy"), "alpha": attribute("alpha"),
    "delay_actor": attribute("delay_actor"), "delay_qvalue": attribute("delay_qvalue"),
    "delay_value": attribute("delay_value"), "loss_function": attribute("loss_function"),
    "num_qvalue_nets": attribute("num_qvalue_nets"), "reduction": attribute("reduction"),
    "use_prioritized_weights": attribute("use_prioritized_weights"),
    "default_value_estimator": attribute("default_value_estimator"),
    "target_entropy_buffer": attribute("target_entropy_buffer"), "device": attribute("device"),
    "scalar_output_mode": attribute("scalar_output_mode"),
    "log_alpha": attribute("log_alpha"), "max_action": attribute("max_action"), "min_action": attribute("min_action"),
    **{method: called(method, lambda n, data: data) for method in (
        "actor_loss", "loss_actor", "value_loss", "loss_value", "qvalue_loss", "qvalue_v1_loss", "qvalue_v2_loss",
        "actor_bc_loss", "q_loss", "cql_loss", "compute_target")},
    "alpha_loss": called("alpha_loss", lambda n, data: tensor("lp", data.shape)),
}  # fmt: skip
for _name in LOSSES:
    for _case, _view in VIEWS.items():
        if _name in ("SACLoss", "TQCLoss") and _case in ("value_loss", "qvalue_v1_loss"):  # of the first version
            continue
        cell("views", _name, _case,
             lambda n, name=_name, view=_view: view(n, made(n, name), steps(n, name)))  # fmt: skip


# --- parts: other networks ---------------------------------------------------------------------------------
def nested_keys(n):
    """Observations and actions below "agent"."""
    obs, act = ("agent", "observation"), ("agent", "action")
    data = batch(n, (6,))
    for one in (data, data["next"]):
        one["agent"] = n.TensorDict({"observation": one.pop("observation")}, one.shape)
    data["agent", "action"] = data.pop("action")
    return obs, act, data


def nested(name):
    def call(n):
        obs, act, data = nested_keys(n)
        actor = (det_actor if name.startswith(("DDPG", "TD3")) else gauss_actor)(n, act, obs)
        options = {"bounds": (-1, 1)} if name.startswith("TD3") else {}
        loss = refilled(getattr(n.losses, name)(actor, q(n, 1, act, obs, out_keys=["state_action_value"]), **options))
        if name != "DDPGLoss":
            loss.set_keys(action=act)
        return sorted(map(str, loss.in_keys)), trained(loss, data)

    return call


def of_list(name):
    def call(n):
        actor = (det_actor if name.startswith(("DDPG", "TD3")) else gauss_actor)(n)
        options = {"bounds": (-1, 1)} if name.startswith("TD3") else {}
        if name == "REDQLoss":
            options |= {"num_qvalue_nets": 2, "sub_sample_len": 2}
        nets = [q(n), q(n)]
        args = (v(n),) if name == "IQLLoss" else ()
        return learned(getattr(n.losses, name)(actor, nets, *args, **options)), trained(
            refilled(getattr(n.losses, name)(actor, nets, *args, **options)), batch(n, (6,))
        )

    return call


def shared(name):
    """An actor and a critic that have a network in common."""

    def call(n):
        from flambeau.core.testing.fill import fill_

        common = n.nn.TensorDictModule(fill_(torch.nn.Linear(4, 5)), ["observation"], ["hidden"])
        head = torch.nn.Sequential(torch.nn.Linear(5, ACT), torch.nn.Tanh())
        if name in ("DDPGLoss", "TD3Loss"):
            head = n.nn.TensorDictModule(fill_(head), ["hidden"], ["action"])
            actor = n.nn.TensorDictSequential(common, head)
        else:
            head = torch.nn.Sequential(torch.nn.Linear(5, 2 * ACT), n.nn.NormalParamExtractor())
            head = n.nn.TensorDictModule(fill_(head), ["hidden"], ["loc", "scale"])
            dist = n.nn.ProbabilisticTensorDictModule(
                ["loc", "scale"], ["action"], distribution_class=n.modules.TanhNormal, return_log_prob=True,
                default_interaction_type=n.nn.InteractionType.RANDOM,
            )  # fmt: skip
            actor = n.nn.ProbabilisticTensorDictSequential(common, head, dist)

        class Both(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.l = torch.nn.Linear(5 + ACT, 1)

            def forward(self, hidden, action):
                return self.l(torch.cat([hidden, action], -1))

        critic = n.nn.TensorDictSequential(common, n.modules.ValueOperator(fill_(Both()), in_keys=["hidden", "action"]))
        options = {"bounds": (-1, 1)} if name == "TD3Loss" else {}
        options |= {} if name in ("CQLLoss", "REDQLoss") else {"separate_losses": True}
        options |= {"action_spec": bounded(n)} if name == "CQLLoss" else {}
        return trained(refilled(getattr(n.losses, name)(actor, critic, **options)), batch(n, (6,)))

    return call


for _name in ("DDPGLoss", "TD3Loss", "TD3BCLoss", "SACLoss", "CrossQLoss", "CQLLoss"):
    cell("parts", _name, "nested-keys", nested(_name))
for _name in ("TD3Loss", "TD3BCLoss", "SACLoss", "CrossQLoss", "REDQLoss", "IQLLoss"):
    cell("parts", _name, "list-of-critics", of_list(_name))
for _name in ("DDPGLoss", "TD3Loss", "SACLoss", "REDQLoss", "CQLLoss"):
    cell("parts", _name, "shared", shared(_name))


def categorical(name):
    """Actions as numbers instead of one-hot vectors."""

    def call(n):
        if name == "DiscreteCQLLoss":
            loss = n.losses.DiscreteCQLLoss(qv(n, one_hot=False), action_space="categorical")
        elif name == "DiscreteSACLoss":
            loss = n.losses.DiscreteSACLoss(
                cat_actor(n, one_hot=False), values_of_actions(n), action_space="categorical", num_actions=ACT
            )
        else:
            loss = n.losses.DiscreteIQLLoss(
                cat_actor(n, one_hot=False),
                values_of_actions(n, "state_action_value"),
                v(n),
                action_space="categorical",
            )
        return trained(refilled(loss), batch(n, (6,), "categorical"))

    return call


for _name in ("DiscreteCQLLoss", "DiscreteSACLoss", "DiscreteIQLLoss"):
    cell("parts", _name, "categorical", categorical(_name))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
