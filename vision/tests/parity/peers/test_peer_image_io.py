"""Image files become the same tensors as torchvision makes of them, bit for bit, with either codec."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "io"))

from images import encoded, picture, png
from PIL import Image

from flambeau.vision import io as ours
from flambeau.vision.io import _native

theirs = pytest.importorskip("torchvision.io", reason="needs torchvision; `nox -s parity -- peers` has it")


@pytest.fixture(params=["native", "pillow"], autouse=True)
def image_codec(request, monkeypatch):
    if request.param == "native" and _native.LIBRARY.load() is None:
        pytest.skip(f"The image codecs were not built: {_native.LIBRARY.reason}.")
    monkeypatch.setenv("FLAMBEAU_IMAGE_CODECS", "pillow" if request.param == "pillow" else "auto")


def grainy(height: int, width: int) -> Image.Image:
    draw = np.random.default_rng(height)
    array = np.asarray(picture(height, width)) + draw.normal(size=(height, width, 3)) * 12
    return Image.fromarray(array.clip(0, 255).astype(np.uint8))


def mode_of(name: str) -> object:
    return theirs.ImageReadMode(ours.ImageReadMode[name].value)


@pytest.mark.parametrize("mode", ["UNCHANGED", "GRAY", "RGB"])
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 2}], ids=str)
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0", "4:1:1"])
@pytest.mark.parametrize("quality", [20, 75, 98])
def test_jpeg(quality, subsampling, options, mode):
    for size in ((64, 96), (37, 53), (16, 6)):
        data = encoded(grainy(*size), "JPEG", quality=quality, subsampling=subsampling, **options)
        assert torch.equal(ours.decode_jpeg(data, mode), theirs.decode_jpeg(data, mode_of(mode)))


@pytest.mark.parametrize("mode", ["UNCHANGED", "GRAY", "RGB"])
@pytest.mark.parametrize("kind", ["L", "CMYK"])
def test_jpeg_of_other_colours(kind, mode):
    data = encoded(grainy(37, 53).convert(kind), "JPEG")
    assert torch.equal(ours.decode_jpeg(data, mode), theirs.decode_jpeg(data, mode_of(mode)))


@pytest.mark.parametrize("kind", ["1", "L", "LA", "RGB", "RGBA"])
def test_png(kind):
    data = encoded(picture(37, 53, kind), "PNG")
    assert torch.equal(ours.decode_png(data), theirs.decode_png(data))


@pytest.mark.parametrize("options", [{}, {"transparency": 1}], ids=["opaque", "one entry hidden"])
def test_png_of_a_palette(options):
    data = encoded(picture(37, 53).quantize(200), "PNG", **options)
    assert torch.equal(ours.decode_png(data), theirs.decode_png(data))


@pytest.mark.parametrize(("colour_type", "channels"), [(0, 1), (4, 2), (2, 3), (6, 4)])
def test_png_with_16_bits(colour_type, channels):
    array = np.random.default_rng(0).integers(0, 65536, (9, 7, channels)).astype(np.uint16)
    data = png(array, colour_type)
    assert torch.equal(ours.decode_png(data), theirs.decode_png(data))


@pytest.mark.parametrize("options", [{"quality": 60}, {"lossless": True}], ids=str)
@pytest.mark.parametrize("kind", ["RGB", "RGBA"])
def test_webp(kind, options):
    data = encoded(picture(37, 53, kind), "WEBP", **options)
    assert torch.equal(ours.decode_webp(data), theirs.decode_webp(data))


@pytest.mark.parametrize("quality", [1, 50, 75, 100])
def test_written_jpeg_holds_the_same_picture(quality):
    image = torch.from_numpy(np.array(grainy(37, 53))).permute(2, 0, 1)
    written = theirs.decode_jpeg(ours.encode_jpeg(image, quality))
    assert torch.equal(written, theirs.decode_jpeg(theirs.encode_jpeg(image, quality)))


@pytest.mark.parametrize("channels", [1, 3])
def test_written_png_is_read_by_the_peer(channels):
    image = torch.randint(0, 256, (channels, 37, 53), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(theirs.decode_png(ours.encode_png(image)), image)


def test_both_refuse_a_file_that_is_cut_off():
    data = encoded(grainy(64, 96), "JPEG")
    for decode in (ours.decode_jpeg, theirs.decode_jpeg):
        with pytest.raises(RuntimeError):
            decode(data[: data.numel() // 2])
