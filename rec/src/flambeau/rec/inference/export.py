"""Models as programs: exported, compiled ahead of time, and loaded without the code that they were written in."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError

__all__ = ["BatchProgram", "compile_ahead", "export_model", "load"]

# What programs call; importing them makes torch know them.
_OPERATORS = ("bounds", "bucketize", "cumsum", "permute", "pruning", "tbe_inference")


class BatchProgram(nn.Module):
    """A model behind a flat list of tensors, as programs are called.

    Args:
        model: takes a batch by names; a `PredictModule` for example.
        names: of the batch's tensors, in the order in which they will be given.
    """

    def __init__(self, model: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *tensors: Tensor) -> Any:
        """Predictions for a batch."""
        return self.model(dict(zip(self.names, tensors, strict=True)))


def export_model(
    model: nn.Module, batch: Mapping[str, Tensor], *, dynamic: Mapping[str, Any] | None = None
) -> torch.export.ExportedProgram:
    """Export a model that takes a batch by names, for batches of any size.

    Args:
        model: takes {name: tensor}; a `PredictModule` for example.
        batch: an example, of two examples at least: sizes 0 and 1 are special to the exporter.
        dynamic: for tensors by name, which of their dimensions vary, as `torch.export` takes it. By default the first
            one of each does.

    Returns:
        The program; it takes the tensors in the order of their names.

    Raises:
        OptionError: an example that is too small.
    """
    names = sorted(batch)
    if small := [name for name in names if batch[name].dim() and batch[name].shape[0] < 2]:
        raise OptionError(f"the batch has {', '.join(small)} with fewer than two entries; give a larger example.")
    load_operators()
    chosen = dynamic or {}
    shapes = tuple(chosen.get(name, {0: torch.export.Dim.DYNAMIC} if batch[name].dim() else None) for name in names)
    program = BatchProgram(model.eval(), names)
    with torch.no_grad():
        return torch.export.export(
            program, tuple(batch[name] for name in names), dynamic_shapes={"tensors": shapes}, strict=False
        )


def compile_ahead(program: torch.export.ExportedProgram, names: list[str], path: str | Path) -> Path:
    """Compile a program into a package that is loaded without its model's code.

    Args:
        program: of `export_model`.
        names: of its tensors, sorted.
        path: of the package; it ends with ".pt2".

    Returns:
        The path.

    Raises:
        OptionError: another ending.
    """
    target = Path(path)
    if target.suffix != ".pt2":
        raise OptionError(f"path is {str(path)!r}, expected one that ends with '.pt2'.")
    torch._inductor.aoti_compile_and_package(
        program, package_path=str(target), inductor_configs={"aot_inductor.metadata": {"inputs": "\n".join(names)}}
    )
    return target


def load_operators() -> None:
    """Have torch know the operators that programs call."""
    for name in _OPERATORS:
        importlib.import_module(f"flambeau.rec.ops.{name}")


def load(path: str | Path) -> Callable[[Mapping[str, Tensor]], Any]:
    """Load a package of `compile_ahead`.

    Args:
        path: of the package.

    Returns:
        A function of a batch by names, for `server.BatchingPredictor` for example. Neither the model's modules nor
        those of embedding tables are imported.
    """
    load_operators()
    package = torch._inductor.aoti_load_package(str(path))
    names = package.get_metadata()["inputs"].split("\n")

    def predict(batch: Mapping[str, Tensor]) -> Any:
        return package(*[batch[name] for name in names])

    return predict
