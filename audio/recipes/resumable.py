"""Training that goes on where it was interrupted, on one device or on many: what the recipes here share.

Nothing random is carried from step to step. Each step begins with a seed made of the run's seed and the step's number;
which items an epoch's batches hold depends on the seed and the epoch alone. So a run that was resumed equals one that
went through, and a checkpoint needs no state of generators.

Under `torchrun --nproc-per-node N` a step's batches are shared among N processes, whose gradients are added.
"""

from __future__ import annotations

import io
import itertools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from flambeau.core.errors import CheckpointError, FlambeauError
from flambeau.core.files import write_atomic
from flambeau.core.progress import progress

Loss = Callable[[Any], tuple[Tensor, int]]
"""Of a batch: the sum of a loss over items, samples or frames, and over how many. Their quotient is what falls."""


class TrainingError(FlambeauError, RuntimeError):
    """Training cannot go on."""


class Data(NamedTuple):
    """What a training learns from.

    Args:
        items: `items[number, seed]` is an item; the seed is for what is drawn at random, such as a cut.
        plan: epoch -> numbers of each batch's items; the same each time it is asked for an epoch.
        collate: list of items -> a batch: a tensor, or a tuple, list or dict of batches.
        workers: processes that read.
    """

    items: Any
    plan: Callable[[int], list[list[int]]]
    collate: Callable[[list[Any]], Any]
    workers: int = 0


