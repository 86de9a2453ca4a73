"""What programs of losses see on either side: networks, batches, and what is looked at after a loss was called."""

from __future__ import annotations

import warnings

import torch
from torch import nn

from flambeau.core.testing.fill import fill_, tensor

OBS, ACT = 4, 3


class Joined(nn.Module):
    def __init__(self, out=1):
        super().__init__()
        self.l = nn.Linear(OBS + ACT, out)

    def forward(self, observation, action):
        return self.l(torch.cat([observation, action.to(observation.dtype)], -1))


def names_of(library):
    """What programs see besides the library's names, of the side that the library is on."""
    if library.ours:
        import flambeau.rl.data.tensor_specs as specs
        import flambeau.rl.modules as networks
        import flambeau.rl.objectives.value as values
        from flambeau.data import tensordict as collections
        from flambeau.data.tensordict import nn as modules
    else:
        import tensordict as collections
        import tensordict.nn as modules
        import torchrl.data as specs
        import torchrl.modules as networks
        import torchrl.objectives.value as values
    TensorDict, Module = collections.TensorDict, modules.TensorDictModule

    def actor(kind="IndependentNormal", log_prob=True, **options):
        layers = fill_(nn.Sequential(nn.Linear(OBS, 2 * ACT), modules.NormalParamExtractor()))
        return networks.ProbabilisticActor(
            Module(layers, ["observation"], ["loc", "scale"]), in_keys=["loc", "scale"],
            distribution_class=getattr(networks, kind), return_log_prob=log_prob,
            default_interaction_type="random", **options,
        )  # fmt: skip

    def chooser(kind="OneHotCategorical", log_prob=True, **options):
        return networks.ProbabilisticActor(
            Module(fill_(nn.Linear(OBS, ACT)), ["observation"], ["logits"]), in_keys=["logits"],
            distribution_class=getattr(networks, kind), return_log_prob=log_prob, **options,
        )  # fmt: skip

    def deterministic():
        return networks.Actor(fill_(nn.Sequential(nn.Linear(OBS, ACT), nn.Tanh())), in_keys=["observation"])

    def critic(out=1, **options):
        return networks.ValueOperator(fill_(nn.Linear(OBS, out)), in_keys=["observation"], **options)

    def shared():
        body = Module(fill_(nn.Linear(OBS, 5)), ["observation"], ["hidden"])
        head = Module(
            fill_(nn.Sequential(nn.Linear(5, 2 * ACT), modules.NormalParamExtractor())), ["hidden"], ["loc", "scale"]
        )
        choice = modules.ProbabilisticTensorDictModule(
            in_keys=["loc", "scale"], out_keys=["action"], distribution_class=networks.IndependentNormal,
            return_log_prob=True,
        )  # fmt: skip
        policy = modules.ProbabilisticTensorDictSequential(body, head, choice)
        value = Module(fill_(nn.Linear(5, 1)), ["hidden"], ["state_value"])
        return policy, modules.TensorDictSequential(body, value)

    def heads(aggregate):
        class Split(nn.Module):
            def __init__(self):
                super().__init__()
                self.l = fill_(nn.Linear(OBS, 2 * ACT))

            def forward(self, observation):
                return self.l(observation).chunk(2, -1)

        net = Module(Split(), ["observation"], [("params", "a", "logits"), ("params", "b", "logits")])
        return modules.ProbabilisticTensorDictSequential(
            net,
            modules.ProbabilisticTensorDictModule(
                in_keys=["params"], out_keys=["a", "b"], distribution_class=modules.CompositeDistribution,
                distribution_kwargs={
                    "distribution_map": {"a": torch.distributions.Categorical, "b": torch.distributions.Categorical},
                },
                return_log_prob=True,
            ),
        )  # fmt: skip

    def steps(*shape, discrete=None, **entries):
        shape = shape or (5, 6)
        index = (tensor("index", shape) * 10).long().abs() % ACT
        action = tensor("action", (*shape, ACT)) * 0.9
        if discrete == "one-hot":
            action = nn.functional.one_hot(index, ACT)
        elif discrete:
            action = index
        done = tensor("done", (*shape, 1)) > 0.7
        following = {
            "observation": tensor("nobs", (*shape, OBS)), "reward": tensor("reward", (*shape, 1)), "done": done,
            "terminated": done & (tensor("term", (*shape, 1)) > -0.5),
        }  # fmt: skip
        return TensorDict(
            {
                "observation": tensor("obs", (*shape, OBS)), "action": action,
                "action_log_prob": tensor("logp", shape) - 1.0, "next": following, **entries,
            },
            shape,
        )  # fmt: skip

    def valued(*shape, scale=1.0, **options):
        data = steps(*shape, **options)
        for name in ("advantage", "value_target", "state_value"):
            data.set(name, tensor(name, (*data.shape, 1)) * scale)
        return data

    def see(loss, data, times=1):
        """Losses, gradients, keys, and what became of the batch."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.no_grad():
                for name, leaf in sorted(loss.named_buffers()):
                    if name.startswith("target_") and leaf.is_floating_point():
                        leaf.copy_(tensor(name, leaf.shape) * 0.4)
            for _ in range(times):
                out = loss(data)
            total = sum(out[key].sum() for key in sorted(out.keys()) if str(key).startswith("loss"))
            if total.requires_grad:
                total.backward()
        grads = {name: each.grad for name, each in sorted(loss.named_parameters()) if each.grad is not None}
        results = {str(key): out[key] for key in sorted(out.keys(True, True), key=str)}
        ours = ("td_error", "advantage", "value_target", "priority")
        left = {str(key): data[key] for key in ours if key in data}
        try:
            keys = sorted(map(str, loss.in_keys)), sorted(map(str, loss.out_keys))
        except AttributeError:
            keys = None
        return {str(k): v.detach() for k, v in results.items()}, grads, keys, left, out.batch_size

    def state(loss):
        return {name: tuple(leaf.shape) for name, leaf in sorted(loss.state_dict().items())}

    kinds = {"one-hot": specs.OneHot, "categorical": specs.Categorical}

    def qvalue(space="one-hot", **options):
        return networks.QValueActor(
            fill_(nn.Linear(OBS, ACT)), spec=kinds[space](ACT), in_keys=["observation"], **options
        )

    def distributional():
        net = fill_(nn.Sequential(nn.Linear(OBS, 7 * ACT), nn.Unflatten(-1, (7, ACT)), nn.LogSoftmax(-2)))
        return networks.DistributionalQValueActor(
            net, support=torch.linspace(-1, 1, 7), spec=specs.OneHot(ACT), in_keys=["observation"]
        )

    def estimated(loss, *args, **options):
        loss.make_value_estimator(*args, **options)
        return loss

    def keyed(loss, **keys):
        loss.set_keys(**keys)
        return loss

    def mask(*shape):
        return TensorDict({"mask": tensor("mask", shape or (5, 6)) > -0.3}, list(shape or (5, 6)))

    return {
        "torch": torch, "nn": nn, "TensorDict": TensorDict, "Module": Module, "modules": modules, "networks": networks,
        "specs": specs, "values": values, "actor": actor, "chooser": chooser, "deterministic": deterministic,
        "critic": critic, "shared": shared, "heads": heads, "steps": steps, "valued": valued, "see": see,
        "state": state, "qvalue": qvalue, "distributional": distributional, "estimated": estimated, "keyed": keyed,
        "mask": mask, "tensor": tensor, "fill_": fill_, "Joined": Joined, "OBS": OBS, "ACT": ACT,
        "T": lambda name, *shape: tensor(name, shape),
    }  # fmt: skip
