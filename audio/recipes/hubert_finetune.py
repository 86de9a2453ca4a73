"""Fine-tune HuBERT to write what is said (arXiv:2106.07447, section IV.C), with ten hours or less of transcripts.

    python audio/recipes/hubert_finetune.py --root DATA --checkpoint RUN2/checkpoint.pt --out RUN
    python audio/recipes/hubert_finetune.py --root DATA --weights HUBERT_BASE --out RUN
    python audio/recipes/hubert_finetune.py --tiny

Data: Libri-Light's ten hours (`librispeech_finetuning`); for validation a subset of LibriSpeech below the same root.

The convolutions stay as they are; the transformer joins after 10,000 steps, until which the new layer of letters
learns alone. CTC loss for each letter; Adam (0.9, 0.98), 1e-8; 20,000 steps in three stages: 5e-5 is reached from a
hundredth of it in 2,000, kept for 8,000, and falls exponentially to a twentieth in 10,000. Batches of 200 s with
padding; 65 % of the frames and half of the channels (spans of 64) are masked. The paper's steps have 8 batches.

The run's folder has `checkpoint.pt`, from which the same command goes on, and in the end `model.pt`, the state of
`hubert_base(aux_num_out=29)` (or large): decode it with `ctc_inference.py --state RUN/model.pt`.
"""

from __future__ import annotations

import argparse
import io
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from hubert_labels import prepared
from hubert_pretrain import network
from recipe_options import add_training, parser_of, progress_of, report, required
from resumable import Data, Trainer, by_seconds, device_of, read_checkpoint
from tone_speech import write_librispeech
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.optim.lr_scheduler import LambdaLR

from flambeau.audio import info
from flambeau.audio.datasets import LIBRISPEECH, LibriLightLimited
from flambeau.audio.functional import edit_distance
from flambeau.audio.models import Wav2Vec2Model, hubert_base, hubert_large, hubert_xlarge
from flambeau.audio.models.wav2vec2.pretraining import MaskGenerator
from flambeau.audio.pipelines import HUBERT_ASR_LARGE
from flambeau.core.files import write_atomic
from flambeau.core.progress import progress

LABELS = HUBERT_ASR_LARGE.get_labels()
RATE = 16_000
BUILDERS: dict[str, Any] = {"base": hubert_base, "large": hubert_large, "xlarge": hubert_xlarge}


class Masks(NamedTuple):
    """What is masked in fine-tuning: shares of frames and channels, and how long their spans are."""

    frames: float = 0.65
    frame_span: int = 10
    channels: float = 0.5
    channel_span: int = 64


class FineTuned(nn.Module):
    """A pretrained network with masks and a layer of letters.

    Args:
        wav2vec2: the network; its convolutions are frozen.
        masks: what is masked in training.
        freeze: steps for which the transformer is frozen, too.
    """

    def __init__(self, wav2vec2: Wav2Vec2Model, masks: Masks, freeze: int) -> None:
        super().__init__()
        self.wav2vec2, self.freeze = wav2vec2, freeze
        self.wav2vec2.feature_extractor.requires_grad_(False)
        encoder: Any = wav2vec2.encoder
        channels = encoder.feature_projection.projection.out_features
        frames = (masks.frames, "static", 0.0, masks.frame_span, False, 1)
        self.masks = MaskGenerator(
            channels, *frames, masks.channels, "static", 0.0, masks.channel_span, False, 1
        )  # fmt: skip
        self.dropout = nn.Dropout(0.1)
        self.aux = nn.Linear(channels, len(LABELS))

    def forward(self, waveforms: Tensor, lengths: Tensor, step: int = 0) -> tuple[Tensor, Tensor]:
        """Logits (batch, frames, labels) and (batch,) valid frames; masked in training."""
        encoder: Any = self.wav2vec2.encoder
        with torch.no_grad():
            x, frames = self.wav2vec2.feature_extractor(waveforms, lengths)
        with torch.set_grad_enabled(torch.is_grad_enabled() and step >= self.freeze):
            x, attention_mask = encoder._preprocess(x, frames)
            if self.training:
                x, _ = self.masks(x, torch.arange(x.shape[1], device=x.device) >= frames[:, None])
            x = encoder.transformer(x, attention_mask=attention_mask)
        return self.aux(self.dropout(x)), frames

    def finished(self) -> dict[str, Tensor]:
        """The state of a `Wav2Vec2Model` with the layer of letters."""
        return Wav2Vec2Model(self.wav2vec2.feature_extractor, self.wav2vec2.encoder, self.aux).state_dict()


