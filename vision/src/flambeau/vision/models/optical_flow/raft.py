"""RAFT: optical flow by looking up, again and again, how well pixels match around the present estimate.

Reading order: blocks and encoder, the parts of an update, correlation, the network, the two architectures.

References:
    Teed and Deng 2020, RAFT: Recurrent All-Pairs Field Transforms for Optical Flow, arXiv:2003.12039.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flambeau.core.weights import WeightsEnum, build_with_weights
from flambeau.vision.models._api import register_model
from flambeau.vision.models._utils import handle_legacy_interface
from flambeau.vision.models.optical_flow._utils import grid_sample, make_coords_grid, upsample_flow
from flambeau.vision.ops.misc import Conv2dNormActivation
from flambeau.vision.weights.raft import Raft_Large_Weights, Raft_Small_Weights

__all__ = ["RAFT", "Raft_Large_Weights", "Raft_Small_Weights", "raft_large", "raft_small"]

Layer = Callable[..., nn.Module]


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, all of them activated.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        norm_layer: makes a normalization from a number of channels.
        stride: of the first convolution.
        always_project: project the shortcut even where its shape fits.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        norm_layer: Layer | None,
        stride: int = 1,
        always_project: bool = False,
    ) -> None:
        super().__init__()
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, bias=True)
        self.convnormrelu1 = conv(in_channels, out_channels, kernel_size=3, stride=stride)
        self.convnormrelu2 = conv(out_channels, out_channels, kernel_size=3)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or always_project:
            self.downsample = conv(in_channels, out_channels, kernel_size=1, stride=stride, activation_layer=None)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, H / stride, W / stride)."""
        out: Tensor = self.relu(self.downsample(x) + self.convnormrelu2(self.convnormrelu1(x)))
        return out


class BottleneckBlock(nn.Module):
    """1x1, 3x3, 1x1 and a shortcut, all of them activated, a quarter of the channels inside; as `ResidualBlock`."""

    def __init__(self, in_channels: int, out_channels: int, *, norm_layer: Layer | None, stride: int = 1) -> None:
        super().__init__()
        conv = partial(Conv2dNormActivation, norm_layer=norm_layer, bias=True)
        inner = out_channels // 4
        self.convnormrelu1 = conv(in_channels, inner, kernel_size=1)
        self.convnormrelu2 = conv(inner, inner, kernel_size=3, stride=stride)
        self.convnormrelu3 = conv(inner, out_channels, kernel_size=1)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1:
            self.downsample = conv(in_channels, out_channels, kernel_size=1, stride=stride, activation_layer=None)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, H / stride, W / stride)."""
        inner = self.convnormrelu3(self.convnormrelu2(self.convnormrelu1(x)))
        out: Tensor = self.relu(self.downsample(x) + inner)
        return out


class FeatureEncoder(nn.Module):
    """Features at an eighth of height and width; used for features of both pictures and for context of the first.

    Args:
        block: `ResidualBlock` or `BottleneckBlock`.
        layers: channels of the stem, of three stages of two blocks, and of the output.
        strides: of the stem and of the stages.
        norm_layer: makes a normalization from a number of channels.

    Raises:
        ValueError: there are not five channels.
    """

    def __init__(
        self,
        *,
        block: Layer = ResidualBlock,
        layers: Sequence[int] = (64, 64, 96, 128, 256),
        strides: Sequence[int] = (2, 1, 2, 2),
        norm_layer: Layer | None = nn.BatchNorm2d,
    ) -> None:
        super().__init__()
        if len(layers) != 5:
            raise ValueError(f"layers is {layers}, expected channels of the stem, of three stages and of the output.")
        self.convnormrelu = Conv2dNormActivation(
            3, layers[0], kernel_size=7, norm_layer=norm_layer, stride=strides[0], bias=True
        )
        stages = []
        for width_in, width, stride in zip(layers[:3], layers[1:4], strides[1:], strict=True):
            first = block(width_in, width, norm_layer=norm_layer, stride=stride)
            stages.append(nn.Sequential(first, block(width, width, norm_layer=norm_layer, stride=1)))
        self.layer1, self.layer2, self.layer3 = stages
        self.conv = nn.Conv2d(layers[3], layers[4], kernel_size=1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.output_dim = layers[-1]
        self.downsample_factor = strides[0] * strides[1] * strides[2] * strides[3]

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, 3, H, W) to (N, output_dim, H / 8, W / 8)."""
        features: Tensor = self.conv(self.layer3(self.layer2(self.layer1(self.convnormrelu(x)))))
        return features


