"""Models for speech and music, with upstream's state_dict keys."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        # Networks and their builders
        "_api": (
            "get_model",
            "get_model_builder",
            "get_model_weights",
            "get_weight",
            "list_models",
            "register_model",
        ),
        "_hdemucs": ("HDemucs", "hdemucs_high", "hdemucs_low", "hdemucs_medium"),
        "conformer": ("Conformer",),
        "conv_tasnet": ("ConvTasNet", "conv_tasnet_base"),
        "deepspeech": ("DeepSpeech",),
        "digit_recognizer": ("digit_recognizer",),
        "emformer": ("Emformer",),
        "rnnt": ("RNNT", "emformer_rnnt_base", "emformer_rnnt_model"),
        "rnnt_decoder": ("Hypothesis", "RNNTBeamSearch"),
        "squim.objective": ("SquimObjective", "squim_objective_base", "squim_objective_model"),
        "squim.subjective": ("SquimSubjective", "squim_subjective_base", "squim_subjective_model"),
        "tacotron2": ("Tacotron2",),
        "wav2letter": ("Wav2Letter",),
        "wavernn": ("WaveRNN",),
        "wav2vec2.model": (
            "HuBERTPretrainModel",
            "Wav2Vec2Model",
            "hubert_base",
            "hubert_large",
            "hubert_pretrain_base",
            "hubert_pretrain_large",
            "hubert_pretrain_model",
            "hubert_pretrain_xlarge",
            "hubert_xlarge",
            "wav2vec2_base",
            "wav2vec2_large",
            "wav2vec2_large_lv60k",
            "wav2vec2_model",
            "wav2vec2_xlsr_1b",
            "wav2vec2_xlsr_2b",
            "wav2vec2_xlsr_300m",
            "wavlm_base",
            "wavlm_large",
            "wavlm_model",
        ),
    },
    submodules=("decoder", "wav2vec2"),
)
