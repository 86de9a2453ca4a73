"""One instance of every transform of the second generation, with a sample it takes."""

from __future__ import annotations

import warnings

import torch

from flambeau.vision import tv_tensors
from flambeau.vision.transforms import v2


def picture(height: int = 20, width: int = 26, seed: int = 0) -> tv_tensors.Image:
    generator = torch.Generator().manual_seed(seed)
    return tv_tensors.Image(torch.randint(0, 256, (3, height, width), dtype=torch.uint8, generator=generator))


def sample() -> dict:
    """A detection sample of 20 x 26 pixels, with three boxes."""
    boxes = torch.tensor([[2.0, 3.0, 12.0, 15.0], [8.0, 6.0, 24.0, 18.0], [1.0, 1.0, 7.0, 9.0]])
    size = (20, 26)
    return {
        "image": picture(),
        "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=size),
        "masks": tv_tensors.Mask(torch.arange(3 * 20 * 26).reshape(3, 20, 26) % 2),
        "points": tv_tensors.KeyPoints(torch.tensor([[3.0, 4.0], [20.0, 17.0]]), canvas_size=size),
        "labels": torch.tensor([1, 2, 3]),
        "name": "a picture",
    }


def image_only() -> dict:
    return {"image": picture(), "name": "a picture"}


def floating() -> dict:
    return {"image": tv_tensors.Image(torch.rand(3, 20, 26, generator=torch.Generator().manual_seed(1)))}


def tiny() -> torch.Tensor:
    return torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(3))


def batch() -> tuple:
    return torch.rand(4, 3, 8, 10, generator=torch.Generator().manual_seed(2)), torch.tensor([0, 1, 2, 1])


def video() -> dict:
    return {"video": tv_tensors.Video(torch.stack([picture(seed=s) for s in range(5)]))}


def double(value):
    return value * 2


def old_tensor() -> v2.Transform:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return v2.ToTensor()


FILL = {tv_tensors.Image: (1, 2, 3), "others": 0}
# name -> (instance, a function that makes a sample); p is such that something happens
TABLE = {
    "AugMix": (v2.AugMix(), image_only),
    "AutoAugment": (v2.AutoAugment(v2.AutoAugmentPolicy.SVHN), image_only),
    "CenterCrop": (v2.CenterCrop(12), sample),
    "ClampBoundingBoxes": (v2.ClampBoundingBoxes("hard"), sample),
    "ClampKeyPoints": (v2.ClampKeyPoints(), sample),
    "ColorJitter": (v2.ColorJitter(0.4, (0.5, 1.5), 0.3, 0.1), sample),
    "Compose": (v2.Compose([v2.Resize((10, 12)), v2.RandomHorizontalFlip(0.9)]), sample),
    "ConvertBoundingBoxFormat": (v2.ConvertBoundingBoxFormat("CXCYWH"), sample),
    "ConvertImageDtype": (v2.ConvertImageDtype(torch.float64), sample),
    "CutMix": (v2.CutMix(num_classes=3, alpha=2.0), batch),
    "ElasticTransform": (v2.ElasticTransform(20.0, 1.0), sample),
    "FiveCrop": (v2.FiveCrop(8), image_only),
    "GaussianBlur": (v2.GaussianBlur(5, (0.5, 2.0)), sample),
    "GaussianNoise": (v2.GaussianNoise(sigma=0.3), sample),
    "Grayscale": (v2.Grayscale(3), sample),
    "Identity": (v2.Identity(), sample),
    "JPEG": (v2.JPEG((20, 90)), sample),
    "Lambda": (v2.Lambda(double, tv_tensors.Mask), sample),
    "LinearTransformation": (v2.LinearTransformation(torch.ones(60, 60).triu(), torch.ones(60)), tiny),
    "MixUp": (v2.MixUp(num_classes=3), batch),
    "Normalize": (v2.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]), floating),
    "PILToTensor": (v2.PILToTensor(), sample),
    "Pad": (v2.Pad((1, 2, 3, 4), FILL), sample),
    "RGB": (v2.RGB(), sample),
    "RandAugment": (v2.RandAugment(3), image_only),
    "RandomAdjustSharpness": (v2.RandomAdjustSharpness(2.0, 0.9), sample),
    "RandomAffine": (v2.RandomAffine(20, (0.1, 0.2), (0.8, 1.2), 10, fill=FILL), sample),
    "RandomApply": (v2.RandomApply([v2.RandomCrop(10), v2.RandomInvert(0.9)], 0.9), sample),
    "RandomAutocontrast": (v2.RandomAutocontrast(0.9), sample),
    "RandomChannelPermutation": (v2.RandomChannelPermutation(), sample),
    "RandomChoice": (v2.RandomChoice([v2.RandomRotation(40), v2.RandomCrop(10)], [1.0, 3.0]), sample),
    "RandomCrop": (v2.RandomCrop((24, 16), (1, 2), pad_if_needed=True), sample),
    "RandomEqualize": (v2.RandomEqualize(0.9), sample),
    "RandomErasing": (v2.RandomErasing(0.9, value="random"), image_only),
    "RandomGrayscale": (v2.RandomGrayscale(0.9), sample),
    "RandomHorizontalFlip": (v2.RandomHorizontalFlip(0.5), sample),
    "RandomInvert": (v2.RandomInvert(0.5), sample),
    "RandomIoUCrop": (v2.RandomIoUCrop(sampler_options=[0.1, 0.3]), sample),
    "RandomOrder": (v2.RandomOrder([v2.Resize((12, 9)), v2.Pad(3), v2.RandomCrop(8)]), sample),
    "RandomPerspective": (v2.RandomPerspective(0.4, 0.9), sample),
    "RandomPhotometricDistort": (v2.RandomPhotometricDistort(p=0.7), sample),
    "RandomPosterize": (v2.RandomPosterize(3, 0.9), sample),
    "RandomResize": (v2.RandomResize(8, 30), sample),
    "RandomResizedCrop": (v2.RandomResizedCrop(9, interpolation="bicubic"), sample),
    "RandomRotation": (v2.RandomRotation(30, expand=True), sample),
    "RandomShortestSize": (v2.RandomShortestSize([8, 10, 14], max_size=16), sample),
    "RandomSolarize": (v2.RandomSolarize(128, 0.9), sample),
    "RandomVerticalFlip": (v2.RandomVerticalFlip(0.5), sample),
    "RandomZoomOut": (v2.RandomZoomOut(FILL, (1.0, 2.0), 0.9), sample),
    "Resize": (v2.Resize(None, max_size=15), sample),
    "SanitizeBoundingBoxes": (v2.SanitizeBoundingBoxes(min_size=7), sample),
    "SanitizeKeyPoints": (v2.SanitizeKeyPoints(), sample),
    "ScaleJitter": (v2.ScaleJitter((20, 20), (0.5, 1.5)), sample),
    "SetClampingMode": (v2.SetClampingMode(None), sample),
    "TenCrop": (v2.TenCrop(8, vertical_flip=True), image_only),
    "ToDtype": (v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True), sample),
    "ToImage": (v2.ToImage(), sample),
    "ToPILImage": (v2.ToPILImage(), image_only),
    "ToPureTensor": (v2.ToPureTensor(), sample),
    "ToTensor": (old_tensor(), sample),
    "TrivialAugmentWide": (v2.TrivialAugmentWide(), image_only),
    "UniformTemporalSubsample": (v2.UniformTemporalSubsample(2), video),
}
