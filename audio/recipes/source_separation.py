"""Train Conv-TasNet to take mixtures of speakers apart (Luo and Mesgarani 2019, arXiv:1809.07454).

    python audio/recipes/source_separation.py --root FOLDER_OF_Libri2Mix --out RUN
    python audio/recipes/source_separation.py --tiny

Data: LibriMix (arXiv:2005.11262), which its scripts make of LibriSpeech. Defaults are the paper's: 4 s at 8 kHz, Adam
at 1e-3, halved after three epochs without a better validation, gradients of norm 5 at most, 100 epochs; the batch, of
which the paper does not tell, has 16 mixtures. Whole recordings of `dev` choose the network, those of `test` measure
it.

The loss is the negative scale-invariant signal-to-noise ratio of the sources, in the order that suits the estimates
best. The run's folder has `checkpoint.pt`, from which the same command goes on, and `best.pt`, the state of the best
network: `conv_tasnet_base().load_state_dict(torch.load("best.pt"))`.

Result: SI-SNR of `test` in dB, and its improvement on that of the mixture.
"""

from __future__ import annotations

import argparse
import io
import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from recipe_options import add_training, parser_of, progress_of, report, required
from resumable import Data, Trainer, device_of, shuffled
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.audio import save
from flambeau.audio.datasets import LibriMix
from flambeau.audio.models import ConvTasNet, conv_tasnet_base
from flambeau.core.files import write_atomic
from flambeau.core.progress import progress


def si_snr(estimate: Tensor, target: Tensor, eps: float = 1e-8) -> Tensor:
    """Scale-invariant signal-to-noise ratio (equation 10 of the paper).

    Args:
        estimate: (..., time).
        target: likewise.
        eps: added to energies.

    Returns:
        (...), in dB.
    """
    estimate = estimate - estimate.mean(-1, keepdim=True)
    target = target - target.mean(-1, keepdim=True)
    scale = (estimate * target).sum(-1, keepdim=True) / (target.square().sum(-1, keepdim=True) + eps)
    wanted = scale * target
    rest = estimate - wanted
    return 10 * torch.log10((wanted.square().sum(-1) + eps) / (rest.square().sum(-1) + eps))


def best_order(estimates: Tensor, sources: Tensor) -> Tensor:
    """SI-SNR of the sources under the assignment that makes its mean greatest (permutation invariant training).

    Args:
        estimates: (batch, sources, time).
        sources: likewise.

    Returns:
        (batch,), mean over the sources in dB.
    """
    count = sources.shape[1]
    pairs = si_snr(estimates.unsqueeze(2), sources.unsqueeze(1))  # (batch, estimate, source)
    orders = itertools.permutations(range(count))
    means = [pairs[:, torch.arange(count), list(order)].mean(1) for order in orders]
    return torch.stack(means, 1).amax(1)


class Cuts:
    """Stretches of mixtures at random places; what is shorter is padded with zeros.

    Args:
        mixtures: a `LibriMix`.
        length: samples of a stretch.
    """

    def __init__(self, mixtures: LibriMix, length: int) -> None:
        self.mixtures, self.length = mixtures, length

    def __getitem__(self, key: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """(time,) of a mixture and (sources, time)."""
        number, seed = key
        _, mixture, sources = self.mixtures[number]
        both = torch.cat([mixture, *sources])  # (1 + sources, time)
        spare = both.shape[1] - self.length
        if spare > 0:
            start = int(torch.randint(spare + 1, (), generator=torch.Generator().manual_seed(seed)))
            both = both[:, start : start + self.length]
        both = F.pad(both, (0, self.length - both.shape[1]))
        return both[0], both[1:]


def stacked(items: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Mixtures (batch, 1, time) and sources (batch, sources, time)."""
    mixtures, sources = zip(*items, strict=True)
    return torch.stack(mixtures).unsqueeze(1), torch.stack(sources)


@torch.no_grad()
def measured(model: nn.Module, mixtures: LibriMix, device: torch.device) -> tuple[float, float]:
    """Mean SI-SNR of whole recordings in dB, and its improvement on that of the mixture."""
    reached = gained = 0.0
    with progress("measuring", len(mixtures)) as advance:
        for number in range(len(mixtures)):
            _, mixture, parts = mixtures[number]
            mixture, sources = mixture.to(device), torch.cat(parts).unsqueeze(0).to(device)
            separated = best_order(model(mixture.unsqueeze(0)), sources).item()
            reached += separated
            gained += separated - si_snr(mixture, sources).mean().item()
            advance(1)
    return reached / len(mixtures), gained / len(mixtures)


class Best:
    """The best network so far, and the learning rate: halved in the `patience`-th epoch without a better one."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, path: Path, patience: int) -> None:
        self.model, self.path = model, path
        self.schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, "max", factor=0.5, patience=patience - 1, threshold=0.0
        )

    def __call__(self, value: float, writes: bool) -> None:
        """Take the measurement of an epoch; `writes` in one process alone."""
        if value > self.schedule.best and writes:
            content = io.BytesIO()
            torch.save(self.model.state_dict(), content)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self.path, content.getvalue())
        self.schedule.step(value)


