"""Print upstream's public names that a package lacks.

    python tools/missing_names.py vision

The recorded upstream surface lies in `spec/data/<package>_api.json` of the shared folder (`FLAMBEAU_SHARED`, else a
folder `shared` beside the checkout). Prints one missing name a line and the counts; exits 1 when names are missing.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.resolve()
# Upstream's root as recorded -> ours. Vision's record is already printed under our root.
ROOTS = {
    "torchaudio": "flambeau.audio",
    "torchtext": "flambeau.text",
    "torchrec": "flambeau.rec",
    "torchrl": "flambeau.rl",
    "torchdata": "flambeau.data",
    "tensordict": "flambeau.data.tensordict",
}


def recorded(package: str) -> dict[str, list[str]]:
    """Module (under our root) -> its public names upstream."""
    shared = Path(os.environ.get("FLAMBEAU_SHARED", ROOT.parent / "shared"))
    path = shared / "spec" / "data" / f"{package}_api.json"
    if not path.is_file():
        raise SystemExit(f"{path} is absent: set FLAMBEAU_SHARED to the folder that holds the recorded surfaces.")
    modules = json.loads(path.read_text(encoding="utf-8"))["modules"]
    return {_ours(module): list(names) for module, names in modules.items()}


def _ours(module: str) -> str:
    root, _, rest = module.partition(".")
    return ".".join(part for part in (ROOTS.get(root, root), rest) if part)


def missing(package: str) -> tuple[list[str], int]:
    """The names that cannot be imported, and how many there are in all."""
    absent, total = [], 0
    for module, names in recorded(package).items():
        total += len(names)
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError:
            absent += [f"{module}.{name}" for name in names]
            continue
        absent += [f"{module}.{name}" for name in names if not hasattr(found, name)]
    return absent, total


def main(argv: list[str]) -> int:
    """Print what is missing for each package named."""
    bad = False
    for package in argv:
        absent, total = missing(package)
        bad |= bool(absent)
        for name in absent:
            print(name)
        print(f"{package}: {total - len(absent)} of {total} names present, {len(absent)} missing", file=sys.stderr)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
