"""Tensors become image files, and come back."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from images import picture, pixels

from flambeau.vision.io import (
    decode_image,
    decode_jpeg,
    decode_png,
    encode_jpeg,
    encode_png,
    read_file,
    read_image,
    write_file,
    write_jpeg,
    write_png,
)

pytestmark = pytest.mark.usefixtures("image_codec")


@settings(max_examples=30, deadline=None)
@given(
    channels=st.integers(1, 4), height=st.integers(1, 20), width=st.integers(1, 20), level=st.integers(0, 9),
    seed=st.integers(0, 2**31),
)  # fmt: skip
def test_png_keeps_every_bit(channels, height, width, level, seed):
    generator = torch.Generator().manual_seed(seed)
    image = torch.randint(0, 256, (channels, height, width), dtype=torch.uint8, generator=generator)
    assert torch.equal(decode_png(encode_png(image, compression_level=level)), image)


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_jpeg_comes_back_close_and_closer_with_higher_quality(mode):
    image = pixels(picture(mode=mode))
    errors = [
        (decode_jpeg(encode_jpeg(image, quality)).int() - image.int()).abs().float().mean() for quality in (20, 95)
    ]
    assert errors[1] < errors[0] < 12
    assert errors[1] < 2


def test_non_contiguous_and_differentiable_images_are_encoded():
    image = pixels(picture()).transpose(1, 2)
    assert torch.equal(decode_png(encode_png(image)), image)


def test_a_list_of_images_becomes_a_list_of_jpegs():
    images = [pixels(picture(8 + i, 8)) for i in range(4)]
    files = encode_jpeg(images, quality=90)
    assert [file.tolist() for file in files] == [encode_jpeg(image, quality=90).tolist() for image in images]


@pytest.mark.parametrize(("write", "suffix"), [(write_png, "png"), (write_jpeg, "jpg")])
@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_files_are_written_and_read_by_str_or_path(tmp_path, write, suffix, kind):
    path = kind(tmp_path / f"picture.{suffix}")
    write(pixels(picture()), path)
    assert torch.equal(read_image(path), decode_image(path))
    assert read_image(path).shape == (3, 24, 36)


def test_bytes_survive_a_file(tmp_path):
    data = torch.arange(256, dtype=torch.uint8)
    write_file(tmp_path / "bytes", data)
    assert torch.equal(read_file(tmp_path / "bytes"), data)
    write_file(tmp_path / "empty", data[:0])
    assert read_file(tmp_path / "empty").shape == (0,)


@pytest.mark.parametrize("quality", [0, 101, -5])
def test_quality_outside_1_to_100_is_a_value_error(quality):
    with pytest.raises(ValueError, match="between 1 and 100"):
        encode_jpeg(pixels(picture()), quality)


@pytest.mark.parametrize(
    ("encode", "image", "message"),
    [
        (encode_jpeg, torch.zeros(3, 4, 4), r"is float32 \[3, 4, 4\], expected a tensor of uint8"),
        (encode_jpeg, torch.zeros(4, 4, 4, dtype=torch.uint8), "1 or 3 channels"),
        (encode_jpeg, torch.zeros(4, 4, dtype=torch.uint8), r"is uint8 \[4, 4\], expected \[C, H, W\]"),
        (encode_png, torch.zeros(5, 4, 4, dtype=torch.uint8), "1 or 2 or 3 or 4 channels"),
        (encode_png, torch.zeros(3, 0, 4, dtype=torch.uint8), "at least one pixel"),
        (encode_png, "picture.png", "image is a str"),
    ],
)
def test_what_cannot_be_encoded_is_a_runtime_error(encode, image, message):
    with pytest.raises(RuntimeError, match=message):
        encode(image)


def test_a_compression_level_outside_0_to_9_is_a_runtime_error():
    with pytest.raises(RuntimeError, match="between 0 and 9"):
        encode_png(pixels(picture()), 10)


def test_a_file_that_cannot_be_written_is_a_runtime_error(tmp_path):
    with pytest.raises(RuntimeError, match="cannot be written"):
        write_png(pixels(picture()), tmp_path / "absent" / "picture.png")
