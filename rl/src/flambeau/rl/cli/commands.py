"""`flambeau rl`: train agents, and measure how fast environments are."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

__all__ = ["configure"]

# As `flambeau.rl.runs.algorithms` has them; it loads torch, which a help text must not.
ALGORITHMS = ("a2c", "cql", "ddpg", "dqn", "iql", "ppo", "sac", "td3")
LOGGERS = ("csv", "tensorboard", "wandb", "mlflow", "none")


def configure(parser: Any) -> None:
    """Add the commands to the parser of `flambeau rl`, a `flambeau.core.cli.parser.Parser`."""
    commands = parser.actions(metavar="COMMAND")
    _configure_train(commands.add_parser("train", help="train an agent"))
    _configure_bench(commands.add_parser("bench", help="measure frames a second of environments"))


def _configure_train(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("algorithm", choices=ALGORITHMS, metavar="ALGORITHM", help=", ".join(ALGORITHMS))
    parser.add_argument("--env", required=True, metavar="ID", help="the environment, such as CartPole-v1")
    parser.add_argument("--frames", type=_count, metavar="N", help="steps in all (default: the algorithm's for it)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: runs/ALGORITHM-ENV-SEED")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in the folder")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the algorithm, such as lr=0.001"
    )
    parser.add_argument("--logger", choices=LOGGERS, default="csv", help="default: %(default)s")
    parser.add_argument("--video", type=Path, metavar="FILE", help="film an episode of the policy, as an mp4 or GIF")
    parser.add_argument("--device", default="cpu", help="where networks are (default: %(default)s)")
    parser.add_argument("--evaluations", type=_count, default=40, metavar="N", help="default: %(default)s")
    parser.add_argument("--checkpoints", type=int, default=10, metavar="N", help="0 for none (default: %(default)s)")
    parser.add_argument("--quiet", action="store_true", help="show no progress bar")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run_train)


def _configure_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--env", default="CartPole-v1", metavar="ID", help="default: %(default)s")
    parser.add_argument(
        "--envs", type=_count, nargs="+", default=[1, 16, 256, 4096], metavar="N", help="how many at once"
    )
    parser.add_argument(
        "--seconds", type=float, default=2.0, metavar="S", help="of each measurement (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run_bench)


def _count(text: str) -> int:
    number = int(float(text))
    if number < 1 or number != float(text):
        raise argparse.ArgumentTypeError(f"expected a whole number of 1 or more, got {text!r}")
    return number


def run_train(arguments: argparse.Namespace) -> int:
    """Train, and print what came of it; returns the exit code."""
    from flambeau.core.cli.output import print_json
    from flambeau.rl.runs.training import RunSettings, train

    options = dict(map(_setting, arguments.set))
    if arguments.frames is not None:
        options["frames"] = arguments.frames
    name = f"{arguments.algorithm}-{arguments.env.replace('/', '-')}-{arguments.seed}"
    run = RunSettings(
        arguments.algorithm,
        arguments.env,
        seed=arguments.seed,
        out=str(arguments.out or Path("runs") / name),
        options=options,
        logger=arguments.logger,
        device=arguments.device,
        evaluations=arguments.evaluations,
        checkpoints=arguments.checkpoints,
    )
    result = train(run, resume=arguments.resume, progress=not arguments.quiet and sys.stderr.isatty())
    facts = {
        "algorithm": run.algorithm,
        "env": run.env,
        "seed": run.seed,
        "return": result.mean,
        "std": result.std,
        "episodes": run.test_episodes,
        "frames": result.frames,
        "seconds": round(result.seconds, 2),
        "out": run.out,
    }
    if arguments.video is not None:
        _film(run, arguments.video)
        facts["video"] = str(arguments.video)
    if arguments.json:
        print_json(facts)
        return 0
    rate = result.frames / max(result.seconds, 1e-9)
    print(f"{run.algorithm} on {run.env}, seed {run.seed}: return {result.mean:.1f} +- {result.std:.1f}")
    print(
        f"over {run.test_episodes} episodes, after {result.frames:,} steps, {rate:,.0f} a second; all is in {run.out}"
    )
    return 0


def _setting(text: str) -> tuple[str, str]:
    from flambeau.core.errors import CommandError

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandError(f"--set takes NAME=VALUE, such as lr=0.001; got {text!r}.")
    return name, value


def _film(run: Any, path: Path) -> None:
    from flambeau.rl.render.films import film
    from flambeau.rl.runs.training import load_policy

    policy, env = load_policy(run.out)
    film(env, policy, path, seed=run.seed)


def run_bench(arguments: argparse.Namespace) -> int:
    """Measure, and print frames a second; returns the exit code."""
    from flambeau.core.cli.output import print_json
    from flambeau.rl.runs.speed import measure

    rows = measure(arguments.env, arguments.envs, seconds=arguments.seconds)
    if arguments.json:
        print_json(rows)
        return 0
    print(f"{arguments.env}, random actions, frames a second")
    width = max(len(str(row["path"])) for row in rows)
    for row in rows:
        print(f"{row['path']:<{width}}  {row['envs']:>6,} envs  {row['frames_per_second']:>14,.0f}")
    return 0
