"""Feature pyramid network: fine feature maps that know what the coarse ones saw.

References:
    Lin et al. 2016, arXiv:1612.03144.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.vision.ops.misc import Conv2dNormActivation

__all__ = ["ExtraFPNBlock", "FeaturePyramidNetwork", "LastLevelMaxPool", "LastLevelP6P7"]


class ExtraFPNBlock(nn.Module):
    """Makes further levels after the last one of a pyramid; subclasses say how."""

    def forward(self, results: list[Tensor], x: list[Tensor], names: list[str]) -> tuple[list[Tensor], list[str]]:
        """Extend a pyramid.

        Args:
            results: the pyramid's maps, finest first.
            x: the maps the pyramid was made of.
            names: of `results`.

        Returns:
            The maps with those added, and their names.
        """
        raise NotImplementedError(f"{type(self).__name__} has to define forward(results, x, names).")


class FeaturePyramidNetwork(nn.Module):
    """Bring feature maps to one width, and add each coarser level, enlarged, to the next finer one.

    Args:
        in_channels_list: channels of the maps, finest first.
        out_channels: channels of every map of the pyramid.
        extra_blocks: makes further levels.
        norm_layer: makes a normalization from a number of channels; None for convolutions with bias.

    Shape:
        A dict of maps (N, C_i, H_i, W_i), finest first -> a dict of maps (N, out_channels, H_i, W_i) with
        the same names, and what `extra_blocks` adds.

    Raises:
        ValueError: a number of channels is 0.
        TypeError: `extra_blocks` is no `ExtraFPNBlock`.

    Example:
        >>> pyramid = FeaturePyramidNetwork([4, 8], 16)
        >>> maps = pyramid({"fine": torch.rand(1, 4, 16, 16), "coarse": torch.rand(1, 8, 8, 8)})
        >>> [(name, tuple(map.shape)) for name, map in maps.items()]
        [('fine', (1, 16, 16, 16)), ('coarse', (1, 16, 8, 8))]
    """

    _version = 2

    def __init__(
        self,
        in_channels_list: list[int],
        out_channels: int,
        extra_blocks: ExtraFPNBlock | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
    ) -> None:
        super().__init__()
        if 0 in in_channels_list:
            raise ValueError(f"in_channels_list is {in_channels_list}, expected positive numbers of channels.")
        if extra_blocks is not None and not isinstance(extra_blocks, ExtraFPNBlock):
            raise TypeError(f"extra_blocks is a {type(extra_blocks).__name__}, expected an ExtraFPNBlock or None.")
        options: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": None}
        self.inner_blocks = nn.ModuleList(
            Conv2dNormActivation(channels, out_channels, kernel_size=1, padding=0, **options)
            for channels in in_channels_list
        )
        self.layer_blocks = nn.ModuleList(
            Conv2dNormActivation(out_channels, out_channels, kernel_size=3, **options) for _ in in_channels_list
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight, a=1)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        self.extra_blocks = extra_blocks

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        version = local_metadata.get("version")
        if version is None or version < 2:
            for block in ("inner_blocks", "layer_blocks"):
                for index in range(len(self.inner_blocks)):
                    for name in ("weight", "bias"):
                        _rename(state_dict, f"{prefix}{block}.{index}.{name}", f"{prefix}{block}.{index}.0.{name}")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args, **kwargs)

    def get_result_from_inner_blocks(self, x: Tensor, idx: int) -> Tensor:
        """A map at the pyramid's width, by the 1x1 convolution of level `idx`; -1 is the last."""
        return self.inner_blocks[idx](x)  # type: ignore[no-any-return]

    def get_result_from_layer_blocks(self, x: Tensor, idx: int) -> Tensor:
        """A summed map, smoothed by the 3x3 convolution of level `idx`; -1 is the last."""
        return self.layer_blocks[idx](x)  # type: ignore[no-any-return]

    def forward(self, x: dict[str, Tensor]) -> dict[str, Tensor]:
        """Make the pyramid, from the coarsest level down."""
        names, maps = list(x), list(x.values())
        inner = self.get_result_from_inner_blocks(maps[-1], -1)
        results = [self.get_result_from_layer_blocks(inner, -1)]
        for index in range(len(maps) - 2, -1, -1):
            lateral = self.get_result_from_inner_blocks(maps[index], index)
            inner = lateral + F.interpolate(inner, size=lateral.shape[-2:], mode="nearest")
            results.insert(0, self.get_result_from_layer_blocks(inner, index))
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, maps, names)
        return OrderedDict(zip(names, results, strict=True))


class LastLevelMaxPool(ExtraFPNBlock):
    """Add a level "pool": every second pixel of the last one."""

    def forward(  # type: ignore[override]  # Upstream: the names of the parameters differ
        self, x: list[Tensor], y: list[Tensor], names: list[str]
    ) -> tuple[list[Tensor], list[str]]:
        """The maps `x` and the new one; `y` is not used."""
        return [*x, F.max_pool2d(x[-1], kernel_size=1, stride=2, padding=0)], [*names, "pool"]


class LastLevelP6P7(ExtraFPNBlock):
    """Add levels "p6" and "p7" by convolutions of stride 2 (Lin et al. 2017, arXiv:1708.02002, section 4).

    Args:
        in_channels: channels of the map that P6 is made of. When it equals `out_channels` that is the pyramid's last
            map (P5), else the last map the pyramid was made of (C5).
        out_channels: channels of both new levels.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.p6 = nn.Conv2d(in_channels, out_channels, 3, 2, 1)
        self.p7 = nn.Conv2d(out_channels, out_channels, 3, 2, 1)
        for module in (self.p6, self.p7):
            nn.init.kaiming_uniform_(module.weight, a=1)
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]
        self.use_P5 = in_channels == out_channels

    def forward(self, p: list[Tensor], c: list[Tensor], names: list[str]) -> tuple[list[Tensor], list[str]]:
        """The maps `p` and the two new ones."""
        p6 = self.p6(p[-1] if self.use_P5 else c[-1])
        p7 = self.p7(F.relu(p6))
        return [*p, p6, p7], [*names, "p6", "p7"]


def _rename(state_dict: dict[str, Any], old: str, new: str) -> None:
    if old in state_dict:
        state_dict[new] = state_dict.pop(old)
