"""Train Tacotron 2 on LJ Speech (Shen et al. 2017, arXiv:1712.05884): text to mel spectrograms.

    python audio/recipes/tacotron2.py --root FOLDER_OF_LJSpeech-1.1 --out RUN
    python audio/recipes/tacotron2.py --out RUN --say "Printing, in the only sense." --wav said.wav
    python audio/recipes/tacotron2.py --tiny

Numbers are those of upstream's published networks: 22.05 kHz, windows of 1024 samples, 256 apart, 80 bands up to 8 kHz,
natural logarithms of amplitudes; batches of 96 texts, Adam at 1e-3 with decay 1e-6, a tenth of it after 500, 1000 and
1500 epochs, 1501 epochs, gradients of norm 1 at most. Every hundredth passage is held out for validation.

The loss is the mean square of the spectrogram's errors before and behind the postnet, and the cross entropy of the gate
that opens at the end; padding does not count. Text is letters, or phonemes by `--symbols phonemes`, for which the CMU
dictionary is fetched. The run's folder has `checkpoint.pt`, from which the same command goes on; in the end `model.pt`
is the state of `tacotron2(n_symbol=38)` (96 with phonemes). `--say` speaks by Griffin-Lim.
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
from resumable import Data, Trainer, device_of, moved, read_checkpoint, shuffled
from tone_speech import speak
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from flambeau.audio import save
from flambeau.audio.datasets import LJSPEECH
from flambeau.audio.functional import resample
from flambeau.audio.models import Tacotron2
from flambeau.audio.pipelines import TACOTRON2_GRIFFINLIM_CHAR_LJSPEECH, TACOTRON2_GRIFFINLIM_PHONE_LJSPEECH
from flambeau.audio.pipelines.tts_vocoders import GriffinLimVocoder
from flambeau.audio.transforms import MelSpectrogram
from flambeau.core.errors import MissingCheckpointError
from flambeau.core.files import write_atomic
from flambeau.core.progress import progress

RATE, HOP = 22_050, 256
_BUNDLES = {"letters": TACOTRON2_GRIFFINLIM_CHAR_LJSPEECH, "phonemes": TACOTRON2_GRIFFINLIM_PHONE_LJSPEECH}
_TINY_SIZES = {
    "symbol_embedding_dim": 32, "encoder_embedding_dim": 32, "encoder_n_convolution": 1, "decoder_rnn_dim": 48,
    "attention_rnn_dim": 48, "attention_hidden_dim": 16, "attention_location_n_filter": 4, "prenet_dim": 32,
    "attention_location_kernel_size": 15, "postnet_n_convolution": 2, "postnet_embedding_dim": 32,
    "decoder_max_step": 40,
}  # fmt: skip


def held_out(count: int) -> tuple[list[int], list[int]]:
    """Numbers of the passages to learn from, and of every hundredth one."""
    return [number for number in range(count) if number % 100], list(range(0, count, 100))


class Passages:
    """Symbols and spectrograms of LJ Speech.

    Args:
        passages: the set.
        numbers: those to take.
        processor: text -> symbols.
    """

    def __init__(self, passages: LJSPEECH, numbers: list[int], processor: Any) -> None:
        self.passages, self.numbers, self.processor = passages, numbers, processor
        self.spectrogram = MelSpectrogram(
            RATE, 1024, hop_length=HOP, f_min=0.0, f_max=8000.0, n_mels=80, power=1, norm="slaney", mel_scale="slaney"
        )

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, key: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """Symbols (symbols,), and logarithms of amplitudes (frames, 80)."""
        waveform, rate, _, text = self.passages[self.numbers[key[0]]]
        if rate != RATE:
            raise ValueError(f"passage {self.numbers[key[0]]} has {rate} samples a second, expected {RATE}.")
        symbols, _ = self.processor(text)
        return symbols[0], self.spectrogram(waveform[0]).clamp(min=1e-5).log().T


def padded(items: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Symbols (batch, symbols), their numbers, spectrograms (batch, 80, frames), and their frames."""
    symbols, mels = zip(*items, strict=True)
    counts, frames = (torch.tensor([len(one) for one in many]) for many in (symbols, mels))
    return pad_sequence(list(symbols), True), counts, pad_sequence(list(mels), True).transpose(1, 2), frames


def tacotron_loss(model: nn.Module, batch: tuple[Tensor, Tensor, Tensor, Tensor]) -> tuple[Tensor, int]:
    """The loss over the frames of a batch, and their number."""
    symbols, counts, mels, frames = batch
    before, behind, gates, _ = model(symbols, counts, mels, frames)
    number = torch.arange(mels.shape[2], device=mels.device)
    valid = number < frames[:, None]
    errors = sum(((one - mels).square().mean(1) * valid).sum() for one in (before, behind))
    open_ = (number >= frames[:, None] - 1).to(gates.dtype)
    entropy = F.binary_cross_entropy_with_logits(gates, open_, reduction="none")
    return errors + (entropy * valid).sum(), int(frames.sum())


@torch.no_grad()
def measured(model: nn.Module, passages: Passages, batch: int, device: torch.device) -> float:
    """The loss over the frames of all passages, with true frames before each."""
    total = count = 0.0
    with progress("validation", len(passages)) as advance:
        for start in range(0, len(passages), batch):
            items = [passages[number, 0] for number in range(start, min(start + batch, len(passages)))]
            torch.manual_seed(start)  # the prenet's dropout is always on
            value, frames = tacotron_loss(model, moved(padded(items), device))
            total, count = total + value.item(), count + frames
            advance(len(items))
    return total / max(1.0, count)


