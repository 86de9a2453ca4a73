"""RoBERTa and XLM-R (Liu et al. 2019, arXiv:1907.11692; Conneau et al. 2019, arXiv:1911.02116)."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
# isort: off
if TYPE_CHECKING:
    from flambeau.text.models.roberta.builders import (
        roberta_base as roberta_base,
        roberta_distilled as roberta_distilled,
        roberta_large as roberta_large,
        xlmr_base as xlmr_base,
        xlmr_large as xlmr_large,
    )
    from flambeau.text.models.roberta.bundler import (
        ROBERTA_BASE_ENCODER as ROBERTA_BASE_ENCODER,
        ROBERTA_DISTILLED_ENCODER as ROBERTA_DISTILLED_ENCODER,
        ROBERTA_LARGE_ENCODER as ROBERTA_LARGE_ENCODER,
        RobertaBundle as RobertaBundle,
        XLMR_BASE_ENCODER as XLMR_BASE_ENCODER,
        XLMR_LARGE_ENCODER as XLMR_LARGE_ENCODER,
    )
    from flambeau.text.models.roberta.model import (
        RobertaClassificationHead as RobertaClassificationHead,
        RobertaEncoder as RobertaEncoder,
        RobertaEncoderConf as RobertaEncoderConf,
        RobertaModel as RobertaModel,
    )
    from flambeau.text.models.roberta.modules import (
        PositionalEmbedding as PositionalEmbedding,
        TransformerEncoder as TransformerEncoder,
        TransformerEncoderLayer as TransformerEncoderLayer,
    )
# isort: on

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "builders": ("roberta_base", "roberta_distilled", "roberta_large", "xlmr_base", "xlmr_large"),
        "bundler": (
            "ROBERTA_BASE_ENCODER",
            "ROBERTA_DISTILLED_ENCODER",
            "ROBERTA_LARGE_ENCODER",
            "XLMR_BASE_ENCODER",
            "XLMR_LARGE_ENCODER",
            "RobertaBundle",
        ),
        "model": ("RobertaClassificationHead", "RobertaEncoder", "RobertaEncoderConf", "RobertaModel"),
        "modules": ("PositionalEmbedding", "TransformerEncoder", "TransformerEncoderLayer"),
    },
)
