"""Media that tell where they are: second k of the sound has a tone of its own, picture n a gray of its own."""

import math
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

RATE = 48000
AMPLITUDE = 0.4
FRAME_RATE = 25


def frequency(second: int) -> float:
    return 200.0 + 40.0 * (second * 7 % 20)


def tone_at(times: Tensor) -> Tensor:
    """The sound at these times, in seconds and float64; silence outside."""
    tones = torch.tensor(
        [frequency(second) for second in range(int(times.max().clamp(min=0)) + 1)], dtype=torch.float64
    )
    second = times.floor().clamp(min=0).long()
    return AMPLITUDE * torch.sin(2 * math.pi * tones[second] * times) * (times >= 0)


def make_tones(ffmpeg: str, path: Path, seconds: int) -> Path:
    """Have ffmpeg encode them: AAC and H.264, a key frame a second."""
    tone = f"{AMPLITUDE}*sin(2*PI*(200+40*mod(7*floor(t),20))*t)"  # as `frequency` says
    command = [ffmpeg, "-v", "error", "-y"]
    command += ["-f", "lavfi", "-i", f"aevalsrc='{tone}':s={RATE}:d={seconds}"]
    command += ["-f", "lavfi", "-i", f"color=black:size=64x48:rate={FRAME_RATE}:duration={seconds}"]
    command += ["-filter_complex", "[1:v]geq=lum='16+mod(N,200)':cb=128:cr=128[v];[0:a]pan=stereo|c0=c0|c1=-1*c0[a]"]
    command += ["-map", "[v]", "-map", "[a]", "-c:v", "libx264", "-preset", "ultrafast", "-g", str(FRAME_RATE)]
    command += ["-pix_fmt", "yuv420p", "-c:a", "aac", "-b:a", "192k", "-metadata", "title=tones", str(path)]
    subprocess.run(command, check=True)
    return path


def error_of(chunk: Tensor, pts: float, rate: int, *, shift: float = 0.0, gain: float = 1.0, edge: int = 0) -> float:
    """Largest difference between a chunk's first channel and the tone of its time, but where tones begin."""
    times = pts - shift + torch.arange(len(chunk), dtype=torch.float64) / rate
    expected = gain * tone_at(times)
    inside = (times % 1 > 0.06) & (times % 1 < 0.94)
    inside[:edge] = False
    assert inside.any(), "the chunk is too short to tell"
    return float((chunk[:, 0].double() - expected)[inside].abs().max())


def picture_number(frame: Tensor) -> int:
    """The number, modulo 200, of a picture of gray values."""
    return round(float(frame.float().mean()) * 219 / 255)  # gray has the full range, video 16 to 235


def children() -> list[int]:
    """Numbers of this process' children, dead ones that nobody reaped included."""
    found = []
    for task in os.listdir("/proc/self/task"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended since
            found += map(int, Path(f"/proc/self/task/{task}/children").read_text().split())
    return found