def network(symbols: int, small: bool) -> Tacotron2:
    """The paper's network, or one that learns in seconds."""
    return Tacotron2(mask_padding=True, n_symbol=symbols, **(_TINY_SIZES if small else {}))


def run(arguments: argparse.Namespace, root: Path, folder: Path) -> dict[str, Any]:
    """Train and validate."""
    device = device_of(arguments.device)
    processor = _BUNDLES[arguments.symbols].get_text_processor()
    passages = LJSPEECH(root)
    training, validation = (Passages(passages, numbers, processor) for numbers in held_out(len(passages)))
    model = network(len(processor.tokens), arguments.tiny).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.lr, weight_decay=1e-6)
    anneal = torch.optim.lr_scheduler.MultiStepLR(optimizer, arguments.anneal, gamma=0.1)
    names = ("symbols", "batch", "lr", "anneal", "clip", "seed", "accumulate", "tiny")
    trainer = Trainer(
        model,
        optimizer,
        folder=folder,
        settings={name: getattr(arguments, name) for name in names},
        parts={"anneal": anneal},
        clip=arguments.clip,
        accumulate=arguments.accumulate,
        save_every=arguments.save_every,
        seed=arguments.seed,
        device=device,
    )

    def plan(epoch: int) -> list[list[int]]:
        return shuffled(len(training), arguments.batch, arguments.seed, epoch)

    def after_epoch() -> dict[str, float]:
        anneal.step()
        result = {"loss": trainer.last_loss}
        if trainer.epoch % arguments.validate_every == 0:
            result["validation"] = measured(model, validation, arguments.batch, device)
        return result

    finished = trainer.fit(
        Data(training, plan, padded, arguments.workers),
        lambda batch: tacotron_loss(model, batch),
        epochs=arguments.epochs,
        after_epoch=after_epoch,
        stop_after=arguments.stop_after,
    )
    if finished and trainer.rank == 0:
        content = io.BytesIO()
        torch.save(model.state_dict(), content)
        write_atomic(folder / "model.pt", content.getvalue())
    return {**progress_of(trainer), "finished": finished, "history": trainer.history}


def say(folder: Path, text: str, path: Path) -> dict[str, Any]:
    """Speak a text with what a run has learnt so far.

    Raises:
        MissingCheckpointError: there is no run in the folder.
    """
    if not (folder / "checkpoint.pt").is_file():
        raise MissingCheckpointError(f"{folder} has no checkpoint.pt; train there first, without --say.")
    kept = read_checkpoint(folder / "checkpoint.pt")
    processor = _BUNDLES[kept["settings"]["symbols"]].get_text_processor()
    model = network(len(processor.tokens), kept["settings"]["tiny"])
    model.load_state_dict(kept["state"]["model"])
    with torch.inference_mode():
        mel, lengths, _ = model.eval().infer(*processor(text))
    waveform, _ = GriffinLimVocoder()(mel, lengths)
    loudest = waveform.abs().max().clamp(min=1e-4)
    save(str(path), waveform / loudest * 0.9, RATE)
    return {"wav": str(path), "seconds": waveform.shape[-1] / RATE, "steps": kept["position"]["step"]}


def write_tiny(root: Path) -> None:
    """Speech of tones in the layout of LJ Speech."""
    folder = root / "LJSpeech-1.1"
    (folder / "wavs").mkdir(parents=True)
    texts = ("NO WIND", "A TIDE", "A KITE", "THE AIR", "SHE SAW", "NO RAIN", "HE ATE", "THE BOAT", "AT NOON")
    for number, text in enumerate(texts):
        waveform = resample(speak(text).waveform, 16_000, RATE)
        save(str(folder / "wavs" / f"LJ001-{number:04d}.wav"), waveform.unsqueeze(0), RATE)
    rows = [f"LJ001-{number:04d}|{text.title()}|{text.lower()}\n" for number, text in enumerate(texts)]
    (folder / "metadata.csv").write_text("".join(rows), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--root", type=Path, help="folder that holds LJSpeech-1.1")
    parser.add_argument("--symbols", choices=tuple(_BUNDLES), default="letters")
    parser.add_argument("--epochs", type=int, default=1501)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument(
        "--anneal", type=int, nargs="*", default=[500, 1000, 1500], help="epochs (default: %(default)s)"
    )
    parser.add_argument("--clip", type=float, default=1.0, help="greatest norm of gradients (default: %(default)s)")
    parser.add_argument("--validate-every", type=int, default=10, help="epochs (default: %(default)s)")
    parser.add_argument("--say", metavar="TEXT", help="speak a text with what the run has learnt, and train nothing")
    parser.add_argument("--wav", type=Path, default=Path("said.wav"), help="for --say (default: %(default)s)")
    add_training(parser)
    arguments = parser.parse_args(argv)
    torch.manual_seed(arguments.seed)
    if arguments.say is not None:
        required(parser, arguments, "out")
        result = say(arguments.out, arguments.say, arguments.wav)
    elif arguments.tiny:
        with tempfile.TemporaryDirectory() as scratch:
            write_tiny(Path(scratch))
            small = {"batch": 4, "epochs": 12, "lr": 5e-3, "anneal": [10], "validate_every": 4, "workers": 0}
            tiny = argparse.Namespace(**{**vars(arguments), **small})
            result = run(tiny, Path(scratch), arguments.out or Path(scratch) / "run")
    else:
        required(parser, arguments, "root", "out")
        result = run(arguments, arguments.root, arguments.out)
    report(result, arguments.json)
    return result


if __name__ == "__main__":
    main()
