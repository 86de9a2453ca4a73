"""Training pipelines beside torchvision's, from a JPEG file on disk to what a model takes, pictures per second.

    python vision/benchmarks/pipelines.py [--pictures 32] [--rounds 5] [--threads 1 2]

PIL pictures are opened as each library's data sets open them, tensors are read and decoded. "encoded" is a
`tv_tensors.EncodedImage` beside the peer's decoded `tv_tensors.Image`: only what the crop holds is decoded.

Product and peer go through the same pictures with the same seeds, in turn, picture by picture; times are CPU time on
one thread, wall time on more; of each picture the best of all rounds counts. A line below 1 is marked. The peer is
torchvision, which `tools/peers.py` installs. Where NVIDIA DALI is installed, its pipeline for CPUs is measured, too, as
it is made to be used: files in, batches of 64 out; beside it ours with crops and flips of the same kinds.
"""

from __future__ import annotations

import argparse
import importlib
import io
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

NUMBERS = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
KINDS = ("PIL", "tensor", "tv_tensor", "encoded")


Work = Callable[[Path], object]


def photographs(count: int) -> list[bytes]:
    """JPEG files of common sizes: smooth shapes with some grain, about as hard to unpack as photographs."""
    from PIL import Image

    files = []
    for index in range(count):
        height, width = ((375, 500), (500, 375), (333, 500), (480, 640))[index % 4]
        generator = torch.Generator().manual_seed(index)
        coarse = torch.rand(1, 3, height // 16, width // 16, generator=generator)
        smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic")[0] * 255
        grain = torch.randn(3, height, width, generator=generator) * 4
        levels = (smooth + grain).clamp(0, 255).to(torch.uint8)
        file = io.BytesIO()
        Image.fromarray(levels.permute(1, 2, 0).contiguous().numpy()).save(file, "JPEG", quality=90)
        files.append(file.getvalue())
    return files


def opener(library: ModuleType, kind: str) -> Callable[[Path], Any]:
    """From a file to a picture of a kind."""
    if kind == "PIL":
        folder = importlib.import_module(f"{library.__name__}.datasets.folder")
        if hasattr(folder, "opened"):  # what data sets call that have a transform
            return lambda path: folder.opened(path, folder.default_loader, transformed=True)
        return folder.default_loader  # type: ignore[no-any-return]
    codecs = importlib.import_module(f"{library.__name__}.io")
    types = importlib.import_module(f"{library.__name__}.tv_tensors")
    if kind == "encoded" and hasattr(types, "EncodedImage"):
        return types.EncodedImage.read  # type: ignore[no-any-return]

    def decode(path: Path) -> Tensor:
        return codecs.decode_jpeg(codecs.read_file(str(path)))  # type: ignore[no-any-return]

    return decode if kind == "tensor" else lambda path: types.Image(decode(path))


def classification(library: ModuleType, kind: str, *, augment: bool) -> Work:
    """Decode, random resized crop, flip, TrivialAugment, float, normalize."""
    v2 = importlib.import_module(f"{library.__name__}.transforms.v2")
    steps = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]
    steps += [v2.TrivialAugmentWide()] if augment else []
    steps += [v2.PILToTensor()] if kind == "PIL" else []
    steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(**NUMBERS)]
    transform, open_picture = v2.Compose(steps), opener(library, kind)
    return lambda path: transform(open_picture(path))


def first_generation(library: ModuleType, kind: str, *, augment: bool) -> Work:
    """Decode, random resized crop, flip, TrivialAugment, tensor, normalize, with transforms of the first generation."""
    v1 = importlib.import_module(f"{library.__name__}.transforms")
    steps = [v1.RandomResizedCrop(224), v1.RandomHorizontalFlip()]
    steps += [v1.TrivialAugmentWide()] if augment else []
    steps += [v1.ToTensor() if kind == "PIL" else v1.ConvertImageDtype(torch.float32), v1.Normalize(**NUMBERS)]
    transform, open_picture = v1.Compose(steps), opener(library, kind)
    return lambda path: transform(open_picture(path))


def evaluation(library: ModuleType, kind: str) -> Work:
    """Decode, resize, centre crop, float, normalize."""
    presets = importlib.import_module(f"{library.__name__}.transforms._presets")
    transform, open_picture = presets.ImageClassification(crop_size=224), opener(library, kind)
    return lambda path: transform(open_picture(path))


def detection(library: ModuleType, kind: str) -> Work:
    """Decode, distort colours, zoom out, crop around boxes, flip, float, sanitize: the recipe of SSD."""
    v2 = importlib.import_module(f"{library.__name__}.transforms.v2")
    types = importlib.import_module(f"{library.__name__}.tv_tensors")
    steps = [
        v2.RandomPhotometricDistort(),
        v2.RandomZoomOut(fill={types.Image: [123, 117, 104], "others": 0}),
        v2.RandomIoUCrop(),
        v2.RandomHorizontalFlip(),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.SanitizeBoundingBoxes(),
        v2.ToPureTensor(),
    ]
    if kind == "PIL":
        steps[1] = v2.RandomZoomOut(fill=[123, 117, 104])
    transform, open_picture = v2.Compose(steps), opener(library, kind)
    corner = torch.rand(12, 2, generator=torch.Generator().manual_seed(0)) * 200
    boxes, labels = torch.cat([corner, corner + 20 + corner.flip(0) / 2], 1), torch.arange(12)

    def run(path: Path) -> object:
        picture = open_picture(path)
        size = tuple(v2.functional.get_size(picture))
        target = {
            "boxes": types.BoundingBoxes(boxes.clone(), format="XYXY", canvas_size=size),
            "labels": labels,
        }
        return transform(picture, target)

    return run


