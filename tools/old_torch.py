"""Run the operators' tests on an older torch, with the wheels that everybody gets.

    python tools/old_torch.py path/to/environment/bin/python CORE_WHEEL VISION_WHEEL [--torch 2.8.0] [pytest's words]

The package index has older releases of torch with CUDA alone, and CUDA's own wheels are three times as large as
torch's. They are not installed: stand-ins take their place (see stubs.py), and torch finds no device. The environment
must be empty; it then holds torch, what torch imports, the two wheels and the test tools.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import stubs

ROOT = Path(__file__).resolve().parents[1]
TORCH = "2.8.0"
# What torch imports when it is used on the CPU, and what the tests need. torch's other requirements are CUDA's.
REQUIREMENTS = (
    "filelock", "fsspec", "hypothesis", "jinja2", "networkx", "numpy", "packaging", "pillow", "pluggy", "pydantic",
    "pytest", "pytest-timeout", "safetensors", "setuptools", "sympy", "typing-extensions", "urllib3",
)  # fmt: skip
TESTS = ("core/tests/native", "vision/tests/test_ops_nms.py", "vision/tests/test_ops_nms_tiers.py")


def main() -> int:
    """Prepare the environment and run the tests in it; returns their exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("python", help="of an empty environment")
    parser.add_argument("wheels", nargs=2, help="of flambeau-core and flambeau-vision")
    parser.add_argument("--torch", default=TORCH, help="version to install (default: %(default)s)")
    arguments, words = parser.parse_known_args()

    # The constraints file holds one torch, the newest.
    environment = {name: value for name, value in os.environ.items() if name not in ("PIP_CONSTRAINT", "PYTHONPATH")}
    pip = [arguments.python, "-m", "pip", "install", "-q"]
    subprocess.run([*pip, *REQUIREMENTS], env=environment, check=True)
    subprocess.run([*pip, "--no-deps", f"torch=={arguments.torch}"], env=environment, check=True)
    subprocess.run([*pip, "--no-deps", "--force-reinstall", *arguments.wheels], env=environment, check=True)

    made = complete_torch(arguments.python)
    print(f"stand-ins made: {', '.join(path.name for path in made) or 'none needed'}")
    tests = [str(ROOT / path) for path in TESTS]
    run = [arguments.python, "-m", "pytest", "-q", "-m", "not gpu", "-p", "no:cacheprovider", *words, *tests]
    return subprocess.run(run, cwd=ROOT, env=environment, check=False).returncode


def complete_torch(python: str) -> list[Path]:
    """Let the torch of an environment load without CUDA's libraries; returns the stand-ins made."""
    ask = "import json, sysconfig; print(json.dumps(sysconfig.get_path('platlib')))"
    site = Path(json.loads(subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout))
    folder = site / "torch" / "lib"  # every library of torch looks beside itself
    return stubs.add_stubs(sorted(folder.glob("*.so")), folder)


if __name__ == "__main__":
    sys.exit(main())
