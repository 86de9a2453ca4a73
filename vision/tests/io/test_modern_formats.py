"""AVIF and HEIC: read where a library is there, explained where none is, and as robust as the other formats."""

import io
import sys

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from images import as_tensor, picture, pixels
from PIL import Image

from flambeau.vision.io import (
    ImageError,
    MissingImageLibraryError,
    _devices,
    decode_avif,
    decode_heic,
    decode_image,
    decode_jpeg,
    encode_jpeg,
)
from flambeau.vision.io._codec import recognise

pillow_heif = pytest.importorskip("pillow_heif", exc_type=ImportError)


def avif(image: Image.Image, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "AVIF", quality=95, **options)
    return buffer.getvalue()


def heic(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    pillow_heif.from_pillow(image).save(buffer, quality=95)
    return buffer.getvalue()


FILES = {"avif": avif(picture(32, 48)), "heic": heic(picture(32, 48))}
DECODERS = {"avif": decode_avif, "heic": decode_heic}


@pytest.mark.parametrize("format", FILES)
@pytest.mark.parametrize("decode", ["its own", "any"])
def test_the_picture_comes_back(format, decode):
    decoded = (decode_image if decode == "any" else DECODERS[format])(as_tensor(FILES[format]))
    assert decoded.shape == (3, 32, 48)
    assert (decoded.int() - pixels(picture(32, 48)).int()).abs().float().mean() < 3


@pytest.mark.parametrize(("mode", "channels"), [("GRAY", 1), ("GRAY_ALPHA", 2), ("RGB", 3), ("RGB_ALPHA", 4)])
@pytest.mark.parametrize("format", FILES)
def test_channels_are_those_asked_for(format, mode, channels):
    assert DECODERS[format](as_tensor(FILES[format]), mode).shape == (channels, 32, 48)


@pytest.mark.parametrize("encode", [avif, heic])
def test_alpha_is_kept(encode):
    image = picture(32, 48, "RGBA")
    decoded = decode_image(as_tensor(encode(image)))
    assert decoded.shape == (4, 32, 48)
    assert (decoded[3].int() - pixels(image)[3].int()).abs().float().mean() < 3


def test_an_avif_sequence_gives_all_frames():
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "lime", "blue")]
    decoded = decode_avif(as_tensor(avif(frames[0], save_all=True, append_images=frames[1:])))
    assert decoded.shape == (3, 3, 16, 16)
    assert decoded[:, :, 8, 8].argmax(1).tolist() == [0, 1, 2]


@pytest.mark.parametrize("format", FILES)
def test_a_decoder_refuses_the_other_format(format):
    other = "heic" if format == "avif" else "avif"
    with pytest.raises(ImageError, match=f"the mark of {other.upper()}; expected {format.upper()}"):
        DECODERS[format](as_tensor(FILES[other]))


@pytest.mark.parametrize(
    ("head", "format"),
    [
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1heicmiaf", "heic"),
        (b"\0\0\0\x20ftypmif1\0\0\0\0mif1avifmiafMA1B", "avif"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1miafheic", None),  # the last brand is outside of the box
        (b"\0\0\0\x18ftypisom\0\0\0\0isomavc1", None),
    ],
)
def test_the_brand_may_be_in_the_list_of_compatible_ones(head, format):
    assert recognise(head) == format


@pytest.mark.parametrize("format", FILES)
def test_a_picture_larger_than_the_bound_is_refused(format, monkeypatch):
    from flambeau.vision.io import image

    monkeypatch.setattr(image, "MAX_PIXELS", 32 * 48 - 1)
    with pytest.raises(ImageError, match="the limit is 1,535"):
        decode_image(as_tensor(FILES[format]))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    format=st.sampled_from(sorted(FILES)),
    changes=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), min_size=1, max_size=8),
    keep=st.one_of(st.none(), st.integers(0, 2000)),
)
def test_mutated_files_decode_or_raise_image_errors(format, changes, keep):
    content = bytearray(FILES[format])
    for position, value in changes:
        content[position % len(content)] = value
    try:
        decoded = decode_image(as_tensor(bytes(content[:keep])))
    except ImageError:
        return
    assert decoded.ndim in (3, 4)


def test_without_pillow_heif_the_message_tells_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif.as_plugin", None)
    with pytest.raises(MissingImageLibraryError, match=r'pip install "flambeau-vision\[heif\]"'):
        decode_heic(as_tensor(FILES["heic"]))


def test_a_pillow_without_avif_is_named(monkeypatch):
    from PIL import features

    monkeypatch.setattr(features, "check", lambda feature: False)
    with pytest.raises(ImportError, match="reads no AVIF"):
        decode_avif(as_tensor(FILES["avif"]))


def test_decoding_for_another_device_is_noticed_once(monkeypatch):
    monkeypatch.setattr(_devices, "_noticed", set())
    data = encode_jpeg(pixels(picture()))
    with pytest.warns(UserWarning, match="Images for meta are decoded by the CPU"):
        assert decode_jpeg(data, device="meta").device.type == "meta"
    assert [image.device.type for image in decode_jpeg([data, data], device=torch.device("meta"))] == ["meta", "meta"]
