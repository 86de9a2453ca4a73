"""What it costs to import core, to discover plugins, and to list what they offer.

    python core/benchmarks/listing.py [--repeats 7]

Two fake plugins with 300 models and 300 weights each are written into a temporary folder, and once more with 400
further distributions beside them. CPU time is that of a whole process, the best of the repeats; wall time leaves the
start of the interpreter out. The first-party plugins of this environment are found and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECORDS = 300
FURTHER = 400

PROGRAM = "from flambeau.core.cli import main; main([{words}])"
CASES = {
    "bare interpreter": "pass",
    "import importlib.metadata": "import importlib.metadata",
    "import flambeau.core": "import flambeau.core",
    "discover()": "import flambeau.core; flambeau.core.discover()",
    "list_weights(), 600 ids": "import flambeau.core; assert len(flambeau.core.list_weights()) >= 600",
    "flambeau --help": PROGRAM.format(words="'--help'"),
    "flambeau weights list": PROGRAM.format(words="'weights', 'list'"),
    "importlib.metadata.entry_points": "import importlib.metadata as m; m.entry_points(group='flambeau.manifest')",
    "import torch": "import torch",
}
WITH_FURTHER = ("discover()", "list_weights(), 600 ids", "flambeau weights list", "importlib.metadata.entry_points")
REPORT = """
import atexit, sys, time
def _report(): sys.stderr.write(f"\\n{time.process_time()} {time.perf_counter() - START}\\n")
atexit.register(_report)
START = time.perf_counter()
"""


def write_plugin(folder: Path, name: str) -> None:
    """A plugin with 300 models and one weights record of realistic size for each."""
    package = folder / f"{name}_plugin"
    package.mkdir()
    package.joinpath("__init__.py").write_text("raise AssertionError('a listing imported a plugin')\n")
    models = [
        {
            "name": f"{name}net{n}",
            "target": f"{name}_plugin.zoo:net{n}",
            "weights": f"{name}_plugin.facts:Net{n}_Weights",
            "task": "image-classification",
            "tags": [],
        }
        for n in range(RECORDS)
    ]
    weights = [
        {
            "model": f"{name}net{n}",
            "enum": f"{name}_plugin.facts:Net{n}_Weights",
            "name": "IMAGENET1K_V1",
            "url": f"https://download.example/models/{name}net{n}-0676ba61.pth",
            "sha256": "0676ba61",
            "size": 102_530_333,
            "default": True,
            "meta": {"num_params": 25_557_032, "num_categories": 1000, "_metrics": {"ImageNet-1K": {"acc@1": 76.13}}},
            "transforms": {"target": f"{name}_plugin.presets:Preset", "params": {"crop_size": 224}},
            "license": "BSD-3-Clause",
        }
        for n in range(RECORDS)
    ]
    manifest = {"schema": 1, "plugin": name, "api": "1.0", "models": models, "weights": weights}
    package.joinpath("flambeau_plugin.json").write_text(json.dumps(manifest))
    write_distribution(folder, f"bench-{name}", f"[flambeau.manifest]\n{name} = {name}_plugin:flambeau_plugin.json\n")


def write_distribution(folder: Path, name: str, entry_points: str) -> None:
    """What pip leaves of an installed distribution, as far as discovery looks."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n" + "Classifier: x\n" * 40
    )
    info.joinpath("entry_points.txt").write_text(entry_points)


def measure(code: str, folder: Path, repeats: int) -> tuple[float, float]:
    """CPU and wall seconds of a process that runs `code`, the best of several; the wall time leaves its start out."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "FLAMBEAU_HOME": str(folder / "home")}
    environment["FLAMBEAU_DISABLE_PLUGINS"] = "vision,audio,text,rec,rl,data,example"
    runs = []
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, "-c", REPORT + code], env=environment, capture_output=True, text=True, check=True
        )
        runs.append(tuple(map(float, done.stderr.splitlines()[-1].split())))
    return min(cpu for cpu, _ in runs), min(wall for _, wall in runs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as temporary:
        few, many = Path(temporary, "few"), Path(temporary, "many")
        for folder in (few, many):
            folder.mkdir()
            write_plugin(folder, "alpha")
            write_plugin(folder, "beta")
        for number in range(FURTHER):
            write_distribution(many, f"unrelated-{number}", f"[console_scripts]\ntool{number} = unrelated:main\n")
        size = few.joinpath("alpha_plugin", "flambeau_plugin.json").stat().st_size
        print(f"Python {sys.version.split()[0]}, two manifests of {size / 1000:.0f} kB, {time.strftime('%Y-%m-%d')}")
        print(f"{'':<56}{'CPU ms':>9}{'over bare':>11}{'wall ms':>9}")
        bare = measure("pass", few, repeats)[0]
        rows = [(name, code, few) for name, code in CASES.items()]
        rows += [(f"{name}, {FURTHER} further distributions", CASES[name], many) for name in WITH_FURTHER]
        for name, code, folder in rows:
            cpu, wall = measure(code, folder, 2 if "torch" in name else repeats)
            print(f"{name:<56}{1e3 * cpu:>9.1f}{1e3 * (cpu - bare):>11.1f}{1e3 * wall:>9.1f}")


if __name__ == "__main__":
    main()
