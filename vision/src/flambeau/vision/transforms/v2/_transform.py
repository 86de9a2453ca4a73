"""What all transforms have in common: how they see a sample, draw parameters, and apply them to its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.utils import _pytree as pytree

from flambeau.core.tensors.info import CLASSES
from flambeau.vision import tv_tensors
from flambeau.vision.transforms import _random
from flambeau.vision.transforms.v2._utils import Check, check_probability, check_type, first, has_any
from flambeau.vision.transforms.v2.functional._convert import is_pure_tensor
from flambeau.vision.transforms.v2.functional._pil import is_pil


class Transform(nn.Module):
    """Base of all transforms.

    A sample is any nesting of dictionaries, lists and tuples. Parameters are drawn once for all of it, so that an image
    stays with its boxes and masks; what the transform does not know comes back as it is. Where the sample holds an
    `Image`, a `Video` or a PIL image, plain tensors are left alone; otherwise the first plain tensor is the image.

    A transform of your own overrides `transform`, and `make_params` if it draws anything. Draw with the functions of
    torch, and for `generator=` to count, with `generator=self.random`.

    Args:
        generator: random numbers come from it rather than from torch's default generator, also those of transforms
            inside that have none of their own. In a DataLoader's worker, one derived from it and the worker's seed.

    A call takes, besides the sample, by keyword:

    - `generator`: for this call, whatever the transform and those inside have;
    - `return_params=True`: return (output, params), what was drawn, a list of {"transform": class name,
      "params": ...} in the order in which it was drawn;
    - `replay=params`: do to this sample what was done to another; nothing is drawn.
    """

    _transformed_types: tuple[Check, ...] = (Tensor, is_pil)
    # Whether its functionals know what to do with an `EncodedImage`, other than to decode it.
    _takes_encoded = False
    generator: Generator | None = None

    def __init__(self, *, generator: Generator | None = None) -> None:
        super().__init__()
        self.generator = generator

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        """Raise an error if the transform cannot treat the leaves of a sample."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the parameters for the leaves that will be transformed."""
        return {}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Treat one leaf.

        Raises:
            NotImplementedError: the class does not say how.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither transform(inpt, params) nor forward.")

    def __call__(
        self,
        *inputs: Any,
        generator: Generator | None = None,
        return_params: bool = False,
        replay: Sequence[Mapping[str, Any]] | None = None,
    ) -> Any:
        """Transform a sample; see the class for the keywords."""
        if generator is None and self.generator is None and not return_params and replay is None:
            return super().__call__(*inputs)
        tape = _random.Tape(replay) if return_params or replay is not None else None
        with _random.session(own=self.generator, given=generator, tape=tape):
            output = super().__call__(*inputs)
        if tape is not None:
            tape.finish()
        return (output, tape.records) if tape is not None and return_params else output

    def forward(self, *inputs: Any) -> Any:
        """Transform a sample."""
        flat, structure = flatten(first(inputs))
        flat = self._decoded(flat)
        self.check_inputs(flat)
        return self._transformed(flat, structure)

    def _decoded(self, flat: list[Any]) -> list[Any]:
        """The leaves, images decoded that are files still, if the transform does anything to images."""
        if not any(isinstance(inpt, tv_tensors.EncodedImage) for inpt in flat):
            return flat
        if self._takes_encoded or not any(map(_is_of_images, self._transformed_types)):
            return flat
        return [inpt.decode() if isinstance(inpt, tv_tensors.EncodedImage) else inpt for inpt in flat]

    def _transformed(self, flat: list[Any], structure: pytree.TreeSpec) -> Any:
        needed = self._needs_transform_list(flat)
        chosen = [inpt for inpt, needs in zip(flat, needed, strict=True) if needs]
        params = self._decided(lambda: self.make_params(chosen))
        out = [self.transform(inpt, params) if needs else inpt for inpt, needs in zip(flat, needed, strict=True)]
        return pytree.tree_unflatten(out, structure)

    def _needs_transform_list(self, flat_inputs: list[Any]) -> list[bool]:
        """Which leaves are transformed."""
        image_is_found = has_any(flat_inputs, tv_tensors.Image, tv_tensors.EncodedImage, tv_tensors.Video, is_pil)
        needed = []
        for inpt in flat_inputs:
            needs = check_type(inpt, self._transformed_types)
            if needs and is_pure_tensor(inpt):
                needs, image_is_found = not image_is_found, True
            needed.append(needs)
        return needed

    @property
    def random(self) -> Generator | None:
        """The generator to draw from now; None is torch's default one."""
        return _random.current().generator

    def _decided(self, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What `make` draws, recorded or replayed where that was asked for."""
        tape = _random.current().tape
        return make() if tape is None else tape.decision(type(self).__name__, make)

    def _call_kernel(self, functional: Callable[..., Any], inpt: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply a functional to a leaf; a `TVTensor` that it has no kernel for comes back as it is."""
        if isinstance(inpt, tv_tensors.TVTensor) and not _serves(functional, type(inpt)):
            return inpt
        return functional(inpt, *args, **kwargs)

    def extra_repr(self) -> str:
        """The arguments, for `repr`."""
        shown = (bool, int, float, str, tuple, list, Enum)
        values = {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "training"}
        return ", ".join(f"{name}={value}" for name, value in values.items() if isinstance(value, shown))

    def to_spec(self) -> dict[str, Any]:
        """The transform as plain JSON; see `transforms.v2.to_spec`."""
        from flambeau.vision.transforms.v2._spec import to_spec

        return to_spec(self)


class RandomApplyTransform(Transform):
    """Base of transforms that are applied with probability `p`, and otherwise return the very input.

    Raises:
        ValueError: `p` is not in [0, 1].
    """

    def __init__(self, p: float = 0.5, *, generator: Generator | None = None) -> None:
        super().__init__(generator=generator)
        self.p = check_probability(p)

    def forward(self, *inputs: Any) -> Any:
        """Transform a sample, or not."""
        sample = first(inputs)
        flat, structure = flatten(sample)
        if type(self).check_inputs is not Transform.check_inputs:
            flat = self._decoded(flat)
        self.check_inputs(flat)
        return self._transformed(self._decoded(flat), structure) if self.applies() else sample

    def applies(self) -> bool:
        """Draw whether to apply it."""
        applied: bool = self._decided(lambda: {"applied": _random.happens(self.p)})["applied"]
        return applied


def flatten(sample: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """The leaves of a sample, tensors of every type whole, and its structure."""
    return pytree.tree_flatten(sample, is_leaf=_is_tensor)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _is_of_images(check: Check) -> bool:
    """Whether one of `_transformed_types` is that of images among others."""
    return issubclass(tv_tensors.Image, check) if isinstance(check, type) else False


def _serves(functional: Callable[..., Any], kind: type) -> bool:
    kernels = getattr(functional, "__kernels__", None)
    if kernels is None:
        return True
    return any(parent in kernels.registered for parent in CLASSES[kind].parents if parent is not Tensor)
