"""Damaged, hostile and absent files: a RuntimeError that says what is wrong, and never a crash."""

import struct

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from images import as_tensor, chunk, encoded, exif_with_orientation, picture, png
from PIL import Image

from flambeau.vision import io
from flambeau.vision.io import ImageError, ImageFileNotFoundError, decode_image, image

pytestmark = pytest.mark.usefixtures("image_codec")


def corpus() -> dict[str, bytes]:
    """One small file of each kind."""
    wide = np.arange(8 * 9 * 3, dtype=np.uint16).reshape(8, 9, 3)
    frames = [Image.new("P", (5, 5), i) for i in range(3)]
    small = picture(9, 11)
    files = {
        "jpeg": encoded(small, "JPEG", exif=b"Exif\0\0" + exif_with_orientation(6)),
        "progressive jpeg": encoded(small, "JPEG", progressive=True),
        "cmyk jpeg": encoded(picture(9, 11, "CMYK"), "JPEG"),
        "png": encoded(small, "PNG"),
        "palette png": encoded(small.quantize(8), "PNG", transparency=2),
        "wide png": png(wide, 2),
        "gif": encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]),
        "webp": encoded(small, "WEBP"),
    }
    return {name: data.numpy().tobytes() for name, data in files.items()}


CORPUS = corpus()


def outcome(content: bytes) -> str:
    """Decode whatever this is; anything but an image or an `ImageError` escapes and fails the test."""
    try:
        decoded = decode_image(as_tensor(content), apply_exif_orientation=True)
    except ImageError:
        return "error"
    assert decoded.ndim in (3, 4)
    return "image"


@pytest.mark.parametrize("name", CORPUS)
def test_the_corpus_is_sound(name):
    assert outcome(CORPUS[name]) == "image"


@pytest.mark.parametrize("name", CORPUS)
def test_a_truncated_file_is_an_error_or_an_image_at_every_length(name):
    content = CORPUS[name]
    outcomes = {outcome(content[:length]) for length in range(0, len(content), max(1, len(content) // 150))}
    assert "error" in outcomes


@pytest.mark.parametrize("name", ["jpeg", "png", "wide png", "webp"])
def test_half_a_file_is_an_error(name):
    with pytest.raises(RuntimeError, match="damaged or incomplete"):
        decode_image(as_tensor(CORPUS[name][: len(CORPUS[name]) // 2]))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(sorted(CORPUS)),
    changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=8),
    keep=st.one_of(st.none(), st.integers(0, 2000)),
    tail=st.binary(max_size=20),
)
def test_mutated_files_decode_or_raise_image_errors(name, changes, keep, tail):
    content = bytearray(CORPUS[name])
    for position, value in changes:
        content[position % len(content)] = value
    outcome(bytes(content[:keep]) + tail)


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=200), head=st.sampled_from([b"", *(c[:12] for c in CORPUS.values())]))
def test_arbitrary_bytes_decode_or_raise_image_errors(content, head):
    outcome(head + content)


@pytest.mark.parametrize("size", [(2**31 - 1, 2**31 - 1), (100_000, 100_000), (1, 2**31 - 1)])
def test_a_file_that_announces_a_huge_picture_is_refused_before_memory_is_taken(size):
    bomb = png(np.zeros((1, 1, 3)), 2, bits=8, size=size)
    with pytest.raises(ImageError, match="limit is 178,956,970"):
        decode_image(bomb)


def test_frames_of_an_animation_count_together(monkeypatch):
    frames = [Image.new("RGB", (10, 10), (i, 0, 0)) for i in range(12)]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    monkeypatch.setattr(image, "MAX_PIXELS", 1_100)
    with pytest.raises(ImageError, match=r"12 frame\(s\) of 10 x 10, 1,200 pixels in all; the limit is 1,100"):
        decode_image(data)
    monkeypatch.setattr(image, "MAX_PIXELS", 1_200)
    assert decode_image(data).shape == (12, 3, 10, 10)


def test_a_text_chunk_that_unpacks_to_gigabytes_is_an_error():
    import zlib

    packed = zlib.compress(bytes(200_000_000))
    content = encoded(picture(), "PNG").numpy().tobytes()
    end = content.index(b"IDAT") - 4
    bomb = content[:end] + chunk(b"zTXt", b"Comment\0\0" + packed) + content[end:]
    assert outcome(bomb) in ("error", "image")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (torch.empty(0, dtype=torch.uint8), "non empty 1-dimensional"),
        (torch.zeros(3, 4, dtype=torch.uint8), r"1-dimensional uint8 tensor.*got uint8 \[3, 4\]"),
        (torch.zeros(30), r"got float32 \[30\]"),
        (torch.zeros(30, dtype=torch.uint8), "no known mark; expected JPEG, PNG, GIF, WebP, AVIF or HEIC"),
    ],
)
def test_what_is_no_image_file_is_named(data, message):
    with pytest.raises(RuntimeError, match=message):
        decode_image(data)


