"""Hooks that change parameters, or say when: optimizers, schedules, target networks, weights of collectors, the end."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import optim

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.trainers._hook_base import TrainerHookBase, total_norm

__all__ = [
    "ClearCudaCache",
    "DefaultOptimizationStepper",
    "EarlyStopping",
    "LRSchedulerHook",
    "MixedPrecisionOptimizationStepper",
    "OptimizationStepper",
    "OptimizerHook",
    "TargetNetUpdaterHook",
    "UpdateWeights",
]


def _parameters(optimizer: optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _summed(losses: TensorDictBase, components: Sequence[str] | None) -> Any:
    """The sum of the losses that are trained with.

    Raises:
        KeyError: there are none of these names.
    """
    names = [key for key in list(losses.keys()) if key.startswith("loss")] if components is None else components
    terms = [losses.get(name) for name in names]
    if not terms or any(term is None for term in terms):
        raise KeyError(f"the losses have no {names or 'key that begins with loss'}; they have {list(losses.keys())}.")
    return sum(terms)


class OptimizerHook(TrainerHookBase):
    """A step of an optimizer with some of the losses.

    Args:
        optimizer: the optimizer.
        loss_components: names of the losses; default: all that begin with "loss_".

    Raises:
        ValueError: `loss_components` is empty.
    """

    def __init__(self, optimizer: optim.Optimizer, loss_components: Sequence[str] | None = None) -> None:
        if loss_components is not None and not loss_components:
            raise ValueError("loss_components is empty; leave it out to train with all losses.")
        self.optimizer = optimizer
        self.loss_components = None if loss_components is None else set(loss_components)

    def __call__(
        self, losses_td: TensorDictBase, clip_grad_norm: bool, clip_norm: float | None, index: int
    ) -> TensorDictBase:
        """Take the step.

        Args:
            losses_td: losses; the norm of the gradients is added as "grad_norm_INDEX".
            clip_grad_norm: scale gradients, else clamp each number.
            clip_norm: to what; None for not at all.
            index: the number of this optimizer.
        """
        # In the order of the losses, so that sums are the same to the last bit.
        chosen = self.loss_components
        names = None if chosen is None else [key for key in list(losses_td.keys()) if key in chosen]
        _summed(losses_td, names).backward()
        norm = total_norm(_parameters(self.optimizer), clip_grad_norm, clip_norm)
        losses_td.set(f"grad_norm_{index}", norm.detach())
        self.optimizer.step()
        self.optimizer.zero_grad()
        return losses_td

    def state_dict(self) -> dict[str, Any]:
        """That of the optimizer."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state of the optimizer."""
        self.optimizer.load_state_dict(state_dict)

    def register(self, trainer: Any, name: str = "optimizer") -> None:
        """Step with each loss."""
        trainer.register_op("optimizer", self)
        trainer.register_module(name, self)


