"""Pretrain HuBERT (Hsu et al. 2021, arXiv:2106.07447) on LibriSpeech, in two iterations.

    python audio/recipes/hubert_pretrain.py label --root DATA --folder LABELS1
    python audio/recipes/hubert_pretrain.py train --folder LABELS1 --out RUN1
    python audio/recipes/hubert_pretrain.py label --root DATA --folder LABELS2 --checkpoint RUN1/checkpoint.pt
    python audio/recipes/hubert_pretrain.py train --folder LABELS2 --out RUN2 --steps 400000
    python audio/recipes/hubert_pretrain.py --tiny

Labels of the first iteration are 100 clusters of cepstra with slopes (39 channels), those of the second 500 clusters of
the first network's sixth layer. Both are found on a tenth of the recordings.

Training: recordings of 2 to 15.6 s, in batches of 87.5 s cut to the shortest; AdamW (0.9, 0.98), 1e-6, decay 0.01; 5e-4
after 32,000 steps of rising, then falling in a line to zero; gradients of norm 10 at most; 250,000 steps in the first
iteration, 400,000 in the second. The paper's steps have 32 batches: `torchrun --nproc-per-node 8 ... --accumulate 4`.

The loss is the cross entropy of the masked frames' labels, plus ten times the feature penalty for each of them; that of
the other frames has the weight 0.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from hubert_labels import (
    RATE,
    Features,
    Recordings,
    cepstra,
    gathered,
    k_means,
    layer,
    prepared,
    read_labels,
    write_labels,
)
from recipe_options import add_result, add_training, parser_of, progress_of, report, required
from resumable import Data, Trainer, by_seconds, device_of, read_checkpoint
from tone_speech import write_librispeech
from torch import Tensor
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR

from flambeau.audio.models import (
    HuBERTPretrainModel,
    hubert_pretrain_base,
    hubert_pretrain_large,
    hubert_pretrain_model,
    hubert_pretrain_xlarge,
)
from flambeau.audio.models.wav2vec2.architectures import arguments as sizes_of
from flambeau.core.files import write_atomic

SUBSETS = ("train-clean-100", "train-clean-360", "train-other-500")
LEAST, MOST = 32_000, 250_000  # samples of a recording that is learnt from


def network(size: str, classes: int) -> HuBERTPretrainModel:
    """A network of one of the paper's sizes, or of one that learns in seconds.

    Raises:
        ValueError: the number of classes is not that of the size.
    """
    if size == "tiny":
        return _tiny_network(classes)
    if size == "base":
        return hubert_pretrain_base(num_classes=classes)
    if classes != 500:
        raise ValueError(f"the {size} network has 500 classes, not {classes}; cluster with --clusters 500.")
    return hubert_pretrain_large() if size == "large" else hubert_pretrain_xlarge()


def _tiny_network(classes: int) -> HuBERTPretrainModel:
    changed: dict[str, Any] = {
        "extractor_conv_layer_config": [(16, 10, 5), *[(16, 3, 2)] * 4, *[(16, 2, 2)] * 2],
        "encoder_embed_dim": 24,
        "encoder_num_layers": 2,
        "encoder_num_heads": 2,
        "encoder_ff_interm_features": 48,
        "encoder_pos_conv_kernel": 9,
        "encoder_pos_conv_groups": 2,
    }
    dropouts = {
        f"encoder_{name}": 0.05 for name in ("projection_dropout", "attention_dropout", "dropout", "layer_drop")
    }
    masks = {
        "mask_prob": 0.8, "mask_selection": "static", "mask_other": 0.0, "mask_length": 4, "no_mask_overlap": False,
        "mask_min_space": 1, "mask_channel_prob": 0.0, "mask_channel_selection": "static", "mask_channel_other": 0.0,
        "mask_channel_length": 10, "no_mask_channel_overlap": False, "mask_channel_min_space": 1,
    }  # fmt: skip
    size = sizes_of("hubert_base", encoder_ff_interm_dropout=0.0, aux_num_out=None, **dropouts) | changed
    del size["aux_num_out"]
    return hubert_pretrain_model(
        **size, **masks, skip_masked=False, skip_nomask=False, num_classes=classes, final_dim=16, feature_grad_mult=0.1
    )


class Utterances:
    """Waveforms with their labels; longer ones are cut in `collate`, where it is known how long the shortest is."""

    def __init__(self, recordings: Recordings, labels: list[Tensor], numbers: list[int], size: str) -> None:
        self.recordings, self.labels, self.numbers, self.size = recordings, labels, numbers, size

    def __getitem__(self, key: tuple[int, int]) -> tuple[Tensor, Tensor, int]:
        """Waveform (time,), labels (frames,), and the seed of the cut."""
        number, seed = self.numbers[key[0]], key[1]
        return prepared(self.recordings.waveform(number), self.size), self.labels[number].long(), seed


def cut(items: list[tuple[Tensor, Tensor, int]]) -> tuple[Tensor, Tensor]:
    """Waveforms (batch, time) of the shortest one's length, cut at random frames, and labels (batch, frames)."""
    frames = min(len(labels) for _, labels, _ in items)
    samples = 320 * (frames - 1) + 400
    waveforms, targets = [], []
    for waveform, labels, seed in items:
        generator = torch.Generator().manual_seed(seed)
        first = int(torch.randint(len(labels) - frames + 1, (), generator=generator))
        waveforms.append(waveform[320 * first : 320 * first + samples])
        targets.append(labels[first : first + frames])
    return torch.stack(waveforms), torch.stack(targets)


