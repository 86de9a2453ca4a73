"""Functions on texts and their tokens: splitting, counting, scores, batches; each is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.core.exports import lazy_exports

# isort: off
if TYPE_CHECKING:
    from flambeau.text.data.bucketing import bucket_batch as bucket_batch
    from flambeau.text.data.functional import (
        custom_replace as custom_replace,
        filter_wikipedia_xml as filter_wikipedia_xml,
        generate_sp_model as generate_sp_model,
        load_sp_model as load_sp_model,
        numericalize_tokens_from_iterator as numericalize_tokens_from_iterator,
        sentencepiece_numericalizer as sentencepiece_numericalizer,
        sentencepiece_tokenizer as sentencepiece_tokenizer,
        simple_space_split as simple_space_split,
        to_map_style_dataset as to_map_style_dataset,
    )
    from flambeau.text.data.metrics import bleu_score as bleu_score
    from flambeau.text.data.utils import get_tokenizer as get_tokenizer, interleave_keys as interleave_keys
# isort: on

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "bucketing": ("bucket_batch",),
        "functional": (
            "custom_replace", "filter_wikipedia_xml", "generate_sp_model", "load_sp_model",
            "numericalize_tokens_from_iterator", "sentencepiece_numericalizer", "sentencepiece_tokenizer",
            "simple_space_split", "to_map_style_dataset",
        ),
        "metrics": ("bleu_score",),
        "utils": ("get_tokenizer", "interleave_keys"),
    },
    submodules=("datasets_utils",),
)  # fmt: skip