class OptimizationStepper(TrainerHookBase):
    """All that happens to the parameters with one batch, in the place of the trainer's own step."""

    updates_replay_priority = False
    """Whether the step brings priorities to the batch, which the trainer gives to the buffer."""

    @abstractmethod
    def step(self, trainer: Any, sub_batch: TensorDictBase) -> TensorDictBase:
        """Compute losses, and change parameters.

        Args:
            trainer: has the loss, and what gradients are clipped to.
            sub_batch: what is trained with.

        Returns:
            Numbers to be logged, detached.
        """

    def state_dict(self) -> dict[str, Any]:
        """What it has to remember."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""

    def register(self, trainer: Any, name: str = "optimization_stepper") -> None:
        """Be the step of a trainer."""
        trainer.optimization_stepper = self
        trainer.register_module(name, self)


class DefaultOptimizationStepper(OptimizationStepper):
    """One step of the trainer's optimizer with the sum of the losses.

    Args:
        loss_components: names of the losses; default: all that begin with "loss_".
    """

    def __init__(self, loss_components: Sequence[str] | None = None) -> None:
        if loss_components is not None and not loss_components:
            raise ValueError("loss_components is empty; leave it out to train with all losses.")
        self.loss_components = loss_components

    def step(self, trainer: Any, sub_batch: TensorDictBase) -> TensorDictBase:
        """As `OptimizationStepper.step`.

        Raises:
            RuntimeError: the trainer has no optimizer.
        """
        optimizer = trainer.optimizer
        if optimizer is None:
            raise RuntimeError(
                "DefaultOptimizationStepper steps the trainer's optimizer, which it has not; give optimizer=."
            )
        losses = trainer._process_loss_hook(sub_batch, trainer.compute_loss(sub_batch))
        _summed(losses, self.loss_components).backward()
        norm = total_norm(_parameters(optimizer), trainer.clip_grad_norm, trainer.clip_norm)
        losses.set("grad_norm", norm.detach())
        optimizer.step()
        optimizer.zero_grad()
        return losses.detach()


class MixedPrecisionOptimizationStepper(OptimizationStepper):
    """Steps in a smaller number format, and with the gradients of several batches.

    Args:
        optimizer: the optimizer.
        mixed_precision: compute losses in `autocast_dtype`.
        autocast_dtype: bfloat16, or float16, for which losses are scaled.
        gradient_accumulation_steps: batches whose gradients make one step.
        clip_norm: largest norm of gradients; None for any.
        device_type: where it is computed; default: where the parameters are.

    Raises:
        ValueError: `gradient_accumulation_steps` is below 1.
    """

    def __init__(
        self,
        optimizer: optim.Optimizer,
        *,
        mixed_precision: bool = False,
        autocast_dtype: torch.dtype = torch.bfloat16,
        gradient_accumulation_steps: int = 1,
        clip_norm: float | None = 1.0,
        device_type: str | None = None,
    ) -> None:
        if gradient_accumulation_steps < 1:
            raise ValueError(f"gradient_accumulation_steps must be 1 or more; got {gradient_accumulation_steps}.")
        self.optimizer = optimizer
        self.mixed_precision = mixed_precision
        self.autocast_dtype = autocast_dtype
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self.clip_norm = clip_norm
        self.device_type = device_type or _parameters(optimizer)[0].device.type
        scales = mixed_precision and autocast_dtype is torch.float16
        self.scaler = torch.amp.GradScaler(self.device_type, enabled=scales)
        self._micro_step = 0
        self._optimizer_steps = 0

    @property
    def optimizer_step_count(self) -> int:
        """How many steps there were."""
        return self._optimizer_steps

    def step(self, trainer: Any, sub_batch: TensorDictBase) -> TensorDictBase:
        """As `OptimizationStepper.step`; parameters change with every `gradient_accumulation_steps`-th batch."""
        with torch.autocast(self.device_type, dtype=self.autocast_dtype, enabled=self.mixed_precision):
            losses = trainer._process_loss_hook(sub_batch, trainer.compute_loss(sub_batch))
            loss = _summed(losses, None)
        self.scaler.scale(loss / self.gradient_accumulation_steps).backward()
        self._micro_step += 1
        if self._micro_step % self.gradient_accumulation_steps == 0:
            self.scaler.unscale_(self.optimizer)
            losses.set("grad_norm", total_norm(_parameters(self.optimizer), True, self.clip_norm).detach())
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad(set_to_none=True)
            self._optimizer_steps += 1
        return losses.detach()

    def state_dict(self) -> dict[str, Any]:
        """Those of the optimizer and the scale, and what was counted."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "micro_step": self._micro_step,
            "optimizer_steps": self._optimizer_steps,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take states."""
        self.optimizer.load_state_dict(state_dict["optimizer"])
        self.scaler.load_state_dict(state_dict["scaler"])
        self._micro_step, self._optimizer_steps = state_dict["micro_step"], state_dict["optimizer_steps"]


class LRSchedulerHook(TrainerHookBase):
    """Steps of a schedule of learning rates.

    Args:
        scheduler: the schedule.
        interval: "batch", one step a collected batch, or "optim", one a step of the optimizer. Batches that nothing was
            trained with, such as the first random ones, do not count.

    Raises:
        ValueError: the interval is another one.
    """

    def __init__(self, scheduler: Any, interval: Literal["batch", "optim"] = "batch") -> None:
        if interval not in ("batch", "optim"):
            raise ValueError(f"interval must be 'batch' or 'optim'; got {interval!r}.")
        self.scheduler = scheduler
        self.interval = interval
        self._trainer: Any = None
        self.last_optim_count = 0

    def __call__(self, batch: TensorDictBase | None = None) -> TensorDictBase | None:
        """Take a step of the schedule; the batch passes through."""
        count = self.last_optim_count + 1 if self._trainer is None else self._trainer._optim_count
        if count > self.last_optim_count or self.interval == "optim":
            self.scheduler.step()
        self.last_optim_count = count
        return batch

    def state_dict(self) -> dict[str, Any]:
        """That of the schedule."""
        return {"scheduler": self.scheduler.state_dict(), "last_optim_count": self.last_optim_count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state of the schedule."""
        self.scheduler.load_state_dict(state_dict["scheduler"])
        self.last_optim_count = state_dict.get("last_optim_count", 0)

    def register(self, trainer: Any, name: str = "lr_scheduler") -> None:
        """Step after batches or after steps of the optimizer."""
        self._trainer = trainer
        trainer.register_op("post_steps" if self.interval == "batch" else "post_optim", self)
        trainer.register_module(name, self)


