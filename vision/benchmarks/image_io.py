"""Image files to tensors and back beside torchvision, Pillow and simplejpeg, in one process, on one thread and on two.

    python vision/benchmarks/image_io.py

Times are the best of several repetitions, all in turn: of the processor on one thread, so that what else the machine
does counts less, and of the clock on two. Ratios are the peer's time over ours. A peer that is not installed leaves its
column empty; `tools/peers.py` installs torchvision. Quality 75, compression 6: the defaults.
"""

from __future__ import annotations

import importlib
import io
import sys
import time
from collections.abc import Callable
from types import ModuleType

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from flambeau.vision.io import decode_image, decode_jpeg, decode_png, decode_webp, encode_jpeg, encode_png
from flambeau.vision.io._native import objection, versions

SIZES = {"224 x 224": (224, 224), "480 x 640": (480, 640), "1080 x 1920": (1080, 1920)}
BATCH = 16
REPETITIONS = 9
PEERS = ("torchvision", "pillow", "simplejpeg")

Work = Callable[[], object]


def photograph(height: int, width: int) -> Tensor:
    """[3, H, W], uint8: smooth shapes with some grain, about as hard to pack as a photograph."""
    generator = torch.Generator().manual_seed(height)
    coarse = torch.rand(1, 3, height // 16, width // 16, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic")[0] * 255
    return (smooth + torch.randn(3, height, width, generator=generator) * 4).clamp(0, 255).to(torch.uint8)


def best_ms(works: dict[str, Work], calls: int) -> dict[str, float]:
    """Milliseconds of each work, in turn, so that what else the machine does meets all alike."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    best = dict.fromkeys(works, float("inf"))
    for _ in range(REPETITIONS):
        for name, work in works.items():
            start = clock()
            for _ in range(calls):
                work()
            best[name] = min(best[name], (clock() - start) / calls * 1e3)
    return best


def row(what: str, calls: int, ours: Work, **peers: Work | None) -> None:
    works = {"ours": ours} | {name: work for name, work in peers.items() if work is not None}
    times = best_ms(works, max(calls, 1))
    ratios = [f"{times[name] / times['ours']:>10.2f} x" if name in times else f"{'-':>12}" for name in PEERS]
    behind = [name for name in times if times[name] < times["ours"]]
    print(f"{what:<40} {times['ours']:>9.3f} {' '.join(ratios)}{'  BEHIND ' + ', '.join(behind) if behind else ''}")


def by_pillow(content: bytes) -> Tensor:
    return torch.from_numpy(np.array(Image.open(io.BytesIO(content)))).permute(2, 0, 1)


def saved(pixels: np.ndarray, format: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format, **options)
    return buffer.getvalue()


def tensor(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def compare_decoding(size: str, torchvision: ModuleType | None, simplejpeg: ModuleType | None) -> None:
    image = photograph(*SIZES[size])
    pixels = image.permute(1, 2, 0).contiguous().numpy()
    calls = 4 if size == "1080 x 1920" else 20
    jpeg, png, webp = encode_jpeg(image), encode_png(image), tensor(saved(pixels, "WEBP", quality=80))
    jpeg_bytes, png_bytes, webp_bytes = (data.numpy().tobytes() for data in (jpeg, png, webp))
    exact = {"fastdct": False, "fastupsample": False}
    row(
        f"decode_jpeg {size}",
        calls,
        lambda: decode_jpeg(jpeg),
        torchvision=torchvision and (lambda: torchvision.decode_jpeg(jpeg)),
        pillow=lambda: by_pillow(jpeg_bytes),
        simplejpeg=simplejpeg and (lambda: simplejpeg.decode_jpeg(jpeg_bytes, **exact)),
    )
    row(
        f"decode_jpeg {size}, min_size=224",
        calls,
        lambda: decode_jpeg(jpeg, min_size=224),
        torchvision=torchvision and (lambda: torchvision.decode_jpeg(jpeg)),
        pillow=lambda: by_pillow(jpeg_bytes),
        simplejpeg=simplejpeg and (lambda: simplejpeg.decode_jpeg(jpeg_bytes, min_height=224, min_width=224, **exact)),
    )
    batch = [jpeg] * BATCH
    row(
        f"decode_jpeg {size}, list of {BATCH}",
        calls // 10,
        lambda: decode_jpeg(batch),
        torchvision=torchvision and (lambda: torchvision.decode_jpeg(batch)),
        pillow=lambda: [by_pillow(jpeg_bytes) for _ in batch],
        simplejpeg=simplejpeg and (lambda: [simplejpeg.decode_jpeg(jpeg_bytes, **exact) for _ in batch]),
    )
    row(
        f"decode_png {size}",
        calls // 2,
        lambda: decode_png(png),
        torchvision=torchvision and (lambda: torchvision.decode_png(png)),
        pillow=lambda: by_pillow(png_bytes),
    )
    row(
        f"decode_webp {size}",
        calls // 2,
        lambda: decode_webp(webp),
        torchvision=torchvision and (lambda: torchvision.decode_webp(webp)),
        pillow=lambda: by_pillow(webp_bytes),
    )


def compare_encoding(size: str, torchvision: ModuleType | None, simplejpeg: ModuleType | None) -> None:
    image = photograph(*SIZES[size])
    pixels = image.permute(1, 2, 0).contiguous().numpy()
    calls = 4 if size == "1080 x 1920" else 20
    row(
        f"encode_jpeg {size}",
        calls,
        lambda: encode_jpeg(image),
        torchvision=torchvision and (lambda: torchvision.encode_jpeg(image)),
        pillow=lambda: saved(pixels, "JPEG", quality=75),
        simplejpeg=simplejpeg and (lambda: simplejpeg.encode_jpeg(pixels, 75, "RGB", "420", False)),
    )
    batch = [image] * BATCH
    row(
        f"encode_jpeg {size}, list of {BATCH}",
        calls // 10,
        lambda: encode_jpeg(batch),
        torchvision=torchvision and (lambda: torchvision.encode_jpeg(batch)),
        pillow=lambda: [saved(pixels, "JPEG", quality=75) for _ in batch],
        simplejpeg=simplejpeg and (lambda: [simplejpeg.encode_jpeg(pixels, 75, "RGB", "420", False) for _ in batch]),
    )
    row(
        f"encode_png {size}",
        calls // 8,
        lambda: encode_png(image),
        torchvision=torchvision and (lambda: torchvision.encode_png(image)),
        pillow=lambda: saved(pixels, "PNG"),
    )
    sizes = {"ours": encode_png(image).numel(), "Pillow": len(saved(pixels, "PNG"))}
    if torchvision:
        sizes["torchvision"] = torchvision.encode_png(image).numel()
    print(f"    bytes: {', '.join(f'{name} {count:,}' for name, count in sizes.items())}")


def peer(name: str, attribute: str) -> ModuleType | None:
    """A peer's module, None where it is not installed or has no codecs."""
    try:
        module = importlib.import_module(name)
    except (ImportError, RuntimeError):
        return None
    return module if hasattr(module, attribute) else None


def main() -> int:
    """Print the tables; returns the exit status."""
    torchvision, simplejpeg = peer("torchvision.io", "decode_webp"), peer("simplejpeg", "decode_jpeg")
    print(f"codecs: {objection() or versions()}")
    if torchvision:
        data = encode_jpeg(photograph(480, 640))
        print(f"pixels as torchvision's: {torch.equal(decode_image(data), torchvision.decode_jpeg(data))}")
    for threads in (1, 2):
        torch.set_num_threads(threads)
        title = f"torch {torch.__version__}, {threads} thread(s)"
        print(f"{title:<40} {'ours, ms':>9} {' '.join(f'{name:>12}' for name in PEERS)}")
        for size in SIZES:
            compare_decoding(size, torchvision, simplejpeg)
        for size in SIZES:
            compare_encoding(size, torchvision, simplejpeg)
    return 0


if __name__ == "__main__":
    sys.exit(main())
