"""Results of a model's modules, caught by hooks while the model runs as it is."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from flambeau.core.errors import close_names

__all__ = ["HookedFeatures"]


class HookedFeatures(nn.Module):
    """Run a model, and return what some of its modules returned, as copies.

    Args:
        model: runs as a whole; it is the child `model`.
        train_nodes: name -> key in the result, for train mode. A name is the path of a module; a call after the first
            is named by a suffix, `relu_1` for the second.
        eval_nodes: the same for eval mode.

    Raises:
        ValueError: a name is not that of a module.
    """

    def __init__(self, model: nn.Module, train_nodes: Mapping[str, str], eval_nodes: Mapping[str, str]) -> None:
        super().__init__()
        self.training = model.training
        self.model = model
        self._nodes = {
            mode: {key: self._place(name) for name, key in nodes.items()}
            for mode, nodes in ((True, train_nodes), (False, eval_nodes))
        }

    def _place(self, name: str) -> tuple[str, int]:
        """Path of a module, and which of its calls is meant."""
        paths = [path for path, _ in self.model.named_modules()]
        repeated = re.fullmatch(r"(.*)_(\d+)", name)
        if name in paths:
            return name, 0
        if repeated and repeated[1] in paths:
            return repeated[1], int(repeated[2])
        near = close_names(name, paths)
        hint = f" Close names: {', '.join(near)}." if near else ""
        raise ValueError(f"The model has no module named {name!r}; with hooks, results are those of modules.{hint}")

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model on its own arguments; results by key, in the order of their computation.

        Raises:
            RuntimeError: a module was not called, or not as often as its name says.
        """
        keys = {place: key for key, place in self._nodes[self.training].items()}
        with self._caught({path for path, _ in keys}) as caught:
            self.model(*args, **kwargs)
        if missing := [f"call {number} of {path!r}" for path, number in keys if (path, number) not in caught]:
            raise RuntimeError(f"The model did not make {', '.join(missing)}; the first call has number 0.")
        wanted = self._nodes[self.training]
        order = {place: index for index, place in enumerate(caught)}
        return {key: caught[place] for key, place in sorted(wanted.items(), key=lambda item: order[item[1]])}

    @contextmanager
    def _caught(self, paths: set[str]) -> Iterator[dict[tuple[str, int], Any]]:
        """Results of modules by path and number of the call, filled while the context lasts."""
        caught: dict[tuple[str, int], Any] = {}
        times = dict.fromkeys(paths, 0)
        thread = threading.get_ident()

        def hook_of(path: str) -> Any:
            def keep(module: nn.Module, args: Any, result: Any) -> None:
                if threading.get_ident() == thread:  # another thread may run the same model
                    caught[path, times[path]] = tree_map_only(torch.Tensor, torch.clone, result)
                    times[path] += 1

            return keep

        handles = [self.model.get_submodule(path).register_forward_hook(hook_of(path)) for path in paths]
        try:
            yield caught
        finally:
            for handle in handles:
                handle.remove()
