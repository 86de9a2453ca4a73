"""World models, actors and batches of latent states in both libraries, for the suite of world models' losses."""

from __future__ import annotations

import torch
from torch import nn

from flambeau.core.testing.fill import fill_, tensor

STATE, BELIEF, ACT, PIX = 3, 4, 1, (3, 4, 4)
CLASSES, GROUPS = 4, 2


class Joined(nn.Module):
    """A linear layer on what it gets, side by side."""

    def __init__(self, size, out, last=None):
        super().__init__()
        self.l, self.last = nn.Linear(size, out), last

    def forward(self, *parts):
        found = self.l(torch.cat([part.flatten(part.ndim - 1) for part in parts], -1))
        return found if self.last is None else self.last(found)


class Said(nn.Module):
    """A world model that says what the batch has below "said", times a number that is trained."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, *values):
        found = tuple(value * self.scale for value in values)
        return found if len(found) > 1 else found[0]


def said(n, *names):
    return n.nn.TensorDictModule(Said(), [("said", name) for name in names], [("next", name) for name in names])


def world_model(n, *names):
    """The parts of a world model: what it believes and decodes, and rewards."""
    return n.modules.WorldModelWrapper(
        n.nn.TensorDictSequential(said(n, *names), said(n, "reco_pixels")), said(n, "reward")
    )


def value_model(n, out="state_value", size=1):
    return n.nn.TensorDictModule(fill_(Joined(STATE + BELIEF, size)), ["state", "belief"], [out])


def actor(n):
    net = fill_(nn.Sequential(Joined(STATE + BELIEF, 2 * ACT), n.nn.NormalParamExtractor()))
    return n.modules.ProbabilisticActor(
        n.nn.TensorDictModule(Params(net), ["state", "belief"], ["loc", "scale"]), in_keys=["loc", "scale"],
        distribution_class=n.modules.TanhNormal, return_log_prob=True,
        default_interaction_type=n.nn.InteractionType.RANDOM,
    )  # fmt: skip


class Params(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, state, belief):
        return self.net[1](self.net[0](state, belief))


class Transition(nn.Module):
    def __init__(self):
        super().__init__()
        self.s, self.b = nn.Linear(STATE + BELIEF + ACT, STATE), nn.Linear(STATE + BELIEF + ACT, BELIEF)

    def forward(self, state, belief, action):
        x = torch.cat([state, belief, action], -1)
        return self.s(x).tanh(), self.b(x).tanh()


def env(n):
    """An environment that imagines: states and beliefs that follow from actions, and their reward."""
    transition = n.nn.TensorDictModule(fill_(Transition()), ["state", "belief", "action"], ["state", "belief"])
    reward = n.nn.TensorDictModule(fill_(Joined(STATE + BELIEF, 1)), ["state", "belief"], ["reward"])
    made = n.dreamer_env()(
        world_model=n.modules.WorldModelWrapper(transition, reward), prior_shape=torch.Size([STATE]),
        belief_shape=torch.Size([BELIEF]),
    )  # fmt: skip
    latent = {"state": n.data.Unbounded((STATE,)), "belief": n.data.Unbounded((BELIEF,))}
    made.set_specs_from_env(n.envs().TransformedEnv(n.envs().GymEnv("Pendulum-v1"), n.envs().TensorDictPrimer(latent)))
    return made


def latents(n, shape=(2, 3)):
    return n.TensorDict(
        {"state": tensor("state", (*shape, STATE)), "belief": tensor("belief", (*shape, BELIEF))}, shape
    )


def seen(n, shape=(2, 3)):
    """What a world model is trained by: moments of both distributions, pixels, rewards and ends."""
    said = {
        **{f"{kind}_mean": tensor(f"{kind}m", (*shape, STATE)) for kind in ("prior", "posterior")},
        **{f"{kind}_std": tensor(f"{kind}s", (*shape, STATE)).abs() + 0.3 for kind in ("prior", "posterior")},
        **{f"{kind}_logits": tensor(f"{kind}l", (*shape, GROUPS, CLASSES)) * 2 for kind in ("prior", "posterior")},
        "reco_pixels": tensor("reco", (*shape, *PIX)), "reward": tensor("said reward", (*shape, 1)),
        "reward_logits": tensor("reward logits", (*shape, 255)), "continue_pred": tensor("goes on", (*shape, 1)),
    }  # fmt: skip
    done = tensor("done", (*shape, 1)) > 0.3
    following = {"pixels": tensor("pixels", (*shape, *PIX)) * 2, "reward": tensor("reward", (*shape, 1)) * 3}
    following |= {"done": done, "terminated": done & (tensor("term", (*shape, 1)) > -0.5)}
    return n.TensorDict({"said": n.TensorDict(said, shape), "next": n.TensorDict(following, shape)}, shape)


def predictors(n):
    """A world model that predicts everything that `WorldModelLoss` compares."""

    def part(net, reads, writes):
        return n.nn.TensorDictModule(fill_(net), reads, [writes])

    latent = ("next", "latent")
    return n.nn.TensorDictSequential(
        part(nn.Linear(5, 4), ["observation"], "latent"), part(Joined(6, 4), ["latent", "action"], latent),
        part(nn.Linear(4, 1), [latent], ("next", "reward")),
        part(nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()), [latent], ("next", "done")),
        part(nn.Linear(4, 5), ["latent"], "reconstructed_observation"),
        part(nn.Sequential(nn.Linear(4, 4)), ["latent"], "predicted_latent"),
        part(nn.Sequential(nn.Linear(5, 4)), ["observation"], "target_latent"),
    )  # fmt: skip


def steps(n, shape=(3,)):
    done = tensor("done", (*shape, 1)) > 0.3
    following = {"observation": tensor("next", (*shape, 5)), "reward": tensor("reward", (*shape, 1))}
    following |= {"done": done, "terminated": done.clone()}
    now = {"observation": tensor("now", (*shape, 5)), "action": tensor("action", (*shape, 2))}
    return n.TensorDict({**now, "next": following}, shape)


class TwoHot(nn.Module):
    """Logits of values and the value that they stand for."""

    def __init__(self):
        super().__init__()
        self.joined = Joined(STATE + BELIEF, 255)
        bins = torch.linspace(-20, 20, 255)
        self.register_buffer("bins", bins.sign() * bins.abs().expm1())

    def forward(self, state, belief):
        logits = self.joined(state, belief)
        return logits, (logits.softmax(-1) * self.bins).sum(-1, keepdim=True)


def two_hot_value(n):
    return n.nn.TensorDictModule(fill_(TwoHot()), ["state", "belief"], ["state_value_logits", "state_value"])


def lifted_value(n):
    """A value model that differs from the model of rewards."""
    model = value_model(n)
    with torch.no_grad():
        model.module.l.bias.add_(0.5)
    return model


def goes_on(n):
    net = fill_(Joined(STATE + BELIEF, 1, nn.Sigmoid()))
    return n.nn.TensorDictModule(net, ["state", "belief"], ["continuation"])


def inferring(n):
    """A world model that infers states of what it sees."""

    def part(net, reads, *writes):
        return n.nn.TensorDictModule(fill_(net), reads, list(writes))

    state, belief = ("next", "state"), ("next", "belief")
    return n.nn.TensorDictSequential(
        part(nn.Linear(5, STATE), [("next", "observation")], state),
        part(nn.Linear(5, BELIEF), [("next", "observation")], belief),
        part(Joined(STATE + BELIEF, 5), [state, belief], ("next", "reco_pixels")),
        part(Joined(STATE + BELIEF, 1), [state, belief], ("next", "reward")),
        part(Logits(STATE), [state], ("next", "posterior_logits")),
        part(Logits(BELIEF), [belief], ("next", "prior_logits")),
    )


class Logits(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.l = nn.Linear(size, GROUPS * CLASSES)

    def forward(self, x):
        return self.l(x).unflatten(-1, (GROUPS, CLASSES)) * 3
