"""Decoders that turn the frame-wise outputs of a CTC model into words: beam search on the CPU and on a GPU.

`ctc_decoder` searches with or without a lexicon, and with an n-gram language model (ARPA, or KenLM's binary files), one
written in Python, or none. `cuda_ctc_decoder` is a prefix search without a model, on a GPU or, just so, on the CPU.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.audio.models.decoder._ctc_decoder import CTCDecoder as CTCDecoder
    from flambeau.audio.models.decoder._ctc_decoder import ctc_decoder as ctc_decoder
    from flambeau.audio.models.decoder._cuda_ctc_decoder import CUCTCDecoder as CUCTCDecoder
    from flambeau.audio.models.decoder._cuda_ctc_decoder import CUCTCHypothesis as CUCTCHypothesis
    from flambeau.audio.models.decoder._cuda_ctc_decoder import cuda_ctc_decoder as cuda_ctc_decoder
    from flambeau.audio.models.decoder._hypothesis import CTCHypothesis as CTCHypothesis
    from flambeau.audio.models.decoder._language_model import CTCDecoderLM as CTCDecoderLM
    from flambeau.audio.models.decoder._language_model import CTCDecoderLMState as CTCDecoderLMState
    from flambeau.audio.models.decoder._pretrained import download_pretrained_files as download_pretrained_files

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_ctc_decoder": ("CTCDecoder", "ctc_decoder"),
        "_cuda_ctc_decoder": ("CUCTCDecoder", "CUCTCHypothesis", "cuda_ctc_decoder"),
        "_hypothesis": ("CTCHypothesis",),
        "_language_model": ("CTCDecoderLM", "CTCDecoderLMState"),
        "_pretrained": ("download_pretrained_files",),
    },
)
