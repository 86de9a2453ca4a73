"""Language models with upstream's names and state names."""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "roberta": ("RobertaClassificationHead", "RobertaEncoder", "RobertaEncoderConf", "RobertaModel"),
        "t5": ("T5Conf", "T5Model"),
    },
)
