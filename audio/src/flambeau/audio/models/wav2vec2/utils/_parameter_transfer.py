"""Moving another library's parameters into a network of ours."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from flambeau.core.errors import CheckpointError
from flambeau.core.weights import load_into

__all__ = ["filled", "renamed"]


def renamed(state: Mapping[str, Tensor], rules: Sequence[tuple[str, str | None]]) -> dict[str, Tensor]:
    """A state dict under new names.

    Args:
        state: the other library's.
        rules: (pattern, replacement) of whole names, the first that matches counts; None leaves the tensor out.

    Raises:
        CheckpointError: no rule matches a name.
    """
    moved: dict[str, Tensor] = {}
    for name, value in state.items():
        for pattern, replacement in rules:
            if match := re.fullmatch(pattern, name):
                if replacement is not None:
                    moved[match.expand(replacement)] = value
                break
        else:
            raise CheckpointError(
                f"no place is known for {name!r}; expected the state of a wav2vec 2.0, HuBERT or WavLM model."
            )
    return moved


def filled(network: nn.Module, state: Mapping[str, Tensor]) -> nn.Module:
    """`network` in eval mode, with copies of the tensors in `state`, which must fit exactly.

    Raises:
        CheckpointError: names or shapes do not fit.
    """
    load_into(network, state)
    return network.eval()
