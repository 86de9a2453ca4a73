"""How DreamerV3 is optimized: its optimizer, a whole update, and how many there are (arXiv:2301.04104, appendix B)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any, Literal

import torch
from torch import Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.modules.models.model_based import RSSMRolloutV3
from flambeau.rl.trainers._optim_hooks import OptimizationStepper

__all__ = ["DreamerV3OptimizationStepper", "DreamerV3Optimizer", "DreamerV3UpdateRatio"]


class DreamerV3Optimizer(torch.optim.Optimizer):
    r"""LaProp behind adaptive clipping: gradients are clipped by their parameter's norm, scaled, then averaged.

    With the gradient :math:`g_t` of a parameter :math:`w`,

    .. math::
        \hat g_t &= g_t / \max(1, \|g_t\| / (c \max(\|w\|, w_{min}))) \\
        v_t &= \beta_2 v_{t-1} + (1 - \beta_2) \hat g_t^2, \quad
        m_t = \beta_1 m_{t-1} + (1 - \beta_1) \hat g_t / (\sqrt{v_t / (1 - \beta_2^t)} + \epsilon) \\
        w &\leftarrow w - \eta_t m_t / (1 - \beta_1^t), \quad \eta_t = \eta \min(1, (t - 1) / T)

    Args:
        parameters: to optimize, or groups of them; a group counts its steps.
        lr: the rate after the warm-up.
        agc: c, the largest norm of a gradient in norms of its parameter; 0 clips nothing.
        parameter_norm_min: the least norm that a parameter counts as.
        beta1, beta2: of the averages.
        eps: added to the root.
        warmup_steps: T, steps in which the rate grows from 0; 0 for none.

    References:
        Hafner et al. 2023, arXiv:2301.04104; Ziyin et al. 2020, arXiv:2002.04839; Brock et al. 2021, arXiv:2102.06171.
    """

    def __init__(
        self, parameters: Iterable[Any], *, lr: float = 4e-5, agc: float = 0.3, parameter_norm_min: float = 1e-3,
        beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-20, warmup_steps: int = 1000,
    ) -> None:  # fmt: skip
        defaults = {
            "lr": lr, "agc": agc, "parameter_norm_min": parameter_norm_min, "beta1": beta1, "beta2": beta2, "eps": eps,
            "warmup_steps": warmup_steps, "step": 0,
        }  # fmt: skip
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:  # type: ignore[override]
        """Change the parameters that have gradients.

        Args:
            closure: computes the loss and gradients before.

        Returns:
            What the closure returned.

        Raises:
            RuntimeError: no parameter has a gradient.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        trained = [[each for each in group["params"] if each.grad is not None] for group in self.param_groups]
        if not any(trained):
            raise RuntimeError("DreamerV3Optimizer.step: no parameter has a gradient; call backward first.")
        for group, parameters in zip(self.param_groups, trained, strict=True):
            if not parameters:
                continue
            group["step"] += 1
            warm = min(1.0, (group["step"] - 1) / group["warmup_steps"]) if group["warmup_steps"] else 1.0
            for parameter in parameters:
                parameter.sub_(self._direction(parameter, group).to(parameter.dtype), alpha=group["lr"] * warm)
        return loss

    def _direction(self, parameter: Tensor, group: dict[str, Any]) -> Tensor:
        assert parameter.grad is not None
        gradient = parameter.grad.float()
        if group["agc"]:
            limit = group["agc"] * parameter.float().norm().clamp(min=group["parameter_norm_min"])
            gradient = gradient / (gradient.norm() / limit).clamp(min=1)
        state = self.state[parameter]
        if not state:
            state["rms"], state["momentum"] = torch.zeros_like(gradient), torch.zeros_like(gradient)
        state["rms"].mul_(group["beta2"]).add_(gradient.square(), alpha=1 - group["beta2"])
        root = (state["rms"] / (1 - group["beta2"] ** group["step"])).sqrt() + group["eps"]
        state["momentum"].mul_(group["beta1"]).add_(gradient / root, alpha=1 - group["beta1"])
        direction: Tensor = state["momentum"] / (1 - group["beta1"] ** group["step"])
        return direction


