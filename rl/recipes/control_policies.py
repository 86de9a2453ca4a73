"""Train the embedded policies: `python rl/recipes/control_policies.py cartpole --out FOLDER`, or `pendulum`.

CartPole-v1 is learned by PPO in 40,000 steps with seed 1, Pendulum-v1 by SAC in 20,000 steps with seed 0, otherwise by
the settings that `flambeau rl train` has for them. What is kept is what the policy does where it does not explore: of
SAC's distribution the mean alone.

The run is deterministic: one thread, fixed seeds. It takes one or two minutes on one CPU core, writes
`NAME-ALGORITHM_v1-<hash>.safetensors`, and prints what belongs into the record: returns over 100 episodes whose first
states training has not seen. The files in the package were made before Adam stepped all parameters in one pass and PPO
computed the advantages of a batch once: a run of today gives a file of its own, with another hash.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from flambeau.rl.models.control import ControlPolicy, cartpole_policy, pendulum_policy
from flambeau.rl.runs import RunSettings, episode_returns, train
from flambeau.rl.runs.training import TEST_SEED, load_policy

POLICIES: dict[str, tuple[RunSettings, Any]] = {
    "cartpole": (RunSettings("ppo", "CartPole-v1", seed=1, options={"frames": 40_000}, logger="none"), cartpole_policy),
    "pendulum": (RunSettings("sac", "Pendulum-v1", seed=0, logger="none"), pendulum_policy),
}


def plain(trained: Any, policy: ControlPolicy) -> ControlPolicy:
    """Copy the layers of a trained policy; of a last layer that gives scales as well, the first half."""
    layers = [value for name, value in trained.state_dict().items() if name.endswith(("weight", "bias"))]
    state = {}
    for (name, own), value in zip(policy.state_dict().items(), layers, strict=True):
        state[name] = value[: own.shape[0]].clone()
    policy.load_state_dict(state)
    return policy.eval()


def main() -> None:
    """Train, measure, write the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", choices=sorted(POLICIES))
    parser.add_argument("--out", type=Path, required=True, help="folder for the weights")
    parser.add_argument("--run", type=Path, help="folder of the run; one that has ended is taken as it is")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    settings, builder = POLICIES[arguments.name]
    folder = arguments.run or arguments.out / f"{settings.algorithm}-{settings.env}"
    if not (folder / "policy.pt").exists():
        train(dataclasses.replace(settings, out=str(folder)), resume=True)
    policy = plain(load_policy(folder)[0], builder())
    content = save({name: value.contiguous() for name, value in policy.state_dict().items()})
    digest = hashlib.sha256(content).hexdigest()
    path = arguments.out / f"{arguments.name}_policy-{settings.algorithm}_v1-{digest[:8]}.safetensors"
    path.write_bytes(content)
    returns = episode_returns(settings.env, policy.act, episodes=100, seed=TEST_SEED)
    print(f"file {path}\nsha256 {digest}\nsize {len(content)}")
    print(f"parameters {sum(p.numel() for p in policy.parameters())}")
    print(f"return over 100 episodes: {float(returns.mean()):.1f} +- {float(returns.std(unbiased=False)):.1f}")


if __name__ == "__main__":
    main()
