"""Losses that imitate, tell apart or explore return what torchrl's do, with the same gradients and names."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from flambeau.core.testing.differential import Cell, Suite
from flambeau.core.testing.fill import tensor
from flambeau.core.testing.programs import fixed_draws

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

from imitation_subjects import LOSSES, trained  # isort: skip
from offpolicy_subjects import names  # isort: skip

SUITE = Suite(
    "imitation-losses",
    ours="flambeau.rl",
    peer="torchrl",
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=Path(__file__).with_name("differences.toml"),
    rtol=1e-4,
    atol=1e-5,
)


def cell(area, name, case, call):
    SUITE.add(Cell(f"{area}/{name}/{case}", area, lambda library, given: call(names(library)), effects=False,
                   printed=False))  # fmt: skip


def stepping(name, options, shape=(4,), keys=None, change=None):
    def call(n):
        build, batch = LOSSES[name]
        loss, data = build(n, **{k: o(n) if k == "obs_rms" else o for k, o in options.items()}), batch(n, shape)
        if keys:
            loss.set_keys(**keys)
        if change is not None:
            change(n, loss, data)
        with fixed_draws():
            read = None if name == "RNDLoss" else sorted(map(str, loss.in_keys))  # torchrl's does not say
            return read, sorted(map(str, loss.out_keys)), trained(loss, data)

    return call


def cubed(one, other):
    return (one - other).abs() ** 3


def statistics(n):
    """Running statistics, as `RNDTransform` keeps."""
    from types import SimpleNamespace

    mean, var = tensor("mean", (4,)), tensor("var", (4,)).abs() + 0.1
    return SimpleNamespace(normalize=lambda x: (x - mean) / (var + 1e-8).sqrt())


# --- options: each alone, for those that take it or not ------------------------------------------------
OPTIONS = {
    "plain": {}, "none": {"reduction": "none"}, "sum": {"reduction": "sum"}, "other-reduction": {"reduction": "median"},
    **{f"loss-{kind}": {"loss_function": kind}
       for kind in ("l1", "l2", "mse", "smooth_l1", "cross_entropy", "huber")},
    "loss-own": {"loss_function": cubed}, "l1-none": {"loss_function": "l1", "reduction": "none"},
    "device": {"device": "cpu"}, "unknown": {"nothing": 1},
    "alpha": {"alpha_init": 0.5}, "fixed-alpha": {"fixed_alpha": True, "alpha_init": 0.3},
    "few-alpha": {"alpha_init": 0.1, "min_alpha": 0.2}, "many-alpha": {"alpha_init": 5.0, "max_alpha": 3.0},
    "target": {"target_entropy": -1.5}, "samples": {"samples_mc_entropy": 4},
    "exclude": {"reduction": "none", "scalar_output_mode": "exclude"},
    "non-tensor": {"reduction": "none", "scalar_output_mode": "non_tensor"},
    "penalty": {"use_grad_penalty": True}, "penalty-none": {"use_grad_penalty": True, "reduction": "none"},
    "small-penalty": {"use_grad_penalty": True, "gp_lambda": 0.5},
    "all-of-it": {"update_fraction": 1.0}, "nothing-of-it": {"update_fraction": 0.0},
    "half-of-it": {"update_fraction": 0.5}, "half-none": {"update_fraction": 0.5, "reduction": "none"},
    "half-sum": {"update_fraction": 0.5, "reduction": "sum"}, "twice-of-it": {"update_fraction": 2.0},
    "normalized": {"obs_rms": statistics, "update_fraction": 1.0},
    "clipped": {"obs_rms": statistics, "obs_clip": 0.3, "update_fraction": 1.0},
    "light": {"kl_weight": 0.1},
}  # fmt: skip
KEYS = {
    "unknown": {"zzz": "a"}, "action": {"action": "elsewhere"}, "observation": {"observation": "elsewhere"},
    "target": {"action_target": "elsewhere"}, "predicted": {"action_pred": "elsewhere"},
    "chunk": {"action_chunk": "elsewhere"}, "expert": {"expert_action": "elsewhere"},
    "agent": {"collector_observation": "elsewhere"}, "judged": {"discriminator_pred": "elsewhere"},
    "pad": {"pad_mask": "pad"}, "chunk-action": {"action": ("vla_action", "chunk")},
    "chunk-padded": {"action": ("vla_action", "chunk"), "pad_mask": "action_is_pad"},
}  # fmt: skip


def masked(*key, wide=()):
    return lambda n, loss, data: data.set(key, tensor("mask", (*data.shape, *wide)) > -0.4)


def renamed(n, loss, data):
    """Everything that a loss may look for, under another name."""
    for key in ("action", "observation", "action_chunk", "collector_observation"):
        if key in data.keys():  # noqa: SIM118
            data.set("elsewhere", data.get(key).clone())
            return


CHANGES = {
    "masked": masked("collector", "mask"), "masked-wide": masked("shifted_valid", wide=(1,)),
    "padded": masked("pad"), "padded-wide": masked("pad", wide=(3,)),
    "half-padded": lambda n, loss, data: data.set("pad", tensor("pads", data.shape) > 0.2),
    "frozen": lambda n, loss, data: loss.requires_grad_(False),
    "double": lambda n, loss, data: (loss.double(), data.apply_(lambda x: x)),
    **{f"without-{'-'.join(key)}": lambda n, loss, data, key=key: data.exclude(key, inplace=True)
       for key in (("observation",), ("action",), ("collector_action",), ("next", "observation"),
                   ("vla_action", "chunk"))},
}  # fmt: skip
for _name in LOSSES:
    _chunks = {"action": ("vla_action", "chunk")} if _name == "BCLoss-chunks" else None
    for _case, _options in OPTIONS.items():
        cell("options", _name, _case, stepping(_name, _options, keys=_chunks))
    for _case, _keys in KEYS.items():
        cell("keys", _name, _case, stepping(_name, {}, keys=_keys))
        cell("keys", _name, f"{_case}-there", stepping(_name, {}, keys=_keys, change=renamed))
    for _case, _change in CHANGES.items():
        _padded = {**(_chunks or {}), **({"pad_mask": "pad"} if "padded" in _case else {})}
        cell("data", _name, _case, stepping(_name, {}, keys=_padded, change=_change))
        cell("data", _name, f"{_case}-none", stepping(_name, {"reduction": "none"}, keys=_padded, change=_change))
    for _case, _shape in {"rows": (2, 3), "one": (1,), "none": (), "three": (2, 1, 3)}.items():
        cell("shapes", _name, _case, stepping(_name, {}, _shape, keys=_chunks))
        cell("shapes", _name, f"{_case}-none", stepping(_name, {"reduction": "none"}, _shape, keys=_chunks))
for _shape in ((4,), (2, 3)):
    for _how in ("mean", "sum", "none"):
        cell("data", "BCLoss-chunks", f"pads-{_how}-{len(_shape)}", stepping(
            "BCLoss-chunks", {"loss_function": "l1", "reduction": _how}, _shape,
            {"action": ("vla_action", "chunk"), "pad_mask": "action_is_pad"},
        ))  # fmt: skip


# --- what a loss shows of itself -----------------------------------------------------------------------
def dispatched(n, loss, data):
    """The same by arguments of names."""
    given = {"_".join(key) if isinstance(key, tuple) else key: data[key] for key in loss.in_keys}
    found = loss(**given)
    return [one.detach() for one in (found if isinstance(found, tuple) else (found,))]


def selected(n, loss, data):
    loss.select_out_keys(loss.out_keys[0])
    return loss.out_keys, sorted(map(str, loss(data).keys()))


VIEWS = {
    "dispatched": dispatched, "selected": selected,
    "order": lambda n, loss, data: loss.out_keys,
    "tensor-keys": lambda n, loss, data: sorted(vars(loss.tensor_keys).items(), key=str),
    "parameters": lambda n, loss, data: [(name, tuple(one.shape)) for name, one in loss.named_parameters()],
    "state": lambda n, loss, data: {name: tuple(one.shape) for name, one in loss.state_dict().items()},
    "loaded": lambda n, loss, data: str(loss.load_state_dict(loss.state_dict())),
    "copied": lambda n, loss, data: trained(copy.deepcopy(loss), data),
    "estimator": lambda n, loss, data: loss.make_value_estimator(),
    "td0": lambda n, loss, data: loss.make_value_estimator(n.losses.ValueEstimators.TD0),
    "evaluated": lambda n, loss, data: trained(loss.eval(), data),
    **{name: lambda n, loss, data, name=name: getattr(loss, name) for name in (
        "alpha", "target_entropy", "reduction", "loss_function", "kl_weight", "gp_lambda", "use_grad_penalty",
        "update_fraction", "obs_clip", "samples_mc_entropy", "fixed_alpha", "functional", "vmap_randomness",
        "default_value_estimator", "scalar_output_mode")},
}  # fmt: skip


def view(name, look):
    def call(n):
        build, batch = LOSSES[name]
        torch.manual_seed(0)
        with fixed_draws():
            found = look(n, build(n), batch(n, (4,)))
        return found.detach() if isinstance(found, torch.Tensor) else found

    return call


for _name in LOSSES:
    for _case, _look in VIEWS.items():
        cell("views", _name, _case, view(_name, _look))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
