"""VC-1: images as vectors of a vision transformer."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Size, Tensor, nn

from flambeau.core.registry import MODELS
from flambeau.rl.data.tensor_specs import Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.transform import Transform
from flambeau.rl.envs.transforms._normalization.observation_norm import ObservationNorm
from flambeau.rl.envs.transforms._observation.images import CenterCrop, Resize, ToTensorImage
from flambeau.rl.envs.transforms._visual_encoders import MEAN, STD

__all__ = ["VC1Transform"]


class VC1Transform(Transform):
    """Images as vectors of a frozen network, a vision transformer that was trained on videos and pictures.

    Args:
        in_keys: of images (..., height, width, 3), bytes; default: "pixels".
        out_keys: of the vectors; default: "VC1_vec".
        model_name: "large" or "base", or another name that the package vc_models knows; "default" is a small network
            with random weights, for tests.
        del_keys: remove the images.

    Raises:
        ImportError: vc_models is not installed.
        MissingPluginError: flambeau-vision, which has the network "default", is not installed.

    References:
        A. Majumdar et al., Where are we in the search for an Artificial Visual Cortex for Embodied Intelligence?,
        arXiv:2303.18240.
    """

    inplace = False
    names: ClassVar[dict[str, str]] = {"base": "vc1_vitb", "large": "vc1_vitl"}

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        model_name: str = "default",
        del_keys: bool = True,
    ) -> None:
        super().__init__(["pixels"] if in_keys is None else in_keys, ["VC1_vec"] if out_keys is None else out_keys)
        self.model_name = model_name
        self.del_keys = del_keys
        network, self.embd_size, self._prepared = self._untrained() if model_name == "default" else self._trained()
        self.model = network.requires_grad_(False).eval()

    def _trained(self) -> tuple[nn.Module, int, Callable[[Any], Any]]:
        try:
            utilities = importlib.import_module("vc_models.models.vit.model_utils")
        except ImportError as error:
            raise ImportError(
                f"VC1Transform({self.model_name!r}) needs the package vc_models of "
                "https://github.com/facebookresearch/eai-vc, which is not installed; model_name='default' does not."
            ) from error
        model, size, preparation, _ = utilities.load_model(self.names.get(self.model_name, self.model_name))
        return model, size, preparation

    def _untrained(self) -> tuple[nn.Module, int, Callable[[Any], Any]]:
        network: nn.Module = MODELS.resolve("vision/resnet18")(weights=None)
        network.fc = nn.Identity()
        mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
        steps = (
            Resize(64),
            CenterCrop(56),
            ObservationNorm(in_keys=["pixels"], loc=mean, scale=std, standard_normal=True),
        )
        return network, 512, functools.partial(_one_after_another, steps)

    def _apply_transform(self, obs: Any) -> Any:
        batch = obs.shape[:-3]
        image = ToTensorImage()._apply_transform(obs.reshape(-1, *obs.shape[-3:]))
        with torch.no_grad():
            return self.model(self._prepared(image)).reshape(*batch, self.embd_size)

    def _call(self, next_tensordict: Any) -> Any:
        next_tensordict = super()._call(next_tensordict)
        if self.del_keys:
            next_tensordict.exclude(*self.in_keys, inplace=True)
        return next_tensordict

    def forward(self, tensordict: Any) -> Any:
        """Encode the images of data.

        Args:
            tensordict: changed in place.
        """
        return self._call(tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def train(self, mode: bool = True) -> VC1Transform:
        """The network is not trained.

        Args:
            mode: has no effect.
        """
        return super().train(False)

    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """Vectors beside images, or in their place.

        Args:
            observation_spec: a composite.
        """
        for key, out in self._pairs():
            shape = observation_spec[key].shape[:-3]
            if self.del_keys:
                del observation_spec[key]
            observation_spec[out] = Unbounded(Size([*shape, self.embd_size]), device=observation_spec.device)
        return observation_spec

    @property
    def device(self) -> Any:
        """The device of the network's parameters."""
        return next(self.model.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the network's parameters."""
        return next(self.model.parameters()).dtype


def _one_after_another(steps: Sequence[Transform], image: Tensor) -> Tensor:
    for step in steps:
        image = step._apply_transform(image)
    return image
