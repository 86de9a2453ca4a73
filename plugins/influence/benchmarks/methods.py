"""Every method beside captum's, on a network of three convolutions, 1,000 training examples and three checkpoints.

    python plugins/influence/benchmarks/methods.py [--quick]

Seconds of CPU time, the least of two. TracInCP takes at most a third of the time of captum's default mode; the program
exits with 1 where it takes more. Scores are compared on the way. Where captum is not installed it is left out;
`--quick` takes 24 examples, to see that it runs.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

QUICK = "--quick" in sys.argv
EXAMPLES, TESTS = (24, 2) if QUICK else (1000, 16)
REPETITIONS = 1 if QUICK else 2
BOUNDS = {"TracInCP": 1 / 3}


def network() -> nn.Module:
    """Three convolutions and a linear layer on pictures of 8x8."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10),
    ).eval()  # fmt: skip


def methods(library: Any, folder: str) -> dict[str, Callable[[], Any]]:
    """What one of the two libraries is asked for."""
    model = network()
    generator = torch.Generator().manual_seed(1)
    data = TensorDataset(
        torch.rand(EXAMPLES, 1, 8, 8, generator=generator), torch.randint(10, (EXAMPLES,), generator=generator)
    )
    test = (torch.rand(TESTS, 1, 8, 8, generator=generator), torch.randint(10, (TESTS,), generator=generator))
    states = [{name: value * (1 + 0.1 * k) for name, value in model.state_dict().items()} for k in range(3)]

    def load(module: nn.Module, number: int) -> float:
        module.load_state_dict(states[number])
        return 0.1

    path = f"{folder}/state.pt"
    torch.save(states[0], path)
    arnoldi = importlib.import_module(f"{library.__name__}._core.arnoldi_influence_function")
    each, total = nn.CrossEntropyLoss(reduction="none"), nn.CrossEntropyLoss(reduction="sum")

    def tracin(loss: nn.Module, **options: Any) -> Any:
        return library.TracInCP(model, data, iter(range(3)), load, loss_fn=loss, batch_size=100, **options)

    last = {"layers": ["8"], "loss_fn": each, "batch_size": 100, "hessian_reg": 1e-2, "hessian_inverse_tol": 2e-2}
    return {
        "TracInCP": lambda: tracin(each).influence(test),
        "TracInCP, sums of batches": lambda: tracin(total, sample_wise_grads_per_batch=True).influence(test),
        "TracInCP.self_influence": lambda: tracin(each).self_influence(),
        "TracInCPFast": lambda: library.TracInCPFast(
            model, "8", data, iter(range(3)), load, loss_fn=total, batch_size=100
        ).influence(test),
        "ArnoldiInfluenceFunction": lambda: arnoldi.ArnoldiInfluenceFunction(
            model, data, path, arnoldi_dim=20, projection_dim=10, **last
        ).influence(test),
        "NaiveInfluenceFunction": lambda: library.NaiveInfluenceFunction(model, data, path, **last).influence(test),
        "SimilarityInfluence": lambda: library.SimilarityInfluence(
            model, ["6", "8"], data.tensors[0], folder, f"m{time.monotonic_ns()}", batch_size=100
        ).influence(test[0], top_k=5),
    }


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    """The least CPU time, and the result."""
    best, result = float("inf"), None
    for _ in range(REPETITIONS):
        begin = time.process_time()
        result = function()
        best = min(best, time.process_time() - begin)
    return best, result


def main() -> int:
    """Print the table; 1 where a bound is missed."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        ours = methods(importlib.import_module("flambeau.influence"), folder)
        try:
            peers = methods(importlib.import_module("captum.influence"), folder)
        except ImportError:
            peers = {}
        for name, function in ours.items():
            time_s, scores = seconds(function)
            line = f"{name:28} {time_s:8.3f} s"
            if peers:
                peer_s, expected = seconds(peers[name])
                line += f"   captum {peer_s:8.3f} s   ratio {time_s / peer_s:.3f}"
                if isinstance(scores, Tensor) and "Arnoldi" not in name:
                    line += f"   scores differ by {float((scores - expected).abs().max() / expected.abs().max()):.0e}"
                missed += not QUICK and time_s / peer_s > BOUNDS.get(name, float("inf"))
            print(line, flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
