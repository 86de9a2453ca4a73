"""The loss of a transducer, and its training by the facts of the recipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from resumable import Data, Trainer
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from flambeau.audio.models.rnnt import RNNT
from flambeau.audio.pipelines.rnnt_features import Features
from flambeau.audio.transforms import RNNTLoss
from flambeau.core.progress import progress

from .corpus import Batch, Items, Utterance, batches, padded
from .features import Augmentation
from .result import Folder
from .text import Tokenizer

CLIP = 10.0  # greatest norm of the gradients


@dataclass(frozen=True)
class Settings:
    """How to train.

    Attributes:
        epochs: times that each utterance is heard.
        learning_rate: of Adam, once it is warm.
        warmup: steps in which the learning rate rises linearly; it stays from then on.
        right_padding: frames of zeros behind a batch.
        batch_frames: most frames of a batch, padding counted.
        steps: updates after which training ends all the same; None for no such end.
        accumulate: batches of one step, in each process.
        seed: of the order of utterances, of masks and dropout.
        workers: processes that read and compute features.
        save_every: steps from one checkpoint to the next.
        stop_after: steps after which to leave off, to go on another time; None for none.
    """

    epochs: int
    learning_rate: float
    warmup: int
    right_padding: int
    batch_frames: int
    steps: int | None = None
    accumulate: int = 1
    seed: int = 0
    workers: int = 0
    save_every: int = 1000
    stop_after: int | None = None


class TransducerLoss(nn.Module):
    """Sum of the losses of a batch's utterances.

    Args:
        model: the transducer.
        blank: index of the blank.
        right_padding: frames of zeros behind a batch.
    """

    def __init__(self, model: RNNT, blank: int, right_padding: int) -> None:
        super().__init__()
        self.model, self.blank, self.right_padding = model, blank, right_padding
        self.criterion = RNNTLoss(blank=blank, clamp=1.0, reduction="sum")

    def forward(self, batch: Batch) -> Tensor:
        """() of a batch on the model's device."""
        sources = F.pad(batch.features, (0, 0, 0, self.right_padding))
        prefixes = F.pad(batch.targets, (1, 0), value=self.blank)  # the blank begins every sequence
        logits, frames, _, _ = self.model(sources, batch.frames, prefixes, batch.tokens + 1)
        frames = frames.int()
        loss: Tensor = self.criterion(logits[:, : int(frames.max())], batch.targets, frames, batch.tokens)
        return loss


def mean_loss(items: Items, loss: TransducerLoss, settings: Settings, device: torch.device) -> float:
    """Mean over all utterances, without masks; the model is in the mode that it is in."""
    plan = batches(items.corpus, settings.batch_frames, 0, 0)
    keys = [[(number, 0) for number in batch] for batch in plan]
    loader: Any = DataLoader(items, batch_sampler=keys, collate_fn=padded, num_workers=settings.workers)  # type: ignore[arg-type]
    total = 0.0
    with torch.no_grad(), progress("held-out loss", len(plan), unit="batch") as advance:
        for batch in loader:
            total += loss(Batch(*(tensor.to(device) for tensor in batch))).item()
            advance(1)
    return total / len(items.corpus)


def trained(
    model: RNNT,
    training: Sequence[Utterance],
    held_out: Sequence[Utterance],
    settings: Settings,
    folder: Folder,
    device: torch.device,
    facts: dict[str, Any],
) -> tuple[Trainer, bool]:
    """Train a transducer, or go on with it.

    Upstream: the gradient is that of the sum over a batch, not of its mean; over several batches, on several processes,
    it is the mean of those.

    Args:
        model: the network; its weights where no checkpoint is there.
        training: utterances to learn.
        held_out: utterances whose mean loss is measured after each epoch, and joins the trainer's history.
        settings: how to train.
        folder: with vocabulary and statistics; the checkpoint comes there.
        device: where to compute.
        facts: what else must be alike when a run goes on.

    Returns:
        The trainer, and whether training is complete.

    Raises:
        CheckpointError: the folder's checkpoint is of a run with other settings or data.
        TrainingError: the loss is not finite; the last checkpoint is from before.
        ValueError: an utterance is longer than a batch.
    """
    tokenizer = Tokenizer(folder.pieces)
    features = Features(global_stats=str(folder.statistics))
    optimizer = torch.optim.Adam(model.to(device).parameters(), lr=settings.learning_rate, betas=(0.9, 0.999), eps=1e-8)
    names = ("learning_rate", "warmup", "batch_frames", "accumulate", "seed")
    trainer = Trainer(
        model,
        optimizer,
        folder=folder.path,
        settings={**facts, **{name: getattr(settings, name) for name in names}},
        schedule=warm_up(optimizer, settings.warmup),
        clip=CLIP,
        accumulate=settings.accumulate,
        save_every=settings.save_every,
        seed=settings.seed,
        device=device,
    )
    loss, augmentation = TransducerLoss(model, len(tokenizer), settings.right_padding), Augmentation()

    def after_epoch() -> dict[str, float]:
        entry: dict[str, float] = {"epoch": trainer.epoch, "step": trainer.step}
        if held_out:
            entry["held_out_loss"] = mean_loss(Items(held_out, features, tokenizer), loss, settings, device)
        if trainer.rank == 0:
            print(", ".join(f"{name.replace('_', ' ')} {value:.5g}" for name, value in entry.items()), file=sys.stderr)
        return entry

    complete = trainer.fit(
        Data(
            Items(training, features, tokenizer),
            lambda epoch: batches(training, settings.batch_frames, settings.seed, epoch),
            padded,
            settings.workers,
        ),
        lambda batch: (loss(augmentation(Batch(*batch))), 1),
        steps=settings.steps,
        epochs=settings.epochs,
        after_epoch=after_epoch,
        stop_after=settings.stop_after,
    )
    return trainer, complete


def warm_up(optimizer: torch.optim.Optimizer, steps: int) -> torch.optim.lr_scheduler.LambdaLR:
    """A learning rate that rises linearly for so many steps and stays."""
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / steps))
