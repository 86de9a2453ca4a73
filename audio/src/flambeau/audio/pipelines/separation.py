"""Bundles of source separation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from flambeau.audio.pipelines._files import BASE_URL, asset
from flambeau.audio.weights.separation import ConvTasNet_Base_Weights, HDemucs_High_Weights

if TYPE_CHECKING:
    from torch import nn

__all__ = ["CONVTASNET_BASE_LIBRI2MIX", "HDEMUCS_HIGH_MUSDB", "HDEMUCS_HIGH_MUSDB_PLUS", "SourceSeparationBundle"]


@dataclass
class SourceSeparationBundle:
    """A network that takes mixtures apart.

    Example:
        >>> from flambeau.audio.pipelines import HDEMUCS_HIGH_MUSDB_PLUS
        >>> HDEMUCS_HIGH_MUSDB_PLUS.sample_rate
        44100
    """

    _model_path: str
    _model_factory_func: Callable[[], nn.Module]
    _sample_rate: int

    @property
    def sample_rate(self) -> int:
        """Hz, of the waveforms that the network takes and gives."""
        return self._sample_rate

    def get_model(self) -> nn.Module:
        """Build the network with its weights.

        Returns:
            A `ConvTasNet` or `HDemucs` in eval mode.

        Raises:
            DownloadError: the file could not be fetched.
            CheckpointError: it does not fit.
        """
        from flambeau.core.weights import build_with_weights

        return build_with_weights(self._model_factory_func, asset(self._model_path)).eval()


def _conv_tasnet(num_sources: int) -> nn.Module:
    from flambeau.audio.models import conv_tasnet_base

    model: nn.Module = conv_tasnet_base(num_sources)
    return model


def _hdemucs(sources: list[str]) -> nn.Module:
    from flambeau.audio.models import hdemucs_high

    model: nn.Module = hdemucs_high(sources)
    return model


def _music(member: HDemucs_High_Weights) -> SourceSeparationBundle:
    meta = member.meta
    factory = partial(_hdemucs, sources=list(meta["sources"]))
    return SourceSeparationBundle(member.url.removeprefix(BASE_URL), factory, meta["sample_rate"])


_LIBRI2MIX = ConvTasNet_Base_Weights.CONVTASNET_BASE_LIBRI2MIX
CONVTASNET_BASE_LIBRI2MIX = SourceSeparationBundle(
    _LIBRI2MIX.url.removeprefix(BASE_URL),
    partial(_conv_tasnet, num_sources=_LIBRI2MIX.meta["num_sources"]),
    _LIBRI2MIX.meta["sample_rate"],
)
HDEMUCS_HIGH_MUSDB = _music(HDemucs_High_Weights.HDEMUCS_HIGH_MUSDB)
HDEMUCS_HIGH_MUSDB_PLUS = _music(HDemucs_High_Weights.HDEMUCS_HIGH_MUSDB_PLUS)