class MotionEncoder(nn.Module):
    """Features of the present flow and of the correlations found there; the last two channels are the flow itself.

    Args:
        in_channels_corr: channels of the correlations.
        corr_layers: channels of one or two convolutions of correlations.
        flow_layers: channels of two convolutions of flow.
        out_channels: channels of the output.

    Raises:
        ValueError: there are not two widths for flow, or not one or two for correlations.
    """

    def __init__(
        self,
        *,
        in_channels_corr: int,
        corr_layers: Sequence[int] = (256, 192),
        flow_layers: Sequence[int] = (128, 64),
        out_channels: int = 128,
    ) -> None:
        super().__init__()
        if len(flow_layers) != 2 or len(corr_layers) not in (1, 2):
            raise ValueError(
                f"flow_layers is {flow_layers} and corr_layers {corr_layers}, expected two widths, and one or two."
            )
        conv = partial(Conv2dNormActivation, norm_layer=None)
        self.convcorr1 = conv(in_channels_corr, corr_layers[0], kernel_size=1)
        self.convcorr2: nn.Module = nn.Identity()
        if len(corr_layers) == 2:
            self.convcorr2 = conv(corr_layers[0], corr_layers[1], kernel_size=3)
        self.convflow1 = conv(2, flow_layers[0], kernel_size=7)
        self.convflow2 = conv(flow_layers[0], flow_layers[1], kernel_size=3)
        self.conv = conv(corr_layers[-1] + flow_layers[-1], out_channels - 2, kernel_size=3)
        self.out_channels = out_channels

    def forward(self, flow: Tensor, corr_features: Tensor) -> Tensor:
        """Map (N, 2, H, W) and (N, in_channels_corr, H, W) to (N, out_channels, H, W)."""
        corr = self.convcorr2(self.convcorr1(corr_features))
        motion = self.convflow2(self.convflow1(flow))
        return torch.cat([self.conv(torch.cat([corr, motion], dim=1)), flow], dim=1)


class ConvGRU(nn.Module):
    """Gated recurrent unit with convolutions (equations 3 to 6 of the paper).

    Args:
        input_size: channels of the input.
        hidden_size: channels of the state.
        kernel_size: of the convolutions.
        padding: of the convolutions.
    """

    def __init__(
        self,
        *,
        input_size: int,
        hidden_size: int,
        kernel_size: int | tuple[int, int],
        padding: int | tuple[int, int],
    ) -> None:
        super().__init__()
        conv = partial(nn.Conv2d, hidden_size + input_size, hidden_size, kernel_size=kernel_size, padding=padding)
        self.convz = conv()
        self.convr = conv()
        self.convq = conv()

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        """The next state (N, hidden_size, H, W) from the last one and the input."""
        both = torch.cat([h, x], dim=1)
        update = torch.sigmoid(self.convz(both))
        reset = torch.sigmoid(self.convr(both))
        candidate = torch.tanh(self.convq(torch.cat([reset * h, x], dim=1)))
        return (1 - update) * h + update * candidate


class _PassThrough(nn.Module):
    """Stands where there is no second unit: the state stays as it is."""

    def forward(self, h: Tensor, _: Tensor) -> Tensor:
        """The state."""
        return h


class RecurrentBlock(nn.Module):
    """One unit, or two of which each looks along one direction.

    Args:
        input_size: channels of the input.
        hidden_size: channels of the state.
        kernel_size: per unit.
        padding: per unit.

    Raises:
        ValueError: there are not as many paddings as kernels, or neither one nor two.
    """

    def __init__(
        self,
        *,
        input_size: int,
        hidden_size: int,
        kernel_size: Sequence[int | tuple[int, int]] = ((1, 5), (5, 1)),
        padding: Sequence[int | tuple[int, int]] = ((0, 2), (2, 0)),
    ) -> None:
        super().__init__()
        if len(kernel_size) != len(padding) or len(kernel_size) not in (1, 2):
            raise ValueError(
                f"kernel_size is {kernel_size} and padding {padding}, expected one or two of each, as many of both."
            )
        units = [
            ConvGRU(input_size=input_size, hidden_size=hidden_size, kernel_size=kernel, padding=margin)
            for kernel, margin in zip(kernel_size, padding, strict=True)
        ]
        self.convgru1 = units[0]
        self.convgru2 = units[1] if len(units) == 2 else _PassThrough()
        self.hidden_size = hidden_size

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        """The next state (N, hidden_size, H, W) from the last one and the input."""
        state: Tensor = self.convgru2(self.convgru1(h, x), x)
        return state


