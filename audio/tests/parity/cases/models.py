"""Models: names and shapes of their parameters, and outputs with weights made from names."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import re

import torch

from flambeau.core.testing.fill import fill_, integers, tensor

from .registry import MODELS
from .signals import wav


def key_spec(module_or_dict):
    """Keys of the state dict with their layer numbers folded, and one hash of the whole list."""
    sd = module_or_dict.state_dict() if hasattr(module_or_dict, "state_dict") else module_or_dict
    lines, groups = [], {}
    for k, v in sd.items():
        shape = list(v.shape)
        lines.append(f"{k} {shape} {str(v.dtype).removeprefix('torch.')}")
        pattern = re.sub(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)", "#", k)
        numbers = ".".join(re.findall(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)", k))
        groups.setdefault(f"{pattern} {shape}", []).append(numbers)
    return {
        "n_keys": len(sd),
        "n_values": sum(v.numel() for v in sd.values()),
        "sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        "keys": {k: (v if v != [""] else []) for k, v in groups.items()},
    }


@contextlib.contextmanager
def no_dropout():
    """Some models (Tacotron2's prenet) use dropout at inference too; it is switched off here."""
    saved = torch.nn.functional.dropout
    torch.nn.functional.dropout = lambda input, p=0.5, training=True, inplace=False: input
    try:
        yield
    finally:
        torch.nn.functional.dropout = saved


def model(name, make, run=None, rtol=1e-3, atol=1e-4):
    def go(audio):
        m = fill_(make(audio).eval())
        out = {"state_dict": key_spec(m)}
        if run is not None:
            with torch.no_grad(), no_dropout():
                out["output"] = run(m)
        return out

    MODELS[name] = (go, rtol, atol)


def keys_only(name, make):
    def go(audio):
        try:
            with torch.device("meta"):
                return {"state_dict": key_spec(make(audio))}
        except NotImplementedError:  # a constructor that cannot run on the meta device
            return {"state_dict": key_spec(make(audio))}

    MODELS[name] = (go, 0, 0)


W2V = {
    "extractor_conv_layer_config": [(32, 10, 5), (32, 3, 2), (32, 3, 2), (32, 2, 2)],
    "extractor_conv_bias": False,
    "encoder_embed_dim": 48,
    "encoder_projection_dropout": 0.1,
    "encoder_pos_conv_kernel": 16,
    "encoder_pos_conv_groups": 4,
    "encoder_num_layers": 3,
    "encoder_num_heads": 4,
    "encoder_attention_dropout": 0.1,
    "encoder_ff_interm_features": 96,
    "encoder_ff_interm_dropout": 0.1,
    "encoder_dropout": 0.1,
    "encoder_layer_norm_first": False,
    "encoder_layer_drop": 0.1,
}


def wav_run(m):
    return m(wav("w", (2, 2000)), torch.tensor([2000, 1500]))


model(
    "wav2vec2_model/tiny,group_norm",
    lambda audio: audio.models.wav2vec2_model(extractor_mode="group_norm", aux_num_out=10, **W2V),
    wav_run,
)
model(
    "wav2vec2_model/tiny,layer_norm,norm_first,bias",
    lambda audio: audio.models.wav2vec2_model(
        extractor_mode="layer_norm",
        aux_num_out=None,
        **{**W2V, "encoder_layer_norm_first": True, "extractor_conv_bias": True},
    ),
    wav_run,
)
model(
    "wav2vec2_model/tiny,extract_features",
    lambda audio: audio.models.wav2vec2_model(extractor_mode="group_norm", aux_num_out=10, **W2V),
    lambda m: m.extract_features(wav("w", (2, 2000)), torch.tensor([2000, 1500]), 2),
)
model(
    "wavlm_model/tiny",
    lambda audio: audio.models.wavlm_model(
        extractor_mode="group_norm", encoder_num_buckets=32, encoder_max_distance=80, aux_num_out=10, **W2V
    ),
    lambda m: m(wav("w", (2, 2000))),
)
model(
    "wavlm_model/tiny,no lengths",
    lambda audio: audio.models.wavlm_model(
        extractor_mode="layer_norm",
        encoder_num_buckets=16,
        encoder_max_distance=40,
        aux_num_out=None,
        **{**W2V, "encoder_layer_norm_first": True},
    ),
    lambda m: m(wav("w", (2, 2000))),
)
for name in (
    "wav2vec2_base",
    "wav2vec2_large",
    "wav2vec2_large_lv60k",
    "wav2vec2_xlsr_300m",
    "wav2vec2_xlsr_1b",
    "wav2vec2_xlsr_2b",
    "hubert_base",
    "hubert_large",
    "hubert_xlarge",
    "wavlm_base",
    "wavlm_large",
):
    keys_only(f"{name}(aux_num_out=32)", lambda audio, n=name: getattr(audio.models, n)(aux_num_out=32))
for name in ("hubert_pretrain_base", "hubert_pretrain_large", "hubert_pretrain_xlarge"):
    keys_only(f"{name}()", lambda audio, n=name: getattr(audio.models, n)())


class FixedMask(torch.nn.Module):
    """In place of the random mask generator: masks the frames 2..4 and 7 of every item."""

    def __init__(self, embedding):
        super().__init__()
        self.mask_embedding = embedding

    def forward(self, x, padding_mask=None):
        mask = torch.zeros(x.shape[:2], dtype=torch.bool)
        mask[:, 2:5] = True
        mask[:, 7] = True
        x = x.clone()
        x[mask] = self.mask_embedding
        return x, mask


def hubert_pretrain(audio):
    m = audio.models.hubert_pretrain_model(
        extractor_mode="group_norm",
        mask_prob=0.8,
        mask_selection="static",
        mask_other=0.0,
        mask_length=10,
        no_mask_overlap=False,
        mask_min_space=1,
        mask_channel_prob=0.0,
        mask_channel_selection="static",
        mask_channel_other=0.0,
        mask_channel_length=10,
        no_mask_channel_overlap=False,
        mask_channel_min_space=1,
        skip_masked=False,
        skip_nomask=False,
        num_classes=9,
        final_dim=16,
        feature_grad_mult=0.1,
        **W2V,
    )
    m = fill_(m.eval())
    out = {"state_dict": key_spec(m)}
    m.mask_generator = FixedMask(m.mask_generator.mask_embedding)
    with torch.no_grad():
        out["output"] = m(wav("w", (2, 4000)), integers("labels", (2, 99), 9), torch.tensor([4000, 4000]))
    return out


MODELS["hubert_pretrain_model/tiny"] = (hubert_pretrain, 1e-3, 1e-4)

EMF = {
    "input_dim": 16,
    "num_heads": 4,
    "ffn_dim": 32,
    "num_layers": 2,
    "segment_length": 4,
    "left_context_length": 6,
    "right_context_length": 1,
}
for mem in (0, 3):
    for tanh in (False, True):
        model(
            f"Emformer/memory={mem},tanh={tanh},forward",
            lambda audio, s=mem, t=tanh: audio.models.Emformer(**EMF, max_memory_size=s, tanh_on_mem=t),
            lambda m: m(tensor("x", (2, 13, 16)), torch.tensor([12, 9])),
        )


def emformer_stream(m):
    out, states = [], None
    for i in range(3):
        o, n, states = m.infer(tensor(f"x{i}", (2, 5, 16)), torch.tensor([5, 5]), states)
        out.append([o, n])
    return {"chunks": out, "states": states}


model(
    "Emformer/infer 3 chunks",
    lambda audio: audio.models.Emformer(**EMF, max_memory_size=3, activation="gelu"),
    emformer_stream,
)
RNNT = {
    "input_dim": 10,
    "encoding_dim": 12,
    "num_symbols": 9,
    "segment_length": 4,
    "right_context_length": 2,
    "time_reduction_input_dim": 8,
    "time_reduction_stride": 2,
    "transformer_num_heads": 4,
    "transformer_ffn_dim": 32,
    "transformer_num_layers": 2,
    "transformer_dropout": 0.1,
    "transformer_activation": "gelu",
    "transformer_left_context_length": 3,
    "transformer_max_memory_size": 0,
    "transformer_weight_init_scale_strategy": "depthwise",
    "transformer_tanh_on_mem": True,
    "symbol_embedding_dim": 12,
    "num_lstm_layers": 2,
    "lstm_layer_norm": True,
    "lstm_layer_norm_epsilon": 1e-3,
    "lstm_dropout": 0.1,
}
model(
    "emformer_rnnt_model/tiny,forward",
    lambda audio: audio.models.emformer_rnnt_model(**RNNT),
    lambda m: m(
        tensor("x", (2, 18, 10)), torch.tensor([16, 12]), integers("t", (2, 5), 8).int(), torch.tensor([5, 3]), None
    ),
)
model(
    "emformer_rnnt_model/tiny,streaming",
    lambda audio: audio.models.emformer_rnnt_model(**RNNT),
    lambda m: m.transcribe_streaming(tensor("x", (1, 6, 10)), torch.tensor([6]), None),
)
keys_only("emformer_rnnt_base(4097)", lambda audio: audio.models.emformer_rnnt_base(4097))
model(
    "Conformer",
    lambda audio: audio.models.Conformer(16, 4, 32, 2, 15),
    lambda m: m(tensor("x", (2, 20, 16)), torch.tensor([20, 14])),
)
model(
    "Conformer/group_norm,conv_first",
    lambda audio: audio.models.Conformer(16, 4, 32, 2, 15, use_group_norm=True, convolution_first=True),
    lambda m: m(tensor("x", (2, 20, 16)), torch.tensor([20, 14])),
)
model(
    "ConvTasNet/small",
    lambda audio: audio.models.ConvTasNet(2, 16, 32, 3, 16, 32, 3, 2, "relu"),
    lambda m: m(wav("w", (2, 1, 900))),
)
keys_only("conv_tasnet_base()", lambda audio: audio.models.conv_tasnet_base())
model("DeepSpeech", lambda audio: audio.models.DeepSpeech(20, 32, 8), lambda m: m(tensor("x", (2, 1, 15, 20))))
model(
    "Wav2Letter/waveform", lambda audio: audio.models.Wav2Letter(8, "waveform", 1), lambda m: m(wav("w", (1, 1, 8000)))
)
model("Wav2Letter/mfcc", lambda audio: audio.models.Wav2Letter(8, "mfcc", 13), lambda m: m(tensor("x", (1, 13, 90))))
TAC = {
    "n_mels": 8,
    "n_symbol": 12,
    "symbol_embedding_dim": 16,
    "encoder_embedding_dim": 16,
    "encoder_kernel_size": 5,
    "decoder_rnn_dim": 24,
    "decoder_max_step": 8,
    "attention_rnn_dim": 20,
    "attention_hidden_dim": 12,
    "attention_location_n_filter": 4,
    "attention_location_kernel_size": 7,
    "prenet_dim": 10,
    "postnet_embedding_dim": 16,
}
model(
    "Tacotron2/forward",
    lambda audio: audio.models.Tacotron2(**TAC),
    lambda m: m(integers("t", (2, 7), 12), torch.tensor([7, 5]), tensor("m", (2, 8, 10)), torch.tensor([10, 6])),
)
model(
    "Tacotron2/forward,masked",
    lambda audio: audio.models.Tacotron2(**TAC, mask_padding=True),
    lambda m: m(integers("t", (2, 7), 12), torch.tensor([7, 5]), tensor("m", (2, 8, 10)), torch.tensor([10, 6])),
)
model(
    "Tacotron2/infer",
    lambda audio: audio.models.Tacotron2(**TAC),
    lambda m: m.infer(integers("t", (2, 7), 12), torch.tensor([7, 5])),
)
keys_only("Tacotron2()", lambda audio: audio.models.Tacotron2())
model(
    "WaveRNN/tiny",
    lambda audio: audio.models.WaveRNN([2, 2, 3], 16, 12, 2, 24, 24, 5, 8, 16, 16),
    lambda m: m(tensor("w", (2, 1, 12 * 6)), tensor("s", (2, 1, 8, 10))),
)
keys_only("WaveRNN(tacotron2 bundle)", lambda audio: audio.models.WaveRNN([5, 5, 11], 256, 275, n_freq=80))
model(
    "HDemucs/tiny",
    lambda audio: audio.models.HDemucs(["a", "b"], channels=8, nfft=1024, depth=5),
    lambda m: m(wav("w", (1, 2, 8192))),
    1e-2,
    1e-3,
)
for name in ("hdemucs_low", "hdemucs_medium", "hdemucs_high"):
    keys_only(
        f"{name}(4 sources)", lambda audio, n=name: getattr(audio.models, n)(["drums", "bass", "other", "vocals"])
    )
model(
    "squim_objective_model/tiny",
    lambda audio: audio.models.squim_objective_model(16, 64, 16, 4, 24, 2, "LSTM", 7, 5),
    lambda m: m(wav("w", (2, 3000))),
)
keys_only("squim_objective_base()", lambda audio: audio.models.squim_objective_base())
keys_only("squim_subjective_base()", lambda audio: audio.models.squim_subjective_base())


def prototype_models(audio):
    return importlib.import_module(audio.__name__ + ".prototype.models")


model(
    "prototype.ConvEmformer",
    lambda audio: prototype_models(audio).ConvEmformer(
        16, 4, 32, 2, 4, 7, left_context_length=6, right_context_length=1, max_memory_size=0
    ),
    lambda m: m(tensor("x", (2, 13, 16)), torch.tensor([12, 9])),
)
model(
    "prototype.conformer_rnnt_model/tiny",
    lambda audio: prototype_models(audio).conformer_rnnt_model(
        input_dim=10,
        encoding_dim=12,
        time_reduction_stride=2,
        conformer_input_dim=16,
        conformer_ffn_dim=32,
        conformer_num_layers=2,
        conformer_num_heads=4,
        conformer_depthwise_conv_kernel_size=7,
        conformer_dropout=0.1,
        num_symbols=9,
        symbol_embedding_dim=12,
        num_lstm_layers=1,
        lstm_hidden_dim=14,
        lstm_layer_norm=True,
        lstm_layer_norm_epsilon=1e-5,
        lstm_dropout=0.1,
        joiner_activation="tanh",
    ),
    lambda m: m(
        tensor("x", (2, 18, 10)), torch.tensor([18, 12]), integers("t", (2, 5), 8).int(), torch.tensor([5, 3]), None
    ),
)
keys_only("prototype.conformer_rnnt_base()", lambda audio: prototype_models(audio).conformer_rnnt_base())
keys_only("prototype.conformer_wav2vec2_base()", lambda audio: prototype_models(audio).conformer_wav2vec2_base())
keys_only(
    "prototype.conformer_wav2vec2_pretrain_base()",
    lambda audio: prototype_models(audio).conformer_wav2vec2_pretrain_base(),
)
keys_only(
    "prototype.conformer_wav2vec2_pretrain_large()",
    lambda audio: prototype_models(audio).conformer_wav2vec2_pretrain_large(),
)
keys_only("prototype.emformer_hubert_base()", lambda audio: prototype_models(audio).emformer_hubert_base())
for v in ("v1", "v2", "v3"):
    keys_only(
        f"prototype.hifigan_vocoder_{v}()",
        lambda audio, v=v: getattr(prototype_models(audio), f"hifigan_vocoder_{v}")(),
    )
model(
    "prototype.hifigan_vocoder/tiny",
    lambda audio: prototype_models(audio).hifigan_vocoder(
        8, (4, 2), 16, (8, 4), (3, 5), ((1, 3, 5), (1, 2, 4)), 1, 0.1
    ),
    lambda m: m(tensor("x", (1, 8, 12))),
)
