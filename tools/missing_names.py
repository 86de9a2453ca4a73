"""Print upstream's public names that a package lacks.

    python tools/missing_names.py vision

The recorded upstream surface lies in `tests/parity/upstream` of each package. Prints one missing name a line and the
counts; exits 1 when names are missing.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from flambeau.core.testing.golden import upstream_facts

ROOT = Path(__file__).parent.parent.resolve()
# Upstream's root as recorded -> ours. Vision's record is already printed under our root.
ROOTS = {
    "torchaudio": "flambeau.audio",
    "torio": "flambeau.audio",
    "torchtext": "flambeau.text",
    "torchrec": "flambeau.rec",
    "fbgemm_gpu": "flambeau.rec.fbgemm_gpu",
    "torchrl": "flambeau.rl",
    "torchdata": "flambeau.data",
    "tensordict": "flambeau.data.tensordict",
}


# Recorded, and deliberately not built: module -> why.
LEFT_OUT = {"flambeau.data.tensordict.testing": "classes that upstream's own tests are made of"}


def recorded(package: str) -> dict[str, list[str]]:
    """Module (under our root) -> its public names upstream, and of recorded classes `Class.member`."""
    if package == "data":
        # What is public of tensordict's private modules is recorded under a public module too.
        modules = _modules(_facts(package, "tensordict"))
        return _pipes() | {name: names for name, names in modules.items() if "._" not in name}
    if package == "rec":
        operators = {"torch.ops.flambeau_rec": list(_facts(package, "fbgemm_ops")["operators"])}
        return _modules(_facts(package, "api")) | _modules(_facts(package, "fbgemm_api")) | operators
    return _modules(_facts(package, "api"))


def _facts(package: str, topic: str) -> dict[str, Any]:
    facts: dict[str, Any] = upstream_facts(topic, ROOT / package / "tests")
    return facts


def _modules(facts: dict[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for module, names in facts["modules"].items():
        found[_ours(module)] = list(names)
        if not isinstance(names, dict):
            continue
        for name, home in names.items():  # a class is described once, where it is defined, or in its place
            about = facts.get("definitions", {}).get(home) if isinstance(home, str) else home
            members = [*(about or {}).get("members", ()), *(about or {}).get("methods", ())]
            found[_ours(module)] += [f"{name}.{member}" for member in members]
    return found


def _pipes() -> dict[str, list[str]]:
    facts = _facts("data", "datapipes")
    root = "flambeau.data"
    found = {}
    for kind in ("iter", "map"):
        names = list(facts[kind])
        base = "IterDataPipe" if kind == "iter" else "MapDataPipe"
        names += [f"{base}.{about['method']}" for about in facts[kind].values() if about.get("method")]
        found[f"{root}.datapipes.{kind}"] = names
    for module in ("nodes", "stateful_dataloader"):
        names = list(facts[module])
        names += [f"{name}.{method}" for name, about in facts[module].items() for method in about.get("methods", ())]
        found[f"{root}.{module}"] = names
    return found


def _ours(module: str) -> str:
    root, _, rest = module.partition(".")
    return ".".join(part for part in (ROOTS.get(root, root), rest) if part)


def missing(package: str) -> tuple[list[str], int]:
    """The names that cannot be imported, and how many there are in all."""
    absent, total = [], 0
    for module, names in recorded(package).items():
        if module in LEFT_OUT:
            print(f"left out: {module} ({LEFT_OUT[module]})", file=sys.stderr)
            continue
        total += len(names)
        try:
            found = _imported(module)
        except ModuleNotFoundError:
            absent += [f"{module}.{name}" for name in names]
            continue
        absent += [f"{module}.{name}" for name in names if not _has(found, name)]
    return absent, total


def _imported(module: str) -> Any:
    if not module.startswith("torch.ops."):
        return importlib.import_module(module)
    import torch

    importlib.import_module(module.removeprefix("torch.ops.").replace("_", ".", 1))  # announces its operators
    return getattr(torch.ops, module.removeprefix("torch.ops."))


def _has(module: Any, path: str) -> bool:
    value = module
    for name in path.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            # Fields of a dataclass without default are no attributes of the class, nor are functions of pipes.
            return name in getattr(value, "__annotations__", ()) or name in getattr(value, "functions", ())
    return True


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
