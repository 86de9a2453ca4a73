"""Networks, batches and losses of both libraries, for the suite of losses that imitate, tell apart or explore."""

from __future__ import annotations

import torch
from offpolicy_subjects import ACT, OBS, cat_actor, det_actor, gauss_actor
from torch import nn

from flambeau.core.testing.fill import fill_, integers, tensor

CHUNK, LATENT = 2, 5


def trained(loss, data):
    """What the loss returns, its gradients, its state, and what it left in its batch."""
    torch.manual_seed(0)
    out = loss(data)
    total = sum(out[key].sum() for key in sorted(out.keys()) if str(key).startswith("loss") and out[key].requires_grad)
    if isinstance(total, torch.Tensor):
        total.backward()
    data.exclude("loc", "scale", "logits", "param", inplace=True)  # see the cells `left` of off-policy losses
    return {
        "out": {str(key): _plain(out.get(key)) for key in sorted(out.keys(), key=str)},
        "differentiable": sorted(str(key) for key, one in out.items() if getattr(one, "requires_grad", False)),
        "batch size": tuple(out.batch_size),
        "state": sorted(loss.state_dict()),
        "gradients": {name: one.grad for name, one in sorted(loss.named_parameters()) if one.grad is not None},
        "left": sorted(map(str, data.keys(True, True))),
    }


def _plain(value):
    return value.detach() if isinstance(value, torch.Tensor) else str(type(value).__name__)


def point_actor(n, kind="TanhDelta"):
    bounds = {"low": -1.0, "high": 1.0} if kind == "TanhDelta" else {}
    module = n.nn.TensorDictModule(fill_(nn.Linear(OBS, ACT)), ["observation"], ["param"])
    return n.modules.ProbabilisticActor(
        module, in_keys=["param"], distribution_class=getattr(n.modules, kind), distribution_kwargs=bounds
    )


class Chunks(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(OBS, CHUNK * ACT)

    def forward(self, observation):
        return self.l(observation).unflatten(-1, (CHUNK, ACT))


def chunk_actor(n):
    return n.nn.TensorDictModule(fill_(Chunks()), ["observation"], [("vla_action", "chunk")])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.mean = nn.Linear(OBS, CHUNK * ACT), nn.Linear(CHUNK * ACT, LATENT)
        self.log_var = nn.Linear(CHUNK * ACT, LATENT)

    def forward(self, observation, chunk):
        chunk = chunk.flatten(-2)
        return self.l(observation).unflatten(-1, (CHUNK, ACT)), self.mean(chunk), self.log_var(chunk)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(OBS + ACT, 1)

    def forward(self, observation, action):
        return torch.sigmoid(self.l(torch.cat([observation, action], -1)))


def discriminator(n, observation="observation", action="action", out="d_logits"):
    return n.nn.TensorDictModule(fill_(Discriminator()), [observation, action], [out])


def autoencoder(n):
    names = ["action_pred", "mu", "log_var"]
    return n.nn.TensorDictModule(fill_(Encoder()), ["observation", "action_chunk"], names)


def steps(n, shape, kind=None):
    data = {"observation": tensor("obs", (*shape, OBS)), "action": tensor("action", (*shape, ACT)) * 0.9}
    if kind is not None:
        data["action"] = integers("action", shape, ACT)
    if kind == "one-hot":
        data["action"] = nn.functional.one_hot(data["action"], ACT).float()
    return n.TensorDict(data, shape)


def chunks(n, shape):
    data = {"observation": tensor("obs", (*shape, OBS)), "vla_action": {"chunk": tensor("chunk", (*shape, CHUNK, ACT))}}
    return n.TensorDict({**data, "action_is_pad": tensor("pad", (*shape, CHUNK)) > 0.2}, shape)


def both_kinds(n, shape):
    data = steps(n, shape)
    data["collector_observation"] = tensor("co", (*shape, OBS))
    return data.set("collector_action", tensor("ca", (*shape, ACT)))


def following(n, shape):
    return n.TensorDict({"next": {"observation": tensor("o", (*shape, OBS))}}, shape)


def features(hidden=5):
    return fill_(nn.Sequential(nn.Linear(OBS, hidden), nn.ReLU(), nn.Linear(hidden, 6)))


# name -> a function of the names and options that builds a loss, and one of the names and a shape that builds a batch
LOSSES = {
    "BCLoss": (lambda n, **o: n.losses.BCLoss(det_actor(n), **o), steps),
    "BCLoss-gauss": (lambda n, **o: n.losses.BCLoss(gauss_actor(n), **o), steps),
    "BCLoss-one-hot": (lambda n, **o: n.losses.BCLoss(cat_actor(n), **o), lambda n, s: steps(n, s, "one-hot")),
    "BCLoss-categorical": (
        lambda n, **o: n.losses.BCLoss(cat_actor(n, one_hot=False), **o), lambda n, s: steps(n, s, "categorical"),
    ),
    "BCLoss-point": (lambda n, **o: n.losses.BCLoss(point_actor(n), **o), steps),
    "BCLoss-delta": (lambda n, **o: n.losses.BCLoss(point_actor(n, "Delta"), **o), steps),
    "BCLoss-chunks": (lambda n, **o: n.losses.BCLoss(chunk_actor(n), **o), chunks),
    "DTLoss": (lambda n, **o: n.losses.DTLoss(point_actor(n), **o), steps),
    "OnlineDTLoss": (lambda n, **o: n.losses.OnlineDTLoss(gauss_actor(n), **o), steps),
    "GAILLoss": (lambda n, **o: n.losses.GAILLoss(discriminator(n), **o), both_kinds),
    "RNDLoss": (lambda n, **o: n.losses.RNDLoss(features(), features(4), **o), following),
    "DiffusionBCLoss": (
        lambda n, **o: n.losses.DiffusionBCLoss(
            fill_(n.modules.DiffusionActor(action_dim=ACT, obs_dim=OBS, num_steps=10)), **o
        ), steps,
    ),
    "ACTLoss": (lambda n, **o: n.losses.ACTLoss(autoencoder(n), **o), chunks),
}  # fmt: skip
