"""Beam search of an Emformer transducer beside torchaudio's, in one process, on one thread.

python audio/benchmarks/rnnt_search.py [tiny]

Both search with the same weights, at random, so that hypotheses hardly differ in score: what is measured is the search.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from _compare import Comparison, peer

from flambeau.audio import models

CONFIG = {
    "input_dim": 80, "encoding_dim": 256, "num_symbols": 513, "segment_length": 16, "right_context_length": 4,
    "time_reduction_input_dim": 64, "time_reduction_stride": 4, "transformer_num_heads": 4, "transformer_ffn_dim": 256,
    "transformer_num_layers": 2, "transformer_dropout": 0.0, "transformer_activation": "gelu",
    "transformer_left_context_length": 30, "transformer_max_memory_size": 0,
    "transformer_weight_init_scale_strategy": "depthwise", "transformer_tanh_on_mem": True,
    "symbol_embedding_dim": 128, "num_lstm_layers": 3, "lstm_layer_norm": True, "lstm_layer_norm_epsilon": 1e-3,
    "lstm_dropout": 0.0,
}  # fmt: skip


def search(
    package: Any, state: dict[str, torch.Tensor] | None, frames: int, beam: int
) -> tuple[Callable[[], Any], Any]:
    """A search to time, and its model's weights."""
    torch.manual_seed(0)
    model = package.emformer_rnnt_model(**CONFIG).eval()
    if state is not None:
        model.load_state_dict(state)
    decoder = package.RNNTBeamSearch(model, CONFIG["num_symbols"] - 1, step_max_tokens=3)
    features = torch.randn(frames + 4, 80, generator=torch.Generator().manual_seed(1))
    length = torch.tensor([frames + 4])

    def run() -> Any:
        with torch.no_grad():
            return decoder(features, length, beam)

    return run, model.state_dict()


def main(frames: int, beams: tuple[int, ...]) -> int:
    """Print the table; returns the exit status."""
    torchaudio = peer("torchaudio")
    table = Comparison(f"RNN-T beam search, {frames} frames", torchaudio)
    for beam in beams:
        ours, state = search(models, None, frames, beam)
        theirs = None if torchaudio is None else search(torchaudio.models, state, frames, beam)[0]
        table.row(f"beam {beam}", ours, theirs, least=3, repetitions=2)
    return table.finish()


if __name__ == "__main__":
    sys.exit(main(64, (2,)) if "tiny" in sys.argv else main(800, (4, 10, 20)))
