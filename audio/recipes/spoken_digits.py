"""Train `digit_recognizer` on digits that espeak-ng speaks: `python audio/recipes/spoken_digits.py --out FOLDER`.

Data: sequences of one to seven digits, spoken by espeak-ng (GPL-3.0; its output is free of it) in English accents
and voices that differ in pitch, speed and timbre; a part is hurried further, without raising its pitch, by the effect
`tempo`. In training, and in a part of the test, noise, room and loudness vary.

What the test hears, training has not heard: ten voices are held out whole, `HELD_OUT_VOICES`, in all accents; so are
whole families of voices, robots and whisperers, `UNHEARD_FAMILIES`, of whose like training has none; the accent of New
York; the highest rates that espeak-ng speaks; and a second synthesizer, Flite, where it is installed.

Needs the program `espeak-ng`. Speaking takes some minutes, training about an hour on one CPU core; a run that is begun
again with the same folder goes on from its checkpoint. Writes `digit_recognizer-espeak_v2-<hash>.safetensors`, and
prints what belongs into the weights' record. `--measure FILE` measures weights and trains none.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from resumable import Data, Trainer
from safetensors.torch import load_file, save
from torch import Tensor
from torch.nn.functional import ctc_loss

from flambeau.audio import load
from flambeau.audio.functional import add_noise, edit_distance, resample, rnnt_loss
from flambeau.audio.models.digit_recognizer import RIGHT_CONTEXT, LogMelFrames, digit_recognizer
from flambeau.audio.models.rnnt import RNNT
from flambeau.audio.recognition import Recognizer
from flambeau.audio.sox_effects import apply_effects_tensor

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-rp", "en-gb-x-gbcwmd", "en-029")
UNHEARD_ACCENT = "en-us-nyc"
VOICES = (
    "m1", "m2", "m3", "m4", "m5", "m6", "f1", "f2", "f3", "f4", "klatt", "klatt3", "croak", "Alex", "Alicia", "Andrea",
    "Denis", "Gene", "Hugo", "Jacky", "Lee", "Marco", "Michael", "Mike", "aunty", "belinda", "benjamin", "boris",
    "caleb", "david", "ed", "grandma", "grandpa", "iven", "john", "max", "norbert", "paul", "quincy", "rob", "steph",
    "travis", "adam", "Andy", "antonio", "Diogo", "edward2", "Gene2", "gustave", "Henrique", "iven2", "iven3",
    "kaukovalta", "klatt2", "klatt5", "marcelo", "michel", "miguel", "Mr serious", "Nguyen", "pablo", "pedro", "sandro",
    "shelby", "steph2", "Storm", "Tweaky", "anika", "announcer",
)  # fmt: skip
HELD_OUT_VOICES = ("m7", "m8", "f5", "Annie", "Mario", "linda", "edward", "robert", "victor", "zac")
UNHEARD_FAMILIES = (
    "robosoft", "robosoft2", "robosoft3", "robosoft4", "robosoft5", "robosoft6", "robosoft7", "robosoft8",
    "RicishayMax", "RicishayMax2", "RicishayMax3", "UniRobot", "anikaRobot", "AnxiousAndy", "whisper", "whisperf",
)  # fmt: skip
FLITE_VOICES = ("kal16", "awb", "rms", "slt")
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


def speak_with_flite(digits: list[int], voice: str, *, speed: int) -> Tensor:
    """Let Flite say digits; see `speak`. Its voices speak about 170 words a minute by themselves."""
    words = " ".join(WORDS[digit] for digit in digits)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spoken.wav"
        stretch = f"duration_stretch={170 / speed:.3f}"
        subprocess.run(["flite", "-voice", voice, "--setf", stretch, "-t", words, "-o", str(path)], check=True)
        waveform, rate = load(path)
    return (resample(waveform[0], rate, RATE) * 32767).round().clamp(-32768, 32767).short()


def some_digits(draw: random.Random) -> list[int]:
    """One to seven digits, with more doubles than chance gives: they are the hardest."""
    digits = [draw.randrange(10)]
    for _ in range(draw.randrange(7)):
        digits.append(digits[-1] if draw.random() < 0.15 else draw.randrange(10))
    return digits


def corpus(count: int, voices: tuple[str, ...], seed: int) -> list[Utterance]:
    """What training hears: utterances of these voices, each in a random accent, speed and pitch, many of them fast."""
    draw = random.Random(seed)
    utterances = []
    for _ in range(count):
        digits = some_digits(draw)
        fast = draw.random() < 0.55
        spoken = speak(
            digits,
            f"{draw.choice(ACCENTS)}+{draw.choice(voices)}",
            speed=draw.randint(220, 380) if fast else draw.randint(90, 230),
            pitch=draw.randint(5, 95),
            gap=0 if fast else draw.choice((0, 1, 2, 4, 8)),
        )
        if draw.random() < 0.25:
            spoken = hurried(spoken, draw.uniform(0.85, 1.3))
        utterances.append(Utterance(digits, spoken))
    return utterances


def hurried(spoken: Tensor, factor: float) -> Tensor:
    """Speech at another tempo and the same pitch: [time], int16 -> [time / factor], int16."""
    waveform, _ = apply_effects_tensor(spoken.float()[None] / 32768, RATE, [["tempo", "-s", f"{factor:.3f}"]])
    return (waveform[0] * 32767).round().clamp(-32768, 32767).short()


def unheard(
    count: int, seed: int, *, voices: tuple[str, ...], accents: tuple[str, ...] = ACCENTS, speeds: tuple[int, int]
) -> list[Utterance]:
    """What a test hears: utterances of these voices, accents and rates in words a minute."""
    draw = random.Random(seed)
    utterances = []
    for _ in range(count):
        digits, speed = some_digits(draw), draw.randint(*speeds)
        if voices is FLITE_VOICES:
            utterances.append(Utterance(digits, speak_with_flite(digits, draw.choice(voices), speed=speed)))
            continue
        voice = f"{draw.choice(accents)}+{draw.choice(voices)}"
        gap = draw.choice((0, 1, 2, 4, 8)) if speed < 240 else 0
        utterances.append(Utterance(digits, speak(digits, voice, speed=speed, pitch=draw.randint(20, 80), gap=gap)))
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


class Items:
    """What training hears of each utterance, and what is said in it: `items[number, seed]`, another with every seed."""

    def __init__(self, utterances: list[Utterance]) -> None:
        self.utterances, self.features = utterances, LogMelFrames()

    def __getitem__(self, key: tuple[int, int]) -> tuple[Tensor, Tensor]:
        number, seed = key
        conditions = Conditions(self.utterances, seed)
        digits, spoken = self.utterances[number]
        heard = masked(self.features(conditions(spoken)), conditions.generator)
        return heard, torch.tensor(digits, dtype=torch.int32)


def plan(lengths: list[int], size: int, seed: int, epoch: int) -> list[list[int]]:
    """Batches of `size` utterances of about one length, in random order."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    order = torch.randperm(len(lengths), generator=generator).tolist()
    pool: list[list[int]] = []
    for start in range(0, len(order) - size + 1, 8 * size):
        chunk = sorted(order[start : start + 8 * size], key=lengths.__getitem__)
        pool += [chunk[i : i + size] for i in range(0, len(chunk) - size + 1, size)]
    return [pool[i] for i in torch.randperm(len(pool), generator=generator).tolist()]