class DreamerV3UpdateRatio:
    """How many updates are due, so that there are so many a recorded step; fractions are kept for the next time.

    Args:
        ratio: updates for each recorded step; none where it is not above 0.

    Example:
        >>> schedule = DreamerV3UpdateRatio(0.25)
        >>> schedule(4), schedule(6), schedule(8)
        (1, 0, 1)
    """

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio
        self._previous: float | None = None

    def __call__(self, record_count: int) -> int:
        """The number of updates due after so many steps in all; one the first time."""
        if self.ratio <= 0:
            return 0
        if self._previous is None:
            self._previous = float(record_count)
            return 1
        due = int((record_count - self._previous) * self.ratio)
        self._previous += due / self.ratio
        return due

    def reset(self, record_count: int) -> None:
        """Count from here on, and forget what was due."""
        self._previous = float(record_count)

    def state_dict(self) -> dict[str, float | None]:
        """The ratio, and up to where updates were made."""
        return {"ratio": self.ratio, "previous": self._previous}

    def load_state_dict(self, state_dict: Mapping[str, float | None]) -> None:
        """Go on from what `state_dict` gave."""
        ratio = state_dict["ratio"]
        assert ratio is not None
        self.ratio, self._previous = ratio, state_dict["previous"]


class DreamerV3OptimizationStepper(OptimizationStepper):
    """A whole update: losses and gradients, compiled or captured in a CUDA graph where wanted, then steps.

    Args:
        loss_module: a `DreamerV3Loss`.
        optimizer: of all its parameters.
        target_updater: steps after the optimizer.
        compile_train_step: compile losses and gradients; None: on CUDA.
        compile_mode: of `torch.compile`.
        cudagraph: capture them in a CUDA graph; None: on CUDA.
        rssm_scan_unroll: compiled rollouts run in graphs of so many steps; None leaves them as they are.
        warmup_steps: calls before the graph is captured, > 0.
        mixed_precision: run losses in bfloat16 on CUDA.

    Raises:
        ValueError: `warmup_steps` or `rssm_scan_unroll` is below 1.

    Note:
        What is compiled or captured needs `warmup` with a sample like those that come, before the first step.
    """

    def __init__(
        self, loss_module: Any, optimizer: torch.optim.Optimizer, target_updater: Any = None, *,
        compile_train_step: bool | None = None,
        compile_mode: Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"] = "default",
        cudagraph: bool | None = None, rssm_scan_unroll: int | None = 8, warmup_steps: int = 5,
        mixed_precision: bool = False,
    ) -> None:  # fmt: skip
        for name, value in (("warmup_steps", warmup_steps), ("rssm_scan_unroll", rssm_scan_unroll)):
            if value is not None and value < 1:
                raise ValueError(f"{name}: it is {value}, expected at least 1.")
        self.loss_module, self.optimizer, self.target_updater = loss_module, optimizer, target_updater
        self.compile_train_step, self.compile_mode, self.cudagraph = compile_train_step, compile_mode, cudagraph
        self.rssm_scan_unroll, self.warmup_steps = rssm_scan_unroll, warmup_steps
        self.mixed_precision = mixed_precision
        self._run: Callable[[TensorDictBase], TensorDictBase] | None = None
        self._graph: Any = None
        self._captured: tuple[TensorDictBase, TensorDictBase] | None = None

    def resolve(self, device: torch.device) -> tuple[bool, bool]:
        """Whether losses are compiled, and captured, on a device."""
        on_cuda = torch.device(device).type == "cuda"
        compiled = on_cuda if self.compile_train_step is None else self.compile_train_step
        captured = on_cuda if self.cudagraph is None else self.cudagraph
        return compiled, captured

    def warmup(self, sample: TensorDictBase) -> None:
        """Compile and capture with a sample, without a step; buffers and random numbers are as before afterwards.

        Args:
            sample: (*batch, time), of the shapes and dtypes that come; nothing else may run on the device.

        Raises:
            RuntimeError: a CUDA graph is wanted elsewhere than on CUDA.
        """
        device = _device_of(sample)
        compiled, captured = self.resolve(device)
        if captured and device.type != "cuda":
            raise RuntimeError(f"cudagraph: the sample is on {device}, expected CUDA; use cudagraph=False there.")
        self._run = self._losses_and_gradients
        if compiled:
            if self.rssm_scan_unroll is not None:
                for module in self.loss_module.modules():
                    if isinstance(module, RSSMRolloutV3):
                        module.compile_rollout("scan", unroll=self.rssm_scan_unroll, compile=False)
            self._run = torch.compile(self._losses_and_gradients, mode=self.compile_mode)
        if not (compiled or captured):
            return
        buffers = [(buffer, buffer.clone()) for buffer in self.loss_module.buffers()]
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            if captured:
                self._capture(sample)
            else:
                for _ in range(self.warmup_steps):
                    self._run(sample)
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        self.optimizer.zero_grad(set_to_none=not captured)

    def _capture(self, sample: TensorDictBase) -> None:
        assert self._run is not None
        static = sample.clone()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(self.warmup_steps):
                self._run(static)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._captured = static, self._run(static)

    def _losses_and_gradients(self, sample: TensorDictBase) -> TensorDictBase:
        for parameter in self.loss_module.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()
        on_cuda = self.mixed_precision and _device_of(sample).type == "cuda"
        with torch.autocast("cuda", torch.bfloat16) if on_cuda else nullcontext():
            found = self.loss_module(sample)
        total = torch.stack([value.float() for name, value in found.items() if name.startswith("loss_")]).sum()
        total.backward()
        detached: TensorDictBase = found.detach()
        return detached

    def step(self, trainer: Any, sub_batch: TensorDictBase) -> TensorDictBase:
        """Update parameters and targets, and write the inferred states to the batch.

        Args:
            trainer: of this loss, or None in a loop of one's own.
            sub_batch: (*batch, time).

        Returns:
            Numbers to be logged.

        Raises:
            ValueError: the trainer has another loss.
            RuntimeError: compiled or captured steps were not warmed up.
        """
        if trainer is not None and trainer.loss_module is not self.loss_module:
            raise ValueError("trainer: it has another loss than this stepper; give both the same.")
        if self._run is None:
            if any(self.resolve(_device_of(sub_batch))):
                raise RuntimeError("DreamerV3OptimizationStepper.step: call warmup with a sample first.")
            self._run = self._losses_and_gradients
        if self._captured is None:
            found = self._run(sub_batch)
        else:
            static, results = self._captured
            static.update_(sub_batch.select(*static.keys(True, True)))
            self._graph.replay()
            found = results.clone()
        self.optimizer.step()
        if self.target_updater is not None:
            self.target_updater.step()
        key = self.loss_module.tensor_keys.replay_context
        context = found.get(key, None)
        if context is not None:
            sub_batch.set(key, context)
        return TensorDict({name: each for name, each in found.items() if isinstance(each, Tensor) and not each.ndim})

    def state_dict(self) -> dict[str, Any]:
        """Of the optimizer and of the targets' updater; the loss has its own."""
        state = {"optimizer": self.optimizer.state_dict()}
        if self.target_updater is not None:
            state["target_updater"] = self.target_updater.state_dict()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.optimizer.load_state_dict(state_dict["optimizer"])
        if self.target_updater is not None and "target_updater" in state_dict:
            self.target_updater.load_state_dict(state_dict["target_updater"])


def _device_of(sample: TensorDictBase) -> torch.device:
    device: torch.device = next(value.device for value in sample.values(True, True) if isinstance(value, Tensor))
    return device
