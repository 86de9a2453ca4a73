"""Modules for speech recognition: where speech begins, and the loss of transducers."""

from __future__ import annotations

from torch import Tensor, nn

from flambeau.audio.functional.rnnt_loss import rnnt_loss
from flambeau.audio.functional.vad import vad

__all__ = ["RNNTLoss", "Vad"]


class Vad(nn.Module):
    """Cut off what comes before speech; see `functional.vad` for what the numbers mean.

    Args:
        sample_rate: in Hz.
        trigger_level: how loud, compared with the noise, speech must be.
        trigger_time: seconds over which loudness is averaged.
        search_time: seconds before the trigger that are searched for quieter speech.
        allowed_gap: longest pause within them, in seconds.
        pre_trigger_time: seconds to keep before what was found.
        boot_time: seconds in which the noise is first estimated.
        noise_up_time: seconds in which the estimate follows louder noise.
        noise_down_time: seconds in which it follows quieter noise.
        noise_reduction_amount: how much of the noise is taken away before loudness is measured.
        measure_freq: measurements per second.
        measure_duration: seconds of each; two of their distances by default.
        measure_smooth_time: seconds over which spectra are smoothed.
        hp_filter_freq: frequencies below are not looked at, in Hz.
        lp_filter_freq: frequencies above are not looked at, in Hz.
        hp_lifter_freq: likewise in the cepstrum.
        lp_lifter_freq: likewise in the cepstrum.
    """

    def __init__(
        self,
        sample_rate: int,
        trigger_level: float = 7.0,
        trigger_time: float = 0.25,
        search_time: float = 1.0,
        allowed_gap: float = 0.25,
        pre_trigger_time: float = 0.0,
        boot_time: float = 0.35,
        noise_up_time: float = 0.1,
        noise_down_time: float = 0.01,
        noise_reduction_amount: float = 1.35,
        measure_freq: float = 20.0,
        measure_duration: float | None = None,
        measure_smooth_time: float = 0.4,
        hp_filter_freq: float = 50.0,
        lp_filter_freq: float = 6000.0,
        hp_lifter_freq: float = 150.0,
        lp_lifter_freq: float = 2000.0,
    ) -> None:
        super().__init__()
        self.sample_rate = sample_rate
        self.trigger_level = trigger_level
        self.trigger_time = trigger_time
        self.search_time = search_time
        self.allowed_gap = allowed_gap
        self.pre_trigger_time = pre_trigger_time
        self.boot_time = boot_time
        self.noise_up_time = noise_up_time
        self.noise_down_time = noise_down_time
        self.noise_reduction_amount = noise_reduction_amount
        self.measure_freq = measure_freq
        self.measure_duration = measure_duration
        self.measure_smooth_time = measure_smooth_time
        self.hp_filter_freq = hp_filter_freq
        self.lp_filter_freq = lp_filter_freq
        self.hp_lifter_freq = hp_lifter_freq
        self.lp_lifter_freq = lp_lifter_freq

    def forward(self, waveform: Tensor) -> Tensor:
        """(channel, time) or (time,) -> likewise, shorter."""
        return vad(
            waveform,
            self.sample_rate,
            self.trigger_level,
            self.trigger_time,
            self.search_time,
            self.allowed_gap,
            self.pre_trigger_time,
            self.boot_time,
            self.noise_up_time,
            self.noise_down_time,
            self.noise_reduction_amount,
            self.measure_freq,
            self.measure_duration,
            self.measure_smooth_time,
            self.hp_filter_freq,
            self.lp_filter_freq,
            self.hp_lifter_freq,
            self.lp_lifter_freq,
        )


class RNNTLoss(nn.Module):
    """Compute the loss of a transducer (Graves 2012, arXiv:1211.3711).

    Args:
        blank: the blank's index; negative counts from the end.
        clamp: bound of the gradients at the logits; none where it is not positive.
        reduction: "mean" or "sum" over the batch, or "none".
        fused_log_softmax: logits are normalized first; else they have to be log-probabilities.
    """

    def __init__(
        self, blank: int = -1, clamp: float = -1.0, reduction: str = "mean", fused_log_softmax: bool = True
    ) -> None:
        super().__init__()
        self.blank = blank
        self.clamp = clamp
        self.reduction = reduction
        self.fused_log_softmax = fused_log_softmax

    def forward(self, logits: Tensor, targets: Tensor, logit_lengths: Tensor, target_lengths: Tensor) -> Tensor:
        """(batch, time, target + 1, class), (batch, target) int32, (batch,) int32 twice -> () or (batch,)."""
        return rnnt_loss(
            logits,
            targets,
            logit_lengths,
            target_lengths,
            self.blank,
            self.clamp,
            self.reduction,
            self.fused_log_softmax,
        )