class TargetNetUpdaterHook(TrainerHookBase):
    """Steps of an updater of target networks.

    Args:
        target_params_updater: `objectives.SoftUpdate` or `HardUpdate`.

    Raises:
        ValueError: it is no such updater.
    """

    def __init__(self, target_params_updater: Any) -> None:
        if not callable(getattr(target_params_updater, "step", None)):
            raise ValueError(f"an updater of target networks is needed; got {type(target_params_updater).__name__}.")
        self.target_params_updater = target_params_updater

    def __call__(self, tensordict: Any = None) -> Any:
        """Take a step; what is given passes through."""
        self.target_params_updater.step()
        return tensordict

    def state_dict(self) -> dict[str, Any]:
        """How many steps there were since the last copy, of updaters that count."""
        counter = getattr(self.target_params_updater, "counter", None)
        return {} if counter is None else {"counter": counter}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on counting."""
        if "counter" in state_dict:
            self.target_params_updater.counter = state_dict["counter"]

    def register(self, trainer: Any, name: str = "target_net_updater") -> None:
        """Update after each step of the optimizer."""
        trainer.register_op("post_optim", self)
        trainer.register_module(name, self)


class UpdateWeights(TrainerHookBase):
    """Brings a collector new weights of the policy.

    Args:
        collector: the collector; not needed with a `sender`.
        update_weights_interval: every so many batches, or steps of the optimizer, >= 1.
        policy_weights_getter: called with the collector's policy, returns the weights; default: the collector knows.
        weight_update_map: names of the collector's modules, and dotted paths from the trainer to modules whose weights
            they get.
        trainer: from which these paths lead, and whose steps are counted.
        sender: has `update_weights()`, which is called instead.
        interval_unit: "batches" or "optim_steps".

    Raises:
        ValueError: arguments do not go together.
    """

    def __init__(
        self,
        collector: Any = None,
        update_weights_interval: int = 1,
        policy_weights_getter: Callable[[Any], Any] | None = None,
        weight_update_map: dict[str, str] | None = None,
        trainer: Any = None,
        *,
        sender: Any = None,
        interval_unit: Literal["batches", "optim_steps"] = "batches",
    ) -> None:
        if collector is None and sender is None:
            raise ValueError("give the collector that gets weights, or a sender.")
        if weight_update_map is not None and trainer is None:
            raise ValueError("weight_update_map leads from the trainer to weights; give trainer=.")
        if interval_unit not in ("batches", "optim_steps"):
            raise ValueError(f"interval_unit must be 'batches' or 'optim_steps'; got {interval_unit!r}.")
        if interval_unit == "optim_steps" and trainer is None:
            raise ValueError("interval_unit='optim_steps' counts the trainer's steps; give trainer=.")
        self.collector = collector
        self.update_weights_interval = update_weights_interval
        self.policy_weights_getter = policy_weights_getter
        self.weight_update_map = weight_update_map
        self.trainer = trainer
        self.sender = sender
        self.interval_unit = interval_unit
        self.counter = 0
        self.last_update_count = 0

    def __call__(self) -> None:
        """Bring weights, where it is time."""
        self.counter += 1
        if self.interval_unit == "batches":
            due = self.counter % self.update_weights_interval == 0
        else:
            due = self.trainer._optim_count - self.last_update_count >= self.update_weights_interval
        if not due:
            return
        if self.interval_unit == "optim_steps":
            self.last_update_count = self.trainer._optim_count
        if self.sender is not None:
            self.sender.update_weights()
        elif self.weight_update_map is not None:
            weights = {name: _weights(self.trainer, path) for name, path in self.weight_update_map.items()}
            self.collector.update_policy_weights_(weights_dict=weights)
        elif self.policy_weights_getter is not None:
            self.collector.update_policy_weights_(self.policy_weights_getter(self.collector.policy))
        elif getattr(self.collector, "policy", None) is None or isinstance(self.collector.policy, torch.nn.Module):
            self.collector.update_policy_weights_()

    def state_dict(self) -> dict[str, Any]:
        """What was counted."""
        return {"counter": self.counter, "last_update_count": self.last_update_count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on counting."""
        self.counter = state_dict.get("counter", 0)
        self.last_update_count = state_dict.get("last_update_count", 0)

    def register(self, trainer: Any, name: str = "update_weights") -> None:
        """Update after each batch was trained with."""
        trainer.register_module(name, self)
        trainer.register_op("post_steps", self)


