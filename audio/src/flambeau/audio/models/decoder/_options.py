"""The options of a search, as one record."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DecoderOptions"]


@dataclass(frozen=True)
class DecoderOptions:
    """How the search goes; the fields are the arguments of `ctc_decoder`.

    Raises:
        ValueError: a size below 1, or a threshold or weight that is not a number.
    """

    beam_size: int
    beam_size_token: int
    beam_threshold: float
    lm_weight: float
    word_score: float = 0.0
    unk_score: float = float("-inf")
    sil_score: float = 0.0
    log_add: bool = False

    def __post_init__(self) -> None:
        for name in ("beam_size", "beam_size_token"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} is {value}, expected at least 1.")
        for name in ("beam_threshold", "lm_weight", "word_score", "unk_score", "sil_score"):
            if (value := getattr(self, name)) != value:
                raise ValueError(f"{name} is not a number; expected a float.")
        if self.beam_threshold < 0:
            raise ValueError(
                f"beam_threshold is {self.beam_threshold}, expected 0 or more: hypotheses are dropped "
                "whose scores are lower than the best by more than it."
            )