class FlowHead(nn.Module):
    """Two 3x3 convolutions that turn a state into a change of flow."""

    def __init__(self, *, in_channels: int, hidden_size: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, hidden_size, 3, padding=1)
        self.conv2 = nn.Conv2d(hidden_size, 2, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, 2, H, W)."""
        change: Tensor = self.conv2(self.relu(self.conv1(x)))
        return change


class UpdateBlock(nn.Module):
    """One step: encode motion, update the state, read the change of flow.

    Args:
        motion_encoder: encodes flow and correlations.
        recurrent_block: updates the state; has `hidden_size`.
        flow_head: reads the change of flow.
    """

    def __init__(self, *, motion_encoder: nn.Module, recurrent_block: nn.Module, flow_head: nn.Module) -> None:
        super().__init__()
        self.motion_encoder = motion_encoder
        self.recurrent_block = recurrent_block
        self.flow_head = flow_head
        self.hidden_state_size = recurrent_block.hidden_size

    def forward(
        self, hidden_state: Tensor, context: Tensor, corr_features: Tensor, flow: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The next state, and the change of flow (N, 2, H, W)."""
        motion = self.motion_encoder(flow, corr_features)
        hidden_state = self.recurrent_block(hidden_state, torch.cat([context, motion], dim=1))
        return hidden_state, self.flow_head(hidden_state)


