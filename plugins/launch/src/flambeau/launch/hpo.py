"""Searching for hyper-parameters by launching trials: as many at once as the scheduler has room for.

A trial is a component with some of its arguments drawn; the program puts what it measured under the trial's number::

    from flambeau.launch.components.utils import booth
    from flambeau.launch.hpo import Study

    study = Study(booth, "local_cwd", objective="booth_eval", space={"x1": (-10.0, 10.0), "x2": (-10.0, 10.0)})
    best = study.optimize(trials=20, parallel=4)

Trials are drawn by Optuna (`pip install flambeau-launch[hpo]`), or by any object with its `ask` and `tell`.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from flambeau.launch.errors import LaunchError
from flambeau.launch.runner import Runner, get_runner
from flambeau.launch.runtime.tracking import FsspecResultTracker
from flambeau.launch.specs.apps import AppDef
from flambeau.launch.specs.options import CfgVal
from flambeau.launch.specs.status import AppState

__all__ = ["Sampler", "Study", "StudyError", "Trial"]

Range = tuple[float, float] | tuple[int, int] | Sequence[Any]


class StudyError(LaunchError, RuntimeError):
    """A study that found nothing: all its trials failed."""


class Sampler(Protocol):
    """What draws trials: `optuna.study.Study`, or anything alike."""

    def ask(self, fixed_distributions: Any = None) -> Any:
        """A new trial, whose `params` are its values."""
        ...

    def tell(self, trial: Any, values: Any = None, state: Any = None) -> Any:
        """What a trial came to."""
        ...


@dataclass
class Trial:
    """One launch.

    Attributes:
        number: of the trial, by which its program puts results.
        params: drawn arguments.
        handle: of its application.
        state: where it stands.
        value: of the objective; None before it is known, and for trials that failed.
        results: everything that the program put.
    """

    number: int
    params: dict[str, Any]
    handle: str = ""
    state: AppState = AppState.UNSUBMITTED
    value: float | None = None
    results: dict[str, Any] = field(default_factory=dict)


class Study:
    """A search over the arguments of a component.

    Args:
        component: takes the drawn arguments, `trial_idx` (number of the trial) and `tracker_base` (where its program
            puts results, by `FsspecResultTracker(tracker_base)[trial_idx] = {...}`).
        scheduler: name of the scheduler that trials run on.
        objective: name of the result to minimize or maximize.
        space: argument -> (lowest, highest), of floats or of integers, or a list of choices.
        direction: "minimize" or "maximize".
        cfg: options of the scheduler.
        tracker_base: folder, or an address of fsspec, that all replicas write to; a temporary folder where not given.
        arguments: further arguments, the same for all trials.
        sampler: what draws trials; an Optuna study with `seed` where not given.
        seed: of that study.
    """

    def __init__(
        self,
        component: Callable[..., AppDef],
        scheduler: str,
        *,
        objective: str,
        space: Mapping[str, Range],
        direction: Literal["minimize", "maximize"] = "minimize",
        cfg: Mapping[str, CfgVal] | None = None,
        tracker_base: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        sampler: Sampler | None = None,
        seed: int = 0,
    ) -> None:
        self.component, self.scheduler, self.objective = component, scheduler, objective
        self.direction, self.cfg, self.arguments = direction, dict(cfg or {}), dict(arguments or {})
        self.tracker_base = tracker_base or tempfile.mkdtemp(prefix="flambeau_study_")
        self.trials: list[Trial] = []
        self._space = dict(space)
        self._sampler = sampler if sampler is not None else _optuna_study(direction, seed)
        self._distributions = _distributions(self._space)

    @property
    def best(self) -> Trial:
        """The trial with the best value.

        Raises:
            StudyError: none has a value.
        """
        found = [trial for trial in self.trials if trial.value is not None]
        if not found:
            states = ", ".join(f"{trial.number}: {trial.state}" for trial in self.trials) or "none ran"
            raise StudyError(f"no trial came to a value of {self.objective!r} ({states}).")
        return (min if self.direction == "minimize" else max)(found, key=lambda trial: trial.value or 0.0)

    def optimize(self, trials: int, *, parallel: int = 1, runner: Runner | None = None, poll_s: float = 0.2) -> Trial:
        """Launch trials until so many have ended, and give the best one.

        Args:
            trials: how many.
            parallel: how many at once.
            runner: that launches them; a new one where not given.
            poll_s: seconds between two questions for those that run.

        Raises:
            StudyError: all of them failed.
        """
        with contextlib.ExitStack() as stack:
            launcher = runner if runner is not None else stack.enter_context(get_runner())
            running: list[tuple[Trial, Any]] = []
            left = trials
            try:
                while left or running:
                    while left and len(running) < parallel:
                        running.append(self._launch(launcher))
                        left -= 1
                    running = [pair for pair in running if not self._ended(launcher, *pair)]
                    if len(running) >= parallel or not left:
                        time.sleep(poll_s)
            finally:
                for trial, _ in running:
                    launcher.cancel(trial.handle)
        return self.best

    def _launch(self, runner: Runner) -> tuple[Trial, Any]:
        asked = self._sampler.ask(self._distributions)
        trial = Trial(len(self.trials), dict(asked.params))
        self.trials.append(trial)
        app = self.component(**self.arguments, **trial.params, trial_idx=trial.number, tracker_base=self.tracker_base)
        trial.handle = runner.run(app, self.scheduler, self.cfg)
        return trial, asked

    def _ended(self, runner: Runner, trial: Trial, asked: Any) -> bool:
        status = runner.status(trial.handle)
        trial.state = status.state if status else AppState.UNKNOWN
        if status is not None and not status.is_terminal():
            return False
        results = FsspecResultTracker(self.tracker_base)[trial.number]
        trial.results = results
        value = results.get(self.objective)
        if trial.state is AppState.SUCCEEDED and isinstance(value, int | float):
            trial.value = float(value)
            self._sampler.tell(asked, trial.value)
        else:
            self._sampler.tell(asked, state=_failed())
        return True


def _optuna_study(direction: Literal["minimize", "maximize"], seed: int) -> Sampler:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study: Sampler = optuna.create_study(direction=direction, sampler=optuna.samplers.TPESampler(seed=seed))
    return study


def _failed() -> Any:
    from optuna.trial import TrialState

    return TrialState.FAIL


def _distributions(space: Mapping[str, Range]) -> dict[str, Any]:
    """Optuna's distributions of a space.

    Raises:
        StudyError: a range is neither two numbers in order nor a list of choices.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    found: dict[str, Any] = {}
    for name, values in space.items():
        if isinstance(values, tuple) and len(values) == 2 and all(type(value) is int for value in values):
            found[name] = IntDistribution(int(values[0]), int(values[1]))
        elif isinstance(values, tuple) and len(values) == 2 and all(isinstance(v, int | float) for v in values):
            if values[0] > values[1]:
                raise StudyError(f"{name}: {values} has its larger end first.")
            found[name] = FloatDistribution(float(values[0]), float(values[1]))
        elif isinstance(values, list) and values:
            found[name] = CategoricalDistribution(values)
        else:
            raise StudyError(f"{name}: {values!r} is no range; expected (low, high) or a list of choices.")
    return found
