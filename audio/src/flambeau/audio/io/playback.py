"""Playing waveforms."""

from __future__ import annotations

import subprocess
import sys

import torch
from torch import Tensor

from flambeau.audio.io._errors import MediaError, MediaValueError
from flambeau.audio.io._program import find_ffmpeg
from flambeau.audio.io._waveform import check_waveform, format_of

__all__ = ["play_audio"]

# Loudspeakers by platform, in the order they are tried.
_SPEAKERS = {"darwin": ("audiotoolbox",), "linux": ("pulse", "alsa"), "freebsd": ("oss",), "openbsd": ("sndio",)}


def play_audio(waveform: Tensor, sample_rate: float | None, device: str | None = None) -> None:
    """Play a waveform and wait until it is over.

    Args:
        waveform: (frames, channels), uint8, int16, int32, or floating in [-1, 1].
        sample_rate: in Hz.
        device: the loudspeaker's name in the platform's sound system (ALSA: `hw:1`; macOS: its number); or with the
            system's name in front, as in `alsa:hw:1`. The default one if None.

    Raises:
        MediaError: there is no loudspeaker, or the sound system refuses; each one's words are in the message.
        MediaValueError: not 2 dimensions, or no sample rate.
        MissingFFmpegError: there is no ffmpeg program.
    """
    check_waveform(waveform)
    if not sample_rate or sample_rate <= 0:
        raise MediaValueError(f"sample_rate is {sample_rate}; expected a rate above 0 Hz.")
    moved = waveform.float() if waveform.dtype in (torch.int64, torch.float16, torch.bfloat16) else waveform
    muxer = format_of(moved).codec.removeprefix("pcm_")
    content = moved.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    first = [find_ffmpeg(), "-hide_banner", "-nostdin", "-v", "error", "-f", muxer, "-ar", str(int(sample_rate))]
    first += ["-ac", str(waveform.shape[1]), "-i", "pipe:0"]
    refusals = []
    for system, name in _speakers(device):
        done = subprocess.run([*first, "-f", system, name], input=content, capture_output=True, check=False)
        if done.returncode == 0:
            return
        refusals.append(f"{system}: {done.stderr.decode(errors='replace').strip()[-300:]}")
    raise MediaError(f"No sound system plays the waveform. {'; '.join(refusals) or 'None is known for this platform.'}")


def _speakers(device: str | None) -> list[tuple[str, str]]:
    from flambeau.audio.utils.ffmpeg_utils import get_output_devices

    known = get_output_devices()
    system, colon, name = (device or "").partition(":")
    if colon and system in known:
        return [(system, name)]
    systems = next((found for platform, found in _SPEAKERS.items() if sys.platform.startswith(platform)), ())
    return [(system, "-" if system == "audiotoolbox" else device or "default") for system in systems if system in known]