def three_stages(
    optimizer: torch.optim.Optimizer, warmup: int, hold: int, decay: int, *, first: float = 0.01, last: float = 0.05
) -> LambdaLR:
    """A learning rate that rises in a line from `first` of it, is kept, and falls exponentially to `last` of it."""

    def factor(step: int) -> float:
        if step < warmup:
            return first + (1 - first) * step / warmup
        if step < warmup + hold:
            return 1.0
        return math.exp(math.log(last) * min(1.0, (step - warmup - hold) / max(1, decay)))

    return LambdaLR(optimizer, factor)


def encoded(transcript: str) -> Tensor:
    """Labels of a transcript, blanks becoming `|`.

    Raises:
        ValueError: it has a character that no label stands for.
    """
    letters = transcript.replace(" ", "|")
    unknown = sorted(set(letters) - set(LABELS[1:]))
    if unknown:
        raise ValueError(f"{transcript!r} has {unknown}, which no label stands for; expected capital letters.")
    return torch.tensor([LABELS.index(letter) for letter in letters])


def greedy(logits: Tensor) -> str:
    """What the best label of each frame spells: (frames, labels) -> words."""
    best = torch.unique_consecutive(logits.argmax(1)).tolist()
    return " ".join("".join(LABELS[label] for label in best if label).replace("|", " ").split())


