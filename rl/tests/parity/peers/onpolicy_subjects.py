"""Networks and batches of losses on a policy's own steps: several heads, teams, and what is looked at."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from loss_subjects import names_of
from torch import nn

from flambeau.core.testing.fill import fill_, tensor
from flambeau.core.testing.programs import fixed_draws

AGENTS = 2


def on_policy_names(library):
    """What cells see, of the side that the library is on."""
    n = SimpleNamespace(**names_of(library))
    if library.ours:
        import flambeau.rl.objectives as losses
        from flambeau.rl.objectives import multiagent
        from flambeau.rl.objectives.ppo import KLPENPPOLoss
    else:
        import torchrl.objectives as losses
        from torchrl.objectives import multiagent
        from torchrl.objectives.ppo import KLPENPPOLoss
    n.losses, n.multiagent = losses, multiagent
    n.classes = {
        "reinforce": losses.ReinforceLoss, "a2c": losses.A2CLoss, "ppo": losses.PPOLoss, "clip": losses.ClipPPOLoss,
        "klpen": KLPENPPOLoss, "mappo": multiagent.MAPPOLoss, "ippo": multiagent.IPPOLoss,
    }  # fmt: skip
    return n


class Split(nn.Module):
    """Logits of two choices."""

    def __init__(self):
        super().__init__()
        self.l = fill_(nn.Linear(4, 5))

    def forward(self, observation):
        logits = self.l(observation)
        return logits[..., :3], logits[..., 3:]


def heads(n):
    """An actor that makes two choices at once."""
    kinds = {"a": torch.distributions.Categorical, "b": torch.distributions.Categorical}
    return n.modules.ProbabilisticTensorDictSequential(
        n.Module(Split(), ["observation"], [("params", "a", "logits"), ("params", "b", "logits")]),
        n.modules.ProbabilisticTensorDictModule(
            in_keys=["params"], out_keys=["a", "b"], distribution_class=n.modules.CompositeDistribution,
            distribution_kwargs={"distribution_map": kinds}, return_log_prob=True,
        ),
    )  # fmt: skip


def batch(n, *shape, **entries):
    """Steps with advantages, values, and the parameters of the policy that acted."""
    data = n.valued(*shape, **entries)
    shape = data.shape
    data.set("loc", tensor("loc", (*shape, 3)))
    data.set("scale", tensor("scale", (*shape, 3)).abs() + 0.1)
    return data


def raw(n, *shape, **entries):
    """Steps alone."""
    return batch(n, *shape, **entries).exclude("advantage", "value_target", "state_value")


def choices(n, *shape):
    """Steps of two choices at once."""
    data = batch(n, *shape).exclude("loc", "scale", "action", "action_log_prob")
    shape = data.shape
    for name, count in (("a", 3), ("b", 2)):
        data.set(name, (tensor(f"index {name}", shape) * 10).long().abs() % count)
        data.set(f"{name}_log_prob", tensor(f"logp {name}", shape) - 1)
    logits = {"a": {"logits": tensor("al", (*shape, 3))}, "b": {"logits": tensor("bl", (*shape, 2))}}
    data.set("params", n.TensorDict(logits, shape))
    return data


def team(n, *shape, each_reward=False):
    """Steps of two agents: actions (*batch, 2, 3), one reward for all or one each."""
    data = raw(n, *(shape or (3, 4)))
    shape = tuple(data.shape)

    def seen(name):
        return n.TensorDict({"observation": tensor(name, (*shape, AGENTS, 4))}, [*shape, AGENTS])

    agents = seen("obs")
    agents.set("action", tensor("action", (*shape, AGENTS, 3)))
    agents.set("action_log_prob", tensor("logp", (*shape, AGENTS)) - 1)
    data.set("agents", agents)
    data.set(("next", "agents"), seen("next obs"))
    if each_reward:
        data.set(("next", "reward"), tensor("rewards", (*shape, AGENTS, 1)))
        for name in ("done", "terminated"):
            data.set(("next", name), data["next", name].unsqueeze(-1).expand(*shape, AGENTS, 1).clone())
    return data.exclude("observation", "action", "action_log_prob", "loc", "scale", ("next", "observation"))


def team_loss(n, kind, **options):
    layers = fill_(nn.Sequential(nn.Linear(4, 6), n.modules.NormalParamExtractor()))
    actor = n.networks.ProbabilisticActor(
        n.Module(layers, [("agents", "observation")], [("agents", "loc"), ("agents", "scale")]),
        in_keys=[("agents", "loc"), ("agents", "scale")], out_keys=[("agents", "action")],
        distribution_class=n.networks.IndependentNormal, return_log_prob=True,
    )  # fmt: skip
    critic = n.Module(fill_(nn.Linear(4, 1)), [("agents", "observation")], [("agents", "state_value")])
    loss = n.classes[kind](actor, critic, **options)
    loss.set_keys(value=("agents", "state_value"), action=("agents", "action"),
                  sample_log_prob=("agents", "action_log_prob"))  # fmt: skip
    return loss


def trained(n, loss, data):
    """Losses and what is told, gradients, keys of results and of the batch."""
    torch.manual_seed(0)  # choices are drawn otherwise
    with fixed_draws():
        before = {name: each.detach().clone() for name, each in loss.named_buffers() if name == "beta"}
        out = loss(data)
    total = sum(out[key].sum() for key in sorted(out.keys()) if key.startswith("loss"))
    if isinstance(total, torch.Tensor) and total.requires_grad:
        total.backward()
    return {
        "out": {str(key): value.detach() for key, value in sorted(out.items(True, True),
        key=lambda item: str(item[0]))},
        "order": list(map(str, out.keys())),
        "gradients": {name: each.grad for name, each in sorted(loss.named_parameters()) if each.grad is not None},
        "differentiable": sorted(str(key) for key, value in out.items(True, True) if value.requires_grad),
        "batch size": tuple(out.batch_size), "beta": before,
        "written": sorted(map(str, data.keys())), "selected": sorted(map(str, loss.out_keys)),
        "buffers": {name: each.detach().clone() for name,
        each in sorted(loss.named_buffers()) if not name.endswith("._q")},
    }  # fmt: skip
