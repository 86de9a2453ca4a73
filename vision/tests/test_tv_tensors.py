"""The image types: what they are made of, and that they stay what they are where upstream's do, and where not."""

from __future__ import annotations

import base64
import copy
import io
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, default_collate

from flambeau.core.registry import TENSOR_TYPES
from flambeau.core.tensors import Field, collate, compiled, functional, register_kernel, tensor_type, unbatch
from flambeau.vision import tv_tensors
from flambeau.vision.tv_tensors import Image, TVTensor, set_return_type, wrap


@tensor_type(
    name="test-key-points", fields={"canvas_size": tuple[int, int]}, shape="... 2", batch="list", dtypes="floating"
)
class KeyPoints(TVTensor):
    """A kind with metadata, as boxes and key points are."""


class Thermal(Image):
    """A user's own kind of image."""


def image(*shape: int, cls: type[Image] = Image) -> Image:
    return cls(torch.arange(float(torch.Size(shape or (3, 4, 5)).numel())).reshape(shape or (3, 4, 5)))


def test_the_package_offers_upstreams_names() -> None:
    assert {"Image", "TVTensor", "set_return_type", "wrap"} <= set(tv_tensors.__all__)
    assert issubclass(Image, TVTensor)
    assert TENSOR_TYPES.resolve("vision/image") is Image


@pytest.mark.parametrize(
    ("data", "shape", "dtype"),
    [
        (torch.zeros(3, 4, 5), (3, 4, 5), torch.float32),
        (torch.zeros(4, 5, dtype=torch.uint8), (1, 4, 5), torch.uint8),
        (torch.zeros(2, 3, 4, 5), (2, 3, 4, 5), torch.float32),
        ([[[1.0, 2.0]]], (1, 1, 2), torch.float32),
        (np.zeros((3, 4, 5), np.float64), (3, 4, 5), torch.float64),
        (PIL.Image.new("RGB", (5, 4)), (3, 4, 5), torch.uint8),
        (PIL.Image.new("L", (5, 4)), (1, 4, 5), torch.uint8),
        (PIL.Image.new("RGBA", (5, 4)), (4, 4, 5), torch.uint8),
        (PIL.Image.new("F", (5, 4)), (1, 4, 5), torch.float32),
    ],
)
def test_images_are_made_of_tensors_arrays_and_pil_images(data: Any, shape: tuple[int, ...], dtype: Any) -> None:
    made = Image(data)

    assert type(made) is Image
    assert (made.shape, made.dtype) == (shape, dtype)


def test_an_image_has_a_height_and_a_width() -> None:
    with pytest.raises(ValueError, match=r"the shape \(5,\) has no height and width"):
        Image(torch.zeros(5))


def test_dtype_device_and_gradients_as_asked() -> None:
    made = Image([[1, 2]], dtype=torch.float64, requires_grad=True)

    assert (made.dtype, made.requires_grad) == (torch.float64, True)
    assert Image(torch.zeros(1, 1, 1), device="meta").device.type == "meta"


def test_metadata_that_an_image_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="Image: unknown metadata: format"):
        Image(torch.zeros(3, 4, 5), format="RGB")


def test_importing_the_package_imports_no_pillow() -> None:
    program = "import sys, flambeau.vision.tv_tensors; assert 'PIL' not in sys.modules"

    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("cls", [Image, Thermal])
@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x.clone(), lambda x: x.to(torch.float64), lambda x: x.detach(), lambda x: x.requires_grad_(),
        lambda x: x.add_(1), lambda x: x.contiguous(), copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)),
        lambda x: default_collate([x, x]), lambda x: collate([x, x]), lambda x: unbatch(collate([x]))[0],
    ],
)  # fmt: skip
def test_the_kind_is_kept(operation: Any, cls: type[Image]) -> None:
    assert type(operation(image(cls=cls))) is cls


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x + 1, lambda x: x[0], lambda x: torch.stack([x, x]), lambda x: x.view(-1), lambda x: x > 0,
        lambda x: x.float(), lambda x: torch.nn.functional.interpolate(x[None], scale_factor=2),
    ],
)  # fmt: skip
def test_other_operations_give_plain_tensors(operation: Any) -> None:
    assert type(operation(image())) is Tensor


def test_return_types_by_upstreams_words() -> None:
    with set_return_type("TVTensor"):
        assert type(image() + 1) is Image
        with set_return_type("Tensor"):
            assert type(image() + 1) is Tensor
    assert type(image() + 1) is Tensor


@pytest.mark.parametrize("cls", [Image, Thermal])
def test_wrap_gives_the_kind_of_the_example(cls: type[Image]) -> None:
    data = torch.zeros(1, 2, 2)
    wrapped = wrap(data, like=image(cls=cls))

    assert type(wrapped) is cls
    assert wrapped.data_ptr() == data.data_ptr()


def test_wrap_carries_metadata_and_changes_them() -> None:
    points = KeyPoints(torch.zeros(3, 2), canvas_size=(4, 5))

    assert wrap(torch.ones(1, 2), like=points).canvas_size == (4, 5)
    assert wrap(torch.ones(1, 2), like=points, canvas_size=(8, 9)).canvas_size == (8, 9)
    with pytest.raises(TypeError, match="unknown metadata: canvas"):
        wrap(torch.ones(1, 2), like=points, canvas=(8, 9))
    with pytest.raises(TypeError, match="like=Tensor is no TVTensor"):
        wrap(torch.ones(1, 2), like=torch.ones(1))  # type: ignore[type-var]