class Trainer:
    """A model in training, with its checkpoint.

    Args:
        model: what is trained; it is moved to `device`.
        optimizer: of the model's parameters.
        folder: where `checkpoint.pt` is kept; None keeps none.
        settings: what must be alike when a run goes on, of JSON's types.
        schedule: a schedule of the learning rate that is stepped after each step; None for none.
        parts: what else has a state to keep: name -> object with `state_dict` and `load_state_dict`.
        clip: greatest norm of the gradients; None for any.
        accumulate: batches of one step, in each process.
        save_every: steps from one checkpoint to the next.
        seed: of all that is drawn at random.
        device: to train on.

    Attributes:
        step: steps done.
        epoch: epochs done.
        history: what was measured after each epoch.
        last_loss: of the last step.
        resumed_at: the step that an earlier run left off at; 0 for a new one.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        folder: Path | None,
        settings: dict[str, Any],
        schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
        parts: dict[str, Any] | None = None,
        clip: float | None = None,
        accumulate: int = 1,
        save_every: int = 1000,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.rank, self.world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        self.model, self.optimizer, self.clip = model.to(device), optimizer, clip
        self.settings = {**settings, "processes": self.world}
        self.accumulate, self.save_every, self.seed, self.device = accumulate, save_every, seed, torch.device(device)
        self.schedule = schedule
        self.parts = {"model": model, "optimizer": optimizer, **(parts or {})}
        if schedule is not None:
            self.parts["schedule"] = schedule
        self.step = self.epoch = self.done = 0  # `done`: steps of the epoch that is under way
        self.history: list[dict[str, float]] = []
        self.last_loss = math.nan
        self.path = None if folder is None else folder / "checkpoint.pt"
        if self.path is not None and self.path.is_file():
            self._resume(self.path)
        self.resumed_at = self.step

    def fit(
        self,
        data: Data,
        loss: Loss,
        *,
        steps: int | None = None,
        epochs: int | None = None,
        after_epoch: Callable[[], dict[str, float]] | None = None,
        stop_after: int | None = None,
    ) -> bool:
        """Train up to so many steps or epochs, those of earlier runs counted.

        Args:
            data: what to learn from.
            loss: sum and count for a batch, which is on the device.
            steps: how many in all; None for no limit.
            epochs: likewise.
            after_epoch: measures the model; what it returns joins `history`.
            stop_after: leave off after so many steps of this call, with a checkpoint, as a time limit would.

        Returns:
            Whether the training is complete.

        Raises:
            TrainingError: a batch has no items, or the loss is not finite.
        """
        if steps is None and epochs is None:
            raise ValueError("fit: neither steps nor epochs is given; training would never end.")
        last = None if stop_after is None else self.step + stop_after
        with progress("training", steps, done=self.step, unit="step", show=self.rank == 0) as advance:
            while not self._complete(steps, epochs):
                groups = self._groups(data.plan(self.epoch))
                if self.done > len(groups):
                    raise TrainingError(
                        f"epoch {self.epoch} has {len(groups)} steps, but {self.done} are done: the data is not what "
                        "it was when the run began. Put it back, or begin a run in another folder."
                    )
                self.model.train()
                for group in self._loaded(data, groups[self.done :]):
                    if self.step in (steps, last):
                        break
                    self._learn(group, loss)
                    advance(1)
                    if self.step % self.save_every == 0:
                        self.save()
                if self.done == len(groups):
                    self.epoch, self.done = self.epoch + 1, 0
                    self.model.eval()
                    if after_epoch is not None:
                        self.history.append(after_epoch())
                    self.save()
                elif self.step == last and self.step != steps:
                    break
        self.save()
        if self.world > 1:
            dist.barrier()  # the first process has written what the others may read
        self.model.eval()
        return self._complete(steps, epochs)

    def save(self) -> None:
        """Write the checkpoint: whole or not at all."""
        if self.path is None or self.rank != 0:
            return
        state = {name: part.state_dict() for name, part in self.parts.items()}
        position = {"step": self.step, "epoch": self.epoch, "done": self.done, "loss": self.last_loss}
        content = io.BytesIO()
        torch.save({"settings": self.settings, "position": position, "history": self.history, "state": state}, content)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path, content.getvalue())

    def _resume(self, path: Path) -> None:
        kept = read_checkpoint(path, self.device)
        changed = [
            f"{name} was {kept['settings'].get(name)!r} and is {self.settings.get(name)!r}"
            for name in sorted({*kept["settings"], *self.settings})
            if kept["settings"].get(name) != self.settings.get(name)
        ]
        if changed:
            raise CheckpointError(
                f"{path} is of another run: {'; '.join(changed)}. Give the settings it was begun with, or another "
                "folder."
            )
        for name, part in self.parts.items():
            part.load_state_dict(kept["state"][name])
        position = kept["position"]
        self.step, self.epoch, self.done = position["step"], position["epoch"], position["done"]
        self.last_loss, self.history = position["loss"], kept["history"]

    def _complete(self, steps: int | None, epochs: int | None) -> bool:
        return (steps is not None and self.step >= steps) or (epochs is not None and self.epoch >= epochs)

    def _groups(self, plan: list[list[int]]) -> list[list[list[int]]]:
        """This process's share of each step's batches; what does not fill a step is left to a later epoch."""
        if not plan or not all(plan):
            raise TrainingError(f"epoch {self.epoch} has {len(plan)} batches, some without items; is the data there?")
        each = self.accumulate * self.world
        if len(plan) < each:
            raise TrainingError(
                f"an epoch has {len(plan)} batches, but a step takes {each} ({self.accumulate} accumulated on "
                f"{self.world} processes); lower --accumulate or the size of a batch."
            )
        whole = range(0, len(plan) - len(plan) % each, each)
        return [plan[start + self.rank : start + each : self.world] for start in whole]

    def _loaded(self, data: Data, groups: list[list[list[int]]]) -> Iterator[list[Any]]:
        """The batches of each step, read in order."""
        if not groups:
            return
        keys = [[(item, self._item_seed(item)) for item in batch] for group in groups for batch in group]
        loader = DataLoader(
            _Keyed(data.items), batch_sampler=keys, collate_fn=data.collate, num_workers=data.workers
        )  # fmt: skip
        batches = iter(loader)
        for group in groups:
            yield list(itertools.islice(batches, len(group)))

    def _item_seed(self, item: int) -> int:
        return (((self.seed * 1_000_003) + self.epoch) * 1_000_003 + item) % 2**62

    def _learn(self, group: list[Any], loss: Loss) -> None:
        torch.manual_seed((self.seed * 1_000_003 + self.step) * 4099 + self.rank)
        self.optimizer.zero_grad(set_to_none=True)
        totals = torch.zeros(2, dtype=torch.float64, device=self.device)
        for batch in group:
            value, count = loss(moved(batch, self.device))
            value.backward()
            totals += torch.stack([value.detach().double(), torch.tensor(float(count), device=self.device).double()])
        parameters = [one for one in self.model.parameters() if one.requires_grad]
        if self.world > 1:
            _add_over_processes(parameters, totals)
        total, count = totals.tolist()
        if not math.isfinite(total) or count <= 0:
            raise TrainingError(
                f"step {self.step + 1}: the loss is {total} over {count:.0f} items; lower the learning rate or look "
                f"for damaged data. The last checkpoint is untouched: {self.path}."
            )
        for one in parameters:
            if one.grad is not None:
                one.grad /= count
        if self.clip is not None:
            nn.utils.clip_grad_norm_(parameters, self.clip)
        self.optimizer.step()
        if self.schedule is not None:
            self.schedule.step()
        self.step, self.done, self.last_loss = self.step + 1, self.done + 1, total / count


class _Keyed(Dataset[Any]):
    """Items by (number, seed), as samplers ask for them."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def __getitem__(self, key: tuple[int, int]) -> Any:
        return self.items[key]


