"""What runs in vLLM's workers: they join the trainer's process group and take weights from it."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.rl.modules.llm.backends.vllm.vllm_utils import stateless_init_process_group

__all__ = ["WeightReceiver"]


class WeightReceiver:
    """Mixed into vLLM's workers by `worker_extension_cls`; called by `collective_rpc`."""

    model_runner: Any
    device: Any
    _group: Any = None

    def init_weight_update_group(
        self, master_address: str, master_port: int, rank_offset: int, world_size: int
    ) -> None:
        """Join the process group.

        Args:
            master_address: the trainer's host.
            master_port: its port.
            rank_offset: of this engine's first worker.
            world_size: trainer and workers.
        """
        from vllm.distributed.parallel_state import get_world_group

        rank = get_world_group().rank + rank_offset
        self._group = stateless_init_process_group(master_address, master_port, rank, world_size, self.device)

    def update_weight(self, name: str, dtype_name: str, shape: tuple[int, ...]) -> None:
        """Receive one tensor and load it.

        Args:
            name: of the weight.
            dtype_name: such as "bfloat16".
            shape: of the tensor.

        Raises:
            RuntimeError: `init_weight_update_group` was not called.
        """
        if self._group is None:
            raise RuntimeError("this worker is in no process group; call init_weight_update_group first.")
        weight = torch.empty(shape, dtype=getattr(torch, dtype_name), device=self.device)
        self._group.broadcast(weight, src=0, stream=torch.cuda.current_stream())
        self.model_runner.model.load_weights(weights=[(name, weight)])

    def load_weights_from(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        """Load tensors that were sent with the call.

        Args:
            weights: names and tensors.
        """
        moved = [(name, weight.to(self.device)) for name, weight in weights]
        self.model_runner.model.load_weights(weights=moved)

    def weight_metadata(self) -> dict[str, tuple[torch.dtype, torch.Size]]:
        """The dtypes and shapes of the weights by their names."""
        return {name: (weight.dtype, weight.shape) for name, weight in self.model_runner.model.named_parameters()}