def batches_by_us(files: list[Path]) -> Callable[[], object]:
    """One batch: files to (N, 3, 224, 224), float32, normalized."""
    work = classification(importlib.import_module("flambeau.vision"), "encoded", augment=False)
    return lambda: torch.stack([work(path) for path in files])


def batches_by_dali(files: list[Path]) -> Callable[[], object] | None:
    """The same by DALI on the CPU, which decodes no more than the crop either; None where it is not installed."""
    try:
        dali = importlib.import_module("nvidia.dali")
        importlib.import_module("nvidia.dali.fn")
        importlib.import_module("nvidia.dali.types")
    except (ImportError, OSError):
        return None
    fn, types = dali.fn, dali.types
    scale = [255 * number for number in NUMBERS["mean"]], [255 * number for number in NUMBERS["std"]]
    pipeline = dali.Pipeline(
        len(files),
        num_threads=1,
        device_id=None,
        seed=0,
        exec_pipelined=False,
        exec_async=False,
        prefetch_queue_depth=1,
    )
    with pipeline:
        encoded, _ = fn.readers.file(files=[str(path) for path in files], random_shuffle=False)
        crops = fn.decoders.image_random_crop(
            encoded, device="cpu", output_type=types.RGB, random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
        )
        pixels = fn.resize(crops, size=[224, 224], interp_type=types.INTERP_TRIANGULAR)
        flip = fn.random.coin_flip(probability=0.5)
        mean, std = scale
        pipeline.set_outputs(fn.crop_mirror_normalize(pixels, mirror=flip, mean=mean, std=std, dtype=types.FLOAT))
    pipeline.build()
    return lambda: pipeline.run()  # type: ignore[no-any-return]


def compare_batches(files: list[Path], rounds: int) -> None:
    """Print a row of batches beside DALI's, CPU time on one thread each; DALI prepares nothing ahead meanwhile."""
    batch = [files[index % len(files)] for index in range(64)]
    theirs = batches_by_dali(batch)
    if theirs is None:
        return
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for index, work in enumerate((batches_by_us(batch), theirs)):
            start = time.process_time()
            work()
            best[index] = min(best[index], time.process_time() - start)
    ours, peer = (len(batch) / seconds for seconds in best)
    mark = "  BEHIND" if ours < peer else ""
    print(f"{'batches of 64, encoded, DALI':<58} {1:>7} {ours:>9.1f} {peer:>9.1f} {ours / peer:>7.2f}{mark}")


def rates(works: list[Work], files: list[Path], rounds: int) -> list[float]:
    """Pictures per second of each work."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    best = [[float("inf")] * len(files) for _ in works]
    for _ in range(rounds):
        for number, file in enumerate(files):
            for index, work in enumerate(works):
                torch.manual_seed(number)
                start = clock()
                work(file)
                best[index][number] = min(best[index][number], clock() - start)
    return [len(files) / sum(times) for times in best]


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args()
    libraries = [importlib.import_module("flambeau.vision")]
    try:
        libraries.append(importlib.import_module("torchvision"))
    except ImportError:
        print("There is nothing to compare with; tools/peers.py installs it.")
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{index}.jpg" for index in range(given.pictures)]
        for file, content in zip(files, photographs(given.pictures), strict=True):
            file.write_bytes(content)
        compare(libraries, files, given.threads, given.rounds)
    return 0


def compare(libraries: list[ModuleType], files: list[Path], numbers_of_threads: list[int], rounds: int) -> None:
    """Print the rows."""
    print(f"torch {torch.__version__}; pictures per second")
    print(f"{'':<58} {'threads':>7} {'ours':>9} {'peer':>9} {'ratio':>7}")
    for threads in numbers_of_threads:
        torch.set_num_threads(threads)
        if threads == 1:
            compare_batches(files, rounds)
        for kind in KINDS:
            pipelines: dict[str, Callable[[ModuleType], Work]] = {
                "classification": lambda library, kind=kind: classification(library, kind, augment=True),
                "classification without TrivialAugment": lambda library, kind=kind: classification(
                    library, kind, augment=False
                ),
                "evaluation preset": lambda library, kind=kind: evaluation(library, kind),
            }
            if kind in ("PIL", "tensor"):  # the others are of the second generation
                for name, augment in (("first generation", True), ("first generation without TrivialAugment", False)):
                    pipelines[name] = lambda library, kind=kind, augment=augment: first_generation(
                        library, kind, augment=augment
                    )
            if kind != "tensor":  # boxes need a picture with a type beside them
                pipelines["detection"] = lambda library, kind=kind: detection(library, kind)
            for name, make in pipelines.items():
                if name == "evaluation preset" and kind in ("tv_tensor", "encoded"):
                    continue  # presets take tensors
                speeds = rates([make(library) for library in libraries], files, rounds)
                cells = f"{speeds[1]:>9.1f} {speeds[0] / speeds[1]:>7.2f}" if len(speeds) > 1 else f"{'-':>9} {'-':>7}"
                mark = "  BEHIND" if len(speeds) > 1 and speeds[0] < speeds[1] else ""
                print(f"{f'{name}, {kind}':<58} {threads:>7} {speeds[0]:>9.1f} {cells}{mark}")


if __name__ == "__main__":
    sys.exit(main())
