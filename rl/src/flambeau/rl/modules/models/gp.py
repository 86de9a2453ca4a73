"""PILCO's model of the world: a Gaussian process for each variable (Deisenroth and Rasmussen 2011)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["GPWorldModel"]

_STEPS = 100


class GPWorldModel(nn.Module):
    """Changes of the state as Gaussian processes of state and action, one process a variable.

    Processes have a squared exponential kernel with a length scale an input, and noise; `fit` takes what makes the data
    most likely. Beliefs N(mean, covariance) go through by matching moments exactly.

    Args:
        obs_dim: D, size of states.
        action_dim: F, size of actions.
        in_keys: of the action's mean (*batch, F), covariance (*batch, F, F) and `RBFController`'s third result
            (*batch, D, F), the state's mean (*batch, D) and covariance (*batch, D, D).
        out_keys: of mean (*batch, D) and covariance (*batch, D, D) of the next state.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> data = TensorDict({
        ...     "observation": torch.randn(20, 2), "action": torch.randn(20, 1),
        ...     "next": {"observation": torch.randn(20, 2)},
        ... }, [20])
        >>> model = GPWorldModel(obs_dim=2, action_dim=1)
        >>> model.fit(data)

    References:
        Deisenroth and Rasmussen 2011, "PILCO: A Model-Based and Data-Efficient Approach to Policy Search", ICML,
        section 2; equations are cited by its numbers.
    """

    inputs: Tensor
    log_scales: Tensor
    log_amplitudes: Tensor
    log_noises: Tensor
    inverses: Tensor
    coefficients: Tensor

    def __init__(
        self, obs_dim: int, action_dim: int, in_keys: list[Any] | None = None, out_keys: list[Any] | None = None
    ) -> None:
        super().__init__()
        self.obs_dim, self.action_dim = obs_dim, action_dim
        action, observation = ("mean", "var", "cross_covariance"), ("mean", "var")
        given = [("action", name) for name in action] + [("observation", name) for name in observation]
        self.in_keys = list(in_keys) if in_keys is not None else given
        self.out_keys = (
            list(out_keys) if out_keys is not None else [("next", "observation", name) for name in observation]
        )
        width = obs_dim + action_dim
        self.register_buffer("inputs", torch.zeros(0, width))
        self.register_buffer("log_scales", torch.zeros(obs_dim, width))
        self.register_buffer("log_amplitudes", torch.zeros(obs_dim))
        self.register_buffer("log_noises", torch.full((obs_dim,), -2.0))
        self.register_buffer("inverses", torch.zeros(obs_dim, 0, 0))
        self.register_buffer("coefficients", torch.zeros(obs_dim, 0))

    @property
    def device(self) -> torch.device:
        """Of the data and hyperparameters."""
        return self.inputs.device

    def fit(self, dataset: Any) -> None:
        """Take the hyperparameters that make transitions most likely, by L-BFGS, and keep the transitions.

        Args:
            dataset: (n,) with "observation" (n, D), "action" (n, F) and ("next", "observation") (n, D).

        Raises:
            ValueError: the data has other shapes.
        """
        state, action = dataset.get("observation"), dataset.get("action")
        if state.ndim != 2 or state.shape[-1] != self.obs_dim or action.shape[-1] != self.action_dim:
            raise ValueError(
                f"dataset: observation and action have shapes {tuple(state.shape)} and {tuple(action.shape)}, expected "
                f"(n, {self.obs_dim}) and (n, {self.action_dim}); reshape(-1) flattens batches."
            )
        inputs = torch.cat([state, action], -1).detach()
        changes = (dataset.get(("next", "observation")) - state).detach().mT
        spread = inputs.std(0).clamp(min=1e-3).log().expand(self.obs_dim, -1)
        size = changes.std(-1).clamp(min=1e-4).log()
        start = (spread.clone(), size.clone(), size - 2.3)
        free = [each.clone().requires_grad_() for each in start]
        optimizer = torch.optim.LBFGS(free, max_iter=_STEPS, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = _surprise(inputs, changes, *free)
            loss.backward()
            return loss

        optimizer.step(closure)
        self.inputs = inputs
        self.log_scales, self.log_amplitudes, self.log_noises = (each.detach() for each in free)
        factor = torch.linalg.cholesky(_noisy_kernel(inputs, *free).detach())
        self.inverses = torch.cholesky_inverse(factor)
        self.coefficients = torch.cholesky_solve(changes.unsqueeze(-1), factor).squeeze(-1)

    def compute_factorizations(self) -> tuple[Tensor, Tensor]:
        """Inverses of the noisy kernel matrices (D, n, n), and the weights of the data (D, n) (equation 7)."""
        return self.inverses, self.coefficients

    def forward(self, tensordict: Any) -> Any:
        """Write the next state's mean and covariance: by matching moments where a covariance is not 0."""
        _, action_covariance, _, _, covariance = (tensordict.get(key, None) for key in self.in_keys)
        uncertain = any(each is not None and bool(each.any()) for each in (action_covariance, covariance))
        return self.uncertain_forward(tensordict) if uncertain else self.deterministic_forward(tensordict)

    def deterministic_forward(self, tensordict: Any) -> Any:
        """The processes' means and variances at a point (equations 7 and 8); batches of any dimensions."""
        mean = tensordict.get(self.in_keys[3])
        point = torch.cat([mean, tensordict.get(self.in_keys[0])], -1)
        kernel = _kernel(point.unsqueeze(-2), self.inputs, self.log_scales, self.log_amplitudes)[..., 0, :]
        change = (kernel * self.coefficients).sum(-1)
        explained = torch.einsum("...dn,dnm,...dm->...d", kernel, self.inverses, kernel)
        variance = ((2 * self.log_amplitudes).exp() - explained).clamp(min=0)
        return self._write(tensordict, mean + change, torch.diag_embed(variance))

    def uncertain_forward(self, tensordict: Any) -> Any:
        """Mean and covariance of the next state under a Gaussian belief (equations 10 to 23).

        Covariances and their products that are not in the tensordict are 0.
        """
        action, action_covariance, cross, mean, covariance = (tensordict.get(key, None) for key in self.in_keys)
        batch, states, actions = mean.shape[:-1], self.obs_dim, self.action_dim
        covariance = mean.new_zeros(*batch, states, states) if covariance is None else covariance
        if action_covariance is None:
            action_covariance = mean.new_zeros(*batch, actions, actions)
        shared = mean.new_zeros(*batch, states, actions) if cross is None else covariance @ cross
        joint = torch.cat(
            [torch.cat([covariance, shared], -1), torch.cat([shared.mT, action_covariance], -1)], -2,
        )  # fmt: skip
        off = self.inputs - torch.cat([mean, action], -1).unsqueeze(-2)
        change, slopes = self._mean_change(off, joint)
        with_state = joint[..., :states, :] @ slopes
        spread = self._change_covariance(off, joint, change)
        return self._write(tensordict, mean + change, covariance + spread + with_state + with_state.mT)

    def _mean_change(self, off: Tensor, joint: Tensor) -> tuple[Tensor, Tensor]:
        """Mean changes (*batch, D) (equation 14), and (*batch, D + F, D), times which inputs vary with them."""
        squares = (2 * self.log_scales).exp()
        spread = joint.unsqueeze(-3) + torch.diag_embed(squares)
        solved = torch.linalg.solve(spread, off.mT.unsqueeze(-3)).mT
        ratio = torch.linalg.det(joint.unsqueeze(-3) / squares.unsqueeze(-2) + _eye(joint))
        exponent = 2 * self.log_amplitudes.unsqueeze(-1) - (off.unsqueeze(-3) * solved).sum(-1) / 2
        weighted = self.coefficients * ratio.rsqrt().unsqueeze(-1) * exponent.exp()
        return weighted.sum(-1), (weighted.unsqueeze(-1) * solved).sum(-2).mT

    def _change_covariance(self, off: Tensor, joint: Tensor, change: Tensor) -> Tensor:
        """Covariances of changes, (*batch, D, D) (equations 20 to 23)."""
        precisions = (-2 * self.log_scales).exp()
        both = precisions.unsqueeze(0) + precisions.unsqueeze(1)
        spread = joint[..., None, None, :, :] * both.unsqueeze(-2) + _eye(joint)
        scaled = off.unsqueeze(-3) * precisions.unsqueeze(-2)
        alone = 2 * self.log_amplitudes.unsqueeze(-1) - (off.unsqueeze(-3) * scaled).sum(-1) / 2
        # Exponents of pairs of data, one of each of two processes: z' R^-1 S z / 2 of equation 22 in four products.
        metric = torch.linalg.solve(spread, joint[..., None, None, :, :].expand_as(spread)) / 2
        first, second = scaled.unsqueeze(-3), scaled.unsqueeze(-4)
        own = ((first @ metric) * first).sum(-1).unsqueeze(-1) + ((second @ metric) * second).sum(-1).unsqueeze(-2)
        pairs = own + first @ (metric + metric.mT) @ second.mT
        pairs = pairs + alone.unsqueeze(-2).unsqueeze(-1) + alone.unsqueeze(-3).unsqueeze(-2)
        products = torch.linalg.det(spread).rsqrt()[..., None, None] * pairs.exp()
        weights = self.coefficients
        covariance = torch.einsum("an,...abnm,bm->...ab", weights, products, weights)
        covariance = covariance - change.unsqueeze(-1) * change.unsqueeze(-2)
        diagonal = products.diagonal(dim1=-4, dim2=-3).movedim(-1, -3)
        left = (2 * self.log_amplitudes).exp() - (self.inverses * diagonal).sum((-2, -1))
        return covariance + torch.diag_embed(left)

    def _write(self, tensordict: Any, mean: Tensor, covariance: Tensor) -> Any:
        return tensordict.set(self.out_keys[0], mean).set(self.out_keys[1], covariance)


