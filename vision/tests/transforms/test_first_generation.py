"""The functions of the first generation, and the private modules that code of others imports from."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from kernel_table import ARGUMENTS, picture
from PIL import Image

from flambeau.vision.transforms import _functional_pil, _functional_tensor
from flambeau.vision.transforms import functional as v1
from flambeau.vision.transforms.v2 import functional as F

RENAMED = {"hflip": "horizontal_flip", "vflip": "vertical_flip", "elastic_transform": "elastic"}
SAME = sorted(name for name in v1.__all__ if RENAMED.get(name, name) in ARGUMENTS)


def as_pil(image: torch.Tensor) -> Image.Image:
    return F.to_pil_image(F.to_dtype(image, torch.uint8, scale=True))


def called(name: str) -> dict[str, Any]:
    offered = ARGUMENTS[RENAMED.get(name, name)]
    return {key: value for key, value in offered.items() if key in inspect.signature(getattr(v1, name)).parameters}


@pytest.mark.parametrize("name", SAME)
def test_they_do_what_the_second_generation_does(name: str) -> None:
    image = picture()
    ours, theirs = getattr(v1, name)(image, **called(name)), getattr(F, RENAMED.get(name, name))(image, **called(name))
    for one, other in zip(*([r] if isinstance(r, torch.Tensor) else r for r in (ours, theirs)), strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))


@pytest.mark.parametrize("name", sorted(set(SAME) - {"erase", "get_dimensions", "normalize"}))
def test_they_take_pil_images(name: str) -> None:
    arguments = called(name) | ({"threshold": 100} if name == "solarize" else {})
    result = getattr(v1, name)(as_pil(picture()), **arguments)
    for image in result if isinstance(result, tuple) else [result]:
        assert isinstance(image, Image.Image)
        assert image.mode == "RGB"


def test_erasing_wants_a_tensor() -> None:
    with pytest.raises(TypeError, match=r"erase: img is a .*, expected a tensor"):
        v1.erase(as_pil(picture()), 0, 0, 1, 1, torch.zeros(1))  # type: ignore[arg-type]


def test_pillows_numbers_by_mode() -> None:
    assert v1.pil_modes_mapping[v1.InterpolationMode.BICUBIC] == Image.Resampling.BICUBIC
    assert v1.accimage is None


@pytest.mark.parametrize("module", [_functional_pil, _functional_tensor])
def test_the_private_modules_have_what_they_promise(module: Any) -> None:
    assert all(callable(getattr(module, name)) for name in module.__all__)


def test_tensors_by_matrix() -> None:
    image, half_turn = picture(), [-1.0, 0.0, 0.0, 0.0, -1.0, 0.0]

    assert torch.allclose(_functional_tensor.affine(image, half_turn), image.flip(-1, -2))
    assert torch.allclose(_functional_tensor.rotate(image, half_turn, expand=True), image.flip(-1, -2))
    identity = [1, 0, 0, 0, 1, 0, 0, 0]
    assert torch.allclose(_functional_tensor.perspective(image, identity), image, atol=1e-5)
    assert torch.allclose(_functional_tensor.elastic_transform(image, torch.zeros(1, 12, 17, 2)), image, atol=1e-5)
    assert _functional_tensor.resize(image, [6, 5], "bicubic").shape == (3, 6, 5)


def test_pil_images_by_matrix() -> None:
    image = as_pil(picture())
    identity = [1, 0, 0, 0, 1, 0]

    for result in (
        _functional_pil.affine(image, identity),
        _functional_pil.perspective(image, [*identity, 0, 0]),
        _functional_pil.rotate(image, 0),
        _functional_pil.pad(image, 0),
        _functional_pil.resize(image, [12, 17]),
    ):
        assert np.array_equal(result, image)
