"""Train a network that steers an array of microphones to a speaker: masks, covariances, MVDR.

    python audio/recipes/dnn_beamformer.py --root DATA --noise FOLDER_OF_musan --out RUN
    python audio/recipes/dnn_beamformer.py --root DATA --out RUN          # another speaker is the noise
    python audio/recipes/dnn_beamformer.py --tiny

A network sees the first microphone's spectrogram and says of each bin how much of it is speech, and how much is noise.
The covariances of both among the microphones give the weights of a beamformer (Souden et al. 2009) that passes speech
as the first microphone hears it. All of it is trained at once, through the beamformer, towards that speech: the loss is
its negative scale-invariant signal-to-noise ratio (Heymann et al. 2016, "Neural network based spectral mask estimation
for acoustic beamforming"; the masks' network is that of Conv-TasNet, arXiv:1809.07454).

Data: sentences of LibriSpeech and noises of MUSAN, each at its own place in a box-shaped room, heard by microphones on
a circle. Rooms, places and loudness are drawn anew for each epoch; those of the validation stay. Rooms are simulated by
image sources (`flambeau.audio.prototype.functional.simulate_rir_ism`).

Result: SI-SNR in dB for `test-clean` in rooms that were never heard, and its improvement on the first microphone.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from recipe_options import add_training, parser_of, progress_of, report, required
from resumable import Data, Trainer, device_of, shuffled
from source_separation import Best, si_snr
from tone_speech import write_librispeech
from torch import Tensor, nn

from flambeau.audio import save
from flambeau.audio.datasets import LIBRISPEECH
from flambeau.audio.functional import fftconvolve
from flambeau.audio.models.conv_tasnet import MaskGenerator
from flambeau.audio.prototype.datasets import Musan
from flambeau.audio.prototype.functional import simulate_rir_ism
from flambeau.audio.transforms import PSD, InverseSpectrogram, SoudenMVDR, Spectrogram
from flambeau.core.progress import progress

RATE = 16_000
_DEV_SEED, _TEST_SEED = 2**62, 2**62 + 2**32  # beyond those of training


class Scene(NamedTuple):
    """How rooms are drawn; lengths in metres.

    Attributes:
        channels: microphones, on a circle.
        radius: of the circle.
        size: least and greatest length of each of the room's sides.
        absorption: least and greatest share of energy that the walls take.
        order: most reflections.
        snr: least and greatest ratio of speech to noise in dB, at the first microphone.
        floor: noise of the microphones themselves, in dB below the speech.
    """

    channels: int = 6
    radius: float = 0.05
    size: tuple[tuple[float, float], ...] = ((3.0, 8.0), (3.0, 8.0), (2.5, 3.5))
    absorption: tuple[float, float] = (0.2, 0.8)
    order: int = 8
    snr: tuple[float, float] = (-5.0, 5.0)
    floor: float = 30.0


def heard(speech: Tensor, noise: Tensor, scene: Scene, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """What microphones hear in a room that is drawn.

    Args:
        speech: (time,).
        noise: likewise.
        scene: what may be drawn.
        generator: draws.

    Returns:
        (channels, time), and the speech in the first of them, (time,).
    """

    def between(low: float, high: float) -> float:
        return low + (high - low) * torch.rand((), generator=generator).item()

    room = torch.tensor([between(*side) for side in scene.size])
    edge = scene.radius + 0.3
    centre = torch.tensor([between(edge, float(side) - edge) for side in room])
    angles = torch.arange(scene.channels) * (2 * math.pi / scene.channels) + between(0, 2 * math.pi)
    circle = torch.stack([angles.cos(), angles.sin(), torch.zeros(scene.channels)], 1)
    microphones = centre + scene.radius * circle
    absorption = between(*scene.absorption)
    images = []
    for source in (speech, noise):
        place = torch.tensor([between(0.3, float(side) - 0.3) for side in room])
        while torch.linalg.vector_norm(place - centre) < 2 * edge:  # not amid the microphones
            place = torch.tensor([between(0.3, float(side) - 0.3) for side in room])
        response = simulate_rir_ism(room, place, microphones, scene.order, absorption, sample_rate=RATE)
        images.append(fftconvolve(source.expand(scene.channels, -1), response)[:, : len(source)])
    wanted, unwanted = images
    power = wanted[0].square().mean().clamp(min=1e-10)
    ratio = between(*scene.snr)
    unwanted = unwanted * (power / unwanted[0].square().mean().clamp(min=1e-10) / 10 ** (ratio / 10)).sqrt()
    own = torch.randn(wanted.shape, generator=generator) * (power * 10 ** (-scene.floor / 10)).sqrt()
    mixed = wanted + unwanted + own
    loudest = mixed.abs().amax().clamp(min=1e-6)
    return mixed / loudest, wanted[0] / loudest


class Rooms:
    """Sentences and noises in rooms; which, is drawn by the seed.

    Args:
        speech: a set whose items begin with waveform and rate, 16 kHz.
        noise: likewise; None takes another item of `speech`.
        scene: how rooms are drawn.
        length: samples.
    """

    def __init__(self, speech: Any, noise: Any, scene: Scene, length: int) -> None:
        smallest = min(low for low, _ in scene.size)
        if 4 * (scene.radius + 0.3) > smallest:
            raise ValueError(
                f"a circle of {scene.radius} m leaves no place for a speaker in a room of {smallest} m; expected at "
                f"most {smallest / 4 - 0.3:.2f} m."
            )
        self.speech, self.noise, self.scene, self.length = speech, noise, scene, length

    def __len__(self) -> int:
        return len(self.speech)

    def __getitem__(self, key: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """(channels, time), and the speech in the first channel, (time,)."""
        number, seed = key
        generator = torch.Generator().manual_seed(seed)
        if self.noise is not None:
            other = self.noise[int(torch.randint(len(self.noise), (), generator=generator))]
        else:
            step = 1 + int(torch.randint(max(1, len(self.speech) - 1), (), generator=generator))
            other = self.speech[(number + step) % len(self.speech)]
        pieces = [self._piece(item, generator) for item in (self.speech[number], other)]
        return heard(pieces[0], pieces[1], self.scene, generator)

    def _piece(self, item: Any, generator: torch.Generator) -> Tensor:
        """A stretch; what is shorter begins again."""
        waveform, rate = item[0].mean(0), item[1]
        if rate != RATE:
            raise ValueError(f"a recording has {rate} samples a second, expected {RATE}; resample the set.")
        repeated = waveform.repeat(-(-self.length // len(waveform)))
        start = int(torch.randint(len(repeated) - self.length + 1, (), generator=generator))
        return repeated[start : start + self.length]


class MaskedBeamformer(nn.Module):
    """Masks of speech and noise from one microphone, and an MVDR beamformer by them.

    Args:
        n_fft: samples of a window, a quarter of which is the hop.
        num_feats: channels between blocks of the masks' network.
        num_hidden: channels inside them.
        num_layers: blocks of a stack.
        num_stacks: stacks.
    """

    def __init__(
        self, n_fft: int = 512, num_feats: int = 128, num_hidden: int = 256, num_layers: int = 8, num_stacks: int = 2
    ) -> None:
        super().__init__()
        self.spectrogram = Spectrogram(n_fft, hop_length=n_fft // 4, power=None)
        self.inverse = InverseSpectrogram(n_fft, hop_length=n_fft // 4)
        self.masks = MaskGenerator(n_fft // 2 + 1, 2, 3, num_feats, num_hidden, num_layers, num_stacks, "sigmoid")
        self.psd, self.mvdr = PSD(), SoudenMVDR()

    def forward(self, waveforms: Tensor) -> Tensor:
        """(batch, channels, time) -> (batch, time), the speech as the first channel has it."""
        specgram = self.spectrogram(waveforms)
        levels = specgram[:, 0].abs().square().add(1e-8).log()
        speech, noise = self.masks(levels).unbind(1)
        # Covariances of a few frames are close to singular: double precision keeps their inverse, and its gradient.
        wide = specgram.to(torch.complex128)
        weights = (self.psd(wide, mask.double()) for mask in (speech, noise))
        beam = self.mvdr(wide, *weights, reference_channel=0)
        result: Tensor = self.inverse(beam.to(specgram.dtype), waveforms.shape[-1])
        return result


def stacked(items: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """(batch, channels, time), and the speech (batch, time)."""
    mixed, wanted = zip(*items, strict=True)
    return torch.stack(mixed), torch.stack(wanted)


@torch.no_grad()
def measured(
    model: nn.Module, rooms: Rooms, count: int, device: torch.device, *, first_seed: int
) -> tuple[float, float]:
    """Mean SI-SNR in dB over the first items, in rooms drawn by the seeds from `first_seed` on, and its improvement."""
    reached = gained = 0.0
    count = min(count, len(rooms))
    with progress("measuring", count) as advance:
        for number in range(count):
            mixed, wanted = (one.to(device) for one in rooms[number, first_seed + number])
            value = si_snr(model(mixed.unsqueeze(0))[0], wanted).item()
            reached, gained = reached + value, gained + value - si_snr(mixed[0], wanted).item()
            advance(1)
    return reached / count, gained / count


def run(arguments: argparse.Namespace, model: MaskedBeamformer, folder: Path, scene: Scene) -> dict[str, Any]:
    """Train, choose, measure."""
    device = device_of(arguments.device)
    noise = Musan(arguments.noise, "noise") if arguments.noise else None
    length = round(arguments.seconds * RATE)

    def rooms(subset: str) -> Rooms:
        return Rooms(LIBRISPEECH(arguments.root, subset), noise, scene, length)

    training, validation = rooms(arguments.subset), rooms("dev-clean")
    optimizer = torch.optim.Adam(model.to(device).parameters(), lr=arguments.lr)
    best = Best(model, optimizer, folder / "best.pt", arguments.patience)
    names = ("subset", "channels", "seconds", "batch", "lr", "patience", "clip", "seed", "accumulate")
    trainer = Trainer(
        model,
        optimizer,
        folder=folder,
        settings={**{name: getattr(arguments, name) for name in names}, "noise": noise is not None},
        parts={"plateau": best.schedule},
        clip=arguments.clip,
        accumulate=arguments.accumulate,
        save_every=arguments.save_every,
        seed=arguments.seed,
        device=device,
    )

    def loss(batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
        mixed, wanted = batch
        return -si_snr(model(mixed), wanted).sum(), len(mixed)

    def after_epoch() -> dict[str, float]:
        reached, gained = measured(model, validation, arguments.validate, device, first_seed=_DEV_SEED)
        best(reached, writes=trainer.rank == 0)
        return {"loss": trainer.last_loss, "si_snr": reached, "si_snr_improvement": gained}

    def plan(epoch: int) -> list[list[int]]:
        return shuffled(len(training), arguments.batch, arguments.seed, epoch)

    finished = trainer.fit(
        Data(training, plan, stacked, arguments.workers),
        loss,
        epochs=arguments.epochs,
        after_epoch=after_epoch,
        stop_after=arguments.stop_after,
    )
    result = {**progress_of(trainer), "finished": finished, "validation": trainer.history}
    if finished:
        model.load_state_dict(torch.load(folder / "best.pt", map_location=device, weights_only=True))
        reached, gained = measured(model, rooms("test-clean"), arguments.validate, device, first_seed=_TEST_SEED)
        result |= {"test_si_snr": reached, "test_si_snr_improvement": gained}
    return result


def write_tiny(root: Path) -> None:
    """Speech of tones in the layout of LibriSpeech, and white noises in that of MUSAN."""
    for subset in ("train-clean-100", "dev-clean", "test-clean"):
        write_librispeech(root, subset)
    folder = root / "musan" / "noise" / "free-sound"
    folder.mkdir(parents=True)
    for number in range(3):
        noise = 0.1 * torch.randn(1, 3 * RATE, generator=torch.Generator().manual_seed(number))
        save(str(folder / f"noise-free-sound-{number:04d}.wav"), noise, RATE)


def tiny(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Small rooms, four microphones, a small network."""
    write_tiny(folder)
    small = {
        "root": folder, "noise": folder, "subset": "train-clean-100", "channels": 4, "seconds": 0.6, "batch": 4,
        "epochs": 6, "lr": 1e-2, "validate": 4, "workers": 0,
    }  # fmt: skip
    scene = Scene(channels=4, order=2, absorption=(0.5, 0.8), snr=(-3.0, 3.0))
    network = MaskedBeamformer(n_fft=256, num_feats=16, num_hidden=32, num_layers=3, num_stacks=1)
    out = arguments.out or folder / "run"
    return run(argparse.Namespace(**{**vars(arguments), **small}), network, out, scene)


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--root", type=Path, help="folder that holds LibriSpeech, with dev-clean and test-clean")
    parser.add_argument("--noise", type=Path, help="folder that holds musan; another speaker is the noise without")
    parser.add_argument("--subset", default="train-clean-100", help="of LibriSpeech (default: %(default)s)")
    parser.add_argument("--channels", type=int, default=6, help="microphones (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--patience", type=int, default=3, help="epochs without a better one (default: %(default)s)")
    parser.add_argument("--clip", type=float, default=5.0, help="greatest norm of gradients (default: %(default)s)")
    parser.add_argument("--validate", type=int, default=500, help="most rooms to measure (default: %(default)s)")
    add_training(parser)
    arguments = parser.parse_args(argv)
    torch.manual_seed(arguments.seed)
    if arguments.tiny:
        with tempfile.TemporaryDirectory() as scratch:
            result = tiny(arguments, Path(scratch))
    else:
        required(parser, arguments, "root", "out")
        result = run(arguments, MaskedBeamformer(), arguments.out, Scene(channels=arguments.channels))
    report(result, arguments.json)
    return result


if __name__ == "__main__":
    main()