class Transcribed:
    """Waveforms and labels of a set whose items are as LibriSpeech's."""

    def __init__(self, items: Any, root: Path, size: str) -> None:
        self.items, self.size = items, size
        self.seconds = []
        with progress("lengths", len(items)) as advance:
            for number in range(len(items)):
                self.seconds.append(info(str(root / items.get_metadata(number)[0])).num_frames / RATE)
                advance(1)

    def __getitem__(self, key: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """(time,) and (letters,)."""
        waveform, _, transcript, *_ = self.items[key[0]]
        return prepared(waveform[0], self.size), encoded(transcript)


def padded(items: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Waveforms (batch, time), their lengths, labels (batch, letters), and theirs."""
    waveforms, labels = zip(*items, strict=True)
    lengths, label_lengths = (torch.tensor([len(one) for one in many]) for many in (waveforms, labels))
    return pad_sequence(list(waveforms), True), lengths, pad_sequence(list(labels), True), label_lengths


def ctc(model: FineTuned, batch: tuple[Tensor, ...], step: int) -> tuple[Tensor, int]:
    """The CTC loss of a batch, and the number of letters."""
    waveforms, lengths, labels, label_lengths = batch
    logits, frames = model(waveforms, lengths, step)
    scores = logits.float().log_softmax(2).transpose(0, 1)
    total = F.ctc_loss(scores, labels, frames, label_lengths, reduction="sum", zero_infinity=True)
    return total, int(label_lengths.sum())


@torch.inference_mode()
def error_rate(model: FineTuned, items: Any, size: str, device: torch.device) -> float:
    """Wrong, missing and needless words of greedy decoding, in percent of those said."""
    wrong = said = 0
    with progress("validation", len(items)) as advance:
        for number in range(len(items)):
            waveform, _, transcript, *_ = items[number]
            logits, _ = model(prepared(waveform, size).to(device), torch.tensor([waveform.shape[1]], device=device))
            words = transcript.split()
            wrong += edit_distance(greedy(logits[0].cpu()).split(), words)
            said += len(words)
            advance(1)
    return 100 * wrong / max(1, said)


def begin(arguments: argparse.Namespace) -> tuple[Wav2Vec2Model, str]:
    """The pretrained network, of a run of `hubert_pretrain.py` or published, and its size."""
    if arguments.checkpoint is None:
        built: Wav2Vec2Model = BUILDERS[arguments.size](weights=arguments.weights, encoder_layer_drop=0.1)
        return built, arguments.size
    kept = read_checkpoint(arguments.checkpoint)
    model = network(kept["settings"]["size"], kept["settings"]["classes"])
    model.load_state_dict(kept["state"]["model"])
    return model.wav2vec2, kept["settings"]["size"]


def run(arguments: argparse.Namespace, masks: Masks) -> dict[str, Any]:
    """Fine-tune and validate."""
    device = device_of(arguments.device)
    torch.manual_seed(arguments.seed)
    pretrained, size = begin(arguments)
    items = LibriLightLimited(arguments.root, arguments.subset)
    utterances = Transcribed(items, arguments.root / "librispeech_finetuning", size)
    model = FineTuned(pretrained, masks, arguments.freeze).to(device)
    learning = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.Adam(learning, lr=arguments.lr, betas=(0.9, 0.98), eps=1e-8)
    names = ("subset", "seconds", "lr", "warmup", "hold", "decay", "freeze", "seed", "accumulate")
    trainer = Trainer(
        model,
        optimizer,
        folder=arguments.out,
        settings={**{name: getattr(arguments, name) for name in names}, "size": size},
        schedule=three_stages(optimizer, arguments.warmup, arguments.hold, arguments.decay),
        accumulate=arguments.accumulate,
        save_every=arguments.save_every,
        seed=arguments.seed,
        device=device,
    )
    validation = LIBRISPEECH(arguments.root, arguments.validate) if arguments.validate else None

    def plan(epoch: int) -> list[list[int]]:
        return by_seconds(utterances.seconds, arguments.seconds, arguments.seed, epoch)

    def after_epoch() -> dict[str, float]:
        measured = {"loss": trainer.last_loss}
        if validation is not None and trainer.epoch % arguments.validate_every == 0:
            measured["word_error_rate"] = error_rate(model, validation, size, device)
        return measured

    steps = arguments.warmup + arguments.hold + arguments.decay
    finished = trainer.fit(
        Data(utterances, plan, padded, arguments.workers),
        lambda batch: ctc(model, batch, trainer.step),
        steps=steps,
        after_epoch=after_epoch,
        stop_after=arguments.stop_after,
    )
    result = {**progress_of(trainer), "finished": finished, "history": trainer.history}
    if finished:
        if validation is not None:
            result["word_error_rate"] = error_rate(model, validation, size, device)
        if trainer.rank == 0:
            content = io.BytesIO()
            torch.save(model.finished(), content)
            write_atomic(arguments.out / "model.pt", content.getvalue())
    return result


def tiny(arguments: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Speech of tones, and a network that is not pretrained."""
    for part in ("1h/0/clean", "9h/clean"):
        write_librispeech(scratch, part, noise=0.02, folder="librispeech_finetuning")
    write_librispeech(scratch, "dev-clean", noise=0.02)
    model = network("tiny", 12)
    content = io.BytesIO()
    settings = {"size": "tiny", "classes": 12}
    torch.save(
        {"settings": settings, "position": {}, "history": [], "state": {"model": model.state_dict()}}, content
    )  # fmt: skip
    write_atomic(scratch / "pretrained.pt", content.getvalue())
    small = {
        "root": scratch, "out": arguments.out or scratch / "run", "checkpoint": scratch / "pretrained.pt",
        "subset": "10h", "validate": "dev-clean", "validate_every": 100, "seconds": 20.0, "lr": 1e-2, "warmup": 10,
        "hold": 30, "decay": 10, "freeze": 5, "workers": 0,
    }  # fmt: skip
    return run(argparse.Namespace(**{**vars(arguments), **small}), Masks(0.1, 2, 0.1, 2))


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--root", type=Path, help="folder that holds librispeech_finetuning, and LibriSpeech")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--checkpoint", type=Path, help="of a run of hubert_pretrain.py")
    source.add_argument("--weights", help="published weights, such as HUBERT_BASE")
    parser.add_argument("--size", choices=tuple(BUILDERS), default="base", help="of published weights")
    parser.add_argument("--subset", choices=("10min", "1h", "10h"), default="10h")
    parser.add_argument("--validate", help="a subset of LibriSpeech, such as dev-other")
    parser.add_argument("--validate-every", type=int, default=10, help="epochs (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=200.0, help="of a batch (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--warmup", type=int, default=2000)
    parser.add_argument("--hold", type=int, default=8000)
    parser.add_argument("--decay", type=int, default=10_000)
    parser.add_argument("--freeze", type=int, default=10_000, help="steps before the transformer learns")
    add_training(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the command line."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if arguments.tiny:
        with tempfile.TemporaryDirectory() as scratch:
            torch.manual_seed(arguments.seed)
            result = tiny(arguments, Path(scratch))
    else:
        required(parser, arguments, "root", "out")
        if arguments.checkpoint is None and arguments.weights is None:
            parser.error("--checkpoint or --weights must say what is fine-tuned")
        result = run(arguments, Masks())
    report(result, arguments.json)
    return result


if __name__ == "__main__":
    main()