def test_a_decoder_refuses_another_format():
    with pytest.raises(RuntimeError, match="the mark of PNG; expected JPEG"):
        io.decode_jpeg(as_tensor(CORPUS["png"]))


def test_an_absent_file_is_a_runtime_error_and_a_file_not_found_error(tmp_path):
    with pytest.raises(RuntimeError, match="There is no file"):
        io.read_image(tmp_path / "absent.png")
    with pytest.raises(FileNotFoundError):
        io.read_file(tmp_path / "absent.png")
    assert issubclass(ImageFileNotFoundError, ImageError)


def test_a_folder_cannot_be_read_and_the_message_says_so(tmp_path):
    with pytest.raises(RuntimeError, match="cannot be read"):
        io.read_file(tmp_path)


def test_an_unknown_mode_suggests_the_nearest():
    with pytest.raises(ValueError, match=r"Unknown image mode 'rbg'.*Did you mean 'RGB'"):
        decode_image(as_tensor(CORPUS["png"]), mode="rbg")


def test_a_damaged_length_in_a_gif_does_not_hang():
    content = bytearray(CORPUS["gif"])
    struct.pack_into("<HH", content, 6, 65535, 100)
    assert outcome(bytes(content)) in ("error", "image")


def test_frames_of_a_gif_that_differ_in_size_are_an_error():
    frames = [Image.effect_noise((5, 5), index) for index in (20, 90)]
    content = bytearray(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]).numpy().tobytes())
    second = content.rindex(b",\0\0\0\0\5\0\5\0")
    struct.pack_into("<HH", content, second + 5, 5, 4)
    struct.pack_into("<HH", content, second + 1, 0, 3)
    with pytest.raises(ImageError, match="frames differ in size"):
        decode_image(as_tensor(bytes(content)))


@pytest.mark.parametrize("codec", ["auto", "pillow"])
def test_another_marker_in_the_place_of_a_jpeg_s_end_is_an_error(codec, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_IMAGE_CODECS", codec)
    content = bytearray(encoded(picture(), "JPEG").numpy().tobytes())
    content[-1] = 0x91
    with pytest.raises(ImageError, match="damaged or incomplete"):
        decode_image(as_tensor(bytes(content)))


def test_impossible_values_in_a_jpeg_are_read_as_libjpeg_reads_them(monkeypatch):
    """Their sums leave 16 bits in one way, which no other decoder should invent anew."""
    sound = encoded(picture(), "JPEG").numpy().tobytes()
    start = sound.index(b"\xff\xda") + 14
    results = {}
    for codec in ("auto", "pillow"):
        monkeypatch.setenv("FLAMBEAU_IMAGE_CODECS", codec)
        results[codec] = []
        for place in range(start, len(sound) - 2):
            content = as_tensor(sound[:place] + bytes([sound[place] ^ 0xB7]) + sound[place + 1 :])
            try:
                results[codec].append(decode_image(content))
            except ImageError:
                results[codec].append(None)
    both = [(a, b) for a, b in zip(results["auto"], results["pillow"], strict=True) if a is not None and b is not None]
    assert len(both) > 50
    assert all(torch.equal(a, b) for a, b in both)
