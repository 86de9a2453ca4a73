"""Models with the same weights, and Kaldi's features, beside torchaudio's."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pytest
import torch
from sounds import DIFFERENCES, NAMES, table

from flambeau.core.testing.differential import Library, Suite, cross

pytest.importorskip("torchaudio", minversion="2.9", reason="needs torchaudio 2.11; `nox -s parity -- peers` has it")
SUITE = Suite("models", ours="flambeau.audio", peer="torchaudio", differences=DIFFERENCES, rtol=1e-3, atol=2e-5)


def seeded() -> torch.Generator:
    """The same numbers on both sides."""
    return torch.Generator().manual_seed(0)


def filled(module: torch.nn.Module) -> torch.nn.Module:
    """A module with weights that depend on their names and shapes alone, in evaluation mode."""
    generator = torch.Generator()
    with torch.no_grad():
        for name, value in sorted(module.state_dict().items()):
            if value.is_floating_point():
                generator.manual_seed(sum(name.encode()))
                value.copy_(torch.rand(value.shape, generator=generator) * 0.4 + (0.3 if "var" in name else -0.2))
    return module.eval()


def transducer(library: Library) -> tuple[torch.nn.Module, ...]:
    """A transcriber, a predictor and a joiner of a few units."""
    rnnt: Any = library.models.rnnt
    transcriber = rnnt._EmformerEncoder(
        input_dim=8, output_dim=6, segment_length=8, right_context_length=1, time_reduction_input_dim=4,
        time_reduction_stride=1, transformer_num_heads=2, transformer_ffn_dim=8, transformer_num_layers=1,
        transformer_dropout=0.0, transformer_activation="relu", transformer_left_context_length=8,
        transformer_max_memory_size=0, transformer_weight_init_scale_strategy="depthwise",
        transformer_tanh_on_mem=False,
    )  # fmt: skip
    predictor = rnnt._Predictor(
        num_symbols=5, output_dim=6, symbol_embedding_dim=4, num_lstm_layers=1, lstm_hidden_dim=4, lstm_layer_norm=True,
        lstm_layer_norm_epsilon=1e-3, lstm_dropout=0.0,
    )  # fmt: skip
    return transcriber, predictor, rnnt._Joiner(6, 5)


LENT = {
    **NAMES,
    "seeded": seeded,
    "filled": filled,
    "transducer": transducer,
    "lengths": torch.tensor([16, 12]),
    "small": {
        "extractor_mode": "group_norm", "extractor_conv_layer_config": [(8, 10, 5), (8, 3, 2)],
        "extractor_conv_bias": False, "encoder_embed_dim": 8, "encoder_projection_dropout": 0.0,
        "encoder_pos_conv_kernel": 4, "encoder_pos_conv_groups": 2, "encoder_num_layers": 2, "encoder_num_heads": 2,
        "encoder_attention_dropout": 0.0, "encoder_ff_interm_features": 16, "encoder_ff_interm_dropout": 0.0,
        "encoder_dropout": 0.0, "encoder_layer_norm_first": False, "encoder_layer_drop": 0.0, "aux_num_out": 5,
    },
    "pretraining": {
        "mask_prob": 0.8, "mask_selection": "static", "mask_other": 0.0, "mask_length": 2, "no_mask_overlap": False,
        "mask_min_space": 1, "mask_channel_prob": 0.0, "mask_channel_selection": "static", "mask_channel_other": 0.0,
        "mask_channel_length": 2, "no_mask_channel_overlap": False, "mask_channel_min_space": 1, "skip_masked": False,
        "skip_nomask": False, "num_classes": 5, "final_dim": 4, "feature_grad_mult": None,
    },
    "objective": {
        "feat_dim": 8, "win_len": 16, "d_model": 8, "nhead": 2, "hidden_dim": 8, "num_blocks": 1, "rnn_type": "LSTM",
        "chunk_size": 7,
    },
}  # fmt: skip
INPUTS = {
    "batch": {
        "x": "torch.rand((2, 800), generator=seeded()) - 0.5",
        "f": "torch.rand((2, 16, 8), generator=seeded())",
    }
}
WAVES = {
    "mono": {"w": "(torch.rand((1, 8000), generator=seeded()) - 0.5) * 20000"},
    "stereo": {"w": "(torch.rand((2, 8000), generator=seeded()) - 0.5) * 20000"},
    "double": {"w": "(torch.rand((1, 8000), generator=seeded()).double() - 0.5) * 20000"},
    "short": {"w": "torch.rand((1, 100), generator=seeded())"},
    "1d": {"w": "torch.rand(8000, generator=seeded())"},
    "silent": {"w": "torch.zeros(1, 4000)"},
}


def spellings(library: Library) -> str:
    """A lexicon of two words."""
    path = library.folder / "lexicon.txt"
    path.write_text("ab a b |\nba b a |\n", encoding="utf-8")
    return str(path)


# As wide as the decoder has tokens, narrower and wider.
_EMISSIONS = "torch.randn((2, 12, {width}), generator=seeded()).log_softmax(-1)"
EMISSIONS = {
    f"{width} tokens, {kind}": {"e": _EMISSIONS.format(width=width), "lexicon": lexicon}
    for width in (2, 3, 4, 5)
    for kind, lexicon in (("no lexicon", "None"), ("lexicon", spellings))
}
CELLS = table("models_cells.txt")
SUITE.add(*cross("models", INPUTS, CELLS["models"], names=LENT))
SUITE.add(*cross("kaldi", WAVES, CELLS["kaldi"], names=LENT))
SUITE.add(*cross("kaldi numbers", {"none": {}}, CELLS["kaldi numbers"], names=LENT))
if importlib.util.find_spec("flashlight") is not None:  # which upstream's decoder is made of
    importlib.import_module("torchaudio.models.decoder")
    SUITE.add(*cross("decoder", EMISSIONS, CELLS["decoder"], names=LENT))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
