"""Install the libraries that Flambeau replaces into the running environment, beside its torch, to compare with.

    path/to/environment/bin/python tools/peers.py

They are installed without their dependencies, so that none brings another torch. torchvision's wheel is linked with
CUDA's libraries; where torch is the CPU build they are missing, and torchvision would import without its operators:
stand-ins let it load (see stubs.py), and its CPU operators are then as fast and as right as ever.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import stubs

# The peers that the benchmarks and parity tests of today compare with, as released together with torch 2.13.
PEERS = (
    "torchvision==0.28.0",
    "tensordict==0.14.3",
    "torchdata==0.11.0",
    "webdataset==1.0.2",
    "s3fs==2026.9.0",
    "transformers==5.23.0",
)
# What they import of others, which are not in the environment already.
NEEDS = (
    "pyvers", "orjson", "braceexpand", "aiobotocore", "aiohttp",
    "huggingface-hub>=1.31", "regex", "safetensors", "tokenizers", "typer",
)  # fmt: skip

CHECK = """
import torch, torchvision
torchvision.ops.nms(torch.rand(3, 4), torch.rand(3), 0.5)
torchvision.io.encode_png(torch.zeros(3, 2, 2, dtype=torch.uint8))
print("torchvision", torchvision.__version__, "runs beside torch", torch.__version__)
"""


def main() -> int:
    """Install, complete and try the peers; returns the exit status."""
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", *PEERS], check=True)
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *NEEDS], check=True)
    site = Path(sysconfig.get_path("platlib"))
    made = complete_torchvision(site)
    print(f"stand-ins made: {', '.join(path.name for path in made) or 'none needed'}")
    return subprocess.run([sys.executable, "-c", CHECK], check=False).returncode


def complete_torchvision(site: Path) -> list[Path]:
    """Let torchvision's compiled libraries in a site-packages folder load beside a CPU torch; returns what was made."""
    folder = site / "torchvision.libs"  # the wheel's own libraries, where image.so looks already
    binaries = sorted((site / "torchvision").glob("*.so"))
    made = stubs.add_stubs(binaries, folder, beside=sorted((site / "torch" / "lib").glob("*.so*")))
    if made:
        # Linked in its builder's own folder, which exists nowhere else.
        stubs.set_search_path(site / "torchvision" / "_C.so", "$ORIGIN/../torchvision.libs")
    return made


if __name__ == "__main__":
    sys.exit(main())
