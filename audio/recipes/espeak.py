"""Speech of espeak-ng (GPL-3.0; its output is free of it), and small corpora of it in the layout of real ones.

The recipes' `--tiny` modes train on it, where no recordings are at hand.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from flambeau.audio.functional import resample
from flambeau.core.files import replace

RATE = 16_000
_HEADER, _SPOKEN_RATE = 44, 22_050  # bytes before the samples of a WAV stream, and their rate


def speak(text: str, voice: str = "en-us", *, speed: int = 160, pitch: int = 50) -> Tensor:
    """Let espeak-ng read a text.

    Args:
        text: English, or what the voice speaks.
        voice: accent and variant, `en-us+f1`.
        speed: words a minute.
        pitch: 0 to 99.

    Returns:
        [time], float32 in [-1, 1], 16 kHz.

    Raises:
        FileNotFoundError: the program is not installed.
        subprocess.CalledProcessError: it failed, for example because it has no such voice.
    """
    program = shutil.which("espeak-ng")
    if program is None:
        raise FileNotFoundError("The program espeak-ng is not installed: install it with the system's packages.")
    command = [program, "-v", voice, "-s", str(speed), "-p", str(pitch), "--stdout", text]
    content = subprocess.run(command, capture_output=True, check=True).stdout
    # The header of a stream tells no true length; all that follows it are samples.
    samples = torch.from_numpy(np.frombuffer(content[_HEADER:], dtype="<i2").astype(np.float32)) / 32768
    waveform: Tensor = resample(samples, _SPOKEN_RATE, RATE)
    return waveform.clamp(-1, 1)


def write_librispeech(root: Path, subset: str, texts: Mapping[str, Sequence[str]]) -> None:
    """Write a subset of LibriSpeech that espeak-ng speaks: `LibriSpeech/<subset>/<speaker>/<chapter>/...flac`.

    Pitch and the pauses around each utterance differ, as they do in recordings; the same call writes the same files.

    Args:
        root: folder that gets the folder `LibriSpeech`.
        subset: "dev-clean" and so on; it is there whole, or not at all.
        texts: voice -> what it says; each voice is a speaker with one chapter.
    """
    import soundfile

    unfinished = root / "LibriSpeech" / f".{subset}.unfinished"
    for speaker, (voice, sentences) in enumerate(texts.items(), start=1):
        folder = unfinished / str(speaker) / str(100 + speaker)
        folder.mkdir(parents=True, exist_ok=True)
        transcripts = []
        for number, sentence in enumerate(sentences):
            name = f"{speaker}-{100 + speaker}-{number:04d}"
            soundfile.write(folder / f"{name}.flac", _take(sentence, voice, f"{subset}/{name}").numpy(), RATE, "PCM_16")
            transcripts.append(f"{name} {sentence.upper()}\n")
        (folder / f"{speaker}-{100 + speaker}.trans.txt").write_text("".join(transcripts), encoding="utf-8")
    replace(unfinished, root / "LibriSpeech" / subset)


def _take(sentence: str, voice: str, name: str) -> Tensor:
    draw = random.Random(name)
    spoken = speak(sentence, voice, pitch=draw.randint(35, 65))
    return torch.nn.functional.pad(spoken, (draw.randrange(RATE // 10), draw.randrange(RATE // 10)))
