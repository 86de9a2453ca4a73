"""PPO on CartPole-v1 until its policy returns 475, beside stable-baselines3, on one thread.

    python rl/benchmarks/ppo_cartpole.py [--seeds N] [--quick]

Seconds and steps until a policy without exploration returns 475 or more over 20 episodes, looked at every 2,048 steps;
evaluations are not counted. Both have the same settings: 8 environments, 32 steps each, 20 epochs of batches of 256, a
learning rate of 0.001 that falls to zero over 100,000 steps, a discount of 0.98, lambda 0.8, two layers of 64. The
environments differ: ours is tensor code, stable-baselines3's are gymnasium's. Where `stable_baselines3` is not
installed it is left out. `--quick` stops after a few batches, to see that it runs.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
import time
from typing import Any

import torch

from flambeau.rl.runs import RunSettings, train
from flambeau.rl.runs.progress import Progress

THRESHOLD, EVERY, MOST = 475.0, 2_048, 100_000


class _Reached(Exception):
    """The policy is good enough."""


def ours(seed: int, most: int) -> tuple[float, int]:
    """Seconds and steps of `flambeau rl train ppo`."""
    reached: list[tuple[float, int]] = []
    look = Progress.look

    def looked(self: Progress, frames: int, total: int) -> Any:
        found = look(self, frames, total)
        if found is not None and (found["evaluation"] >= THRESHOLD or frames >= most):
            reached.append((self.seconds, frames))
            raise _Reached
        return found

    Progress.look = looked  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            options = {"frames": MOST}
            train(
                RunSettings(
                    "ppo", "CartPole-v1", seed, folder, options, "none", evaluations=MOST // EVERY, checkpoints=0
                ),
                progress=False,
            )
    except _Reached:
        pass
    finally:
        Progress.look = look  # type: ignore[method-assign]
    return reached[-1] if reached else (float("nan"), MOST)


def theirs(seed: int, most: int) -> tuple[float, int]:
    """Seconds and steps of stable-baselines3."""
    import gymnasium
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", 8, seed=seed),
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        learning_rate=lambda left: 1e-3 * left,
        gamma=0.98,
        gae_lambda=0.8,
        clip_range=0.2,
        policy_kwargs={"net_arch": [64, 64]},
        seed=seed,
        device="cpu",
    )
    test = gymnasium.make("CartPole-v1")
    test.reset(seed=seed)
    seconds = 0.0
    model._total_timesteps = MOST
    while model.num_timesteps < most:
        start = time.perf_counter()
        # The learning rate falls over all of it, not over each part.
        model.learn(EVERY, reset_num_timesteps=False)
        seconds += time.perf_counter() - start
        mean, _ = evaluate_policy(model, test, n_eval_episodes=20, warn=False)
        if mean >= THRESHOLD:
            break
    return seconds, model.num_timesteps


def main() -> None:
    """Run both, and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    most = 2 * EVERY if arguments.quick else MOST
    peers = {"flambeau": ours}
    if importlib.util.find_spec("stable_baselines3") is not None:
        peers["stable-baselines3"] = theirs
    rows: dict[str, list[tuple[float, int]]] = {name: [] for name in peers}
    for seed in range(1 if arguments.quick else arguments.seeds):
        for name, run in peers.items():
            rows[name].append(run(seed, most))
            print(f"{name:<18} seed {seed}: {rows[name][-1][0]:6.1f} s, {rows[name][-1][1]:>7,} steps", flush=True)
    medians = {name: statistics.median(seconds for seconds, _ in found) for name, found in rows.items()}
    if len(medians) == 2:
        print(
            f"ratio of seconds, stable-baselines3 / flambeau: {medians['stable-baselines3'] / medians['flambeau']:.2f}"
        )


if __name__ == "__main__":
    main()
