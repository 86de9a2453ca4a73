"""Train `digit_recognizer` on digits that espeak-ng speaks: `python audio/recipes/spoken_digits.py --out FOLDER`.

Data: sequences of one to seven digits, spoken by espeak-ng (GPL-3.0; its output is free of it) in English accents
and voices that differ in pitch, speed and timbre. Whole voices are held out, `HELD_OUT_VOICES`, in all accents. In
training, and once in the test, noise, room and loudness vary.

Needs the program `espeak-ng`. Speaking takes some minutes, training about twenty minutes on one CPU core. Writes
`digit_recognizer-espeak_v1-<hash>.safetensors`, and prints what belongs into the weights' record.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor
from torch.nn.functional import ctc_loss

from flambeau.audio.functional import add_noise, edit_distance, resample, rnnt_loss
from flambeau.audio.models.digit_recognizer import RIGHT_CONTEXT, LogMelFrames, digit_recognizer
from flambeau.audio.models.rnnt import RNNT
from flambeau.audio.recognition import Recognizer

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-rp", "en-gb-x-gbcwmd", "en-029")
VOICES = (
    "m1", "m2", "m3", "m4", "m5", "m6", "f1", "f2", "f3", "f4", "klatt", "klatt3", "croak", "Alex", "Alicia", "Andrea",
    "Denis", "Gene", "Hugo", "Jacky", "Lee", "Marco", "Michael", "Mike", "aunty", "belinda", "benjamin", "boris",
    "caleb", "david", "ed", "grandma", "grandpa", "iven", "john", "max", "norbert", "paul", "quincy", "rob", "steph",
    "travis",
)  # fmt: skip
HELD_OUT_VOICES = ("m7", "m8", "f5", "Annie", "Mario", "linda", "edward", "robert", "victor", "zac")
RATE = 16_000
BLANK = 10
ENCODING = 128  # width of the transcriber's output
SILENCE = (math.log(1e-5) + 2) / 4  # a feature of `LogMelFrames`


class Utterance(NamedTuple):
    """What was said, and its waveform: [time], int16, 16 kHz."""

    digits: list[int]
    waveform: Tensor


def speak(digits: list[int], voice: str, *, speed: int, pitch: int, gap: int) -> Tensor:
    """Let espeak-ng say digits.

    Args:
        digits: 0 to 9.
        voice: accent and variant, `en-us+f1`.
        speed: words a minute.
        pitch: 0 to 99.
        gap: pause between words in units of 10 ms.

    Returns:
        [time], int16, 16 kHz.
    """
    words = " ".join(WORDS[digit] for digit in digits)
    command = ["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "-g", str(gap), "--stdout", words]
    content = subprocess.run(command, capture_output=True, check=True).stdout
    # The header of a stream tells no true length; what follows its 44 bytes are samples at 22,050 Hz.
    samples = torch.from_numpy(np.frombuffer(content[44:], dtype="<i2").astype(np.float32)) / 32768
    return (resample(samples, 22_050, RATE) * 32767).round().clamp(-32768, 32767).short()


def corpus(count: int, voices: tuple[str, ...], seed: int) -> list[Utterance]:
    """As many utterances of these voices, each in a random accent, speed and pitch."""
    draw = random.Random(seed)
    utterances = []
    for _ in range(count):
        digits = [draw.randrange(10)]
        for _ in range(draw.randrange(7)):  # more doubles than chance gives: they are the hardest
            digits.append(digits[-1] if draw.random() < 0.15 else draw.randrange(10))
        voice = f"{draw.choice(ACCENTS)}+{draw.choice(voices)}"
        spoken = speak(
            digits, voice, speed=draw.randint(110, 230), pitch=draw.randint(20, 80), gap=draw.choice((0, 1, 2, 4, 8))
        )
        utterances.append(Utterance(digits, spoken))
    return utterances


class Conditions:
    """Rooms, noises, loudness and pauses, drawn anew for every use of an utterance."""

    def __init__(self, background: list[Utterance], seed: int) -> None:
        self.background = background
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, spoken: Tensor) -> Tensor:
        """[time], int16 -> [time + pauses], float32 in [-1, 1]."""
        waveform = spoken.float() / 32768
        if self._between(0, 1) < 0.5:
            waveform = resample(waveform, round(100 * self._between(0.88, 1.14)), 100)
        before, behind = (int(RATE * self._between(0.0, 0.7)) for _ in range(2))
        waveform = torch.nn.functional.pad(waveform, (before, behind))
        if self._between(0, 1) < 0.3:
            waveform = self._in_a_room(waveform)
        if self._between(0, 1) < 0.75:
            ratio = torch.tensor(self._between(3, 30))
            waveform = add_noise(waveform, self._noise(len(waveform)), ratio)
        loudest = waveform.abs().max().clamp(min=1e-4)
        return waveform / loudest * 10 ** self._between(-1.3, -0.02)

    def _between(self, low: float, high: float) -> float:
        return low + (high - low) * torch.rand((), generator=self.generator).item()

    def _noise(self, length: int) -> Tensor:
        kind = self._between(0, 1)
        if kind < 0.25:  # many speak at once
            mixed = torch.zeros(length)
            for _ in range(5):
                other = self.background[int(self._between(0, len(self.background) - 0.001))].waveform.float()
                start = int(self._between(0, len(other)))
                mixed += other.roll(start).repeat(-(-length // len(other)))[:length]
            return mixed
        size = 1 << (length - 1).bit_length()  # transforms of other lengths take many times longer
        spectrum = torch.fft.rfft(torch.randn(size, generator=self.generator))
        slope = self._between(0, 1) if kind < 0.9 else 0.0  # from white to red
        frequencies = torch.arange(1, len(spectrum) + 1)
        return torch.fft.irfft(spectrum / frequencies**slope, size)[:length]

    def _in_a_room(self, waveform: Tensor) -> Tensor:
        length = int(RATE * self._between(0.05, 0.3))
        tail = torch.randn(length, generator=self.generator) * torch.exp(-torch.arange(length) * 6.9 / length)
        tail = tail * self._between(0.01, 0.06)
        tail[0] = 1.0
        size = 1 << (len(waveform) + length - 1).bit_length()
        product = torch.fft.rfft(waveform, size) * torch.fft.rfft(tail, size)
        return torch.fft.irfft(product, size)[: len(waveform)]


def masked(features: Tensor, generator: torch.Generator) -> Tensor:
    """Hide a band of channels and a stretch of frames, as SpecAugment does (arXiv:1904.08779)."""
    features = features.clone()
    for axis, most in ((1, 8), (0, 12)):
        width = int(torch.randint(0, most, (), generator=generator))
        start = int(torch.randint(0, max(1, features.shape[axis] - width), (), generator=generator))
        features.narrow(axis, start, min(width, features.shape[axis] - start)).zero_()
    return features


def batches(utterances: list[Utterance], conditions: Conditions, size: int, steps: int) -> Iterator[list[Tensor]]:
    """Batches of features, their lengths, targets and theirs, for as many steps; lengths within a batch are alike."""
    features_of, generator = LogMelFrames(), conditions.generator
    pool: list[list[int]] = []
    for _ in range(steps):
        if not pool:
            order = torch.randperm(len(utterances), generator=generator).tolist()
            chunks = [order[i : i + 8 * size] for i in range(0, len(order) - size + 1, 8 * size)]
            for chunk in chunks:
                chunk.sort(key=lambda index: len(utterances[index].waveform))
                pool += [chunk[i : i + size] for i in range(0, len(chunk) - size + 1, size)]
            pool = [pool[i] for i in torch.randperm(len(pool), generator=generator).tolist()]
        chosen = [utterances[index] for index in pool.pop()]
        features = [masked(features_of(conditions(one.waveform)), generator) for one in chosen]
        lengths = torch.tensor([(len(one) - RIGHT_CONTEXT) // 4 * 4 for one in features], dtype=torch.int32)
        padded = torch.nn.utils.rnn.pad_sequence(features, batch_first=True, padding_value=SILENCE)
        padded = padded[:, : int(lengths.max()) + RIGHT_CONTEXT]
        targets = [torch.tensor(one.digits, dtype=torch.int32) for one in chosen]
        target_lengths = torch.tensor([len(one) for one in targets], dtype=torch.int32)
        yield [padded, lengths, torch.nn.utils.rnn.pad_sequence(targets, batch_first=True), target_lengths]


def train(utterances: list[Utterance], *, steps: int, size: int = 24, seed: int = 0) -> RNNT:
    """Train on what these voices say, in changing conditions.

    To the transducer's loss comes a CTC loss of the transcriber alone, through a head that is dropped in the end: it
    finds where the digits are many times sooner than the transducer does by itself.
    """
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    model = digit_recognizer().train()
    helper = torch.nn.Linear(ENCODING, 11)
    parameters = [*model.parameters(), *helper.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=2e-3, weight_decay=1e-2, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2.5e-3, total_steps=steps, pct_start=0.15)
    average, start = torch.zeros(2), time.monotonic()
    for step, batch in enumerate(batches(utterances, Conditions(utterances, seed), size, steps)):
        both = losses(model, helper, batch)
        optimizer.zero_grad()
        both.sum().backward()
        torch.nn.utils.clip_grad_norm_(parameters, 5.0)
        optimizer.step()
        schedule.step()
        average = both.detach() if step == 0 else 0.98 * average + 0.02 * both.detach()
        if step % 100 == 99:
            means = ", ".join(f"{value:.4f}" for value in average.tolist())
            print(f"step {step + 1:5d}: transducer and CTC loss {means}, {time.monotonic() - start:.0f} s", flush=True)
    return model.eval()


def losses(model: RNNT, helper: torch.nn.Linear, batch: list[Tensor]) -> Tensor:
    """The transducer's loss and the CTC loss of its transcriber, means over the batch: [2]."""
    features, lengths, targets, target_lengths = batch
    encodings, encoded_lengths = model.transcribe(features, lengths)
    encoded_lengths = encoded_lengths.int()
    encodings = encodings[:, : int(encoded_lengths.max())]
    start_symbol = torch.full((len(targets), 1), BLANK, dtype=torch.int32)  # the blank begins every sequence
    predictions, predicted_lengths, _ = model.predict(torch.cat([start_symbol, targets], 1), target_lengths + 1, None)
    logits, _, _ = model.join(encodings, encoded_lengths, predictions, predicted_lengths)
    transducer = rnnt_loss(logits, targets, encoded_lengths, target_lengths, blank=BLANK, reduction="mean")
    scores = helper(encodings).log_softmax(2).transpose(0, 1)
    ctc = ctc_loss(scores, targets, encoded_lengths, target_lengths, BLANK, "none", zero_infinity=True).mean()
    return torch.stack([transducer, ctc])


