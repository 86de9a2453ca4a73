"""A run of training, from its settings to a policy, a learning curve and what was logged.

A run's folder holds::

    run.json          settings: what is needed to go on
    evaluation.json   returns by frames
    curve.png         the same, drawn
    result.json       the return of the policy over new episodes, and seconds
    policy.pt         the state_dict of the policy that evaluated best
    checkpoints/      the newest two
    logs/             of the logger
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flambeau.core.errors import FlambeauError, close_names
from flambeau.core.files import write_atomic
from flambeau.rl.checkpoint import Checkpoint, CheckpointRotation, GlobalRNGState
from flambeau.rl.collectors import Collector
from flambeau.rl.record._files import save_tensors
from flambeau.rl.runs.algorithms import algorithm
from flambeau.rl.runs.environments import is_native, make_env
from flambeau.rl.runs.episodes import Episodes
from flambeau.rl.runs.evaluation import episode_returns
from flambeau.rl.runs.progress import Progress

__all__ = ["RunError", "RunResult", "RunSettings", "chosen_settings", "load_policy", "train"]

TEST_SEED = 2_000_003
"""The states in which the final policy is measured, which neither training nor the choice of the policy has seen."""


class RunError(FlambeauError, ValueError):
    """Settings do not go together, or a folder holds another run."""


@dataclass(frozen=True)
class RunSettings:
    """What is trained, and what is kept of it.

    Attributes:
        algorithm: such as "ppo".
        env: the environment's name.
        seed: of everything that is drawn.
        out: the run's folder.
        options: settings of the algorithm, over those that it has for the environment.
        logger: "csv", "tensorboard", "wandb", "mlflow" or "none".
        device: where networks are.
        evaluations: how often the policy is evaluated.
        evaluation_episodes: of each evaluation.
        test_episodes: over which the final policy is measured.
        checkpoints: how many are written; 0 for none.
    """

    algorithm: str
    env: str
    seed: int = 0
    out: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    logger: str = "csv"
    device: str = "cpu"
    evaluations: int = 40
    evaluation_episodes: int = 100
    test_episodes: int = 100
    checkpoints: int = 10


@dataclass(frozen=True)
class RunResult:
    """What came of a run.

    Attributes:
        mean: return of the policy, over `test_episodes` new episodes.
        std: its standard deviation.
        frames: steps that were taken.
        seconds: of training, without evaluations.
        rows: returns by frames.
        policy: the policy's file.
    """

    mean: float
    std: float
    frames: int
    seconds: float
    rows: list[dict[str, float]]
    policy: Path


def chosen_settings(run: RunSettings) -> Any:
    """The algorithm's settings for an environment, and what the run says over them.

    Raises:
        RunError: the algorithm has no such setting, or it is of another type.
    """
    module = algorithm(run.algorithm)
    defaults = module.Settings(**module.PRESETS.get(run.env, {}))
    known = {each.name for each in dataclasses.fields(defaults)}
    for name in run.options:
        if name not in known:
            near = close_names(name, sorted(known))
            raise RunError(
                f"{run.algorithm} has no setting {name!r}{f'; close: {near[0]}' if near else ''}. "
                f"It has {', '.join(sorted(known))}."
            )
    return dataclasses.replace(defaults, **{name: _typed(name, value, defaults) for name, value in run.options.items()})


def _typed(name: str, value: Any, defaults: Any) -> Any:
    """A setting, which may come as a text."""
    kind = type(getattr(defaults, name))
    try:
        if kind is tuple:
            items = value.split(",") if isinstance(value, str) else value
            return tuple(int(item) for item in items)
        if kind is int and isinstance(value, str):
            return int(float(value)) if float(value).is_integer() else int(value)
        return kind(value)
    except (TypeError, ValueError) as error:
        raise RunError(f"setting {name} is of type {kind.__name__}; got {value!r}.") from error


def train(run: RunSettings, *, resume: bool = False, progress: bool = True) -> RunResult:
    """Train, or go on with training.

    A run that was killed, and goes on, ends with the same parameters as one that was not.

    Args:
        run: what is trained.
        resume: go on from the newest checkpoint in the run's folder; begin where there is none.
        progress: show a bar.

    Raises:
        RunError: settings do not go together, or the folder holds another run.
        UnknownEnvironmentError: there is none of that name.
    """
    settings = chosen_settings(run)
    folder = Path(run.out)
    _claim(folder, run, settings, resume)
    torch.manual_seed(run.seed)
    np.random.seed(run.seed % 2**32)
    env = make_env(run.env, settings.envs, run.seed, device=run.device)
    parts = algorithm(run.algorithm).build(env, settings, settings.frames)
    parts.loss.to(run.device)
    total = -(-settings.frames // parts.frames_per_batch) * parts.frames_per_batch
    collector = Collector(
        env,
        parts.explores,
        frames_per_batch=parts.frames_per_batch,
        total_frames=total,
        init_random_frames=-(-parts.init_random_frames // parts.frames_per_batch) * parts.frames_per_batch or None,
        storing_device="cpu",
        trust_policy=True,
    )
    logger = _logger(run, settings, folder)
    watch = Progress(
        run.env,
        parts.policy,
        every=max(1, settings.frames // max(1, run.evaluations)),
        episodes=run.evaluation_episodes,
        logger=logger,
        file=folder / "evaluation.json",
    )
    trainer = parts.trainer(
        collector=collector,
        total_frames=total,
        frame_skip=1,
        loss_module=parts.loss,
        logger=logger,
        progress_bar=progress,
        log_interval=max(1, settings.frames // 200),
        episode_reward_key="episode_reward",
        **_checkpointing(run, settings, folder, collector, watch),
        **parts.options,
    )
    for hook in parts.hooks:
        hook.register(trainer)
    watch.register(trainer)
    if resume and (newest := CheckpointRotation(folder / "checkpoints", keep_last=2).latest()) is not None:
        trainer.load_from_file(newest)
    if trainer.collected_frames < total:
        trainer.train()
    return _finished(run, parts.policy, watch, trainer.collected_frames, folder, logger)


def _claim(folder: Path, run: RunSettings, settings: Any, resume: bool) -> None:
    """Write what the folder holds, or see that it holds this run.

    Raises:
        RunError: it holds another one.
    """
    facts = {"algorithm": run.algorithm, "env": run.env, "seed": run.seed, "settings": dataclasses.asdict(settings)}
    described = json.dumps(facts, indent=1) + "\n"
    file = folder / "run.json"
    if file.exists():
        if not resume:
            raise RunError(f"{folder} holds a run; go on with it by --resume, or name another folder with --out.")
        if file.read_text(encoding="utf-8") != described:
            raise RunError(
                f"{folder} holds a run with other settings, see {file}; give the same ones, or another --out."
            )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(file, described)


def _logger(run: RunSettings, settings: Any, folder: Path) -> Any:
    from flambeau.rl.record.loggers import get_logger

    if run.logger == "none":
        return None
    name = f"{run.algorithm}-{run.env.replace('/', '-')}-{run.seed}"
    options: dict[str, Any] = {}
    if run.logger == "wandb":
        options["wandb_kwargs"] = {"project": "flambeau-rl", "save_dir": str(folder / "logs")}
    elif run.logger == "mlflow":
        options["mlflow_kwargs"] = {"tracking_uri": f"sqlite:///{folder.absolute() / 'mlflow.db'}"}
    logger = get_logger(run.logger, str(folder / "logs"), name, **options)  # type: ignore[arg-type]
    logger.log_hparams({"algorithm": run.algorithm, "env": run.env, "seed": run.seed} | dataclasses.asdict(settings))
    return logger


def _checkpointing(run: RunSettings, settings: Any, folder: Path, collector: Any, watch: Progress) -> dict[str, Any]:
    """Arguments by which a trainer writes checkpoints."""
    checkpoint = Checkpoint()
    checkpoint.register("episodes", Episodes(collector, run.seed, kept=is_native(run.env)))
    checkpoint.register("progress", watch)
    # Restored after the others, in the order of names: they may draw numbers.
    checkpoint.register("zz_random", GlobalRNGState())
    options: dict[str, Any] = {"checkpoint": checkpoint}
    if run.checkpoints:
        options["checkpoint_rotation"] = CheckpointRotation(folder / "checkpoints", keep_last=2)
        options["save_trainer_interval"] = max(1, settings.frames // run.checkpoints - 1)
    return options


def _finished(run: RunSettings, policy: Any, watch: Progress, frames: int, folder: Path, logger: Any) -> RunResult:
    """Measure the policy that was best in new episodes, and write what came of the run."""
    if watch.best is not None:
        policy.load_state_dict(watch.best)
    returns = episode_returns(run.env, policy, episodes=run.test_episodes, seed=TEST_SEED)
    result = RunResult(
        float(returns.mean()),
        float(returns.std(unbiased=False)),
        frames,
        watch.seconds,
        watch.rows,
        folder / "policy.pt",
    )
    save_tensors(policy.state_dict(), result.policy)
    facts = {"return": result.mean, "std": result.std, "episodes": run.test_episodes}
    facts |= {"frames": frames, "seconds": round(watch.seconds, 2)}
    write_atomic(folder / "result.json", json.dumps(facts, indent=1) + "\n")
    _drawn(run, watch, folder)
    if logger is not None:
        logger.shutdown()
    return result


def _drawn(run: RunSettings, watch: Progress, folder: Path) -> None:
    from flambeau.rl.runs.curves import draw_curves

    try:
        draw_curves([watch.rows], folder / "curve.png", title=f"{run.algorithm} on {run.env}, seed {run.seed}")
    except ImportError:  # a picture is no reason to lose a run
        return


def load_policy(folder: str | Path) -> tuple[Any, str]:
    """The policy of a run, and the name of its environment.

    Args:
        folder: of the run.

    Raises:
        RunError: the folder holds no run that has ended.
    """
    place = Path(folder)
    if not (place / "run.json").exists() or not (place / "policy.pt").exists():
        raise RunError(f"{place} holds no run that has ended: it has no run.json and policy.pt.")
    facts = json.loads((place / "run.json").read_text(encoding="utf-8"))
    run = RunSettings(facts["algorithm"], facts["env"], options=facts["settings"])
    settings = chosen_settings(run)
    env = make_env(run.env, 1, 0)
    policy = algorithm(run.algorithm).build(env, settings, settings.frames).policy
    policy.load_state_dict(torch.load(place / "policy.pt", weights_only=True))
    return policy.eval(), run.env
