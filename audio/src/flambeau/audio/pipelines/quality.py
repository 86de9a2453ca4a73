"""Bundles of speech quality estimation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flambeau.audio.pipelines._files import asset
from flambeau.audio.weights._records import MODELS
from flambeau.audio.weights.squim import Squim_Objective_Weights, Squim_Subjective_Weights
from flambeau.core.weights import WeightsEnum

if TYPE_CHECKING:
    from flambeau.audio.models import SquimObjective, SquimSubjective

__all__ = ["SQUIM_OBJECTIVE", "SQUIM_SUBJECTIVE", "SquimObjectiveBundle", "SquimSubjectiveBundle"]


@dataclass
class SquimObjectiveBundle:
    """A network that estimates STOI, PESQ and SI-SDR without a reference."""

    _path: str
    _sample_rate: float

    @property
    def sample_rate(self) -> float:
        """Hz, of the waveforms that the network takes."""
        return self._sample_rate

    def get_model(self) -> SquimObjective:
        """Build the network with its weights, in eval mode.

        Raises:
            DownloadError: the file could not be fetched.
            CheckpointError: it does not fit.
        """
        from flambeau.audio.models import squim_objective_base
        from flambeau.core.weights import build_with_weights

        return build_with_weights(squim_objective_base, asset(f"models/{self._path}")).eval()


@dataclass
class SquimSubjectiveBundle:
    """A network that estimates mean opinion scores with any clean speech as a reference."""

    _path: str
    _sample_rate: float

    @property
    def sample_rate(self) -> float:
        """Hz, of the waveforms that the network takes."""
        return self._sample_rate

    def get_model(self) -> SquimSubjective:
        """Build the network with its weights, in eval mode.

        Raises:
            DownloadError: the file could not be fetched.
            CheckpointError: it does not fit.
        """
        from flambeau.audio.models import squim_subjective_base
        from flambeau.core.weights import build_with_weights

        return build_with_weights(squim_subjective_base, asset(f"models/{self._path}")).eval()


def _facts(member: WeightsEnum) -> tuple[str, float]:
    return member.url.removeprefix(MODELS), member.meta["sample_rate"]


SQUIM_OBJECTIVE = SquimObjectiveBundle(*_facts(Squim_Objective_Weights.SQUIM_OBJECTIVE))
SQUIM_SUBJECTIVE = SquimSubjectiveBundle(*_facts(Squim_Subjective_Weights.SQUIM_SUBJECTIVE))