class MaskPredictor(nn.Module):
    """The weights by which flow is enlarged eightfold, from a state.

    Args:
        in_channels: channels of the state.
        hidden_size: channels inside.
        multiplier: factor of the output, which balances gradients (0.25 in the authors' code).
    """

    def __init__(self, *, in_channels: int, hidden_size: int, multiplier: float = 0.25) -> None:
        super().__init__()
        self.convrelu = Conv2dNormActivation(in_channels, hidden_size, norm_layer=None, kernel_size=3)
        self.conv = nn.Conv2d(hidden_size, 8 * 8 * 9, 1, padding=0)
        self.multiplier = multiplier

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to logits (N, 576, H, W)."""
        logits: Tensor = self.conv(self.convrelu(x))
        return self.multiplier * logits


class CorrBlock(nn.Module):
    """Correlation of every pixel with every other, pooled to several scales, looked up around estimates (section 3.2).

    Args:
        num_levels: number of scales, each half of the one before.
        radius: how far around an estimate to look, in pixels of each scale.
    """

    def __init__(self, *, num_levels: int = 4, radius: int = 4) -> None:
        super().__init__()
        self.num_levels = num_levels
        self.radius = radius
        self.out_channels = num_levels * (2 * radius + 1) ** 2

    def build_pyramid(self, fmap1: Tensor, fmap2: Tensor) -> list[Tensor]:
        """Correlations of two maps (N, C, H, W): per scale (N * H * W, 1, H', W').

        Raises:
            ValueError: shapes differ, or the smallest scale would have less than two pixels along a side.
        """
        if fmap1.shape != fmap2.shape:
            raise ValueError(f"Features have shapes {tuple(fmap1.shape)} and {tuple(fmap2.shape)}, expected the same.")
        batch, channels, height, width = fmap1.shape
        smallest = 2 * 2 ** (self.num_levels - 1)
        if height < smallest or width < smallest:
            raise ValueError(
                f"Features are {height} x {width}, expected at least {smallest} x {smallest}, which pictures of "
                f"{8 * smallest} x {8 * smallest} give: enlarge or pad the pictures."
            )
        volume = torch.bmm(fmap1.flatten(2).transpose(1, 2), fmap2.flatten(2)) / channels**0.5
        pyramid = [volume.reshape(batch * height * width, 1, height, width)]
        for _ in range(self.num_levels - 1):
            pyramid.append(F.avg_pool2d(pyramid[-1], kernel_size=2, stride=2))
        return pyramid

    def index_pyramid(self, pyramid: list[Tensor], centroids_coords: Tensor) -> Tensor:
        """Correlations (N, out_channels, H, W) around coordinates (N, 2, H, W)."""
        side = 2 * self.radius + 1
        reach = torch.arange(-self.radius, self.radius + 1, device=centroids_coords.device, dtype=torch.float32)
        # Upstream: the first of the two grows along x, so that neighbours are numbered column by column.
        around = torch.stack(torch.meshgrid(reach, reach, indexing="ij"), dim=-1).view(1, side, side, 2)
        batch, _, height, width = centroids_coords.shape
        centres = centroids_coords.permute(0, 2, 3, 1).reshape(batch * height * width, 1, 1, 2)
        found = [
            grid_sample(level, centres / 2**scale + around, align_corners=True).view(batch, height, width, side * side)
            for scale, level in enumerate(pyramid)
        ]
        return torch.cat(found, dim=-1).permute(0, 3, 1, 2).contiguous()


class RAFT(nn.Module):
    """Estimate the motion of every pixel from one picture to the next, better with every update.

    Args:
        feature_encoder: features of both pictures, at an eighth of their size.
        context_encoder: features of the first picture, from which state and context come.
        corr_block: builds and reads the pyramid of correlations.
        update_block: makes a step; has `hidden_state_size`.
        mask_predictor: weights for enlarging flow; None enlarges linearly.

    Shape:
        Two pictures (N, 3, H, W) in [-1, 1], H and W multiples of 8 and at least 128 -> a list of flows (N, 2, H, W),
        one per update, in pixels, x before y.
    """

    def __init__(
        self,
        *,
        feature_encoder: nn.Module,
        context_encoder: nn.Module,
        corr_block: CorrBlock,
        update_block: nn.Module,
        mask_predictor: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.feature_encoder = feature_encoder
        self.context_encoder = context_encoder
        self.corr_block = corr_block
        self.update_block = update_block
        self.mask_predictor = mask_predictor

    def forward(self, image1: Tensor, image2: Tensor, num_flow_updates: int = 12) -> list[Tensor]:
        """Flows from `image1` to `image2`, one per update; the last one is the best.

        Raises:
            ValueError: the pictures differ in shape, or their sizes are no multiples of 8, or too small; or the context
                encoder gives no more channels than the state takes.
        """
        if image1.shape != image2.shape or image1.shape[-2] % 8 or image1.shape[-1] % 8:
            raise ValueError(
                f"Pictures have shapes {tuple(image1.shape)} and {tuple(image2.shape)}, expected the same, with height "
                "and width multiples of 8: resize or pad both alike."
            )
        features = self.feature_encoder(torch.cat([image1, image2]))
        pyramid = self.corr_block.build_pyramid(*features.chunk(2))
        hidden_state, context = self._state(image1)
        batch, _, height, width = hidden_state.shape
        start = make_coords_grid(batch, height, width, device=image1.device).to(hidden_state.dtype)
        coords = start
        flows = []
        for _ in range(num_flow_updates):
            coords = coords.detach()  # the gradient of an update does not flow into the one before it (section 3.3)
            corr = self.corr_block.index_pyramid(pyramid, coords)
            hidden_state, change = self.update_block(hidden_state, context, corr, coords - start)
            coords = coords + change
            mask = None if self.mask_predictor is None else self.mask_predictor(hidden_state)
            flows.append(upsample_flow(coords - start, mask))
        return flows

    def _state(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """First state and context."""
        encoded = self.context_encoder(image)
        size = self.update_block.hidden_state_size
        if not isinstance(size, int) or encoded.shape[1] <= size:
            raise ValueError(
                f"The context encoder gives {encoded.shape[1]} channels, expected more than the {size} of the state."
            )
        hidden_state, context = encoded.split([size, encoded.shape[1] - size], dim=1)
        return torch.tanh(hidden_state), F.relu(context)


def _raft(
    weights: WeightsEnum | None,
    progress: bool,
    *,
    block: Layer,
    feature_layers: Sequence[int],
    feature_norm: Layer,
    context_layers: Sequence[int],
    context_norm: Layer | None,
    radius: int,
    corr_layers: Sequence[int],
    flow_layers: Sequence[int],
    motion_channels: int,
    hidden_size: int,
    kernels: Sequence[int | tuple[int, int]],
    paddings: Sequence[int | tuple[int, int]],
    head_size: int,
    use_mask_predictor: bool,
    **kwargs: Any,
) -> RAFT:
    def network(**parts: Any) -> RAFT:
        corr_block = parts.pop("corr_block", None) or CorrBlock(num_levels=4, radius=radius)
        context_channels = context_layers[-1] - hidden_size
        made: dict[str, Callable[[], nn.Module | None]] = {
            "feature_encoder": lambda: FeatureEncoder(block=block, layers=feature_layers, norm_layer=feature_norm),
            "context_encoder": lambda: FeatureEncoder(block=block, layers=context_layers, norm_layer=context_norm),
            "update_block": lambda: UpdateBlock(
                motion_encoder=MotionEncoder(
                    in_channels_corr=corr_block.out_channels,
                    corr_layers=corr_layers,
                    flow_layers=flow_layers,
                    out_channels=motion_channels,
                ),
                recurrent_block=RecurrentBlock(
                    input_size=motion_channels + context_channels,
                    hidden_size=hidden_size,
                    kernel_size=kernels,
                    padding=paddings,
                ),
                flow_head=FlowHead(in_channels=hidden_size, hidden_size=head_size),
            ),
            "mask_predictor": lambda: (
                MaskPredictor(in_channels=hidden_size, hidden_size=256) if use_mask_predictor else None
            ),
        }
        chosen: dict[str, Any] = {name: parts.pop(name, None) or make() for name, make in made.items()}
        return RAFT(corr_block=corr_block, **chosen, **parts)

    return build_with_weights(network, weights, progress=progress, **kwargs)


@register_model(task="optical-flow", stem="feature_encoder.convnormrelu.0")
@handle_legacy_interface(weights=("pretrained", Raft_Large_Weights.C_T_SKHT_V2))
def raft_large(*, weights: Raft_Large_Weights | None = None, progress: bool = True, **kwargs: Any) -> RAFT:
    """RAFT (Teed and Deng 2020, arXiv:2003.12039, section 3).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: parts of `RAFT` that replace those of the paper; `device` and `dtype` place the weights without a copy
            in between.
    """
    return _raft(
        Raft_Large_Weights.verify(weights),
        progress,
        block=ResidualBlock,
        feature_layers=(64, 64, 96, 128, 256),
        feature_norm=nn.InstanceNorm2d,
        context_layers=(64, 64, 96, 128, 256),
        context_norm=nn.BatchNorm2d,
        radius=4,
        corr_layers=(256, 192),
        flow_layers=(128, 64),
        motion_channels=128,
        hidden_size=128,
        kernels=((1, 5), (5, 1)),
        paddings=((0, 2), (2, 0)),
        head_size=256,
        use_mask_predictor=True,
        **kwargs,
    )


@register_model(task="optical-flow", stem="feature_encoder.convnormrelu.0")
@handle_legacy_interface(weights=("pretrained", Raft_Small_Weights.C_T_V2))
def raft_small(*, weights: Raft_Small_Weights | None = None, progress: bool = True, **kwargs: Any) -> RAFT:
    """The small RAFT, with a fifth of the parameters (Teed and Deng 2020, arXiv:2003.12039, supplement).

    Args:
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        **kwargs: parts of `RAFT` that replace those of the paper; `device` and `dtype` place the weights without a copy
            in between.
    """
    return _raft(
        Raft_Small_Weights.verify(weights),
        progress,
        block=BottleneckBlock,
        feature_layers=(32, 32, 64, 96, 128),
        feature_norm=nn.InstanceNorm2d,
        context_layers=(32, 32, 64, 96, 160),
        context_norm=None,
        radius=3,
        corr_layers=(96,),
        flow_layers=(64, 32),
        motion_channels=82,
        hidden_size=96,
        kernels=(3,),
        paddings=(1,),
        head_size=128,
        use_mask_predictor=False,
        **kwargs,
    )