def _eye(like: Tensor) -> Tensor:
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)


def _kernel(left: Tensor, right: Tensor, log_scales: Tensor, log_amplitudes: Tensor) -> Tensor:
    """(*batch, n, W), (m, W) -> (*batch, D, n, m) (equation 6, without noise)."""
    scales = log_scales.exp().unsqueeze(-2)
    left, right = left.unsqueeze(-3) / scales, right / scales
    squares = (left.unsqueeze(-2) - right.unsqueeze(-3)).square().sum(-1)
    return (2 * log_amplitudes[:, None, None] - squares / 2).exp()


def _noisy_kernel(inputs: Tensor, log_scales: Tensor, log_amplitudes: Tensor, log_noises: Tensor) -> Tensor:
    # A little more than the noise, for kernel matrices of data that lies close together.
    noise = (2 * log_noises).exp() + 1e-6 * (2 * log_amplitudes).exp()
    return _kernel(inputs, inputs, log_scales, log_amplitudes) + torch.diag_embed(
        noise.unsqueeze(-1).expand(-1, len(inputs))
    )


def _surprise(inputs: Tensor, changes: Tensor, *hyperparameters: Tensor) -> Tensor:
    """The negative log-likelihood of all changes, without its constant."""
    factor, failed = torch.linalg.cholesky_ex(_noisy_kernel(inputs, *hyperparameters))
    if failed.any():
        return torch.full((), torch.inf, dtype=factor.dtype, device=factor.device, requires_grad=True)
    solved = torch.cholesky_solve(changes.unsqueeze(-1), factor).squeeze(-1)
    surprise: Tensor = (changes * solved).sum() / 2 + factor.diagonal(dim1=-2, dim2=-1).log().sum()
    return surprise
