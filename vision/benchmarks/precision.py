"""resnet50 on the CPU: channels last and bfloat16 beside plain, inference and training, pictures per second.

    python vision/benchmarks/precision.py [--model resnet50] [--size 224] [--batch 8] [--seconds 5] [--threads 2]

Random weights; wall time, the best of several repetitions, all kinds in turn. The builder's own `dtype` and
torch's memory format are all it takes: no operator of the library copies to another layout in between, which
`layouts_kept` checks.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from flambeau.vision import models

KINDS: dict[str, tuple[torch.dtype, torch.memory_format]] = {
    "plain": (torch.float32, torch.contiguous_format),
    "channels last": (torch.float32, torch.channels_last),
    "bfloat16": (torch.bfloat16, torch.contiguous_format),
    "channels last, bfloat16": (torch.bfloat16, torch.channels_last),
}


def made(name: str, dtype: torch.dtype, layout: torch.memory_format) -> nn.Module:
    torch.manual_seed(0)
    return models.get_model(name).to(dtype=dtype, memory_format=layout)


def layouts_kept(model: nn.Module, images: Tensor) -> bool:
    """Whether every four-dimensional output between is channels last where the input is."""
    lost = []

    def look(module: nn.Module, inputs: object, output: object) -> None:
        if isinstance(output, Tensor) and output.dim() == 4:
            lost.extend([] if output.is_contiguous(memory_format=torch.channels_last) else [type(module).__name__])

    hooks = [module.register_forward_hook(look) for module in model.modules()]
    with torch.inference_mode():
        model.eval()(images)
    for hook in hooks:
        hook.remove()
    return not lost


def inference(model: nn.Module, images: Tensor) -> Callable[[], object]:
    model.eval()

    @torch.inference_mode()
    def run() -> object:
        return model(images)

    return run


def training(model: nn.Module, images: Tensor) -> Callable[[], object]:
    model.train()

    def run() -> object:
        model.zero_grad()
        model(images).float().square().mean().backward()
        return None

    return run


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each line")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    images = torch.randn(given.batch, 3, given.size, given.size, generator=torch.Generator().manual_seed(0))
    print(
        f"torch {torch.__version__}, {given.model}, batch {given.batch}, {given.threads} thread(s); pictures per second"
    )
    failed = False
    for name, make in (("inference", inference), ("training", training)):
        runs = {}
        for kind, (dtype, layout) in KINDS.items():
            model, batch = made(given.model, dtype, layout), images.to(dtype=dtype, memory_format=layout)
            if layout == torch.channels_last and not layouts_kept(model, batch):
                print(f"{kind}: an operator loses the layout")
                failed = True
            runs[kind] = make(model, batch)
            runs[kind]()
        best = dict.fromkeys(runs, float("inf"))
        end = time.perf_counter() + given.seconds * len(runs)
        while time.perf_counter() < end:
            for kind, run in runs.items():
                start = time.perf_counter()
                run()
                best[kind] = min(best[kind], time.perf_counter() - start)
        for kind, took in best.items():
            rate, ratio = given.batch / took, best["plain"] / took
            print(f"{f'{name}, {kind}':<40} {rate:>9.1f} {ratio:>6.2f}{'  BEHIND' if ratio < 1 else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
