"""Train WaveRNN on LJ Speech (Kalchbrenner et al. 2018, arXiv:1802.08435): mel spectrograms to waveforms.

    python audio/recipes/wavernn.py --root FOLDER_OF_LJSpeech-1.1 --out RUN
    python audio/recipes/wavernn.py --tiny

Numbers are those of upstream's published network: 22.05 kHz, windows of 1100 samples within 2048, 275 apart, 80 bands
from 40 Hz on, decibels from -100 to 0 as 0 to 1; samples of 8 bits by the mu law; stretches of five frames (1375
samples), batches of 256, Adam at 1e-4, gradients of norm 4 at most, 8000 epochs. Every hundredth passage is held out.

The loss is the cross entropy of each sample, given the true ones before it and the spectrogram. The run's folder has
`checkpoint.pt`, from which the same command goes on; in the end `model.pt` is the state of `wavernn()`. Validation is
the loss on the middles of held-out passages, in nats; ln 256 = 5.55 is what a network knows that has learnt nothing.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from recipe_options import add_training, parser_of, progress_of, report, required
from resumable import Data, Trainer, device_of, moved, shuffled
from tacotron2 import held_out, write_tiny
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.audio.datasets import LJSPEECH
from flambeau.audio.functional import mu_law_encoding
from flambeau.audio.models import WaveRNN
from flambeau.audio.models.wavernn import wavernn
from flambeau.audio.pipelines.tts_vocoders import normalized_decibels
from flambeau.audio.transforms import MelSpectrogram
from flambeau.core.files import write_atomic
from flambeau.core.progress import progress

RATE, HOP, LEVELS = 22_050, 275, 256
PAD = 2  # frames that the network sees before and behind a stretch


class Stretches:
    """Stretches of passages with their spectrograms, drawn by the seed; the middle where there is none.

    Args:
        passages: the set.
        numbers: the passages to take.
        frames: of a stretch.
    """

    def __init__(self, passages: LJSPEECH, numbers: list[int], frames: int) -> None:
        self.passages, self.numbers, self.frames = passages, numbers, frames
        self.spectrogram = MelSpectrogram(
            RATE,
            2048,
            win_length=1100,
            hop_length=HOP,
            f_min=40.0,
            n_mels=80,
            power=1,
            norm="slaney",
            mel_scale="slaney",
        )
        self.decibels = normalized_decibels()

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, key: tuple[int, int | None]) -> tuple[Tensor, Tensor, Tensor]:
        """Samples (1, time) in [-1, 1], the spectrogram (1, 80, frames + 2 * `PAD`), and the next levels (time,)."""
        waveform, rate, *_ = self.passages[self.numbers[key[0]]]
        if rate != RATE:
            raise ValueError(f"passage {self.numbers[key[0]]} has {rate} samples a second, expected {RATE}.")
        # So much silence behind it that every frame of the shortest passage has its samples, and one follows.
        samples = F.pad(waveform[0], (0, max(0, (self.frames + 2 * PAD) * HOP + 1 - waveform.shape[1])))
        mel = self.decibels(self.spectrogram(samples).clamp(min=1e-5).log())
        last = (len(samples) - 1) // HOP - self.frames - PAD
        first = (PAD + last) // 2
        if key[1] is not None:
            generator = torch.Generator().manual_seed(key[1])
            first = PAD + int(torch.randint(max(1, last - PAD + 1), (), generator=generator))
        levels = mu_law_encoding(samples[first * HOP : (first + self.frames) * HOP + 1], LEVELS)
        scaled = 2 * levels[:-1].float() / (LEVELS - 1) - 1
        return scaled.unsqueeze(0), mel[None, :, first - PAD : first + self.frames + PAD], levels[1:]


def stacked(items: list[tuple[Tensor, Tensor, Tensor]]) -> tuple[Tensor, ...]:
    """Each part of the items as one tensor."""
    return tuple(torch.stack(part) for part in zip(*items, strict=True))


def entropy(model: nn.Module, batch: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, int]:
    """The cross entropy of a batch's samples in nats, and their number."""
    samples, mel, targets = batch
    logits = model(samples, mel).squeeze(1)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum"), targets.numel()


@torch.no_grad()
def measured(model: nn.Module, stretches: Stretches, device: torch.device) -> float:
    """The cross entropy of the middles of passages, in nats for each sample."""
    total = count = 0.0
    with progress("validation", len(stretches)) as advance:
        for number in range(len(stretches)):
            value, samples = entropy(model, moved(stacked([stretches[number, None]]), device))
            total, count = total + value.item(), count + samples
            advance(1)
    return total / max(1.0, count)


def run(arguments: argparse.Namespace, root: Path, model: WaveRNN, folder: Path) -> dict[str, Any]:
    """Train and validate."""
    device = device_of(arguments.device)
    passages = LJSPEECH(root)
    training, validation = (Stretches(passages, numbers, arguments.frames) for numbers in held_out(len(passages)))
    optimizer = torch.optim.Adam(model.to(device).parameters(), lr=arguments.lr)
    names = ("batch", "frames", "lr", "clip", "seed", "accumulate", "tiny")
    trainer = Trainer(
        model,
        optimizer,
        folder=folder,
        settings={name: getattr(arguments, name) for name in names},
        clip=arguments.clip,
        accumulate=arguments.accumulate,
        save_every=arguments.save_every,
        seed=arguments.seed,
        device=device,
    )

    def plan(epoch: int) -> list[list[int]]:
        return shuffled(len(training), arguments.batch, arguments.seed, epoch)

    def after_epoch() -> dict[str, float]:
        result = {"loss": trainer.last_loss}
        if trainer.epoch % arguments.validate_every == 0:
            result["validation"] = measured(model, validation, device)
        return result

    finished = trainer.fit(
        Data(training, plan, stacked, arguments.workers),
        lambda batch: entropy(model, batch),
        epochs=arguments.epochs,
        after_epoch=after_epoch,
        stop_after=arguments.stop_after,
    )
    if finished and trainer.rank == 0:
        content = io.BytesIO()
        torch.save(model.state_dict(), content)
        write_atomic(folder / "model.pt", content.getvalue())
    return {**progress_of(trainer), "finished": finished, "history": trainer.history}


def tiny_network() -> WaveRNN:
    """A network that learns within seconds."""
    return WaveRNN(
        [5, 5, 11], LEVELS, HOP, n_res_block=1, n_rnn=24, n_fc=24, n_freq=80, n_hidden=16, n_output=16
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--root", type=Path, help="folder that holds LJSpeech-1.1")
    parser.add_argument("--epochs", type=int, default=8000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--frames", type=int, default=5, help="of a stretch (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--clip", type=float, default=4.0, help="greatest norm of gradients (default: %(default)s)")
    parser.add_argument("--validate-every", type=int, default=10, help="epochs (default: %(default)s)")
    add_training(parser)
    arguments = parser.parse_args(argv)
    torch.manual_seed(arguments.seed)
    if arguments.tiny:
        with tempfile.TemporaryDirectory() as scratch:
            write_tiny(Path(scratch))
            small = {"batch": 8, "frames": 1, "epochs": 16, "lr": 5e-3, "validate_every": 8, "workers": 0}
            tiny = argparse.Namespace(**{**vars(arguments), **small})
            result = run(tiny, Path(scratch), tiny_network(), arguments.out or Path(scratch) / "run")
    else:
        required(parser, arguments, "root", "out")
        result = run(arguments, arguments.root, wavernn(), arguments.out)
    report(result, arguments.json)
    return result


if __name__ == "__main__":
    main()