def _weights(trainer: Any, path: str) -> Any:
    """The weights of the module at a dotted path from a trainer."""
    found = trainer
    for name in path.split("."):
        found = getattr(found, name)
    if not isinstance(found, torch.nn.Module):
        return found
    weights = TensorDict.from_module(found)
    return weights.data


class ClearCudaCache(TrainerHookBase):
    """Gives memory of CUDA back that is not used any longer.

    Args:
        interval: every so many steps, >= 1.
    """

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.count = 0

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Give it back, where it is time."""
        self.count += 1
        if self.count % self.interval == 0:
            torch.cuda.empty_cache()

    def state_dict(self) -> dict[str, Any]:
        """What was counted."""
        return {"count": self.count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on counting."""
        self.count = state_dict["count"]

    def register(self, trainer: Any, name: str = "clear_cuda_cache") -> None:
        """Look before each batch is trained with."""
        trainer.register_op("pre_optim_steps", self)
        trainer.register_module(name, self)


class EarlyStopping(TrainerHookBase):
    """Ends training when a number that is logged does not get better any longer.

    Args:
        monitor: the number's name.
        mode: "max" or "min": what is better.
        min_delta: by how much it has to be.
        patience: frames without anything better.
        wait_for: frames before anything is looked at.
        check_finite: end training where the number is none, too.

    Raises:
        ValueError: the mode is another one, or a number is below 0.
    """

    def __init__(
        self,
        *,
        monitor: Any = "r_evaluation",
        mode: Literal["min", "max"] = "max",
        min_delta: float = 0.0,
        patience: int = 100000,
        wait_for: int = 1000000,
        check_finite: bool = True,
    ) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"mode must be 'min' or 'max'; got {mode!r}.")
        for name, value in (("min_delta", min_delta), ("patience", patience), ("wait_for", wait_for)):
            if value < 0:
                raise ValueError(f"{name} must be 0 or more; got {value}.")
        self.monitor = monitor
        self.mode = mode
        self.min_delta = min_delta
        self.patience = patience
        self.wait_for = wait_for
        self.check_finite = check_finite
        self.best_score: float | None = None
        self.stop_reason: str | None = None
        self._last_improvement_frame: int | None = None
        self._trainer: Any = None

    def __call__(self, batch: TensorDictBase | None = None) -> None:
        """Look at the number, and ask the trainer to stop where it is time.

        Raises:
            RuntimeError: no number of that name was logged.
        """
        trainer = self._trainer
        frames = trainer.collected_frames
        if frames < self.wait_for:
            return
        values = trainer._log_dict.get(self.monitor)
        if not values:
            raise RuntimeError(
                f"EarlyStopping looks at {self.monitor!r}, which was not logged; logged were "
                f"{sorted(map(str, trainer._log_dict))}."
            )
        score = float(values[-1])
        if not math.isfinite(score):
            if self.check_finite:
                self._stop(f"{self.monitor} is {score} after {frames} frames")
            return
        best = self.best_score
        gain = math.inf if best is None else (score - best if self.mode == "max" else best - score)
        if gain > self.min_delta or self._last_improvement_frame is None:
            self.best_score, self._last_improvement_frame = score, frames
        elif frames - self._last_improvement_frame >= self.patience:
            self._stop(f"{self.monitor} did not get better than {best} for {self.patience} frames")

    def _stop(self, reason: str) -> None:
        self.stop_reason = reason
        self._trainer.request_stop(reason)

    def state_dict(self) -> dict[str, Any]:
        """The best number, and when it was."""
        return {
            "best_score": self.best_score,
            "stop_reason": self.stop_reason,
            "_last_improvement_frame": self._last_improvement_frame,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take these."""
        for name, value in state_dict.items():
            setattr(self, name, value)

    def register(self, trainer: Any, name: str = "early_stopping") -> None:
        """Look after each batch was trained with."""
        self._trainer = trainer
        trainer.register_op("post_steps_log", self)
        trainer.register_module(name, self)
