"""Influence functions for many parameters: the Hessian is seen through its products with vectors alone.

Schioppa, Zablotskaia, Vilar and Sokolov, "Scaling Up Influence Functions", 2022, arXiv:2112.03052: Arnoldi's iteration
(1951) builds a basis in which the Hessian is small, and its largest eigenvalues there are nearly those that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import grad, vjp
from torch.utils.data import DataLoader, Dataset

from flambeau.core.progress import progress
from flambeau.influence._core.influence_function import IntermediateQuantitiesInfluenceFunction, _top_eigen
from flambeau.influence._utils.common import LoadFunction, Loss, _load_flexible_state_dict
from flambeau.influence.errors import InfluenceError

__all__ = ["ArnoldiInfluenceFunction"]


class ArnoldiInfluenceFunction(IntermediateQuantitiesInfluenceFunction):
    """Influence functions by Arnoldi's iteration.

    Args:
        model, train_dataset, checkpoint, checkpoints_load_func, layers, loss_fn, batch_size, hessian_dataset,
            test_loss_fn, sample_wise_grads_per_batch: see `InfluenceFunctionBase`.
        projection_dim: how many eigenvectors are kept, those of the largest eigenvalues.
        seed: of the vector that the iteration begins with.
        arnoldi_dim: steps of the iteration, at most; each passes `hessian_dataset` once and keeps one vector of as many
            numbers as there are parameters.
        arnoldi_tol: the iteration ends where what a step adds is shorter.
        hessian_reg: added to the small Hessian's diagonal.
        hessian_inverse_tol: eigenvalues below count as 0.
        projection_on_cpu: keep vectors there.
        show_progress: print how far it is.
    """

    def __init__(
        self,
        model: nn.Module,
        train_dataset: Dataset[Any] | DataLoader[Any],
        checkpoint: str,
        checkpoints_load_func: LoadFunction = _load_flexible_state_dict,
        layers: Sequence[str] | None = None,
        loss_fn: Loss = None,
        batch_size: int | None = 1,
        hessian_dataset: Dataset[Any] | DataLoader[Any] | None = None,
        test_loss_fn: Loss = None,
        sample_wise_grads_per_batch: bool = False,
        projection_dim: int = 50,
        seed: int = 0,
        arnoldi_dim: int = 200,
        arnoldi_tol: float = 1e-1,
        hessian_reg: float = 1e-3,
        hessian_inverse_tol: float = 1e-4,
        projection_on_cpu: bool = True,
        show_progress: bool = False,
    ) -> None:
        super().__init__(
            model, train_dataset, checkpoint, checkpoints_load_func, layers, loss_fn, batch_size, hessian_dataset,
            test_loss_fn, sample_wise_grads_per_batch,
        )  # fmt: skip
        if arnoldi_dim < 1:
            raise InfluenceError(f"arnoldi_dim is {arnoldi_dim}, expected 1 or more.")
        self.projection_dim, self.seed = projection_dim, seed
        self.arnoldi_dim, self.arnoldi_tol = arnoldi_dim, arnoldi_tol
        self.hessian_reg, self.hessian_inverse_tol = hessian_reg, hessian_inverse_tol
        self.projection_on_cpu = projection_on_cpu
        with self._at_checkpoint():
            basis, small = self._iterated(show_progress)
        values, vectors = _top_eigen(small, projection_dim, hessian_reg, hessian_inverse_tol)
        self.R = basis.T @ (vectors / values.sqrt()).to(basis)

    def _projection(self) -> Tensor:
        return self.R

    def _iterated(self, show_progress: bool) -> tuple[Tensor, Tensor]:
        """An orthonormal basis (steps, parameters), and the Hessian in it."""
        parameters, rest = self._parameters()
        flat = torch.cat([value.flatten() for value in parameters.values()])

        def product(vector: Tensor) -> Tensor:
            total = torch.zeros_like(flat)
            for batch in self.hessian_dataloader:

                def loss(at: Tensor, batch: Any = batch) -> Tensor:
                    return self._total_loss(self._unflattened(at, parameters), rest, batch)

                # The Hessian is symmetric: its transpose, which needs no forward mode, does as well.
                total += vjp(grad(loss), flat)[1](vector)[0].detach()
            return total

        start = torch.randn(len(flat), generator=torch.Generator().manual_seed(self.seed)).to(flat)
        kept_on = torch.device("cpu") if self.projection_on_cpu else flat.device
        with progress("ArnoldiInfluenceFunction", self.arnoldi_dim, show=show_progress) as advance:
            return _arnoldi(product, start, min(self.arnoldi_dim, len(flat)), self.arnoldi_tol, kept_on, advance)


def _arnoldi(
    product: Callable[[Tensor], Tensor],
    start: Tensor,
    steps: int,
    tolerance: float,
    device: torch.device,
    advance: Callable[[int], object],
) -> tuple[Tensor, Tensor]:
    """Arnoldi's iteration with modified Gram and Schmidt.

    Returns:
        The basis (steps, n), on `device`, and the operator in it (steps, steps), without the last vector, whose image
        is not known.
    """
    basis = [(start / start.norm()).to(device)]
    projected = torch.zeros(steps + 1, steps, dtype=start.dtype, device=device)
    done = 0
    for step in range(steps):
        image = product(basis[-1].to(start.device)).to(device)
        for row, vector in enumerate(basis):
            projected[row, step] = image @ vector
            image = image - projected[row, step] * vector
        length = image.norm()
        projected[step + 1, step] = length
        done = step + 1
        advance(1)
        if length < tolerance:
            break
        basis.append(image / length)
    return torch.stack(basis[:done]), projected[:done, :done]
