"""The folder that training leaves: weights, statistics and pieces, which together are a bundle.

| file | what it holds |
|---|---|
| `model.safetensors` | the state dict, with the keys of the builder in the package |
| `global_stats.json` | mean and inverse standard deviation of each band |
| `pieces.model` | the SentencePiece model |
| `recipe.json` | the design's name, the number of symbols, how training went |
| `checkpoint.pt` | what training goes on from |
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from flambeau.audio.models.rnnt import RNNT
from flambeau.audio.pipelines import RNNTBundle
from flambeau.core.files import write_atomic

from .designs import DESIGNS


@dataclass(frozen=True)
class Folder:
    """Names of the files in the folder of a run."""

    path: Path

    @property
    def weights(self) -> Path:
        """The trained network."""
        return self.path / "model.safetensors"

    @property
    def statistics(self) -> Path:
        """Statistics of the training data's features."""
        return self.path / "global_stats.json"

    @property
    def pieces(self) -> Path:
        """The SentencePiece model."""
        return self.path / "pieces.model"

    @property
    def recipe(self) -> Path:
        """What the network is, and how training went."""
        return self.path / "recipe.json"

    @property
    def checkpoint(self) -> Path:
        """Where training is."""
        return self.path / "checkpoint.pt"


def export(folder: Folder, model: nn.Module, facts: dict[str, Any]) -> None:
    """Write the network and what is to be known of it; `facts` has at least `design` and `symbols`."""
    from safetensors.torch import save

    state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    write_atomic(folder.weights, save(state, {"format": "pt"}))
    write_atomic(folder.recipe, json.dumps(facts, indent=1) + "\n")


def bundle_from(path: Path) -> RNNTBundle:
    """The bundle that a run has left, to be used as those in `flambeau.audio.pipelines`.

    Args:
        path: the run's folder.

    Raises:
        FileNotFoundError: no finished run is there.
    """
    folder = Folder(path)
    lacking = [
        file.name for file in (folder.recipe, folder.weights, folder.statistics, folder.pieces) if not file.is_file()
    ]
    if lacking:
        raise FileNotFoundError(
            f"{path} holds no {', '.join(lacking)}, expected the folder of a finished run of "
            "librispeech_emformer_rnnt.py; run it with `--out` for this folder."
        )
    facts = json.loads(folder.recipe.read_text(encoding="utf-8"))
    return RNNTBundle(
        _rnnt_path=str(folder.weights),
        _rnnt_factory_func=partial(_network, facts["design"], facts["symbols"]),
        _global_stats_path=str(folder.statistics),
        _sp_model_path=str(folder.pieces),
        _right_padding=DESIGNS[facts["design"]].right_padding,
        _blank=facts["symbols"] - 1,
        _sample_rate=16_000,
        _n_fft=400,
        _n_mels=80,
        _hop_length=160,
        _segment_length=16,
        _right_context_length=4,
    )


def _network(design: str, symbols: int) -> RNNT:
    return DESIGNS[design].build(symbols)
