"""Networks, batches and losses of both libraries, for the suite of off-policy losses."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import torch
from torch import nn

from flambeau.core.testing.fill import fill_, integers, tensor
from flambeau.core.testing.programs import fixed_draws

OBS, ACT = 4, 3
ROOTS = {"torchrl": "flambeau.rl", "tensordict": "flambeau.data.tensordict"}
STEP = {"five": (5,), "six": (6,), "rows": (2, 3), "one": (1,)}


def names(library):
    """What a cell uses of one of both libraries."""

    def of(module):
        root, dot, rest = module.partition(".")
        return importlib.import_module(ROOTS[root] + dot + rest if library.ours else module)

    return SimpleNamespace(
        **{name: getattr(of("tensordict"), name) for name in ("TensorDict",)},
        nn=of("tensordict.nn"), modules=of("torchrl.modules"), data=of("torchrl.data"), losses=of("torchrl.objectives"),
        deprecated=lambda: of("torchrl.objectives.deprecated"), envs=lambda: of("torchrl.envs"),
        dreamer_env=lambda: of("torchrl.envs.model_based.dreamer").DreamerEnv,
        multiagent=lambda: of("torchrl.objectives.multiagent"),
    )  # fmt: skip


class Critic(nn.Module):
    def __init__(self, out=1):
        super().__init__()
        self.l = nn.Linear(OBS + ACT, out)

    def forward(self, observation, action):
        return self.l(torch.cat([observation, action.to(observation.dtype)], -1))


def bounded(n):
    return n.data.Bounded(-1, 1, (ACT,))


def gauss_actor(n, action="action", observation="observation", **options):
    net = fill_(nn.Sequential(nn.Linear(OBS, 2 * ACT), n.nn.NormalParamExtractor()))
    options = {"distribution_class": n.modules.TanhNormal, "distribution_kwargs": {"low": -1.0, "high": 1.0}, **options}
    return n.modules.ProbabilisticActor(
        n.nn.TensorDictModule(net, [observation], ["loc", "scale"]), in_keys=["loc", "scale"], out_keys=[action],
        return_log_prob=True, spec=n.data.Composite({action: bounded(n)}) if action != "action" else bounded(n),
        default_interaction_type=n.nn.InteractionType.RANDOM, **options,
    )  # fmt: skip


def cat_actor(n, one_hot=True):
    kind = n.modules.OneHotCategorical if one_hot else torch.distributions.Categorical
    spec = n.data.OneHot(ACT) if one_hot else n.data.Categorical(ACT)
    module = n.nn.TensorDictModule(fill_(nn.Linear(OBS, ACT)), ["observation"], ["logits"])
    return n.modules.ProbabilisticActor(
        module, in_keys=["logits"], distribution_class=kind, return_log_prob=True, spec=spec
    )


def det_actor(n, action="action", observation="observation"):
    net = fill_(nn.Sequential(nn.Linear(OBS, ACT), nn.Tanh()))
    spec = n.data.Composite({action: bounded(n)}) if action != "action" else bounded(n)
    return n.modules.Actor(net, spec=spec, in_keys=[observation], out_keys=[action])


def q(n, out=1, action="action", observation="observation", **options):
    return n.modules.ValueOperator(fill_(Critic(out)), in_keys=[observation, action], **options)


def v(n, **options):
    return n.modules.ValueOperator(fill_(nn.Linear(OBS, 1)), in_keys=["observation"], **options)


def values_of_actions(n, key="action_value"):
    return n.modules.ValueOperator(fill_(nn.Linear(OBS, ACT)), in_keys=["observation"], out_keys=[key])


def qv(n, one_hot=True):
    spec = n.data.OneHot(ACT) if one_hot else n.data.Categorical(ACT)
    return n.modules.QValueActor(fill_(nn.Linear(OBS, ACT)), spec=spec, in_keys=["observation"])


def batch(n, shape=(5,), discrete=None):
    """A batch of steps; `discrete` is "one-hot" or "categorical" for actions that are choices."""
    action = integers("action", shape, ACT) if discrete else tensor("action", (*shape, ACT)) * 0.9
    if discrete == "one-hot":
        action = nn.functional.one_hot(action, ACT)
    done = tensor("done", (*shape, 1)) > 0.3
    following = {"observation": tensor("nobs", (*shape, OBS)), "reward": tensor("reward", (*shape, 1)), "done": done}
    following["terminated"] = done & (tensor("term", (*shape, 1)) > -0.5)
    now = {"observation": tensor("obs", (*shape, OBS)), "action": action, "next": following}
    return n.TensorDict({**now, "action_log_prob": tensor("logp", shape) - 1.0}, shape)


def refilled(loss):
    """The loss with parameters by their names; targets are a little behind."""
    with torch.no_grad():
        for name, one in sorted(loss.named_parameters()):
            if "log_alpha" not in name:
                one.copy_(tensor(name, tuple(one.shape)) * 0.4)
        for name, one in sorted(loss.named_buffers()):
            if name.startswith("target_") and "params" in name and one.is_floating_point():
                one.copy_(tensor(name.replace("target_", ""), tuple(one.shape)) * 0.36)
    return loss


def trained(loss, data):
    """Everything that a step of training sees: what the loss returns, gradients, and what it left in its inputs."""
    with fixed_draws():
        out = loss(data)
    # torchrl leaves in the batch what the actor's distribution was made of, and what it said of the action: see `left`.
    data.exclude("loc", "scale", "logits", "_log_prob", inplace=True)
    total = sum(out[key].sum() for key in sorted(out.keys()) if str(key).startswith("loss"))
    total.backward()
    learned = {name: one.grad for name, one in sorted(loss.named_parameters()) if one.grad is not None}
    return {
        "out": {str(key): out[key].detach() for key in sorted(out.keys(), key=str)},
        "differentiable": sorted(
            str(key) for key, one in out.items() if str(key).startswith("loss") and one.requires_grad
        ),
        "batch size": tuple(out.batch_size),
        "state": sorted(loss.state_dict()),
        "gradients": learned,
        "data": {str(key): data[key].detach() for key in sorted(data.keys(True, True), key=str)},
    }


# name of a loss -> a function of the names that builds it, and the kind of actions in its batches
LOSSES = {
    "DDPGLoss": (lambda n, **o: n.losses.DDPGLoss(det_actor(n), q(n), **o), None),
    "TD3Loss": (lambda n, **o: n.losses.TD3Loss(det_actor(n), q(n), **{"bounds": (-1, 1), **o}), None),
    "TD3BCLoss": (lambda n, **o: n.losses.TD3BCLoss(det_actor(n), q(n), **{"bounds": (-1, 1), **o}), None),
    "SACLoss": (lambda n, **o: n.losses.SACLoss(gauss_actor(n), q(n), **o), None),
    "SACLoss-v1": (lambda n, **o: n.losses.SACLoss(gauss_actor(n), q(n), v(n), **o), None),
    "DiscreteSACLoss": (
        lambda n, **o: n.losses.DiscreteSACLoss(
            cat_actor(n), values_of_actions(n), **{"action_space": "one-hot", "num_actions": ACT, **o}
        ), "one-hot",
    ),
    "CrossQLoss": (lambda n, **o: n.losses.CrossQLoss(gauss_actor(n), q(n), **o), None),
    "REDQLoss": (
        lambda n, **o: n.losses.REDQLoss(gauss_actor(n), q(n), **{"num_qvalue_nets": 3, "sub_sample_len": 3, **o}),
        None,
    ),
    "REDQLoss_deprecated": (
        lambda n, **o: n.deprecated().REDQLoss_deprecated(
            gauss_actor(n), q(n), **{"num_qvalue_nets": 3, "sub_sample_len": 3, **o}
        ), None,
    ),
    "DoubleREDQLoss_deprecated": (
        lambda n, **o: n.deprecated().DoubleREDQLoss_deprecated(
            gauss_actor(n), q(n), **{"num_qvalue_nets": 3, "sub_sample_len": 3, **o}
        ), None,
    ),
    "IQLLoss": (lambda n, **o: n.losses.IQLLoss(gauss_actor(n), q(n), v(n), **o), None),
    "DiscreteIQLLoss": (
        lambda n, **o: n.losses.DiscreteIQLLoss(
            cat_actor(n), values_of_actions(n, "state_action_value"), v(n), **{"action_space": "one-hot", **o}
        ), "one-hot",
    ),
    "CQLLoss": (
        lambda n, **o: n.losses.CQLLoss(gauss_actor(n), q(n), **{"action_spec": bounded(n), "num_random": 4, **o}),
        None,
    ),
    "DiscreteCQLLoss": (lambda n, **o: n.losses.DiscreteCQLLoss(qv(n), **{"action_space": "one-hot", **o}), "one-hot"),
    "TQCLoss": (
        lambda n, **o: n.losses.TQCLoss(
            gauss_actor(n), q(n, 9), **{"num_qvalue_nets": 3, "top_quantiles_to_drop_per_net": 2, **o}
        ), None,
    ),
}  # fmt: skip