def test_a_users_kind_may_wrap_in_its_own_way() -> None:
    class Tagged(Image):
        tag = ""

        @classmethod
        def wrap(cls, tensor: Tensor, like: Any, **kwargs: Any) -> Any:
            result = super().wrap(tensor, like, **kwargs)
            result.tag = like.tag + "'"
            return result

    tagged = Tagged(torch.zeros(1, 2, 2))
    tagged.tag = "a"
    assert wrap(torch.ones(1, 2, 2), like=tagged).tag == "a'"


def test_metadata_survive_copies_and_collation() -> None:
    points = KeyPoints(torch.zeros(3, 2), canvas_size=(4, 5))

    for twin in (points.clone(), copy.deepcopy(points), pickle.loads(pickle.dumps(points)), *collate([points] * 2)):
        assert (type(twin), twin.canvas_size) == (KeyPoints, (4, 5))


def test_a_sample_collates_with_images_stacked_and_points_listed() -> None:
    samples = [
        {"image": image(), "points": KeyPoints(torch.zeros(n, 2), canvas_size=(4, 5)), "label": n} for n in (1, 2)
    ]
    [batch] = DataLoader(samples, batch_size=2)  # type: ignore[arg-type]

    assert (type(batch["image"]), batch["image"].shape) == (Image, (2, 3, 4, 5))
    assert [(type(p), len(p)) for p in batch["points"]] == [(KeyPoints, 1), (KeyPoints, 2)]
    assert type(batch["label"]) is Tensor


def test_files_load_without_trust() -> None:
    file = io.BytesIO()
    torch.save({"image": image()}, file)
    file.seek(0)

    assert type(torch.load(file, weights_only=True)["image"]) is Image


@functional(fallback=False)
def mirror(inpt: Tensor) -> Tensor:
    """Mirror left and right."""
    return inpt.flip(-1)


register_kernel(mirror, Image)(lambda inpt: inpt.flip(-1))


@register_kernel(mirror, KeyPoints)
def mirror_points(points: Tensor, canvas_size: tuple[int, int]) -> Tensor:
    return torch.stack([canvas_size[1] - 1 - points[..., 0], points[..., 1]], -1)


def test_functionals_treat_each_kind_in_its_way() -> None:
    points = mirror(KeyPoints(torch.tensor([[0.0, 1.0]]), canvas_size=(4, 5)))

    assert (type(points), points.tolist(), points.canvas_size) == (KeyPoints, [[4.0, 1.0]], (4, 5))
    assert torch.equal(mirror(image()), image().flip(-1))
    assert type(mirror(image(cls=Thermal))) is Thermal


@pytest.mark.parametrize("compiler", [compiled, torch.compile])
def test_a_sample_goes_through_a_compiled_function_whole(compiler: Any) -> None:
    torch.compiler.reset()
    sample = {"image": image(), "points": KeyPoints(torch.zeros(3, 2), canvas_size=(4, 5))}
    function = compiler(lambda tree: {k: mirror(v) for k, v in tree.items()}, fullgraph=True, backend="aot_eager")
    result = function(sample)

    assert (type(result["image"]), type(result["points"])) == (Image, KeyPoints)
    assert result["points"].canvas_size == (4, 5)
    assert torch.equal(result["image"], image().flip(-1))


def test_a_picture_in_notebooks() -> None:
    html = Image(torch.full((3, 2, 2), 255, dtype=torch.uint8))._repr_html_()

    assert html is not None
    assert "Image (3, 2, 2) uint8 cpu" in html
    data = base64.b64decode(html.partition("base64,")[2].partition('"')[0])
    shown = PIL.Image.open(io.BytesIO(data))
    assert (shown.size, shown.mode, shown.getpixel((0, 0))) == ((2, 2), "RGB", (255, 255, 255))


@pytest.mark.parametrize(
    ("data", "pictures", "mode"),
    [
        (torch.rand(1, 2, 2), 1, "L"),
        (torch.rand(5, 3, 2, 2), 5, "RGB"),
        (torch.rand(40, 3, 2, 2), 16, "RGB"),
        (torch.rand(7, 2, 2), 1, "L"),
        (torch.full((1, 2, 2), torch.nan), 1, "L"),
    ],
)
def test_pictures_of_batches_and_of_other_channels(data: Tensor, pictures: int, mode: str) -> None:
    html = Image(data)._repr_html_()

    assert html is not None
    assert html.count("<img") == pictures
    first = base64.b64decode(html.partition("base64,")[2].partition('"')[0])
    assert PIL.Image.open(io.BytesIO(first)).mode == mode


def test_an_empty_image_shows_its_summary_alone() -> None:
    assert (
        Image(torch.zeros(0, 3, 4, 4))._repr_html_()
        == "<figure><figcaption>Image (0, 3, 4, 4) float32 cpu</figcaption></figure>"
    )


def test_fields_of_later_kinds_may_be_optional_words() -> None:
    """Boxes have a clamping mode beside their format and canvas."""

    @tensor_type(
        name="test-clamped",
        fields={"clamping_mode": Field(str | None, default="soft", validator=lambda m: m in (None, "soft", "hard"))},
    )
    class Clamped(TVTensor):
        pass

    assert Clamped(torch.zeros(1)).clamping_mode == "soft"
    with pytest.raises(ValueError, match="clamping_mode='loud' was refused"):
        Clamped(torch.zeros(1), clamping_mode="loud")


@pytest.mark.parametrize("derived", [False, True])
def test_pytree_leaves_tv_tensors_whole(derived: bool) -> None:
    """Custom transforms flatten samples and ask `isinstance` of the leaves."""
    from torch.utils import _pytree as pytree

    kind: Any = type("Mine", (Image,), {}) if derived else Image
    sample = {"img": kind(torch.zeros(3, 4, 4)), "label": 1}
    leaves, structure = pytree.tree_flatten(sample)

    assert leaves[0] is sample["img"]
    assert pytree.tree_unflatten(leaves, structure)["img"] is sample["img"]