def _add_over_processes(parameters: list[nn.Parameter], totals: Tensor) -> None:
    for one in parameters:
        if one.grad is None:  # a layer that this process left out, and others may not
            one.grad = torch.zeros_like(one)
    together = torch.cat([one.grad.flatten() for one in parameters if one.grad is not None])
    dist.all_reduce(together)
    dist.all_reduce(totals)
    for one, part in zip(parameters, together.split([one.numel() for one in parameters]), strict=True):
        one.grad = part.view_as(one)


def read_checkpoint(path: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    """What `Trainer.save` wrote: `settings`, `position`, `history`, and `state` with that of the model and others.

    Raises:
        CheckpointError: the file is none of a `Trainer`.
    """
    import pickle

    try:
        kept = torch.load(path, map_location=device, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise CheckpointError(f"{path} is no checkpoint that can be read: {error}") from error
    if not isinstance(kept, dict) or not {"settings", "position", "history", "state"} <= kept.keys():
        raise CheckpointError(f"{path} is not a checkpoint of these recipes; expected what one of them wrote.")
    return kept


def moved(batch: Any, device: torch.device) -> Any:
    """The tensors of a batch on a device; what is none stays."""
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return {key: moved(value, device) for key, value in batch.items()}
    if isinstance(batch, tuple | list):
        return type(batch)(moved(value, device) for value in batch)
    return batch


def shuffled(count: int, size: int, seed: int, epoch: int) -> list[list[int]]:
    """Batches of `size` items in random order; a last one that is smaller is left out where there are others."""
    order = torch.randperm(count, generator=_generator(seed, epoch)).tolist()
    batches = [order[start : start + size] for start in range(0, count, size)]
    return batches[:-1] if len(batches) > 1 and len(batches[-1]) < size else batches


def by_seconds(lengths: Sequence[float], most: float, seed: int, epoch: int) -> list[list[int]]:
    """Batches of items of about one length, in random order.

    Lengths are compared with a tenth of noise, so that other items meet in each epoch.

    Args:
        lengths: seconds of each item.
        most: seconds of a batch, its padding counted.
        seed: of the order.
        epoch: likewise.

    Raises:
        ValueError: an item alone is longer.
    """
    longest = max(lengths, default=0.0)
    if longest > most:
        raise ValueError(f"an item is {longest:.1f} s long, but a batch may have {most:.1f} s; leave long items out.")
    generator = _generator(seed, epoch)
    noise = torch.rand(len(lengths), generator=generator).tolist()
    order = sorted(range(len(lengths)), key=lambda item: (lengths[item] * (1 + 0.1 * noise[item]), noise[item]))
    batches: list[list[int]] = []
    width = 0.0
    for item in order:
        width = max(width, lengths[item])
        if not batches or width * (len(batches[-1]) + 1) > most:
            batches.append([])
            width = lengths[item]
        batches[-1].append(item)
    return [batches[index] for index in torch.randperm(len(batches), generator=generator).tolist()]


def _generator(seed: int, epoch: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed * 1_000_003 + epoch)


def device_of(name: str | None) -> torch.device:
    """The device that is asked for, else an accelerator where there is one; begins the process group of `torchrun`."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if name is not None:
        device = torch.device(name)
    else:
        device = torch.device(f"cuda:{local}" if torch.cuda.is_available() else "cpu")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return device
