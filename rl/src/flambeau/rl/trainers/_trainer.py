"""`Trainer`: collects batches, trains with them, and calls hooks at every point of it."""

from __future__ import annotations

import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn, optim

from flambeau.core.errors import close_names
from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl._utils import logger as log
from flambeau.rl._utils import timeit
from flambeau.rl.checkpoint import Checkpoint, CheckpointRotation
from flambeau.rl.record._files import save_tensors
from flambeau.rl.trainers._hook_base import MASK_KEY, TrainerHookBase
from flambeau.rl.trainers._optim_hooks import OptimizationStepper, OptimizerHook

__all__ = ["Trainer"]

Place = Literal[
    "batch_process",
    "pre_optim_steps",
    "process_optim_batch",
    "post_loss",
    "process_loss",
    "optimizer",
    "post_steps",
    "post_optim",
    "pre_steps_log",
    "post_steps_log",
    "post_optim_log",
    "pre_epoch_log",
    "post_epoch_log",
    "post_optim_complete_log",
    "pre_epoch",
    "post_epoch",
    "setup",
    "shutdown",
]
_ATTRIBUTES = {
    "batch_process": "_batch_process_ops",
    "pre_optim_steps": "_pre_optim_ops",
    "process_optim_batch": "_process_optim_batch_ops",
    "post_loss": "_post_loss_ops",
    "process_loss": "_process_loss_ops",
    "optimizer": "_optimizer_ops",
    "post_steps": "_post_steps_ops",
    "post_optim": "_post_optim_ops",
    "pre_steps_log": "_pre_steps_log_ops",
    "post_steps_log": "_post_steps_log_ops",
    "post_optim_log": "_post_optim_log_ops",
    "pre_epoch_log": "_pre_epoch_log_ops",
    "post_epoch_log": "_post_epoch_log_ops",
    "post_optim_complete_log": "_post_optim_complete_log_ops",
    "pre_epoch": "_pre_epoch_ops",
    "post_epoch": "_post_epoch_ops",
    "setup": "_setup_ops",
    "shutdown": "_shutdown_ops",
}
"""Names of the lists of hooks, which are upstream's."""


