"""Reading and writing image files beside torchvision: formats, modes, damage, arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from image_files import CORPUS, cut_off, damaged
from pictures import programs
from PIL import Image, UnidentifiedImageError

from flambeau.core.testing.differential import Cell, Library, Suite, cross, program

pytest.importorskip("torchvision.io")


def pixels(path: Path) -> Any:
    """What a written file shows; how it is compressed is its writer's business."""
    try:
        with Image.open(path) as image:
            return {"mode": image.mode, "pixels": torch.from_numpy(np.array(image))}
    except UnidentifiedImageError:
        return "no picture"


SUITE = Suite(
    "image files",
    ours="flambeau.vision",
    peer="torchvision",
    differences=Path(__file__).with_name("differences.toml"),
    files={".png": pixels, ".jpg": pixels},
)
MODES = ("UNCHANGED", "GRAY", "GRAY_ALPHA", "RGB", "RGB_ALPHA")


def as_tensor(content: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)


def given(content: bytes) -> Any:
    return lambda library: {"x": as_tensor(content)}


READING = [f"io.decode_image(x, io.ImageReadMode.{mode})" for mode in MODES]
BY_FORMAT = {
    "jpeg": [
        *(f"io.decode_jpeg(x, io.ImageReadMode.{mode})" for mode in MODES),
        "io.decode_jpeg(x, apply_exif_orientation=True)",
        "io.decode_jpeg([x, x])",
    ],
    "png": [
        *(f"io.decode_png(x, io.ImageReadMode.{mode})" for mode in MODES),
        "io.decode_png(x, apply_exif_orientation=True)",
    ],
    "gif": ["io.decode_gif(x)"],
    "webp": [f"io.decode_webp(x, io.ImageReadMode.{mode})" for mode in MODES],
    "others": ["io.decode_jpeg(x)", "io.decode_png(x)", "io.decode_gif(x)", "io.decode_webp(x)", "io.decode_jpeg([x])"],
}
for format, files in CORPUS.items():
    for name, content in files.items():
        texts = [*READING, "io.decode_image(x, apply_exif_orientation=True)", *BY_FORMAT[format]]
        SUITE.add(*(Cell(f"{format}/{name}/{text}", format, program(text), given(content)) for text in texts))
for area, corpus in (("cut off", dict(cut_off())), ("damaged", dict(damaged(40)))):
    text = "io.decode_image(x)"
    SUITE.add(*(Cell(f"{area}/{name}/{text}", area, program(text), given(content)) for name, content in corpus.items()))

_PICTURE = "torch.randint(0, 256, {}, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)"


def drawn(*shape: int) -> str:
    return _PICTURE.format(shape)


PICTURES = {
    "rgb": {"x": drawn(3, 13, 22)},
    "gray": {"x": drawn(1, 13, 22)},
    "two-channels": {"x": drawn(2, 13, 22)},
    "rgba": {"x": drawn(4, 13, 22)},
    "flat": {"x": drawn(13, 22)},
    "batch": {"x": drawn(2, 3, 13, 22)},
    "strided": {"x": f"{drawn(3, 26, 44)}[:, ::2, ::2]"},
    "turned": {"x": f"{drawn(22, 13, 3)}.permute(2, 1, 0)"},
    "channels-last": {"x": f"{drawn(1, 3, 13, 22)}.contiguous(memory_format=torch.channels_last)[0]"},
    "expanded": {"x": f"{drawn(1, 13, 22)}.expand(3, -1, -1)"},
    "none": {"x": drawn(3, 0, 22)},
    "float": {"x": f"{drawn(3, 13, 22)} / 255"},
    "int16": {"x": f"{drawn(3, 13, 22)}.short()"},
    "uint16": {"x": f"{drawn(3, 13, 22)}.to(torch.uint16)"},
    "bool": {"x": f"{drawn(1, 13, 22)} > 99"},
    "array": {"x": f"{drawn(3, 13, 22)}.numpy()"},
    "image": {"x": f"tv_tensors.Image({drawn(3, 13, 22)})"},
}
WRITING = programs("""
    io.decode_png(io.encode_png(x))
    io.decode_png(io.encode_png(x, 0))
    io.decode_png(io.encode_png(x, compression_level=9))
    io.encode_png(x, 10)
    io.encode_png(x, -1)
    io.decode_jpeg(io.encode_jpeg(x))
    io.decode_jpeg(io.encode_jpeg(x, 1))
    io.decode_jpeg(io.encode_jpeg(x, quality=100))
    io.encode_jpeg(x, 0)
    io.encode_jpeg(x, 101)
    [io.decode_jpeg(one) for one in io.encode_jpeg([x, x], 60)]
    io.write_png(x, str(folder / "picture.png"))
    io.write_jpeg(x, str(folder / "picture.jpg"), 90)
""")
SUITE.add(*cross("written", PICTURES, WRITING, names={"torch": torch}))


def read_back(library: Library, folder: Path) -> Any:
    return [library.io.read_image(str(path)) for path in sorted(folder.iterdir())]


for name in ("rgb", "gray", "strided"):
    (text,) = cross("read back", {name: PICTURES[name]}, [
        'io.write_png(x, str(folder / "a.png")); io.write_jpeg(x, str(folder / "b.jpg"))'
    ], names={"torch": torch}, read=read_back)  # fmt: skip
    SUITE.add(text)

FILES = {
    "file": {
        "path": lambda library: library.folder / "picture.png",
        "x": drawn(3, 13, 22),
        "content": lambda library: torch.arange(9, dtype=torch.uint8),
    }
}
ON_FILES = programs("""
    io.write_file(str(path), content); io.read_file(str(path))
    path.write_bytes(b"abc"); io.read_file(path)
    path.write_bytes(b""); io.read_file(str(path))
    io.read_file(str(path))
    io.read_file(str(folder))
    io.read_file(5)
    io.read_file(None)
    io.write_file(str(path), content.int())
    io.write_file(str(path), content.reshape(3, 3))
    io.write_file(str(path), b"abc")
    io.write_file(str(path / "below"), content)
    io.read_image(str(path))
    io.decode_image(str(path))
    io.write_png(x, str(path)); io.decode_image(str(path))
    io.write_png(x, str(path)); io.decode_image(path, "GRAY")
    io.write_png(x, str(path)); io.read_image(str(path), io.ImageReadMode.GRAY_ALPHA)
    io.decode_image(content)
    io.decode_image(content.int())
    io.decode_image(content.reshape(3, 3))
    io.decode_image(content.tolist())
    io.decode_image(b"abc")
    io.decode_image(io.encode_png(x), "unknown")
    io.decode_image(io.encode_png(x), 3)
    io.decode_image(io.encode_png(x), "rgb")
    io.decode_image(io.encode_png(x), "RGBA")
    io.decode_jpeg(io.encode_jpeg(x)[::1], device="cpu")
    io.decode_jpeg([])
    io.decode_jpeg([io.encode_jpeg(x), content])
    io.decode_jpeg((io.encode_jpeg(x),))
    io.decode_jpeg(io.encode_jpeg(x).repeat_interleave(2)[::2])
    io.decode_png(io.encode_png(x).repeat_interleave(2)[::2])
    io.encode_jpeg([])
    io.encode_jpeg(x, "high")
    [mode.name for mode in io.ImageReadMode], [mode.value for mode in io.ImageReadMode]
    io.ImageReadMode("RGB")
    io.ImageReadMode["RGBA"]
""")
SUITE.add(*cross("files", FILES, ON_FILES, names={"torch": torch}))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