class HubertLoss:
    """The loss of the paper, and how many of the masked frames it was right about.

    Args:
        model: the network.
        unmasked: weight of the other frames.
        penalty: weight of the feature penalty, for each masked frame.
    """

    def __init__(self, model: HuBERTPretrainModel, *, unmasked: float = 0.0, penalty: float = 10.0) -> None:
        self.model, self.unmasked, self.penalty = model, unmasked, penalty
        self.right = self.frames = 0

    def __call__(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
        """Its sum over the masked frames, and their number."""
        masked, others, penalty = self.model(*batch)
        targets = torch.zeros(len(masked), dtype=torch.int64, device=masked.device)  # column 0 is the true label's
        total = F.cross_entropy(masked, targets, reduction="sum") + self.penalty * penalty * len(masked)
        if self.unmasked and others is not None:
            total = total + self.unmasked * F.cross_entropy(others, targets.new_zeros(len(others)), reduction="sum")
        self.right += int((masked.argmax(1) == 0).sum())
        self.frames += len(masked)
        return total, len(masked)

    def accuracy(self) -> float:
        """Share of masked frames, since it was last asked, whose label was found."""
        share = self.right / max(1, self.frames)
        self.right = self.frames = 0
        return share


def rising_and_falling(optimizer: torch.optim.Optimizer, warmup: int, steps: int) -> LambdaLR:
    """A learning rate that rises in a line for `warmup` steps, and falls to zero until the last."""

    def factor(step: int) -> float:
        return (step + 1) / warmup if step < warmup else max(0.0, (steps - step) / max(1, steps - warmup))

    return LambdaLR(optimizer, factor)


def label(arguments: argparse.Namespace) -> dict[str, Any]:
    """Cluster features and label every recording."""
    device = device_of(arguments.device)
    root = arguments.root / "LibriSpeech"
    missing = [name for name in arguments.subsets if not (root / name).is_dir()]
    if missing:
        raise SystemExit(f"{root} has no {', '.join(missing)}: `LIBRISPEECH(root, name, download=True)` fetches them.")
    recordings = Recordings.found(root, (path for name in arguments.subsets for path in (root / name).rglob("*.flac")))
    features: Features = cepstra
    clusters = arguments.clusters or (500 if arguments.checkpoint else 100)
    if arguments.checkpoint:
        kept = read_checkpoint(arguments.checkpoint)
        model = network(kept["settings"]["size"], kept["settings"]["classes"])
        model.load_state_dict(kept["state"]["model"])
        features = layer(model.wav2vec2.eval().to(device), kept["settings"]["size"], arguments.layer, device)
    points = gathered(recordings, features, arguments.share, arguments.seed)
    centres = k_means(points, clusters, seed=arguments.seed)
    recordings.write(arguments.folder / "train.tsv")
    write_labels(arguments.folder / "train.km", recordings, features, centres)
    write_atomic(arguments.folder / "classes.txt", f"{clusters}\n")
    return {"recordings": len(recordings.paths), "clusters": clusters, "points": len(points)}


def train(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train on labelled recordings."""
    device = device_of(arguments.device)
    recordings = Recordings.read(arguments.folder / "train.tsv")
    labels = read_labels(arguments.folder / "train.km", recordings)
    numbers = recordings.between(arguments.least, arguments.most)
    if not numbers:
        raise SystemExit(f"no recording has {arguments.least} to {arguments.most} samples; look at --least and --most.")
    classes = arguments.classes or int((arguments.folder / "classes.txt").read_text())
    highest = max(int(one.max()) for one in labels if len(one))
    if highest >= classes:
        raise SystemExit(f"a label is {highest}, but --classes is {classes}; give as many as there are clusters.")
    torch.manual_seed(arguments.seed)
    model = network(arguments.size, classes).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01)
    names = ("size", "seconds", "lr", "warmup", "steps", "clip", "least", "most", "seed", "accumulate")
    trainer = Trainer(
        model,
        optimizer,
        folder=arguments.out,
        settings={**{name: getattr(arguments, name) for name in names}, "classes": classes},
        schedule=rising_and_falling(optimizer, arguments.warmup, arguments.steps),
        clip=arguments.clip,
        accumulate=arguments.accumulate,
        save_every=arguments.save_every,
        seed=arguments.seed,
        device=device,
    )
    seconds = [recordings.samples[number] / RATE for number in numbers]

    def plan(epoch: int) -> list[list[int]]:
        return by_seconds(seconds, arguments.seconds, arguments.seed, epoch)

    loss = HubertLoss(model)

    def after_epoch() -> dict[str, float]:
        return {"loss": trainer.last_loss, "accuracy": loss.accuracy()}

    data = Data(Utterances(recordings, labels, numbers, arguments.size), plan, cut, arguments.workers)
    finished = trainer.fit(data, loss, steps=arguments.steps, after_epoch=after_epoch, stop_after=arguments.stop_after)
    return {**progress_of(trainer), "finished": finished, "history": trainer.history}


def tiny(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Both iterations on speech of tones."""
    write_librispeech(folder, "train-clean-100", noise=0.02)
    common = {"device": "cpu", "seed": arguments.seed, "workers": 0, "stop_after": None}
    labelling = {**common, "root": folder, "subsets": ["train-clean-100"], "share": 1.0, "layer": 2}
    sizes = {"size": "tiny", "seconds": 6.0, "lr": 5e-3, "warmup": 5, "clip": 10.0, "least": 400, "most": MOST}
    rest = {"accumulate": 1, "save_every": 1000}
    result: dict[str, Any] = {}
    checkpoint = None
    for iteration, (clusters, steps) in enumerate(((12, 60), (16, 20)), 1):
        place = {"folder": folder / f"labels{iteration}", "out": folder / f"run{iteration}"}
        found = label(argparse.Namespace(**labelling, **place, clusters=clusters, checkpoint=checkpoint))
        training = {**common, **sizes, **rest, **place, "classes": None, "steps": steps}
        result[f"iteration_{iteration}"] = {**found, **train(argparse.Namespace(**training))}
        checkpoint = place["out"] / "checkpoint.pt"
    return result


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = parser_of(__doc__)
    add_result(parser)
    parser.add_argument("--seed", type=int, default=0)
    commands = parser.add_subparsers(dest="command")
    one = commands.add_parser("label", help="cluster features, and label every recording")
    one.add_argument("--root", type=Path, help="folder that holds LibriSpeech")
    one.add_argument("--subsets", nargs="+", default=list(SUBSETS))
    one.add_argument("--folder", type=Path, help="folder for train.tsv and train.km")
    one.add_argument("--checkpoint", type=Path, help="of the iteration before; cepstra are clustered without")
    one.add_argument("--layer", type=int, default=6, help="of that network (default: %(default)s)")
    one.add_argument("--clusters", type=int, help="100 of cepstra, 500 of a layer")
    one.add_argument("--share", type=float, default=0.1, help="of the recordings that are clustered")
    one.add_argument("--device")
    one.add_argument("--seed", type=int, default=0)
    add_result(one)
    two = commands.add_parser("train", help="train on labelled recordings")
    two.add_argument("--folder", type=Path, help="what `label` wrote")
    two.add_argument("--size", choices=("base", "large", "xlarge"), default="base")
    two.add_argument("--classes", type=int, help="clusters; as many as `label` made")
    two.add_argument("--steps", type=int, default=250_000)
    two.add_argument("--seconds", type=float, default=87.5, help="of a batch (default: %(default)s)")
    two.add_argument("--lr", type=float, default=5e-4)
    two.add_argument("--warmup", type=int, default=32_000)
    two.add_argument("--clip", type=float, default=10.0)
    two.add_argument("--least", type=int, default=LEAST, help="samples (default: %(default)s)")
    two.add_argument("--most", type=int, default=MOST, help="samples (default: %(default)s)")
    add_training(two)
    return parser


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the command line."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if arguments.tiny:
        with tempfile.TemporaryDirectory() as scratch:
            result = tiny(arguments, Path(scratch))
    elif arguments.command == "label":
        required(parser, arguments, "root", "folder")
        result = label(arguments)
    elif arguments.command == "train":
        required(parser, arguments, "folder", "out")
        result = train(arguments)
    else:
        parser.error("expected `label`, `train` or --tiny")
    report(result, arguments.json)
    return result


if __name__ == "__main__":
    main()
