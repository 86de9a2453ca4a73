"""Metrics beside torchrec's: taking batches in, and computing values.

    python rec/benchmarks/metric_benchmarks.py [--only TEXT] [--runs 5] [--markdown]

Both libraries alternate in one process, on one thread; the fastest of several runs counts, in CPU time. A ratio of 2 is
twice as fast as the peer. Without torchrec, which `tools/peers.py` installs, ours is timed alone.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Callable
from typing import Any

import torch
from _tables import Table, fastest, parser
from torch import Tensor

BATCH = 512
UPDATES = 50
FUSED = "FUSED_TASKS_COMPUTATION"
UNFUSED = "UNFUSED_TASKS_COMPUTATION"


def metric(
    root: str, place: str, tasks: int = 1, mode: str = UNFUSED, window: int = 100 * BATCH, **options: Any
) -> Any:
    """A metric of a library."""
    module, _, name = place.partition(".")
    config = importlib.import_module(f"{root}.metrics_config")
    return getattr(importlib.import_module(f"{root}.{module}"), name)(
        world_size=1,
        my_rank=0,
        batch_size=BATCH,
        tasks=[config.RecTaskInfo(name=f"t{at}") for at in range(tasks)],
        compute_mode=config.RecComputeMode[mode],
        window_size=window,
        **options,
    )


def batch(tasks: int, size: int = BATCH, real: bool = False) -> dict[str, dict[str, Tensor]]:
    """Predictions, labels and weights of tasks."""
    draw = torch.Generator().manual_seed(0)

    def each(make: Callable[[], Tensor]) -> dict[str, Tensor]:
        return {f"t{at}": make() for at in range(tasks)}

    return {
        "predictions": each(lambda: torch.rand(size, generator=draw)),
        "labels": each(
            lambda: torch.rand(size, generator=draw) if real else torch.randint(0, 2, (size,), generator=draw).float()
        ),
        "weights": each(lambda: torch.rand(size, generator=draw)),
    }


def updates(place: str, tasks: int = 1, mode: str = UNFUSED, inputs: str = "", **options: Any) -> Callable[[str], Any]:
    """Taking batches in, the window full."""

    def prepare(root: str) -> Callable[[], object]:
        made, given = metric(root, place, tasks, mode, window=10 * BATCH, **options), batch(tasks)
        more = {"required_inputs": {inputs: torch.randint(0, 50, (BATCH,)).sort().values}} if inputs else {}

        def run() -> None:
            for _ in range(UPDATES):
                made.update(**given, **more)

        return run

    return prepare


def values(place: str, size: int, real: bool = False, inputs: str = "", **options: Any) -> Callable[[str], Any]:
    """Taking one large batch in, and computing its values."""

    def prepare(root: str) -> Callable[[], object]:
        given = batch(1, size, real)
        more = {"required_inputs": {inputs: torch.randint(0, 50, (size,))}} if inputs else {}

        def run() -> None:
            made = metric(root, place, window=size, **options)
            made.update(**given, **more)
            made.compute()

        return run

    return prepare


def module(kinds: tuple[str, ...], tasks: int, mode: str) -> Callable[[str], Any]:
    """All metrics of a training loop: batches, and values at their end."""

    def prepare(root: str) -> Callable[[], object]:
        config = importlib.import_module(f"{root}.metrics_config")
        modules = importlib.import_module(f"{root}.metric_module")
        made = modules.generate_metric_module(
            modules.RecMetricModule,
            config.MetricsConfig(
                rec_tasks=[config.RecTaskInfo(f"t{at}", f"y{at}", f"p{at}", f"w{at}") for at in range(tasks)],
                rec_metrics={
                    config.RecMetricEnum[kind]: config.RecMetricDef(
                        rec_task_indices=list(range(tasks)), window_size=10 * BATCH
                    )
                    for kind in kinds
                },
                rec_compute_mode=config.RecComputeMode[mode],
                throughput_metric=config.ThroughputDef(),
            ),
            batch_size=BATCH,
            world_size=1,
            my_rank=0,
            state_metrics_mapping={},
            device=torch.device("cpu"),
        )
        given = batch(tasks)
        outputs = {
            f"{letter}{at}": given[name][f"t{at}"]
            for letter, name in (("y", "labels"), ("p", "predictions"), ("w", "weights"))
            for at in range(tasks)
        }

        def run() -> None:
            for _ in range(UPDATES // 5):
                made.update(outputs)
            made.compute().resolve()

        return run

    return prepare


SUMS = ("NE", "CALIBRATION", "CTR", "MSE", "MAE", "ACCURACY", "PRECISION", "RECALL", "AVERAGE", "SERVING_NE")
CASES: dict[str, Callable[[str], Callable[[], object]]] = {
    "ne, 50 updates": updates("ne.NEMetric"),
    "ne, 10 tasks, 50 updates": updates("ne.NEMetric", 10),
    "ne, 10 fused tasks, 50 updates": updates("ne.NEMetric", 10, FUSED),
    "calibration, 50 updates": updates("calibration.CalibrationMetric"),
    "mse, 50 updates": updates("mse.MSEMetric"),
    "segmented_ne of 50 groups, 50 updates": updates(
        "segmented_ne.SegmentedNEMetric", inputs="grouping_keys", num_groups=50
    ),
    "ndcg, 50 sessions, 50 updates": updates("ndcg.NDCGMetric", inputs="session_id"),
    "auc, 50 updates": updates("auc.AUCMetric"),
    "auc of 100,000": values("auc.AUCMetric", 100_000),
    "auc of 100,000 in 50 groups": values("auc.AUCMetric", 100_000, inputs="grouping_keys", grouped_auc=True),
    "auprc of 100,000": values("auprc.AUPRCMetric", 100_000),
    "xauc of 512": values("xauc.XAUCMetric", 512, real=True),
    "xauc of 4,096": values("xauc.XAUCMetric", 4096, real=True),
    "rauc of 4,096": values("rauc.RAUCMetric", 4096, real=True),
    "rauc of 100,000": values("rauc.RAUCMetric", 100_000, real=True),
    "hindsight_target_pr of 512": values("hindsight_target_pr.HindsightTargetPRMetric", 512),
    "module of 10 metrics, 4 tasks": module(SUMS, 4, UNFUSED),
    "module of 10 metrics, 4 fused tasks": module(SUMS, 4, FUSED),
}


def main() -> None:
    """Print the table."""
    chosen = parser(__doc__)
    chosen.add_argument("--runs", type=int, default=5)
    options = chosen.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    roots = ["flambeau.rec.metrics"]
    try:
        importlib.import_module("torchrec.metrics")
        roots.append("torchrec.metrics")
    except ImportError:
        print("torchrec is not installed; ours alone.")
    table = Table("Metrics", "ms", ["torchrec"] * (len(roots) - 1), options.markdown)
    for name, prepare in CASES.items():
        if options.only in name:
            table.row(name, *fastest([prepare(root) for root in roots], options.runs))


if __name__ == "__main__":
    main()
