"""From pictures of any size to a batch for a detector, and from its answers back to the pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.vision.models.detection._masks import encode_masks_in_image, paste_masks_in_image
from flambeau.vision.models.detection.image_list import ImageList

__all__ = ["GeneralizedRCNNTransform", "resize_boxes", "resize_keypoints"]

Target = dict[str, Tensor]


class GeneralizedRCNNTransform(nn.Module):
    """Normalize, resize and batch pictures, with their targets, and undo the resizing in what was found.

    A picture is enlarged or shrunk until its shorter side is `min_size` or its longer one `max_size`, whichever comes
    first. Batches are padded with zeros, right and below.

    Args:
        min_size: length of the shorter side; of several one is drawn for each picture in training, and the last one
            is used otherwise.
        max_size: largest length of the longer side.
        image_mean: subtracted per channel.
        image_std: divisor per channel.
        size_divisible: the batch's height and width are multiples of this. A large number makes batches of few
            different sizes, which keeps memory from fragmenting.
        fixed_size: (width, height) of every picture instead, whatever its shape.
        **kwargs: `_skip_resize=True` takes pictures as they are. `masks="rle"` gives masks as run lengths of what is
            above 0.5, {"size": [height, width], "counts": bytes} as COCO's tools read them, in place of
            "probabilities" (K, 1, height, width), which for many objects in large pictures are gigabytes.

    Raises:
        ValueError: `masks` is neither.
        TypeError: other arguments.
    """

    def __init__(
        self,
        min_size: int | Sequence[int],
        max_size: int,
        image_mean: list[float],
        image_std: list[float],
        size_divisible: int = 32,
        fixed_size: tuple[int, int] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.min_size = tuple(min_size) if isinstance(min_size, (list, tuple)) else (min_size,)
        self.max_size = max_size
        self.image_mean = image_mean
        self.image_std = image_std
        self.size_divisible = size_divisible
        self.fixed_size = fixed_size
        self._skip_resize = kwargs.pop("_skip_resize", False)
        self.masks = kwargs.pop("masks", "probabilities")
        if self.masks not in ("probabilities", "rle"):
            raise ValueError(f'masks is {self.masks!r}, expected "probabilities" or "rle".')
        if kwargs:
            raise TypeError(f"GeneralizedRCNNTransform got unexpected arguments {sorted(kwargs)}.")

    def forward(
        self, images: list[Tensor] | Tensor, targets: list[Target] | None = None
    ) -> tuple[ImageList, list[Target] | None]:
        """Prepare a batch.

        Args:
            images: pictures (C, H, W), floating point in [0, 1], of any sizes; or a batch (N, C, H, W).
            targets: of each picture `boxes` (K, 4), and `masks` (K, H, W) or `keypoints` (K, P, 3) if there are any;
                they are not changed.

        Returns:
            The batch, and targets that fit it.

        Raises:
            ValueError: a picture has not three dimensions.
            TypeError: a picture holds integers.
        """
        resized, scaled = [], []
        for index, image in enumerate(images):
            if image.dim() != 3:
                raise ValueError(
                    f"images[{index}] has shape {tuple(image.shape)}, expected (C, H, W); a batch is (N, C, H, W)."
                )
            image, target = self.resize(self.normalize(image), None if targets is None else dict(targets[index]))
            resized.append(image)
            scaled.append(target)
        sizes = [(image.shape[-2], image.shape[-1]) for image in resized]
        batch = ImageList(self.batch_images(resized, size_divisible=self.size_divisible), sizes)
        return batch, None if targets is None else [target for target in scaled if target is not None]

    def normalize(self, image: Tensor) -> Tensor:
        """Subtract the mean and divide by the standard deviation, per channel.

        Raises:
            TypeError: the picture holds integers.
        """
        if not image.is_floating_point():
            raise TypeError(
                f"The picture has dtype {image.dtype}, expected floating point in [0, 1]; use "
                "transforms.v2.functional.to_dtype(image, torch.float32, scale=True)."
            )
        mean, std = (
            torch.tensor(values, dtype=image.dtype, device=image.device)[:, None, None]
            for values in (self.image_mean, self.image_std)
        )
        return (image - mean) / std

    def torch_choice(self, k: Sequence[int]) -> int:
        """One of the numbers, drawn with torch's generator. Upstream: in this way, so that seeds agree."""
        return k[int(torch.empty(1).uniform_(0.0, float(len(k))).item())]

    def resize(self, image: Tensor, target: Target | None = None) -> tuple[Tensor, Target | None]:
        """Bring a picture (C, H, W) and its target to the size wanted."""
        if self.training:
            if self._skip_resize:
                return image, target
            shorter = self.torch_choice(self.min_size)
        else:
            shorter = self.min_size[-1]
        before = image.shape[-2:]
        after = self._size_after(before, shorter)
        image = F.interpolate(image[None], size=after, mode="bilinear", align_corners=False)[0]
        return image, None if target is None else _resized_target(target, before, after)

    def _size_after(self, size: Sequence[int], shorter: int) -> tuple[int, int]:
        if self.fixed_size is not None:
            return self.fixed_size[1], self.fixed_size[0]
        height, width = size
        # Sizes may be symbolic while a model is exported.
        shortest, longest = torch.sym_min(height, width), torch.sym_max(height, width)
        scale = torch.sym_min(shorter / shortest, self.max_size / longest)
        return math.floor(height * scale), math.floor(width * scale)

    def max_by_axis(self, the_list: list[list[int]]) -> list[int]:
        """The largest number at each position of lists of equal length."""
        return [max(numbers) for numbers in zip(*the_list, strict=True)]

    def batch_images(self, images: list[Tensor], size_divisible: int = 32) -> Tensor:
        """Pictures (C, H_i, W_i) in one tensor (N, C, H, W), padded with zeros to multiples of `size_divisible`."""
        _, height, width = self.max_by_axis([list(image.shape) for image in images])
        height, width = (-(-side // size_divisible) * size_divisible for side in (height, width))
        padded = [F.pad(image, (0, width - image.shape[2], 0, height - image.shape[1])) for image in images]
        return torch.stack(padded)

    def postprocess(
        self,
        result: list[Target],
        image_shapes: list[tuple[int, int]],
        original_image_sizes: list[tuple[int, int]],
    ) -> list[Target]:
        """Bring boxes, masks and keypoints back to the sizes the pictures had; the dicts are changed."""
        if self.training:
            return result
        for found, inside, original in zip(result, image_shapes, original_image_sizes, strict=True):
            boxes = found["boxes"] = resize_boxes(found["boxes"], list(inside), list(original))
            if "masks" in found:
                make = encode_masks_in_image if self.masks == "rle" else paste_masks_in_image
                found["masks"] = make(found["masks"], boxes, original)  # type: ignore[assignment]
            if "keypoints" in found:
                found["keypoints"] = resize_keypoints(found["keypoints"], list(inside), list(original))
        return result

    def extra_repr(self) -> str:
        """The parameters, for `repr`."""
        return (
            f"min_size={self.min_size}, max_size={self.max_size}, image_mean={self.image_mean}, "
            f"image_std={self.image_std}, size_divisible={self.size_divisible}, fixed_size={self.fixed_size}"
        )


def _resized_target(target: Target, before: Sequence[int], after: Sequence[int]) -> Target:
    old, new = list(before), list(after)
    target["boxes"] = resize_boxes(target["boxes"], old, new)
    if "masks" in target:
        masks = target["masks"]
        nearest = F.interpolate(masks[:, None].float(), size=new, mode="nearest")[:, 0]
        target["masks"] = nearest.to(masks.dtype)
    if "keypoints" in target:
        target["keypoints"] = resize_keypoints(target["keypoints"], old, new)
    return target


def resize_boxes(boxes: Tensor, original_size: list[int], new_size: list[int]) -> Tensor:
    """Boxes (N, 4) of a picture of one (height, width), for the same picture at another."""
    y, x = (new / old for new, old in zip(new_size, original_size, strict=True))
    left, top, right, bottom = boxes.unbind(1)
    return torch.stack([left * x, top * y, right * x, bottom * y], 1)


def resize_keypoints(keypoints: Tensor, original_size: list[int], new_size: list[int]) -> Tensor:
    """Keypoints (N, K, 3) of a picture of one (height, width), for the same picture at another."""
    y, x = (new / old for new, old in zip(new_size, original_size, strict=True))
    return torch.stack([keypoints[..., 0] * x, keypoints[..., 1] * y, keypoints[..., 2]], -1)
