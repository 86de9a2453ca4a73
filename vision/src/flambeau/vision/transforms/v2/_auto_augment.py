"""Augmentation by policies: AutoAugment, RandAugment, TrivialAugment, AugMix. They take one image or video a sample."""

from __future__ import annotations

from typing import Any

from torch import Generator, Tensor
from torch.utils import _pytree as pytree

from flambeau.vision import tv_tensors
from flambeau.vision.transforms import _policies, _random, _random_parameters
from flambeau.vision.transforms._policies import AutoAugmentPolicy, Space
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2._size import Interpolation
from flambeau.vision.transforms.v2._transform import Transform, flatten
from flambeau.vision.transforms.v2._utils import Fill, FillArgument, check_fill, check_type, fill_for, first
from flambeau.vision.transforms.v2.functional._convert import is_pure_tensor
from flambeau.vision.transforms.v2.functional._pil import is_pil

Operation = tuple[str, float]


class AutoAugmentBase(Transform):
    """Base of policies: finds the image, and applies the operations that `make_params` draws.

    Raises:
        TypeError: when called: the sample holds no image or several, or boxes, masks or key points, which the
            operations would have to move differently.
    """

    def __init__(
        self,
        *,
        interpolation: Interpolation = "nearest",
        fill: FillArgument = None,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator=generator)
        self.interpolation = interpolation
        self.fill = check_fill(fill)

    def forward(self, *inputs: Any) -> Any:
        """Augment a sample."""
        flat, structure = flatten(first(inputs))
        flat = self._decoded(flat)
        index = self._place_of_image(flat)
        params = self._decided(lambda: self.make_params([flat[index]]))
        flat[index] = self.transform(flat[index], params)
        return pytree.tree_unflatten(flat, structure)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Apply the operations to an image, one after another."""
        return self._augmented(inpt, params["operations"], fill_for(self.fill, inpt))

    def _place_of_image(self, flat: list[Any]) -> int:
        kinds = (is_pure_tensor, tv_tensors.Image, tv_tensors.Video, is_pil)
        needed = self._needs_transform_list(flat)
        places = [index for index, inpt in enumerate(flat) if needed[index] and check_type(inpt, kinds)]
        for inpt in flat:
            if isinstance(inpt, (tv_tensors.BoundingBoxes, tv_tensors.Mask, tv_tensors.KeyPoints)):
                raise TypeError(f"{type(self).__name__} does not support {type(inpt).__name__}; take them out.")
        if len(places) != 1:
            raise TypeError(f"{type(self).__name__} takes one image or video a sample, found {len(places)}.")
        return places[0]

    def _augmented(self, image: Any, operations: list[Operation], fill: Fill) -> Any:
        for name, magnitude in operations:
            image = _policies.apply_operation(image, name, magnitude, interpolation=self.interpolation, fill=fill)
        return image


def _drawn_operation(space: Space, bins: int, size: list[int], index: int | None, among: int = 0) -> Operation:
    """Any operation of a space.

    Args:
        space: the operations.
        bins: into how many the magnitudes are divided.
        size: (height, width) of the image.
        index: of the magnitude; None draws one.
        among: how many of the magnitudes are drawn from.
    """
    name = tuple(space)[int(_random.randint(0, len(space)))]
    levels, signed = space[name]
    magnitudes = levels(bins, size)
    if magnitudes is None:
        return name, 0.0
    magnitude = float(magnitudes[int(_random.randint(0, among)) if index is None else index])
    return name, _signed(magnitude, signed)


def _signed(magnitude: float, signed: bool) -> float:
    return -magnitude if signed and _random.rand() <= 0.5 else magnitude


class AutoAugment(AutoAugmentBase):
    """Apply one of 25 policies found by search. Cubuk et al. 2018, arXiv:1805.09501.

    Args:
        policy: which data set they were searched on.
        interpolation: of operations that move pixels.
        fill: of new pixels, see `Pad`.
        generator: see `Transform`.

    Raises:
        TypeError: when called: the sample holds no image or several, or boxes, masks or key points.
    """

    get_params = staticmethod(_random_parameters.policy)

    def __init__(
        self,
        policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: Interpolation = "nearest",
        fill: FillArgument = None,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(interpolation=interpolation, fill=fill, generator=generator)
        self.policy = AutoAugmentPolicy(policy)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the operations."""
        size = F.get_size(flat_inputs[0])
        policies = _policies.POLICIES[self.policy]
        operations: list[Operation] = []
        for name, probability, index in policies[int(_random.randint(0, len(policies)))]:
            if not _random.rand() <= probability:
                continue
            levels, signed = _policies.AUTO_AUGMENT[name]
            magnitudes = levels(10, size)
            operations.append(
                (name, 0.0 if magnitudes is None or index is None else _signed(float(magnitudes[index]), signed))
            )
        return {"operations": operations}


