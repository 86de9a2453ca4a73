"""Images through a residual network whose weights were learnt elsewhere: what R3M and VIP have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Size, Tensor, nn

from flambeau.core.hub import fetch
from flambeau.core.registry import MODELS
from flambeau.core.weights.checkpoints import read_checkpoint
from flambeau.rl.data.tensor_specs import Unbounded
from flambeau.rl.envs._keys import NestedKey
from flambeau.rl.envs.transforms._base.compose import Compose
from flambeau.rl.envs.transforms._base.transform import Transform
from flambeau.rl.envs.transforms._normalization.observation_norm import ObservationNorm
from flambeau.rl.envs.transforms._observation.images import Resize, ToTensorImage
from flambeau.rl.envs.transforms._observation.shapes import FlattenObservation, UnsqueezeTransform
from flambeau.rl.envs.transforms._tensor.cat_tensors import CatTensors

# Of ImageNet's pixels, which all of these networks were trained with.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageEncoder(Transform):
    """A network from images to vectors, in the place of the images.

    Args:
        convnet: from (batch, 3, height, width) to (batch, size).
        size: of the vectors.
        in_keys: of images (..., 3, height, width), which are removed.
        out_keys: of the vectors (..., size).
        requires_grad: train the network; otherwise it is frozen, and in evaluation mode for good.
    """

    def __init__(
        self, convnet: nn.Module, size: int, in_keys: Sequence[NestedKey], out_keys: Sequence[NestedKey],
        requires_grad: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(in_keys, out_keys)
        self.convnet = convnet
        self.size = size
        self.requires_grad = requires_grad
        convnet.requires_grad_(requires_grad)
        if not requires_grad:
            convnet.eval()

    def train(self, mode: bool = True) -> Self:
        """Set the network to training, if it is trained at all.

        Args:
            mode: whether it is training.
        """
        return super().train(mode and self.requires_grad)

    def _apply_transform(self, obs: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.requires_grad and torch.is_grad_enabled()):
            out = self.convnet(obs.reshape(-1, *obs.shape[-3:]))
        return out.reshape(*obs.shape[:-3], self.size)  # type: ignore[no-any-return]

    def _call(self, next_tensordict: Any) -> Any:
        next_tensordict = super()._call(next_tensordict)
        return next_tensordict.exclude(*self._images(), inplace=True)

    def forward(self, tensordict: Any) -> Any:
        """Encode the images of data.

        Args:
            tensordict: changed in place.
        """
        return self._call(tensordict)

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)

    def _images(self) -> list[NestedKey]:
        return [key for key in self.in_keys if key not in self.out_keys]

    def transform_observation_spec(self, observation_spec: Any) -> Any:
        """Vectors in the place of images.

        Args:
            observation_spec: a composite.
        """
        shapes = {out: observation_spec[key].shape[:-3] for key, out in self._pairs()}
        device = observation_spec.device
        for key in self._images():
            del observation_spec[key]
        for key, shape in shapes.items():
            observation_spec[key] = Unbounded(Size([*shape, self.size]), device=device)
        return observation_spec


class PretrainedEncoder(Compose):
    """Images resized, normalized and encoded by a residual network; a composition of transforms that do so.

    Args:
        model_name: of the network.
        in_keys: of images (..., height, width, 3).
        out_keys: of the vectors: one, or with `stack_images=False` one for each image.
        size: of the images that the network gets: one number, or both.
        stack_images: one vector for all images, one part behind the other.
        download: True: with the published weights, which are fetched; False: with random ones. Otherwise the name of
            weights of the network itself, such as "IMAGENET1K_V1".
        download_path: folder for the published weights; default: the cache.
        tensor_pixels_keys: where to keep the images as they came, one for each.
        requires_grad: train the network; otherwise it is frozen.

    Raises:
        NotImplementedError: there are no weights of such a network.
        MissingPluginError: flambeau-vision, which has the networks, is not installed.
    """

    sizes: ClassVar[dict[str, int]]
    urls: ClassVar[dict[str, str]]
    checkpoint_key: ClassVar[str]
    default_out_key: ClassVar[str]

    def __init__(
        self,
        model_name: str,
        in_keys: Sequence[NestedKey],
        out_keys: Sequence[NestedKey] | None = None,
        size: int | Sequence[int] = 244,
        stack_images: bool = True,
        download: Any = False,
        download_path: str | None = None,
        tensor_pixels_keys: Sequence[NestedKey] | None = None,
        requires_grad: bool = False,
    ) -> None:
        if model_name not in self.sizes:
            raise NotImplementedError(
                f"{type(self).__name__} has the networks {', '.join(self.sizes)}; got {model_name!r}."
            )
        keys = list(in_keys)
        stacked = stack_images and len(keys) > 1
        outer = self._outer(keys, out_keys, stacked)
        kept = [] if tensor_pixels_keys is None else list(tensor_pixels_keys)
        height, width = (size, size) if isinstance(size, int) else size
        mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
        encoder = ImageEncoder(
            self._network(model_name, download, download_path),
            self.sizes[model_name],
            outer if stacked else keys,
            outer,
            requires_grad,
        )
        parts: list[Transform] = [
            *(CatTensors(in_keys=[key], out_key=copy, del_keys=False) for key, copy in zip(keys, kept, strict=False)),
            ToTensorImage(in_keys=keys),
            ObservationNorm(in_keys=keys, loc=mean, scale=std, standard_normal=True),
            Resize(height, width, in_keys=keys),
        ]
        if stacked:
            parts += [UnsqueezeTransform(dim=-4, in_keys=keys), CatTensors(in_keys=keys, out_key=outer[0], dim=-4)]
        parts.append(encoder)
        if stacked:
            parts.append(FlattenObservation(first_dim=-2, last_dim=-1, in_keys=outer))
        super().__init__(*parts, in_keys=keys, out_keys=outer)
        self.model_name = model_name

    def _outer(self, keys: list[NestedKey], out_keys: Sequence[NestedKey] | None, stacked: bool) -> list[NestedKey]:
        several = len(keys) > 1 and not stacked
        if out_keys is None:
            name = self.default_out_key
            return [f"{name}_{at}" for at in range(len(keys))] if several else [name]
        wanted = len(keys) if several else 1
        if len(out_keys) != wanted:
            raise ValueError(
                f"{type(self).__name__}: {len(out_keys)} out_keys {list(out_keys)}, expected {wanted}: one for "
                f"{'each image' if several else 'all images'}."
            )
        return list(out_keys)

    def _network(self, model_name: str, download: Any, folder: str | None) -> nn.Module:
        builder = MODELS.resolve(f"vision/{model_name}")
        published = download is True
        network: nn.Module = builder(weights=None if published or download is False else download)
        network.fc = self._last_layer(network)
        if published:
            read = read_checkpoint(fetch(self.urls[model_name], root=folder))[self.checkpoint_key]
            before = "module.convnet."
            network.load_state_dict({key.removeprefix(before): read[key] for key in read if key.startswith(before)})
        return network

    def _last_layer(self, network: Any) -> nn.Module:
        return nn.Identity()

    @property
    def device(self) -> Any:
        """The device of the network's parameters."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the network's parameters."""
        return next(self.parameters()).dtype
