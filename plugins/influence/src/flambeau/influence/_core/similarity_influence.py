"""Similarity of activations: which training examples a layer sees as it sees a test example."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from flambeau.core.files import write_atomic
from flambeau.influence._core.influence import DataInfluence
from flambeau.influence._utils.common import _device, _loader, _on_device, _require_count, _require_fixed_statistics
from flambeau.influence.errors import BatchError, InfluenceError

__all__ = ["SimilarityInfluence", "cosine_similarity", "euclidean_distance"]


def euclidean_distance(test: Tensor, train: Tensor) -> Tensor:
    """Distances of every test example from every training example.

    Args:
        test: (test, ...).
        train: (train, ...), the same but for the first dimension.

    Returns:
        (test, train).

    Example:
        >>> euclidean_distance(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[5., 1.]])
    """
    return torch.cdist(test.flatten(1).unsqueeze(0), train.flatten(1).unsqueeze(0)).squeeze(0)


def cosine_similarity(test: Tensor, train: Tensor, replace_nan: int = 0) -> Tensor:
    """Cosines of the angles between every test example and every training example.

    Args:
        test: (test, ...).
        train: (train, ...), the same but for the first dimension.
        replace_nan: what an example of zeros, which has no direction, is given.

    Returns:
        (test, train).

    Example:
        >>> cosine_similarity(torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 0.0]]), replace_nan=-2)
        tensor([[ 1., -2.]])
    """
    test, train = test.flatten(1), train.flatten(1)
    lengths = test.norm(dim=1, keepdim=True) * train.norm(dim=1)
    cosines = torch.where(lengths > 0, test @ train.T / lengths, replace_nan)
    return torch.where(cosines.isnan(), replace_nan, cosines)


class SimilarityInfluence(DataInfluence):
    """Which training examples activate layers as a test example does.

    Args:
        module: the model.
        layers: a name of a layer, or several.
        influence_src_dataset: the examples to find: inputs of the model, or tuples of such. What a label is, is not
            known, so that items are inputs alone.
        activation_dir: folder in which their activations are kept, below `av/<model_id>/src/<layer>`.
        model_id: names the model there.
        similarity_metric: `(test, train) -> (test, train)` on activations; `cosine_similarity`, `euclidean_distance` or
            another.
        similarity_direction: "max" where more similar is larger, else "min".
        batch_size: of examples.
        **kwargs: `replace_nan` for the cosine: by default -2 for "max" and 2 for "min", which no cosine reaches.

    Raises:
        InfluenceError: no such layer, another direction.
    """

    def __init__(
        self,
        module: nn.Module,
        layers: str | Sequence[str],
        influence_src_dataset: Dataset[Any],
        activation_dir: str,
        model_id: str = "",
        similarity_metric: Callable[..., Tensor] = cosine_similarity,
        similarity_direction: str = "max",
        batch_size: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(module, influence_src_dataset)
        self.module = module
        self.layers = [layers] if isinstance(layers, str) else list(layers)
        known = dict(module.named_modules())
        for layer in self.layers:
            if layer not in known:
                raise InfluenceError(
                    f"layers has {layer!r}, which the model does not have; `module.named_modules()` lists its layers."
                )
        if similarity_direction not in ("max", "min"):
            raise InfluenceError(f"similarity_direction is {similarity_direction!r}, expected 'max' or 'min'.")
        if not re.fullmatch(r"[\w.-]*", model_id) or model_id in (".", ".."):
            raise InfluenceError(
                f"model_id is {model_id!r}, expected letters, digits, '.', '-' and '_': it is a folder."
            )
        self.influence_src_dataset = influence_src_dataset
        self.influence_src_dataloader = _loader(influence_src_dataset, batch_size, "influence_src_dataset")
        self.activation_dir, self.model_id, self.batch_size = activation_dir, model_id, batch_size
        self.similarity_metric, self.similarity_direction = similarity_metric, similarity_direction
        self.replace_nan = kwargs.get("replace_nan", -2 if similarity_direction == "max" else 2)

    def influence(  # type: ignore[override]  # captum's signature
        self,
        inputs: Tensor | tuple[Tensor, ...],
        top_k: int = 1,
        additional_forward_args: Any = None,
        load_src_from_disk: bool = True,
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """The most similar training examples of each test example, layer by layer.

        Args:
            inputs: a batch of test examples.
            top_k: how many to find; at most all there are.
            additional_forward_args: passed to the model after `inputs`.
            load_src_from_disk: use activations of an earlier call where they are of the same model and examples.

        Returns:
            Layer -> positions (test, top_k), int64, and similarities, most similar first. Where a layer does not react
            to a test example at all, `"zero_acts-<layer>"` has the positions of such test examples, and their
            activations.
        """
        _require_count("top_k", top_k)
        _require_fixed_statistics(self.module)
        given = inputs if isinstance(inputs, tuple) else (inputs,)
        extra = () if additional_forward_args is None else additional_forward_args
        extra = extra if isinstance(extra, tuple) else (extra,)
        test = self._activations((*given, *extra))
        results: dict[str, tuple[Tensor, Tensor]] = {}
        for layer, found in test.items():
            results[layer] = self._nearest(found, layer, top_k, load_src_from_disk)
            silent = (found.flatten(1) == 0).all(1)
            if silent.any():
                results[f"zero_acts-{layer}"] = (silent.nonzero().squeeze(1), found[silent])
        return results

    def _nearest(self, test: Tensor, layer: str, top_k: int, load: bool) -> tuple[Tensor, Tensor]:
        largest = self.similarity_direction == "max"
        values, positions = test.new_empty(len(test), 0), test.new_empty(len(test), 0, dtype=torch.int64)
        begin = 0
        for train in self._stored(layer, load):
            similar = self._similarities(test, train.to(test.device))
            places = torch.arange(begin, begin + len(train), device=test.device).expand_as(similar)
            values, positions = torch.cat([values, similar], 1), torch.cat([positions, places], 1)
            best = torch.topk(values, min(top_k, values.shape[1]), dim=1, largest=largest)
            values, positions = best.values, positions.gather(1, best.indices)
            begin += len(train)
        return positions, values

    def _similarities(self, test: Tensor, train: Tensor) -> Tensor:
        if self.similarity_metric is cosine_similarity:
            return cosine_similarity(test, train, self.replace_nan)
        similar: Any = self.similarity_metric(test, train)
        if not isinstance(similar, Tensor) or similar.shape != (len(test), len(train)):
            shape = tuple(similar.shape) if isinstance(similar, Tensor) else type(similar).__name__
            raise InfluenceError(f"similarity_metric gave {shape}, expected ({len(test)}, {len(train)}).")
        return torch.as_tensor(similar)

    def _activations(self, inputs: tuple[Any, ...]) -> dict[str, Tensor]:
        """What each layer gives for a batch; of a tuple the first."""
        with torch.no_grad(), _noted(self.module, self.layers) as noted:
            self.module(*_on_device(inputs, _device(self.module)))
        for layer in self.layers:
            if layer not in noted:
                raise InfluenceError(f"The layer {layer!r} did not run for these inputs.")
        return noted

    def _stored(self, layer: str, load: bool) -> Iterator[Tensor]:
        """A layer's activations for all examples, batch by batch, from the disk."""
        folder = Path(self.activation_dir) / "av" / self.model_id / "src"
        mark = folder / "source.json"
        expected = {"model": self._digest(), "layers": sorted(self.layers), "examples": self._count()}
        if not (load and mark.is_file() and json.loads(mark.read_text(encoding="utf-8")) == expected):
            self._store(folder)
            write_atomic(mark, json.dumps(expected))
        files = sorted((folder / layer).glob("*.pt"), key=lambda path: int(path.stem))
        return (torch.load(path, weights_only=True) for path in files)

    def _store(self, folder: Path) -> None:
        for layer in self.layers:
            (folder / layer).mkdir(parents=True, exist_ok=True)
            for old in (folder / layer).glob("*.pt"):
                old.unlink()
        for number, batch in enumerate(self.influence_src_dataloader):
            if not isinstance(batch, (Tensor, tuple, list)):
                raise BatchError(
                    f"influence_src_dataset gives a {type(batch).__name__}, expected a tensor or a tuple of the "
                    "model's inputs."
                )
            for layer, found in self._activations((batch,) if isinstance(batch, Tensor) else tuple(batch)).items():
                torch.save(found.cpu(), folder / layer / f"{number}.pt")

    def _digest(self) -> str:
        """Of parameters and buffers: activations of another model are of no use."""
        digest = hashlib.sha256()
        for name, value in self.module.state_dict().items():
            digest.update(name.encode())
            if isinstance(value, Tensor):
                digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def _count(self) -> int:
        try:
            return len(self.influence_src_dataset)  # type: ignore[arg-type]
        except TypeError:
            return -1


@contextmanager
def _noted(module: nn.Module, layers: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """Note what layers give."""
    found: dict[str, Tensor] = {}
    handles = []

    def note(layer: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            found[layer] = (output if isinstance(output, Tensor) else output[0]).detach()

        return hook

    try:
        for layer in layers:
            handles.append(module.get_submodule(layer).register_forward_hook(note(layer)))
        yield found
    finally:
        for handle in handles:
            handle.remove()