def error_rate(model: RNNT, utterances: list[Utterance], *, streaming: bool, conditions: Conditions | None) -> float:
    """Wrong, missing and needless digits in percent of those said, in chunks of 100 ms or at once."""
    recognizer = Recognizer(model, LogMelFrames(), WORDS)
    wrong = said = 0
    for digits, waveform in utterances:
        heard = conditions(waveform) if conditions else waveform.float() / 32768
        words = recognizer.transcribe(heard)
        if streaming:
            with recognizer.stream() as stream:
                for chunk in heard.split(1600):
                    stream.accept(chunk)
                words = stream.finish()
        wrong += edit_distance(words, [WORDS[digit] for digit in digits])
        said += len(digits)
    return 100 * wrong / said


def main() -> None:
    """Speak, train, measure, write the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the weights")
    parser.add_argument("--utterances", type=int, default=6000)
    parser.add_argument("--steps", type=int, default=5500)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    spoken = corpus(arguments.utterances, VOICES, arguments.seed)
    held_out = corpus(max(20, arguments.utterances // 20), HELD_OUT_VOICES, arguments.seed + 1)
    model = train(spoken, steps=arguments.steps, seed=arguments.seed).half().float()  # as the file will hold it
    content = save({name: value.half().contiguous() for name, value in model.state_dict().items()})
    digest = hashlib.sha256(content).hexdigest()
    path = arguments.out / f"digit_recognizer-espeak_v1-{digest[:8]}.safetensors"
    path.write_bytes(content)
    print(f"file {path}\nsha256 {digest}\nsize {len(content)}")
    for name, noisy in (("clean", False), ("in noise and rooms", True)):
        for streaming in (False, True):
            conditions = Conditions(spoken, 7) if noisy else None  # the same ones for both
            rate = error_rate(model, held_out, streaming=streaming, conditions=conditions)
            print(f"held-out voices, {name}, {'streaming' if streaming else 'at once'}: word error rate {rate:.2f} %")


if __name__ == "__main__":
    main()
