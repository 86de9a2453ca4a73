"""DreamerV3's rollouts, acting, optimizer and updates do what torchrl's do, from the same weights and draws."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

from flambeau.core.testing.differential import Cell, Suite
from flambeau.core.testing.fill import fill_, tensor

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

import dreamer_subjects as dreamer  # isort: skip
from offpolicy_subjects import names  # isort: skip

SUITE = Suite(
    "dreamer-v3",
    ours="flambeau.rl",
    peer="torchrl",
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=Path(__file__).with_name("differences.toml"),
    rtol=1e-4,
    atol=1e-5,
)
SIZES = {"hidden_dim": 6, "rnn_hidden_dim": 8, "num_categoricals": 2, "num_classes": 4}
MODELS = {
    "gru": {}, "block": {"recurrent_model": "block_gru", "num_blocks": 2}, "unimix": {"unimix": 0.3},
}  # fmt: skip


def cell(area, case, call):
    SUITE.add(Cell(f"{area}/{case}", area, lambda library, given: call(opened(library)), effects=False, printed=False))


def opened(library):
    found = names(library)
    root = "flambeau.rl" if library.ours else "torchrl"
    found.training = importlib.import_module(f"{root}.trainers.algorithms")
    found.envs_utils = importlib.import_module(f"{root}.envs.utils")
    return found


def seen(data):
    return {str(key): data.get(key).detach() for key in sorted(data.keys(True, True), key=str)}


def rssm(n, options, action="action", logits="prior_logits"):
    prior = n.modules.RSSMPriorV3(action_shape=(2,), action_dim=2, **SIZES, **options)
    posterior = n.modules.RSSMPosteriorV3(obs_embed_dim=3, **SIZES, unimix=options.get("unimix", 0.0))
    fill_(prior)
    fill_(posterior)
    return (
        n.nn.TensorDictModule(
            prior, ["state", "belief", action], [("next", logits), ("next", "state"), ("next", "belief")]
        ),
        n.nn.TensorDictModule(
            posterior, [("next", "belief"), ("next", "encoded_latents")],
            [("next", "posterior_logits"), ("next", "state")],
        ),
    )  # fmt: skip


def sequence(n, action="action", starts="bool", shape=(2, 4)):
    data = n.TensorDict(
        {
            "state": tensor("state", (*shape, 8)), "belief": tensor("belief", (*shape, 8)),
            action: 2 * tensor("action", (*shape, 2)), "more": torch.ones(shape),
            "next": {"encoded_latents": tensor("latents", (*shape, 3)), "reward": torch.ones(*shape, 1)},
        },
        shape,
    )  # fmt: skip
    if starts is not None:
        begins = tensor("begins", shape) > 0.3
        data["is_init"] = begins.unsqueeze(-1) if starts == "column" else begins
    return data


def rolled(model, action="action", logits="prior_logits", starts="bool", shape=(2, 4), **options):
    def call(n):
        rollout = n.modules.RSSMRolloutV3(*rssm(n, MODELS[model], action, logits), **options)
        data = sequence(n, action, starts, shape)
        torch.manual_seed(0)
        found = rollout(data)
        parameters = list(rollout.parameters())
        total = found["next", "state"].square().sum() + found["next", "belief"].square().sum()
        gradients = torch.autograd.grad(total, parameters, allow_unused=True)
        return seen(found), seen(data), gradients, list(rollout.state_dict()), rollout.in_keys, rollout.out_keys

    return call


for _model in MODELS:
    for _starts in ("bool", "column", None):
        cell("rollout", f"{_model}/{_starts}", rolled(_model, starts=_starts))
        cell("rollout", f"{_model}/{_starts}-other-keys", rolled(_model, logits="logits", starts=_starts))
    cell("rollout", f"{_model}/push", rolled(_model, action="push"))
    cell("rollout", f"{_model}/push-said", rolled(_model, action="push", action_key="push"))
    cell("rollout", f"{_model}/no-resets", rolled(_model, reset_key=None))
    cell("rollout", f"{_model}/one-step", rolled(_model, shape=(3, 1)))
    cell("rollout", f"{_model}/one-sequence", rolled(_model, shape=(4,)))
cell("rollout", "block/two-batches", rolled("block", shape=(2, 1, 3)))
cell("rollout", "scope", lambda n: n.modules.RSSMRolloutV3(*rssm(n, {})).compile_rollout("all"))
cell("rollout", "unroll", lambda n: n.modules.RSSMRolloutV3(*rssm(n, {})).compile_rollout("scan", unroll=0))


def estimated(model, starts="bool", **options):
    def call(n):
        prior, posterior = rssm(n, MODELS[model])
        estimator = n.modules.RSSMStateEstimatorV3(prior.module, posterior.module, **options)
        data = sequence(n, starts=starts)[:, 0]
        data["previous_action"] = data["action"]
        data["encoded_latents"] = data["next", "encoded_latents"]
        torch.manual_seed(0)
        return seen(estimator(data)), list(estimator.state_dict()), estimator.in_keys, estimator.out_keys

    return call


for _model in MODELS:
    for _starts in ("bool", "column"):
        cell("estimator", f"{_model}/{_starts}", estimated(_model, _starts))
    cell("estimator", f"{_model}/out", estimated(_model, out_keys=["s", ("b", "c")]))
cell("estimator", "four-keys", estimated("gru", in_keys=["state", "belief", "action", "encoded_latents"]))
cell("estimator", "one-out", estimated("gru", out_keys=["state"]))


def acting(options, exploration="RANDOM", seed=None, shape=(5,)):
    def call(n):
        actor = n.modules.DreamerV3DiscreteActor(6, 3, **options)
        fill_(actor)
        keys = options.get("in_keys") or ["state", "belief"]
        policy = actor if seed is None else n.modules.DreamerV3SeededPolicy(actor, seed)
        data = n.TensorDict({}, shape)
        data.set(keys[0], 3 * tensor("state", (*shape, 4))).set(keys[1], tensor("belief", (*shape, 2)))
        torch.manual_seed(1)
        with n.envs_utils.set_exploration_type(getattr(n.envs_utils.ExplorationType, exploration)):
            found = [seen(policy(data.clone())) for _ in range(2)]
        distribution = actor.get_dist(data)
        torch.manual_seed(2)
        state = {key: value for key, value in policy.state_dict().items() if "extra" in key}
        return (
            found, torch.rand(2), list(policy.state_dict()), state, distribution.entropy(), distribution.rsample(),
            policy.in_keys, policy.out_keys,
        )  # fmt: skip

    return call


ACTORS = {
    "plain": {"num_cells": 8}, "deep": {"num_cells": 4, "depth": 1, "norm_eps": 0.1},
    "pure": {"num_cells": 8, "unimix": 0.0}, "mixed": {"num_cells": 8, "unimix": 0.5},
    "keys": {"num_cells": 8, "in_keys": ["s", ("b", "c")], "action_key": ("a", "b"), "logits_key": "l",
             "log_prob_key": "p"},
    "shallow": {"depth": 0}, "one-key": {"in_keys": ["s"]}, "unimix": {"unimix": 1.0},
}  # fmt: skip
for _case, _options in ACTORS.items():
    for _exploration in ("RANDOM", "DETERMINISTIC", "MODE"):
        cell("actor", f"{_case}/{_exploration}", acting(_options, _exploration))
    cell("actor", f"{_case}/seeded", acting(_options, seed=7))
cell("actor", "plain/two-batches", acting(ACTORS["plain"], shape=(2, 3)))


def optimized(options, groups=False, steps=6):
    def call(n):
        weights = [torch.nn.Parameter(tensor(f"w{at}", shape)) for at, shape in enumerate([(3, 2), (4,), (1,)])]
        given = weights if not groups else [{"params": weights[:1]}, {"params": weights[1:], "lr": 0.5}]
        optimizer = n.training.DreamerV3Optimizer(given, **options)
        for at in range(steps):
            for index, weight in enumerate(weights[: 3 - at % 2]):
                weight.grad = tensor(f"g{at}{index}", weight.shape) * 10.0 ** (at - 2)
            optimizer.step()
            if at == 3:
                optimizer.load_state_dict(optimizer.state_dict())
        return [weight.detach() for weight in weights], optimizer.state_dict()

    return call


OPTIMIZERS = {
    "plain": {}, "no-warmup": {"warmup_steps": 0, "lr": 0.1}, "short": {"warmup_steps": 3, "lr": 0.1},
    "free": {"agc": 0.0, "lr": 0.1, "warmup_steps": 0}, "tight": {"agc": 0.01, "lr": 0.1, "warmup_steps": 0},
    "least": {"parameter_norm_min": 3.0, "lr": 0.1, "warmup_steps": 0},
    "averages": {"beta1": 0.5, "beta2": 0.6, "lr": 0.1, "warmup_steps": 1}, "eps": {"eps": 0.1, "warmup_steps": 0},
}  # fmt: skip
for _case, _options in OPTIMIZERS.items():
    cell("optimizer", _case, optimized(_options))
    cell("optimizer", f"{_case}-groups", optimized(_options, True))
cell("optimizer", "nothing", lambda n: n.training.DreamerV3Optimizer([torch.nn.Parameter(torch.ones(1))]).step())


def scheduled(ratio, reset=None):
    def call(n):
        schedule = n.training.DreamerV3UpdateRatio(ratio)
        if reset is not None:
            schedule.reset(reset)
        first = [schedule(count) for count in (4, 6, 8, 8, 21)]
        state = schedule.state_dict()
        other = n.training.DreamerV3UpdateRatio(1.0)
        other.load_state_dict(state)
        return first, state, [other(count) for count in (22, 40, 41)]

    return call


for _ratio in (0.25, 0.3, 1, 1.5, 3, 0, -1):
    cell("ratio", str(_ratio), scheduled(_ratio))
    cell("ratio", f"{_ratio}-reset", scheduled(_ratio, 3))


def updated(updater=False, steps=2, **options):
    def call(n):
        model = n.losses.DreamerV3ModelLoss(dreamer.inferring(n), reward_two_hot=False, detach_output=False)
        model.set_keys(pixels="observation")
        value = dreamer.lifted_value(n)
        actor = n.losses.DreamerV3ActorLoss(
            dreamer.actor(n), value, dreamer.env(n), imagination_horizon=3, continuation_model=dreamer.goes_on(n)
        )
        critic = n.losses.DreamerV3ValueLoss(value, actor_loss=actor, slow_critic_regularization=1.0)
        loss = n.losses.DreamerV3Loss(model, actor, critic)
        moved = n.losses.SoftUpdate(critic, tau=0.1) if updater else None
        stepper = n.training.DreamerV3OptimizationStepper(
            loss, n.training.DreamerV3Optimizer(loss.parameters(), lr=0.01, warmup_steps=0), moved, **options
        )
        resolved = stepper.resolve(torch.device("cpu")), stepper.resolve(torch.device("cuda"))
        data = dreamer.steps(n, (2, 4)).update(dreamer.latents(n, (2, 4)))
        data.set("is_init", torch.zeros(2, 4, 1, dtype=torch.bool))
        found = []
        for at in range(steps):
            torch.manual_seed(at)
            if at == 0 and options.get("warmup_steps"):
                stepper.warmup(data)
            found.append(seen(stepper.step(None, data)))
        state = {name: value.detach() for name, value in sorted(loss.state_dict().items())}
        return found, state, sorted(map(str, data.keys(True, True))), list(stepper.state_dict()), resolved

    return call


cell("stepper", "plain", updated())
cell("stepper", "targets", updated(True))
cell("stepper", "warm", updated(True, warmup_steps=2))
cell("stepper", "no-warmup", updated(warmup_steps=0))
cell("stepper", "unrolled-not", updated(rssm_scan_unroll=None, compile_train_step=False, cudagraph=False))
cell("stepper", "mixed", updated(mixed_precision=True))
cell("stepper", "cold-compiled", updated(compile_train_step=True))
cell("stepper", "graph-on-cpu", updated(cudagraph=True, warmup_steps=1))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