def run(arguments: argparse.Namespace, root: Path, model: ConvTasNet, folder: Path) -> dict[str, Any]:
    """Train, choose, measure."""
    common = (arguments.speakers, arguments.sample_rate, arguments.task, arguments.mode)
    training = LibriMix(root, arguments.subset, *common)
    device = device_of(arguments.device)
    optimizer = torch.optim.Adam(model.to(device).parameters(), lr=arguments.lr)
    best = Best(model, optimizer, folder / "best.pt", arguments.patience)
    names = ("speakers", "sample_rate", "task", "mode", "subset", "seconds", "batch", "lr", "patience", "clip", "seed")
    trainer = Trainer(
        model,
        optimizer,
        folder=folder,
        settings={name: getattr(arguments, name) for name in (*names, "accumulate")},
        parts={"plateau": best.schedule},
        clip=arguments.clip,
        accumulate=arguments.accumulate,
        save_every=arguments.save_every,
        seed=arguments.seed,
        device=device,
    )

    def plan(epoch: int) -> list[list[int]]:
        return shuffled(len(training), arguments.batch, arguments.seed, epoch)

    def loss(batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
        mixtures, sources = batch
        return -best_order(model(mixtures), sources).sum(), len(mixtures)

    validation = LibriMix(root, "dev", *common)

    def after_epoch() -> dict[str, float]:
        reached, gained = measured(model, validation, device)
        best(reached, writes=trainer.rank == 0)
        return {"loss": trainer.last_loss, "si_snr": reached, "si_snr_improvement": gained}

    data = Data(
        Cuts(training, round(arguments.seconds * arguments.sample_rate)), plan, stacked, workers=arguments.workers
    )
    finished = trainer.fit(
        data, loss, epochs=arguments.epochs, after_epoch=after_epoch, stop_after=arguments.stop_after
    )
    result = {**progress_of(trainer), "finished": finished, "validation": trainer.history}
    if finished:
        model.load_state_dict(torch.load(folder / "best.pt", map_location=device, weights_only=True))
        reached, gained = measured(model, LibriMix(root, "test", *common), device)
        result |= {"test_si_snr": reached, "test_si_snr_improvement": gained}
    return result


def write_tiny(root: Path, *, seconds: float = 1.0, rate: int = 8000) -> None:
    """Mixtures of a low and a high voice in the layout of Libri2Mix: harmonics whose loudness comes and goes."""
    generator = torch.Generator().manual_seed(0)
    time = torch.arange(round(seconds * rate)) / rate

    def voice(lowest: float, highest: float) -> Tensor:
        pitch = lowest + (highest - lowest) * torch.rand((), generator=generator)
        phase = 6.28 * torch.rand(3, 1, generator=generator)
        tones = torch.sin(6.2832 * pitch * torch.tensor([[1.0], [2.0], [3.0]]) * time + phase).sum(0)
        envelope = 1 + torch.sin(6.2832 * (2 + 2 * torch.rand((), generator=generator)) * time)
        return 0.05 * tones * envelope

    for subset, count in (("train-100", 12), ("dev", 3), ("test", 3)):
        for number in range(count):
            sources = [voice(90, 130), voice(600, 900)]
            for part, waveform in (("s1", sources[0]), ("s2", sources[1]), ("mix_clean", sources[0] + sources[1])):
                folder = root / "Libri2Mix" / f"wav{rate // 1000}k" / "min" / subset / part
                folder.mkdir(parents=True, exist_ok=True)
                save(str(folder / f"{number:04d}_{number:04d}.wav"), waveform.unsqueeze(0), rate)


def tiny_network(speakers: int) -> ConvTasNet:
    """A network that learns within seconds."""
    return ConvTasNet(
        speakers, enc_num_feats=32, msk_num_feats=16, msk_num_hidden_feats=32, msk_num_layers=3, msk_num_stacks=1
    )


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--root", type=Path, help="folder that holds Libri2Mix or Libri3Mix")
    parser.add_argument("--speakers", type=int, choices=(2, 3), default=2)
    parser.add_argument("--sample-rate", type=int, choices=(8000, 16_000), default=8000)
    parser.add_argument("--task", choices=("sep_clean", "sep_noisy"), default="sep_clean")
    parser.add_argument("--mode", choices=("min", "max"), default="min")
    parser.add_argument("--subset", choices=("train-360", "train-100"), default="train-360")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16, help="mixtures of a batch (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a stretch (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--patience", type=int, default=3, help="epochs without a better one (default: %(default)s)")
    parser.add_argument("--clip", type=float, default=5.0, help="greatest norm of gradients (default: %(default)s)")
    add_training(parser)
    arguments = parser.parse_args(argv)
    torch.manual_seed(arguments.seed)
    if arguments.tiny:
        with tempfile.TemporaryDirectory() as scratch:
            write_tiny(Path(scratch))
            small = {"subset": "train-100", "batch": 4, "seconds": 0.5, "epochs": 14, "lr": 1e-2, "workers": 0}
            tiny = argparse.Namespace(**{**vars(arguments), **small})
            result = run(tiny, Path(scratch), tiny_network(2), arguments.out or Path(scratch) / "run")
    else:
        required(parser, arguments, "root", "out")
        result = run(arguments, arguments.root, conv_tasnet_base(arguments.speakers), arguments.out)
    report(result, arguments.json)
    return result


if __name__ == "__main__":
    main()
