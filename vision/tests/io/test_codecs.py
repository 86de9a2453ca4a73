"""The package's own codecs and Pillow give the same pictures, and either can be chosen."""

import io
import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from images import as_tensor, chunk, encoded, picture, pixels, png
from PIL import Image

from flambeau.vision.io import (
    ImageError,
    ImageReadMode,
    _native,
    decode_image,
    decode_jpeg,
    decode_png,
    encode_jpeg,
    encode_png,
    image,
)

native_only = pytest.mark.usefixtures("native")


@pytest.fixture
def native(monkeypatch):
    """Our codecs serve, or the test is skipped."""
    if _native.LIBRARY.load() is None:
        pytest.skip(f"The image codecs were not built: {_native.LIBRARY.reason}.")
    monkeypatch.delenv("FLAMBEAU_IMAGE_CODECS", raising=False)


def small_png(depth: int, colour: int, rows: bytes, extra: bytes = b"", *, interlaced: bool = False) -> torch.Tensor:
    """7 x 9 pixels of any depth and colour type."""
    header = struct.pack(">IIBBBBB", 7, 9, depth, colour, 0, 0, interlaced)
    body = chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return as_tensor(b"\x89PNG\r\n\x1a\n" + body)


def random_rows(bits: int, filters: bytes = b"\0\1\2\3\4\4\3\2\1") -> bytes:
    """Rows of 7 pixels, each with another filter."""
    draw = np.random.default_rng(bits)
    return b"".join(bytes([kind]) + draw.bytes((7 * bits + 7) // 8) for kind in filters)


def interlaced_rows(bits: int) -> bytes:
    """The seven passes of 7 x 9 pixels; the filter changes from row to row."""
    draw = np.random.default_rng(bits)
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    rows = b""
    for y, x, y_step, x_step in passes:
        columns = len(range(x, 7, x_step))
        for row in range(y, 9, y_step) if columns else ():
            rows += bytes([row % 5]) + draw.bytes((columns * bits + 7) // 8)
    return rows


def corpus() -> dict[str, torch.Tensor]:
    """Files of every kind that more than one codec reads."""
    large = picture(37, 53)
    files = {"gray jpeg": encoded(picture(37, 53, "L"), "JPEG"), "cmyk jpeg": encoded(picture(37, 53, "CMYK"), "JPEG")}
    for subsampling in ("4:4:4", "4:2:2", "4:2:0", "4:1:1"):
        for quality in (30, 75, 100):
            for options in ({}, {"progressive": True}, {"optimize": True}, {"restart_marker_blocks": 3}):
                name = f"jpeg {subsampling} {quality} {' '.join(options)}"
                files[name] = encoded(large, "JPEG", quality=quality, subsampling=subsampling, **options)
    files["jpeg in rgb"] = encoded(large, "JPEG", keep_rgb=True)
    for height, width in ((1, 1), (8, 8), (16, 16), (17, 1), (1, 33), (64, 48)):
        files[f"jpeg {height} x {width}"] = encoded(picture(height, width), "JPEG")
    for kind in ("1", "L", "LA", "RGB", "RGBA"):
        files[f"png {kind}"] = encoded(picture(37, 53, kind), "PNG")
    for colours in (2, 4, 16, 200):
        quantized = large.quantize(colours)
        files[f"png palette {colours}"] = encoded(quantized, "PNG")
        files[f"png palette {colours} with one hidden"] = encoded(quantized, "PNG", transparency=1)
        files[f"png palette {colours} with alpha"] = encoded(quantized, "PNG", transparency=bytes([0, 100]))
    files["png with a hidden gray"] = encoded(picture(37, 53, "L"), "PNG", transparency=100)
    files["png with a hidden colour"] = encoded(large, "PNG", transparency=(0, 0, 255))
    for depth in (1, 2, 4):
        files[f"png {depth} bits"] = small_png(depth, 0, random_rows(depth))
        files[f"png {depth} bits hidden"] = small_png(depth, 0, random_rows(depth), chunk(b"tRNS", b"\0\1"))
    for colour, channels in ((0, 1), (4, 2), (2, 3), (6, 4)):
        for depth in (8, 16):
            files[f"png {depth} bits {channels}"] = small_png(depth, colour, random_rows(depth * channels))
        files[f"interlaced png {channels}"] = small_png(8, colour, interlaced_rows(8 * channels), interlaced=True)
    files["interlaced png 2 bits"] = small_png(2, 0, interlaced_rows(2), interlaced=True)
    for kind in ("RGB", "RGBA"):
        files[f"webp {kind}"] = encoded(picture(37, 53, kind), "WEBP", quality=80)
        files[f"lossless webp {kind}"] = encoded(picture(37, 53, kind), "WEBP", lossless=True)
    return files


CORPUS = corpus()


def by_pillow(monkeypatch: pytest.MonkeyPatch, data: torch.Tensor, *arguments: object, **options: object):
    with monkeypatch.context() as patch:
        patch.setenv("FLAMBEAU_IMAGE_CODECS", "pillow")
        return decode_image(data, *arguments, **options)


@native_only
@pytest.mark.parametrize("mode", list(ImageReadMode), ids=lambda mode: mode.name)
@pytest.mark.parametrize("name", CORPUS)
def test_both_give_the_same_picture(name, mode, monkeypatch):
    ours, theirs = decode_image(CORPUS[name], mode), by_pillow(monkeypatch, CORPUS[name], mode)
    assert ours.dtype == theirs.dtype
    assert torch.equal(ours, theirs)


@native_only
@pytest.mark.parametrize("size", [1, 5, 18, 19, 37, 100])
@pytest.mark.parametrize("name", ["jpeg 4:2:0 75 ", "jpeg 4:4:4 75 progressive", "gray jpeg", "cmyk jpeg"])
def test_both_give_the_same_smaller_picture(name, size, monkeypatch):
    ours = decode_image(CORPUS[name], min_size=size)
    assert torch.equal(ours, by_pillow(monkeypatch, CORPUS[name], min_size=size))


@pytest.mark.usefixtures("image_codec")
@pytest.mark.parametrize(
    ("size", "shape"), [(1, (5, 7)), (5, (5, 7)), (6, (10, 14)), (19, (19, 27)), (20, (37, 53)), (1000, (37, 53))]
)
def test_a_jpeg_is_decoded_smaller_as_long_as_the_shorter_side_keeps_the_minimum(size, shape):
    data = CORPUS["jpeg 4:2:0 75 "]
    assert decode_jpeg(data, min_size=size).shape == (3, *shape)
    assert [tuple(one.shape) for one in decode_jpeg([data, data], min_size=size)] == [(3, *shape)] * 2


@pytest.mark.usefixtures("image_codec")
def test_other_formats_are_decoded_whole_whatever_the_minimum():
    assert decode_image(CORPUS["png RGB"], min_size=5).shape == (3, 37, 53)


def test_a_minimum_below_1_is_a_value_error():
    with pytest.raises(ValueError, match="min_size is 0, expected at least 1"):
        decode_image(CORPUS["png RGB"], min_size=0)


@pytest.mark.usefixtures("image_codec")
@pytest.mark.parametrize("name", ["jpeg 4:2:0 75 ", "cmyk jpeg", "png RGB", "png RGBA", "png 16 bits 3", "webp RGB"])
def test_the_channels_of_a_pixel_lie_side_by_side(name):
    assert decode_image(CORPUS[name]).permute(1, 2, 0).is_contiguous()


@native_only
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_list_is_decoded_alike_on_any_number_of_threads(threads):
    files = [data for name, data in CORPUS.items() if "jpeg" in name]
    expected = [decode_jpeg(data) for data in files]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        decoded = decode_jpeg(files)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(decoded, expected, strict=True))


@pytest.mark.usefixtures("image_codec")
def test_one_damaged_file_of_a_list_is_an_error():
    data = CORPUS["jpeg 4:2:0 75 "]
    with pytest.raises(ImageError, match="JPEG image is damaged or incomplete"):
        decode_jpeg([data, data[: data.numel() // 2], data])


@native_only
@pytest.mark.parametrize("layout", ["planes", "pixels", "neither"])
@pytest.mark.parametrize("channels", [1, 3])
def test_both_write_the_same_jpeg(layout, channels, monkeypatch):
    original = pixels(picture(37, 53, "RGB" if channels == 3 else "L"))
    if layout == "pixels":
        original = original.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    elif layout == "neither":
        original = original.transpose(1, 2).contiguous().transpose(1, 2)
    ours = decode_jpeg(encode_jpeg(original, 60))
    monkeypatch.setenv("FLAMBEAU_IMAGE_CODECS", "pillow")
    assert torch.equal(ours, decode_jpeg(encode_jpeg(original, 60)))


@native_only
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("level", [0, 1, 6, 9])
def test_other_programs_read_our_png(channels, level):
    original = torch.randint(0, 256, (channels, 23, 31), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    original[:, 5:] = original[:, 4:5]  # rows that each filter suits
    content = encode_png(original, level).numpy().tobytes()
    opened = Image.open(io.BytesIO(content))
    opened.verify()
    assert torch.equal(pixels(Image.open(io.BytesIO(content))), original)


@native_only
def test_our_png_is_about_as_small_as_pillows(monkeypatch):
    y, x = torch.meshgrid(torch.arange(200.0), torch.arange(300.0), indexing="ij")
    smooth = torch.stack([(x * y).sqrt() % 256, x * 0.8, y]).to(torch.uint8)
    sizes = {level: encode_png(smooth, level).numel() for level in (0, 1, 6, 9)}
    assert sizes[0] > sizes[1] >= sizes[6] >= sizes[9]
    monkeypatch.setenv("FLAMBEAU_IMAGE_CODECS", "pillow")
    assert sizes[6] < 1.05 * encode_png(smooth, 6).numel()


@native_only
def test_a_picture_too_wide_for_jpeg_is_refused():
    with pytest.raises(ImageError, match="at most 65500 pixels a side, this picture is 1 x 65501"):
        encode_jpeg(torch.zeros(1, 1, 65501, dtype=torch.uint8))


def test_pixels_that_the_picture_has_no_room_for_are_left_out():
    rows = random_rows(24)
    assert torch.equal(decode_png(small_png(8, 2, rows + b"more")), decode_png(small_png(8, 2, rows)))


@native_only
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (small_png(8, 2, random_rows(24, b"\0\1\2")), "pixels end before the picture does"),
        (small_png(8, 2, random_rows(24, b"\0\1\2\3\5\0\0\0\0")), "a row has a filter that there is not"),
        (small_png(3, 0, random_rows(3)), "colour type or depth that there is not"),
        (small_png(8, 3, random_rows(8)), "palette is missing"),
        (small_png(8, 2, random_rows(24), chunk(b"ABCD", b"")), "must be understood and is unknown"),
        (png(np.zeros((1, 1, 3)), 2, bits=8, size=(3000, 3000)), "too short for a picture of 3000 x 3000"),
        (as_tensor(CORPUS["png RGB"].numpy().tobytes()[:-30]), "file ends before the picture does"),
    ],
    ids=["few rows", "filter", "depth", "palette", "critical chunk", "size", "cut off"],
)
def test_what_is_wrong_with_a_png_is_said(data, message):
    with pytest.raises(ImageError, match=message):
        decode_image(data)


@native_only
@pytest.mark.parametrize(("at", "what"), [(-16, "pixels"), (20, "header")])
def test_a_png_with_a_wrong_checksum_is_refused(at, what):
    content = bytearray(CORPUS["png RGB"].numpy().tobytes())
    content[at] ^= 1
    with pytest.raises(ImageError, match=f"checksum of its {what}"):
        decode_image(as_tensor(bytes(content)))


@native_only
def test_a_jpeg_of_many_scans_is_refused():
    content = CORPUS["jpeg 4:2:0 75 progressive"].numpy().tobytes()
    last = content.rindex(b"\xff\xda")
    with pytest.raises(ImageError, match="more than 100 scans"):
        decode_image(as_tensor(content[:-2] + content[last:-2] * 120 + b"\xff\xd9"))


@native_only
def test_a_progressive_jpeg_that_announces_more_than_it_can_hold_is_refused():
    content = bytearray(CORPUS["jpeg 4:2:0 75 progressive"].numpy().tobytes())
    frame = content.index(b"\xff\xc2")
    content[frame + 5 : frame + 9] = struct.pack(">HH", 13_000, 13_000)
    with pytest.raises(ImageError, match="too short for a picture of 13000 x 13000"):
        decode_image(as_tensor(bytes(content)))


@native_only
def test_codecs_serve_where_they_were_built_and_nothing_else_is_asked_for(monkeypatch):
    monkeypatch.delenv("FLAMBEAU_IMAGE_CODECS", raising=False)
    assert isinstance(_native.codec(), _native.NativeCodec)
    monkeypatch.setenv("FLAMBEAU_IMAGE_CODECS", "Pillow")
    assert not isinstance(_native.codec(), _native.NativeCodec)


def test_without_the_library_pillow_serves():
    code = (
        "import torch; from flambeau.vision.io import _native, encode_png, decode_png;"
        "assert _native.objection() == 'FLAMBEAU_NATIVE=off', _native.objection();"
        "image = torch.randint(0, 256, (3, 5, 6), dtype=torch.uint8);"
        "assert torch.equal(decode_png(encode_png(image)), image)"
    )
    environment = {**os.environ, "FLAMBEAU_NATIVE": "off", "FLAMBEAU_IMAGE_CODECS": "auto"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_doctor_says_which_codecs_serve(monkeypatch):
    from flambeau.vision._hooks import flambeau_doctor

    monkeypatch.setenv("FLAMBEAU_IMAGE_CODECS", "pillow")
    (check,) = flambeau_doctor()
    assert (check["ok"], check["detail"]) == (True, "Pillow serves all formats (FLAMBEAU_IMAGE_CODECS=pillow)")
    if _native.LIBRARY.load() is not None:
        monkeypatch.delenv("FLAMBEAU_IMAGE_CODECS")
        (check,) = flambeau_doctor()
        assert "JPEG: libjpeg-turbo" in check["detail"]


@native_only
def test_memory_that_is_not_there_is_an_image_error(monkeypatch):
    monkeypatch.setattr(image, "MAX_PIXELS", 2**62)

    def refuse(*arguments: object, **options: object):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(torch, "empty_strided", refuse)
    with pytest.raises(ImageError, match="no memory for an image"):
        decode_image(CORPUS["png RGB"])


@native_only
def test_a_forked_process_decodes_lists():
    code = (
        "import os, sys, torch; from flambeau.vision.io import decode_jpeg, encode_jpeg;"
        "torch.set_num_threads(2);"
        "file = encode_jpeg(torch.randint(0, 256, (3, 300, 300), dtype=torch.uint8));"
        "expected = decode_jpeg([file] * 4);"
        "child = os.fork();"
        "same = all((a.numpy() == b.numpy()).all() for a, b in zip(decode_jpeg([file] * 4), expected));"
        "os._exit(not same) if child == 0 else sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or not same)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@native_only
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.tuples(st.integers(1, 70), st.integers(1, 140)),
    quality=st.sampled_from([1, 10, 50, 75, 95, 100]),
    subsampling=st.sampled_from(["4:4:4", "4:2:2", "4:2:0"]),
    noise=st.sampled_from([0, 3, 60, 1000]),
    options=st.sampled_from([{}, {"optimize": True}, {"restart_marker_blocks": 1}, {"restart_marker_rows": 1}]),
    mode=st.sampled_from(["UNCHANGED", "GRAY"]),
    min_size=st.sampled_from([None, None, 1, 7, 20]),
    seed=st.integers(0, 2**31),
)
def test_both_give_the_same_picture_of_any_jpeg(size, quality, subsampling, noise, options, mode, min_size, seed):
    draw = np.random.default_rng(seed)
    array = np.asarray(picture(*size)).astype(np.float64) + draw.normal(size=(*size, 3)) * noise
    written = Image.fromarray(array.clip(0, 255).astype(np.uint8))
    data = encoded(written, "JPEG", quality=quality, subsampling=subsampling, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLAMBEAU_IMAGE_CODECS", "auto")
        ours = decode_jpeg(data, mode, min_size=min_size)
        patch.setenv("FLAMBEAU_IMAGE_CODECS", "pillow")
        assert torch.equal(ours, decode_jpeg(data, mode, min_size=min_size))


@native_only
@pytest.mark.parametrize("quantizer", [1, 16, 200, 255])
def test_both_agree_on_coefficients_out_of_all_proportion(quantizer, monkeypatch):
    # What a coefficient is multiplied with is not what it was divided by: samples far outside of 0 to 255.
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 56, 3), dtype=np.uint8))
    content = bytearray(encoded(image, "JPEG", qtables=[[1] * 64] * 2, subsampling="4:2:0").numpy().tobytes())
    at = content.index(b"\xff\xdb")
    while content[at : at + 2] == b"\xff\xdb":
        (length,) = struct.unpack_from(">H", content, at + 2)
        content[at + 5 : at + 2 + length] = bytes([quantizer]) * (length - 3)
        at += 2 + length
    data = as_tensor(bytes(content))
    assert torch.equal(decode_jpeg(data), by_pillow(monkeypatch, data))
