"""Searches: launched trials find the least value, and failed ones do not count."""

from __future__ import annotations

import pytest

from flambeau.launch import specs
from flambeau.launch.components.utils import booth
from flambeau.launch.hpo import Study, StudyError

pytest.importorskip("optuna")


def trial(x, trial_idx, tracker_base, fail=False):
    """A component whose program computes (x - 2)^2, or dies."""
    code = (
        "from flambeau.launch.runtime.tracking import FsspecResultTracker\n"
        f"FsspecResultTracker({tracker_base!r})[{trial_idx}] = {{'loss': ({x} - 2) ** 2}}\n"
        f"assert not {fail} and {x} < 4\n"
    )
    return specs.AppDef("trial", [specs.Role("r", "", entrypoint="python", args=["-c", code])])


def test_the_best_of_several_trials_at_once_is_found():
    study = Study(trial, "local_cwd", objective="loss", space={"x": (0, 5)}, seed=1)
    best = study.optimize(8, parallel=4, poll_s=0.05)
    assert len(study.trials) == 8 and best.value == min(one.value for one in study.trials if one.value is not None)
    # Trials that died do not count, whatever they put.
    assert all((one.value is None) == (one.params["x"] >= 4) for one in study.trials)


def test_a_search_whose_trials_all_die_is_told():
    study = Study(trial, "local_cwd", objective="loss", space={"x": (0.0, 1.0)}, arguments={"fail": True})
    with pytest.raises(StudyError, match="FAILED"):
        study.optimize(2, parallel=2, poll_s=0.05)


@pytest.mark.parametrize("space", [{"x": (1.0, 0.0)}, {"x": []}, {"x": "abc"}])
def test_ranges_that_are_none_are_refused(space):
    with pytest.raises(StudyError, match="x: "):
        Study(trial, "local_cwd", objective="loss", space=space)


def test_booths_function_is_computed_by_its_program():
    study = Study(booth, "local_cwd", objective="booth_eval", space={"x1": [1.0], "x2": [3.0]})
    assert study.optimize(1, poll_s=0.05).value == 0
