"""Building a pretrained model: random initialisation, `torch.load` and a copy, against `build_with_weights`.

    python core/benchmarks/instant_weights.py [--repeat 3] [--models resnet50,vit_h_14] [--json]

Each way runs in a process of its own, on a file that is in the page cache, with one thread and everything imported
beforehand. Memory is the growth of the peak of resident memory until the model is complete, before the first forward.
The best of the repeats counts. The bounds are those the library holds itself to; the program exits with 1 when one is
missed. The larger file takes 2.5 GB of the temporary folder while the program runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

# Model -> at most this share of the plain way's CPU time, and this growth of peak memory in MiB.
BOUNDS = {"resnet50": (1 / 4, 20.0), "vit_h_14": (1 / 30, 20.0)}
WAYS = ("plain", "instant")


def resnet50():
    """A network of the size and make of ResNet-50 (He et al. 2015, arXiv:1512.03385): 25.6 M parameters."""
    from torch import nn

    class Bottleneck(nn.Module):
        def __init__(self, inputs: int, width: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
            self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
            self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
            self.downsample = None
            if stride != 1 or inputs != 4 * width:
                self.downsample = nn.Sequential(
                    nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
                )

        def forward(self, x):
            out = self.bn1(self.conv1(x)).relu()
            out = self.bn3(self.conv3(self.bn2(self.conv2(out)).relu()))
            return (out + (x if self.downsample is None else self.downsample(x))).relu()

    blocks, inputs = [], 64
    for width, count, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(count):
            blocks.append(Bottleneck(inputs, width, first if index == 0 else 1))
            inputs = 4 * width
    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000),
    )  # fmt: skip
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model


def vit_h_14():
    """A network of the size and make of ViT-H/14 (Dosovitskiy et al. 2020, arXiv:2010.11929): 632 M parameters."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
            self.attention = nn.MultiheadAttention(width, 16, batch_first=True)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for layer in (self.mlp[0], self.mlp[2]):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.normal_(layer.bias, std=1e-6)

        def forward(self, x):
            y = self.ln_1(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            return x + self.mlp(self.ln_2(x))

    class VisionTransformer(nn.Module):
        def __init__(self, width: int = 1280, depth: int = 32, side: int = 224, patch: int = 14) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, patch, patch)
            self.class_token = nn.Parameter(torch.zeros(1, 1, width))
            self.position = nn.Parameter(torch.empty(1, (side // patch) ** 2 + 1, width).normal_(std=0.02))
            self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
            self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, 1000)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.position
            return self.head(self.norm(self.blocks(x))[:, 0])

    return VisionTransformer()


MODELS: dict[str, Callable] = {"resnet50": resnet50, "vit_h_14": vit_h_14}


def plain(model: str, path: str):
    """Initialise, read everything, copy: what a pretrained builder does without help."""
    import torch

    module = MODELS[model]()
    module.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return module


def instant(model: str, path: str):
    """Ours."""
    from flambeau.core.weights import build_with_weights

    return build_with_weights(MODELS[model], path)


def measure(model: str, way: str, path: str) -> dict[str, float]:
    """One run in this process: CPU seconds, wall seconds, and growth of peak memory in MiB."""
    import torch

    from flambeau.core.weights import build_with_weights  # noqa: F401 - imported before the clock starts

    torch.set_num_threads(1)
    before = _reset_peak()
    wall, cpu = time.perf_counter(), time.process_time()
    module = globals()[way](model, path)
    spent = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
    spent["peak_mib"] = _peak() - before
    assert not any(tensor.is_meta for tensor in module.state_dict().values())
    return spent


def _reset_peak() -> float:
    """Let the kernel forget the peak so far (Linux); returns resident memory in MiB."""
    with contextlib.suppress(OSError):  # elsewhere the peak of the imports stays in: growth below it is not seen
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> float:
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    scale = 2**20 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def in_fresh_process(*arguments: str) -> str:
    """Run this file again; returns its standard output."""
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def compare(model: str, repeat: int) -> dict[str, dict[str, float]]:
    """Write a checkpoint of random values, measure each way on it, remove it."""
    with tempfile.TemporaryDirectory(prefix="instant-weights-") as folder:
        path = str(Path(folder, f"{model}.pth"))
        in_fresh_process("--write", model, path)
        results = {}
        for way in WAYS:
            runs = [json.loads(in_fresh_process("--measure", model, way, path)) for _ in range(repeat)]
            results[way] = {key: min(run[key] for run in runs) for key in runs[0]}
        results["file"] = {"size": Path(path).stat().st_size}
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", nargs=2, metavar=("MODEL", "PATH"), help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=3, metavar=("MODEL", "WAY", "PATH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        import torch

        torch.save(MODELS[arguments.write[0]]().state_dict(), arguments.write[1])
        return 0
    if arguments.measure:
        print(json.dumps(measure(*arguments.measure)))
        return 0
    return report({model: compare(model, arguments.repeat) for model in arguments.models.split(",")}, arguments.json)


def report(results: dict[str, dict[str, dict[str, float]]], as_json: bool) -> int:
    """Print the table; returns 1 when a bound is missed."""
    missed = []
    rows = []
    for model, ways in results.items():
        ratio = ways["instant"]["cpu_s"] / ways["plain"]["cpu_s"]
        share, most = BOUNDS[model]
        rows += [
            f"{model:10} {ways['file']['size'] / 1e6:8.0f} MB  {way:8} {run['cpu_s']:8.3f} {run['wall_s']:8.3f} "
            f"{run['peak_mib']:+10.1f}"
            for way, run in ways.items()
            if way != "file"
        ]
        rows.append(f"{model:10} CPU ratio 1/{1 / ratio:.1f} (bound 1/{1 / share:.0f}), memory bound {most:.0f} MiB")
        if ratio > share or ways["instant"]["peak_mib"] > most:
            missed.append(model)
    if as_json:
        print(json.dumps(results))
    else:
        import torch

        machine = platform.processor() or platform.machine()
        print(f"{machine}, Python {platform.python_version()}, torch {torch.__version__}")
        print(f"{'model':10} {'file':>11}  {'way':8} {'CPU s':>8} {'wall s':>8} {'peak MiB':>10}")
        print("\n".join(rows))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
