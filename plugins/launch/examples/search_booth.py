"""Search the least value of Booth's function by launched trials, four at a time: `python search_booth.py`."""

from __future__ import annotations

from flambeau.launch.components.utils import booth
from flambeau.launch.hpo import Study


def main(trials: int = 24) -> float:
    """Print the best trial, which comes near 0 at (1, 3); returns its value."""
    study = Study(booth, "local_cwd", objective="booth_eval", space={"x1": (-5.0, 5.0), "x2": (-5.0, 5.0)})
    best = study.optimize(trials, parallel=4)
    print(f"trial {best.number} of {len(study.trials)}: booth({best.params}) = {best.value:.3f}")
    assert best.value is not None
    return best.value


if __name__ == "__main__":
    main()