def collate(items: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """A batch of features, their lengths, targets and theirs."""
    features, targets = [one for one, _ in items], [one for _, one in items]
    lengths = torch.tensor([(len(one) - RIGHT_CONTEXT) // 4 * 4 for one in features], dtype=torch.int32)
    padded = torch.nn.utils.rnn.pad_sequence(features, batch_first=True, padding_value=SILENCE)
    padded = padded[:, : int(lengths.max()) + RIGHT_CONTEXT]
    target_lengths = torch.tensor([len(one) for one in targets], dtype=torch.int32)
    return [padded, lengths, torch.nn.utils.rnn.pad_sequence(targets, batch_first=True), target_lengths]


def train(
    utterances: list[Utterance], folder: Path, *, steps: int, size: int = 24, seed: int = 0, start: Path | None = None
) -> RNNT:
    """Train on what these voices say, in changing conditions; from random weights, or from those of a file.

    To the transducer's loss comes a CTC loss of the transcriber alone, through a head that is dropped in the end: it
    finds where the digits are many times sooner than the transducer does by itself.
    """
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    model = digit_recognizer().train()
    if start is not None:
        model.load_state_dict(load_file(start))
    both = torch.nn.ModuleDict({"recognizer": model, "helper": torch.nn.Linear(ENCODING, 11)})
    optimizer = torch.optim.AdamW(
        both.parameters(), lr=2.5e-3 if start is None else 1e-3, weight_decay=1e-2, betas=(0.9, 0.98)
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step / steps))
    settings = {"utterances": len(utterances), "size": size, "seed": seed, "start": start and start.name}
    trainer = Trainer(
        both, optimizer, folder=folder, settings=settings, schedule=schedule, clip=5.0, save_every=250, seed=seed
    )  # fmt: skip
    lengths = [len(one.waveform) for one in utterances]
    data = Data(Items(utterances), lambda epoch: plan(lengths, size, seed, epoch), collate)

    def loss(batch: list[Tensor]) -> tuple[Tensor, int]:
        means = losses(model, both["helper"], batch)
        if trainer.step % 100 == 0:
            transducer, ctc = means.tolist()
            print(f"step {trainer.step:5d}: transducer and CTC loss {transducer:.4f}, {ctc:.4f}", flush=True)
        return means.sum() * len(batch[0]), len(batch[0])

    trainer.fit(data, loss, steps=steps)
    return model.eval()


def _rate(progress: float) -> float:
    """The learning rate as a part of the greatest: up within 15 % of the way, and down along a cosine."""
    if progress < 0.15:
        return 0.04 + 0.96 * (1 - math.cos(math.pi * progress / 0.15)) / 2
    return max(1e-4, (1 + math.cos(math.pi * (progress - 0.15) / 0.85)) / 2)


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


def tests() -> dict[str, dict[str, Any]]:
    """Each kind of speech that training has not heard, with what `unheard` is asked for."""
    slow, fast, fastest = (110, 230), (240, 380), (390, 450)
    every = (*VOICES, *HELD_OUT_VOICES)
    kinds: dict[str, dict[str, Any]] = {
        "held-out voices": {"voices": HELD_OUT_VOICES, "speeds": slow},
        "held-out voices, in noise and rooms": {"voices": HELD_OUT_VOICES, "speeds": slow},
        "held-out voices, 240 to 380 words a minute": {"voices": HELD_OUT_VOICES, "speeds": fast},
        "held-out voices, 390 to 450 words a minute": {"voices": HELD_OUT_VOICES, "speeds": fastest},
        "unheard families of voices": {"voices": UNHEARD_FAMILIES, "speeds": slow},
        "unheard accent": {"voices": every, "accents": (UNHEARD_ACCENT,), "speeds": slow},
    }
    if shutil.which("flite"):
        kinds["another synthesizer, Flite"] = {"voices": FLITE_VOICES, "speeds": slow}
        kinds["Flite, 240 to 380 words a minute"] = {"voices": FLITE_VOICES, "speeds": fast}
    return kinds


def measure(model: RNNT, background: list[Utterance], count: int) -> Iterator[str]:
    """One line for each kind of speech that training has not heard."""
    for number, (name, kind) in enumerate(tests().items()):
        utterances = unheard(count, 1000 + number, **kind)
        said = sum(len(one.digits) for one in utterances)
        noisy = "noise" in name
        rates = [
            error_rate(model, utterances, streaming=streaming, conditions=Conditions(background, 7) if noisy else None)
            for streaming in (False, True)
        ]
        yield f"{name}: {said} digits, word error rate {rates[0]:.2f} % at once, {rates[1]:.2f} % as a stream"


def main() -> None:
    """Speak, train, measure, write the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the weights and the checkpoint")
    parser.add_argument("--utterances", type=int, default=12_000)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=Path, help="weights to begin with")
    parser.add_argument("--measure", type=Path, help="weights to measure, instead of training")
    arguments = parser.parse_args()
    count = max(20, arguments.utterances // 40)
    if arguments.measure:
        model = digit_recognizer()
        model.load_state_dict(load_file(arguments.measure))
        for line in measure(model.eval(), corpus(count, VOICES, arguments.seed), count):
            print(line, flush=True)
        return
    spoken = corpus(arguments.utterances, VOICES, arguments.seed)
    model = train(spoken, arguments.out, steps=arguments.steps, seed=arguments.seed, start=arguments.start)
    model = model.half().float()  # as the file will hold it
    content = save({name: value.half().contiguous() for name, value in model.state_dict().items()})
    digest = hashlib.sha256(content).hexdigest()
    path = arguments.out / f"digit_recognizer-espeak_v2-{digest[:8]}.safetensors"
    path.write_bytes(content)
    print(f"file {path}\nsha256 {digest}\nsize {len(content)}")
    for line in measure(model, spoken, count):
        print(line, flush=True)


if __name__ == "__main__":
    main()