class Trainer:
    """Trains with batches of a collector; all that is particular to an algorithm is a hook.

    For each batch::

        batch_process(batch) -> batch
        pre_steps_log(batch) -> numbers
        pre_optim_steps()
        for each epoch:
            pre_epoch_log(batch) -> numbers;  pre_epoch(batch) -> batch
            for each step:
                process_optim_batch(batch) -> sub_batch
                losses = loss_module(sub_batch);  process_loss(sub_batch, losses) -> losses;  optimizer(losses)
                post_loss(sub_batch);  post_optim();  post_optim_log(sub_batch) -> numbers
            post_epoch_log(batch) -> numbers;  post_epoch()
        post_optim_complete_log(steps, mean losses) -> numbers
        post_steps();  post_steps_log(batch) -> numbers

    before all, setup(), and shutdown() after. Nothing is trained with the collector's first `init_random_frames`.

    Args:
        collector: gives batches, (*, time).
        total_frames: how many frames there are.
        frame_skip: frames that the environment takes in one step.
        optim_steps_per_batch: steps of the optimizer an epoch; None for as many as samples come.
        loss_module: takes what is trained with, and returns losses, whose names begin with "loss".
        optimizer: steps with the sum of the losses.
        optimization_stepper: makes the steps instead.
        replay_buffer: kept as an attribute.
        target_net_updater: kept as an attribute.
        batch_size: kept as an attribute.
        learner_backend: "local": in this process.
        learner_backend_options: of others.
        learner_poll_interval: of others.
        logger: where numbers go.
        clip_grad_norm: scale gradients so that their norm is `clip_norm` at most, else clamp each number to it.
        clip_norm: the limit; None for none.
        progress_bar: show one, where tqdm is installed.
        seed: of the collector, torch and NumPy.
        save_trainer_interval: frames from one checkpoint to the next.
        log_interval: frames from one logged number to the next of that name.
        save_trainer_file: where checkpoints go: a file, or with `checkpoint` a checkpoint's path.
        checkpoint: what is written; the trainer adds what is its own.
        checkpoint_rotation: keeps several of them, instead of the file.
        checkpoint_metadata: called with the trainer, returns what JSON takes, for each checkpoint.
        num_epochs: how often each batch is trained with.
        async_collection: the collector runs in the background, and writes to its replay buffer.
        log_timings: log how long hooks take.
        auto_log_optim_steps: log the number of steps, and mean losses.

    Raises:
        ValueError: arguments do not go together.
    """

    _process_optim_batch_ops: list[Any]
    _process_loss_ops: list[Any]
    _optimizer_ops: list[Any]

    def __init__(
        self,
        *,
        collector: Any,
        total_frames: int,
        frame_skip: int,
        optim_steps_per_batch: int,
        loss_module: Any,
        optimizer: optim.Optimizer | None = None,
        optimization_stepper: OptimizationStepper | None = None,
        replay_buffer: Any = None,
        target_net_updater: Any = None,
        batch_size: int | None = None,
        learner_backend: Literal["local", "ray"] = "local",
        learner_backend_options: dict[str, Any] | None = None,
        learner_poll_interval: float = 0.05,
        logger: Any = None,
        clip_grad_norm: bool = True,
        clip_norm: float | None = None,
        progress_bar: bool = True,
        seed: int | None = None,
        save_trainer_interval: int = 10000,
        log_interval: int = 10000,
        save_trainer_file: str | Path | None = None,
        checkpoint: Checkpoint | None = None,
        checkpoint_rotation: CheckpointRotation | None = None,
        checkpoint_metadata: Callable[[Trainer], Mapping[str, Any]] | None = None,
        num_epochs: int = 1,
        async_collection: bool = False,
        log_timings: bool = False,
        auto_log_optim_steps: bool = True,
    ) -> None:
        if learner_backend != "local":
            raise ValueError(
                f"learner_backend must be 'local'; got {learner_backend!r}: no other learner is there yet."
            )
        if checkpoint_rotation is not None and (checkpoint is None or save_trainer_file is not None):
            raise ValueError("checkpoint_rotation keeps what checkpoint= makes, without a save_trainer_file.")
        self.frame_skip = frame_skip
        self._collector = collector
        self.loss_module = loss_module
        self.optimizer = optimizer
        self.replay_buffer = replay_buffer
        self.target_net_updater = target_net_updater
        self.batch_size = batch_size
        self.learner_backend = learner_backend
        self.learner_backend_options = learner_backend_options
        self.learner_poll_interval = learner_poll_interval
        self.logger = logger
        self.async_collection = async_collection
        self._log_interval = log_interval
        self.seed = seed
        if seed is not None:
            self.set_seed()
        self.optim_steps_per_batch: int | None = optim_steps_per_batch
        self.total_frames = total_frames
        self.num_epochs = num_epochs
        self.clip_grad_norm = clip_grad_norm
        self.clip_norm = clip_norm
        self.progress_bar = progress_bar and _has_tqdm()
        self.save_trainer_interval = save_trainer_interval
        self.save_trainer_file = save_trainer_file
        self.checkpoint = checkpoint
        self.checkpoint_rotation = checkpoint_rotation
        self.checkpoint_metadata = checkpoint_metadata
        self.auto_log_optim_steps = auto_log_optim_steps
        self._log_timings = log_timings
        self._log_dict: dict[str, list[Any]] = defaultdict(list)
        self._stop_training = False
        self._stop_reason: str | None = None
        self._pbar: Any = None
        self._pbar_str: OrderedDict[str, Any] = OrderedDict()
        for attribute in _ATTRIBUTES.values():
            setattr(self, attribute, [])
        self._modules: dict[str, Any] = {}
        self._last_log: dict[str, int] = {}
        self._last_save = 0
        self.collected_frames = 0
        self._optim_count = 0
        self.optimization_stepper: OptimizationStepper | None = None
        if optimization_stepper is not None:
            optimization_stepper.register(self)
        elif optimizer is not None:
            OptimizerHook(optimizer).register(self)
        if log_timings:
            from flambeau.rl.trainers._log_hooks import LogTiming

            LogTiming(prefix="time", percall=True).register(self)

    # Parts

    @property
    def collector(self) -> Any:
        """What gives batches."""
        return self._collector

    @collector.setter
    def collector(self, value: Any) -> None:
        self._collector = value

    def set_seed(self) -> None:
        """Set the seeds of the collector, of torch and of NumPy."""
        following = self._collector.set_seed(self.seed, static_seed=False)
        torch.manual_seed(following)
        np.random.seed(following)

    def register_module(self, module_name: str, module: Any) -> None:
        """Keep the state of a part in the trainer's.

        Args:
            module_name: its name.
            module: has `state_dict` and `load_state_dict`.

        Raises:
            RuntimeError: the name is taken by another part.
        """
        if self._modules.get(module_name, module) is not module:
            raise RuntimeError(
                f"a part {module_name!r} is registered already; give another name, such as {module_name}_2."
            )
        self._modules[module_name] = module

    def register_op(self, dest: Place, op: Callable[..., Any], **kwargs: Any) -> None:
        """Call a hook at some point of training.

        Args:
            dest: the point, see above.
            op: the hook.
            kwargs: given to it with each call.

        Raises:
            RuntimeError: there is no such point.
            TypeError: the hook cannot be called.
        """
        if dest not in _ATTRIBUTES:
            near = close_names(str(dest), list(_ATTRIBUTES))
            raise RuntimeError(
                f"there is no point {dest!r} in training{f', but {near[0]!r}' if near else ''}; "
                f"there are {', '.join(_ATTRIBUTES)}."
            )
        if not callable(op):
            raise TypeError(f"a hook is called; got {type(op).__name__}.")
        if self._log_timings:
            op = _timed(op)
        getattr(self, _ATTRIBUTES[dest]).append((op, kwargs))

    def register_hook(self, dest: Place, op: Callable[..., Any], **kwargs: Any) -> None:
        """Call a hook at some point of training; one that is a `TrainerHookBase` is registered with its state."""
        if isinstance(op, TrainerHookBase) and not kwargs:
            self.register_module(type(op).__name__, op)
        self.register_op(dest, op, **kwargs)

    def compute_loss(self, sub_batch: TensorDictBase, method: str | None = None) -> Any:
        """The losses of what is trained with.

        Args:
            sub_batch: goes to the loss.
            method: of the loss that is called; default: the loss itself.
        """
        return (self.loss_module if method is None else getattr(self.loss_module, method))(sub_batch)

    # State

    def _get_state(self) -> dict[str, Any]:
        return OrderedDict(
            collected_frames=self.collected_frames,
            _last_log=dict(self._last_log),
            _last_save=self._last_save,
            _optim_count=self._optim_count,
        )

    @property
    def app_state(self) -> dict[str, Any]:
        """What the state is made of, by name."""
        return {
            "state": self._get_state(),
            "collector": self.collector,
            "loss_module": self.loss_module,
            **self._modules,
        }

    def state_dict(self) -> dict[str, Any]:
        """The states of the collector, the loss, the hooks, and what was counted."""
        state = OrderedDict(
            collector=self.collector.state_dict(),
            loss_module=self.loss_module.state_dict() if isinstance(self.loss_module, nn.Module) else {},
            state=self._get_state(),
        )
        state.update({name: module.state_dict() for name, module in self._modules.items()})
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave.

        Raises:
            KeyError: it lacks a part.
        """
        missing = [name for name in ("collector", "loss_module", "state", *self._modules) if name not in state_dict]
        if missing:
            raise KeyError(f"the state has no {missing}; it has {list(state_dict)}. Register the same hooks as before.")
        if isinstance(self.loss_module, nn.Module):
            self.loss_module.load_state_dict(state_dict["loss_module"])
        self.collector.load_state_dict(state_dict["collector"])
        for name, module in self._modules.items():
            module.load_state_dict(state_dict[name])
        self._set_state(state_dict["state"])

    def _set_state(self, state: Mapping[str, Any]) -> None:
        self.collected_frames = state["collected_frames"]
        self._last_log = dict(state["_last_log"])
        self._last_save = state["_last_save"]
        self._optim_count = state["_optim_count"]

    def _components(self) -> Checkpoint:
        """The checkpoint, with the parts of the trainer that it has not yet."""
        checkpoint = self.checkpoint
        assert checkpoint is not None  # the caller's part
        parts: dict[str, Any] = {"loss_module": self.loss_module, "collector": self.collector}
        parts["trainer_state"] = _Counts(self)
        for name, module in self._modules.items():
            if name == "replay_buffer":
                parts[name] = module.replay_buffer if hasattr(module, "replay_buffer") else module
            else:
                parts["optimizer" if name == "optimizer" else f"trainer_module.{name}"] = module
        if self.logger is not None:
            parts["logger"] = self.logger
        for name, part in parts.items():
            if name in checkpoint:
                continue
            if _is_kept(part):
                checkpoint.register(name, part)
            else:
                log.warning("The trainer's %s, a %s, has no state that a checkpoint takes.", name, type(part).__name__)
        return checkpoint

    def _described(self) -> dict[str, Any]:
        return {} if self.checkpoint_metadata is None else dict(self.checkpoint_metadata(self))

    def save_trainer(self, force_save: bool = False) -> None:
        """Write a checkpoint, where there is a place for it and it is time.

        Args:
            force_save: it is time.
        """
        if self.save_trainer_file is None and self.checkpoint_rotation is None:
            return
        if self.collected_frames - self._last_save > self.save_trainer_interval:
            self._last_save = self.collected_frames
        elif not force_save:
            return
        if self.checkpoint_rotation is not None:
            self.checkpoint_rotation.save(self._components(), step=self.collected_frames, metadata=self._described())
        elif self.checkpoint is not None:
            self._components().save(str(self.save_trainer_file), metadata=self._described())
        else:
            save_tensors(self.state_dict(), Path(str(self.save_trainer_file)))

    def load_from_file(self, file: str | Path, **kwargs: Any) -> Trainer:
        """Go on from a checkpoint; the collector gets the policy's weights.

        Args:
            file: what `save_trainer` wrote.
            kwargs: for `torch.load`, or for `Checkpoint.load`; pickles that run code are read with weights_only=False.

        Returns:
            The trainer.
        """
        if Checkpoint.is_checkpoint(file):
            if self.checkpoint is None:
                self.checkpoint = Checkpoint()
            strict, place = kwargs.pop("strict", None), kwargs.pop("map_location", "cpu")
            self._components().load(file, tensor_load_kwargs=kwargs, strict=strict, map_location=place)
        else:
            self.load_state_dict(torch.load(file, **{"weights_only": True} | kwargs))
        policy = getattr(self.collector, "policy", None)
        if isinstance(policy, nn.Module) and hasattr(self.collector, "update_policy_weights_"):
            self.collector.update_policy_weights_()
        return self

    def request_stop(self, reason: str | None = None) -> None:
        """Have training end after this batch.

        Args:
            reason: is logged.
        """
        self._stop_training = True
        self._stop_reason = reason

    # Hooks

    def _changed(self, attribute: str, batch: Any) -> Any:
        """A batch after hooks that may give another."""
        for op, kwargs in getattr(self, attribute):
            found = op(batch, **kwargs)
            if isinstance(found, TensorDictBase):
                batch = found
        return batch

    def _called(self, attribute: str) -> None:
        for op, kwargs in getattr(self, attribute):
            op(**kwargs)

    def _logged(self, attribute: str, *args: Any) -> None:
        for op, kwargs in getattr(self, attribute):
            found = op(*args, **kwargs)
            if found is not None:
                self._log(**found)

    def _process_batch_hook(self, batch: Any) -> Any:
        return self._changed("_batch_process_ops", batch)

    def _pre_optim_hook(self) -> None:
        self._called("_pre_optim_ops")

    def _pre_steps_log_hook(self, batch: Any) -> None:
        self._logged("_pre_steps_log_ops", batch)

    def _pre_epoch_log_hook(self, batch: Any) -> None:
        self._logged("_pre_epoch_log_ops", batch)

    def _pre_epoch_hook(self, batch: Any, **kwargs: Any) -> Any:
        return self._changed("_pre_epoch_ops", batch)

    def _process_optim_batch_hook(self, batch: Any) -> Any:
        for op, kwargs in self._process_optim_batch_ops:
            found = op(batch, **kwargs)
            if found is not None:
                batch = found
        return batch

    def _process_loss_hook(self, sub_batch: Any, losses_td: Any) -> Any:
        for op, kwargs in self._process_loss_ops:
            found = op(sub_batch, losses_td, **kwargs)
            if found is not None:
                losses_td = found
        return losses_td

    def _optimizer_hook(self, losses: Any) -> Any:
        """Let each optimizer take its step; later ones with what is left of the graph."""
        for index, (op, kwargs) in enumerate(self._optimizer_ops):
            found = op(losses, self.clip_grad_norm, self.clip_norm, index, **kwargs)
            if isinstance(found, TensorDictBase):
                losses = found
        return losses.detach()

    def _post_loss_hook(self, batch: Any) -> Any:
        return self._changed("_post_loss_ops", batch)

    def _post_optim_hook(self) -> None:
        self._called("_post_optim_ops")

    def _post_optim_log(self, batch: Any) -> None:
        self._logged("_post_optim_log_ops", batch)

    def _post_epoch_log_hook(self, batch: Any) -> None:
        self._logged("_post_epoch_log_ops", batch)

    def _post_epoch_hook(self) -> None:
        self._called("_post_epoch_ops")

    def _post_optim_complete_log_hook(self, optim_steps: int, average_losses: Any) -> None:
        self._logged("_post_optim_complete_log_ops", optim_steps, average_losses)

    def _post_steps_hook(self) -> None:
        self._called("_post_steps_ops")

    def _post_steps_log_hook(self, batch: Any) -> None:
        self._logged("_post_steps_log_ops", batch)

    def _setup_hook(self) -> None:
        self._called("_setup_ops")

    def _shutdown_hook(self) -> None:
        self._called("_shutdown_ops")

    # Training

    def train(self) -> None:
        """Collect and train until there were `total_frames`, or something asked to stop."""
        if self.progress_bar:
            from tqdm.auto import tqdm

            self._pbar = tqdm(total=self.total_frames, initial=min(self.collected_frames, self.total_frames))
            self._pbar_str = OrderedDict()
        self._stop_training, self._stop_reason = False, None
        self._setup_hook()
        try:
            for batch in self._batches():
                self._batch(batch)
                if self._stop_training or self.collected_frames >= self.total_frames:
                    self.save_trainer(force_save=True)
                    break
                self.save_trainer()
            if self._stop_reason is not None:
                log.info("Training stopped: %s", self._stop_reason)
        finally:
            self._shutdown_hook()
            if self._pbar is not None:
                self._pbar.close()
                self._pbar = None
        self.collector.shutdown()

    def _batch(self, batch: Any) -> None:
        before = self.collected_frames
        if batch is not None:
            batch = self._process_batch_hook(batch)
            mask = batch.get(MASK_KEY, None)
            self.collected_frames += (batch.numel() if mask is None else int(mask.sum())) * self.frame_skip
        elif not self.async_collection:
            self.collected_frames += self.collector.requested_frames_per_batch * self.frame_skip
        self._pre_steps_log_hook(batch)
        if self.collected_frames >= (getattr(self.collector, "init_random_frames", 0) or 0):
            self.optim_steps(batch)
        self._post_steps_hook()
        self._post_steps_log_hook(batch)
        if self._pbar is not None:
            self._pbar.update(self.collected_frames - before)
            self._pbar.set_description(", ".join(f"{name}: {_short(value)}" for name, value in self._pbar_str.items()))

    def _batches(self) -> Any:
        if not self.async_collection:
            return self.collector
        return self._background()

    def _background(self) -> Any:
        """None, as often as there is something new in the replay buffer of a collector in the background."""
        import time

        buffer = self.collector.replay_buffer
        self.collector.start()
        while True:
            count = buffer.write_count
            if count < max(1, getattr(self.collector, "init_random_frames", 0) or 0):
                time.sleep(0.01)
                continue
            self.collected_frames = count * self.frame_skip
            yield None

    def optim_steps(self, batch: Any) -> None:
        """Train with a batch.

        Args:
            batch: after `batch_process`; None where samples come from a replay buffer.
        """
        self._pre_optim_hook()
        sums: Any = None
        count = 0
        for _ in range(self.num_epochs):
            self._pre_epoch_log_hook(batch)
            prepared = self._pre_epoch_hook(batch)
            step = 0
            sums, count = None, 0  # Upstream: means are those of the last epoch.
            while self.optim_steps_per_batch is None or step < self.optim_steps_per_batch:
                try:
                    sub_batch = self._process_optim_batch_hook(prepared)
                except StopIteration:
                    if self.optim_steps_per_batch is None:
                        break
                    raise
                step += 1
                self._optim_count += 1
                losses = self._stepped(sub_batch)
                sums = losses if sums is None else _added(sums, losses)
                count += 1
                self._post_optim_hook()
                self._post_optim_log(sub_batch)
            self._post_epoch_log_hook(prepared)
            self._post_epoch_hook()
        means = None if sums is None else TensorDict({name: value / count for name, value in sums.items()}, [])
        self._post_optim_complete_log_hook(self._optim_count, means)
        if self.auto_log_optim_steps and means is not None:
            self._log(optim_steps=self._optim_count, **{name: value.mean().item() for name, value in means.items()})

    def _stepped(self, sub_batch: Any) -> Any:
        """A step with a batch; the losses, detached."""
        stepper = self.optimization_stepper
        if stepper is not None:
            losses = stepper.step(self, sub_batch)
        else:
            losses = self._process_loss_hook(sub_batch, self.compute_loss(sub_batch))
            losses = self._optimizer_hook(losses)
        self._post_loss_hook(sub_batch)
        return losses

    # Numbers

    def _log(self, log_pbar: bool = False, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            self._log_dict[name].append(value)
            if self.collected_frames - self._last_log.get(name, 0) > self._log_interval:
                self._last_log[name] = self.collected_frames
                if self.logger is not None:
                    self.logger.log_scalar(name, value, step=self.collected_frames)
            if log_pbar and self._pbar is not None:
                self._pbar_str[name] = float(value)

    def shutdown(self) -> None:
        """Shut the collector down."""
        self.collector.shutdown()

    def __repr__(self) -> str:
        parts = [
            f"loss={self.loss_module}",
            f"collector={self.collector}",
            f"optimizer={self.optimizer}",
            f"logger={self.logger}",
        ]
        return f"{type(self).__name__}(\n    " + ",\n    ".join(parts) + ")"


class _Counts:
    """What a trainer counts, as a component of a checkpoint."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        """That of the trainer alone."""
        return self.trainer._get_state()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take what was counted."""
        self.trainer._set_state(state_dict)


def _is_kept(part: Any) -> bool:
    pairs = (("state_dict", "load_state_dict"), ("dump", "load"), ("dumps", "loads"))
    return any(callable(getattr(part, a, None)) and callable(getattr(part, b, None)) for a, b in pairs)


def _added(sums: Any, losses: Any) -> Any:
    """Sums of numbers by name; those that come later begin at 0."""
    for name, value in losses.items():
        before = sums.get(name, None)
        sums.set(name, value if before is None else before + value)
    return sums


def _short(value: float) -> str:
    return f"{value:.4g}"


def _timed(op: Callable[..., Any]) -> Callable[..., Any]:
    name = getattr(op, "__name__", type(op).__name__)

    def call(*args: Any, **kwargs: Any) -> Any:
        with timeit(f"hook/{name}"):
            return op(*args, **kwargs)

    call.__name__ = name
    return call


def _has_tqdm() -> bool:
    try:
        import tqdm  # noqa: F401
    except ImportError:
        warnings.warn("the progress bar needs tqdm. Run: pip install tqdm", stacklevel=3)
        return False
    return True