class RandAugment(AutoAugmentBase):
    """Apply random operations of one strength. Cubuk et al. 2019, arXiv:1909.13719.

    Args:
        num_ops: how many operations.
        magnitude: their strength, an index of the bins.
        num_magnitude_bins: into how many bins the range of strengths is divided.
        interpolation: of operations that move pixels.
        fill: of new pixels, see `Pad`.
        generator: see `Transform`.

    Raises:
        ValueError: `num_ops` is no whole number, or negative.
        TypeError: when called: the sample holds no image or several, or boxes, masks or key points.
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Interpolation = "nearest",
        fill: FillArgument = None,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(interpolation=interpolation, fill=fill, generator=generator)
        if type(num_ops) is not int or num_ops < 0:
            raise ValueError(f"num_ops is {num_ops!r}, expected a whole number that is not negative.")
        self.num_ops = num_ops
        self.magnitude = magnitude
        self.num_magnitude_bins = num_magnitude_bins

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the operations."""
        size = F.get_size(flat_inputs[0])
        space, bins = _policies.RAND_AUGMENT, self.num_magnitude_bins
        return {"operations": [_drawn_operation(space, bins, size, self.magnitude) for _ in range(self.num_ops)]}


class TrivialAugmentWide(AutoAugmentBase):
    """Apply one random operation of random strength. Müller and Hutter 2021, arXiv:2103.10158.

    Args:
        num_magnitude_bins: into how many bins the range of strengths is divided.
        interpolation: of operations that move pixels.
        fill: of new pixels, see `Pad`.
        generator: see `Transform`.

    Raises:
        TypeError: when called: the sample holds no image or several, or boxes, masks or key points.
    """

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: Interpolation = "nearest",
        fill: FillArgument = None,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(interpolation=interpolation, fill=fill, generator=generator)
        self.num_magnitude_bins = num_magnitude_bins

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the operation."""
        size, bins = F.get_size(flat_inputs[0]), self.num_magnitude_bins
        return {"operations": [_drawn_operation(_policies.TRIVIAL_AUGMENT_WIDE, bins, size, None, bins)]}


class AugMix(AutoAugmentBase):
    """Mix an image with several copies, each changed by a chain of operations. Hendrycks et al. 2020, arXiv:1912.02781.

    Args:
        severity: how many of the ten strengths are drawn from, 1 to 10.
        mixture_width: how many chains there are.
        chain_depth: operations in a chain; a number that is not positive draws 1 to 3.
        alpha: parameter of the distributions of weights.
        all_ops: also brightness, saturation, contrast and sharpness, with which some corruptions of the paper's test
            are made.
        interpolation: of operations that move pixels.
        fill: of new pixels, see `Pad`.
        generator: see `Transform`.

    Raises:
        ValueError: severity is out of bounds.
        TypeError: when called: the sample holds no image or several, or boxes, masks or key points.
    """

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: Interpolation = "bilinear",
        fill: FillArgument = None,
        *,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(interpolation=interpolation, fill=fill, generator=generator)
        if not 1 <= severity <= _policies.AUG_MIX_BINS:
            raise ValueError(f"severity is {severity}, expected a number between 1 and {_policies.AUG_MIX_BINS}.")
        self.severity = severity
        self.mixture_width = mixture_width
        self.chain_depth = chain_depth
        self.alpha = alpha
        self.all_ops = all_ops

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the weights and the chains."""
        image = flat_inputs[0]
        space = _policies.AUG_MIX if self.all_ops else _policies.AUG_MIX_PARTIAL
        size, bins = F.get_size(image), _policies.AUG_MIX_BINS
        dimensions = 5 if isinstance(image, tv_tensors.Video) else 4
        batch = image.shape[0] if isinstance(image, Tensor) and image.ndim >= dimensions else 1
        weights = _policies.mixing_weights(self.alpha, self.mixture_width, batch)
        chains = []
        for _ in range(self.mixture_width):
            depth = self.chain_depth if self.chain_depth > 0 else _random.integer(1, 4)
            chains.append([_drawn_operation(space, bins, size, None, self.severity) for _ in range(depth)])
        return {"weights": weights, "chains": chains}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Mix an image with its changed copies."""
        image = inpt if isinstance(inpt, Tensor) else F.pil_to_tensor(inpt)
        chains, fill = params["chains"], fill_for(self.fill, inpt)
        mixed = _policies.mix_chains(
            image.as_subclass(Tensor),
            params["weights"],
            lambda index, batch: self._augmented(batch, chains[index], fill),
            video=isinstance(inpt, tv_tensors.Video),
        )
        if isinstance(inpt, tv_tensors.TVTensor):
            return tv_tensors.wrap(mixed, like=inpt)
        return mixed if isinstance(inpt, Tensor) else F.to_pil_image(mixed, mode=inpt.mode)
