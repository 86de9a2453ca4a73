"""Upstream's way to a pretrained T5: a bundle of sizes, a checkpoint's URL, and a transform of texts.

The same checkpoints have names in the catalogue: `get_model("t5_small", weights="GENERATION")`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flambeau.core.weights import WeightsEnum, empty_parameters, load_into
from flambeau.text.models._checkpoints import read_state
from flambeau.text.models._huggingface import read_weights
from flambeau.text.models.t5.huggingface import read_conf, renamed
from flambeau.text.models.t5.model import T5Conf, T5Model
from flambeau.text.models.t5.preprocessing import t5_transform as t5_transform
from flambeau.text.prototype.generate import GenerationUtils
from flambeau.text.weights import t5 as weights

__all__ = [
    "FLAN_T5_BASE",
    "FLAN_T5_BASE_ENCODER",
    "FLAN_T5_BASE_GENERATION",
    "FLAN_T5_LARGE",
    "FLAN_T5_LARGE_ENCODER",
    "FLAN_T5_LARGE_GENERATION",
    "FLAN_T5_XL",
    "FLAN_T5_XL_ENCODER",
    "FLAN_T5_XL_GENERATION",
    "FLAN_T5_XXL",
    "FLAN_T5_XXL_ENCODER",
    "FLAN_T5_XXL_GENERATION",
    "T5_3B",
    "T5_3B_ENCODER",
    "T5_3B_GENERATION",
    "T5_11B",
    "T5_11B_ENCODER",
    "T5_11B_GENERATION",
    "T5_BASE",
    "T5_BASE_ENCODER",
    "T5_BASE_GENERATION",
    "T5_LARGE",
    "T5_LARGE_ENCODER",
    "T5_LARGE_GENERATION",
    "T5_SMALL",
    "T5_SMALL_ENCODER",
    "T5_SMALL_GENERATION",
    "GenerationUtilsForT5",
    "T5Bundle",
]

logger = logging.getLogger(__name__)


class GenerationUtilsForT5(GenerationUtils):
    """Generation with a `T5Model`; what a bundle gives with `with_generation_utils=True`.

    Args:
        model: a T5 with a head.
        **kwargs: as `GenerationUtils`.
    """

    def __init__(self, model: T5Model, **kwargs: Any) -> None:
        super().__init__(model, **kwargs)


@dataclass
class T5Bundle:
    """A pretrained model: its sizes, where its weights are, and how texts are prepared.

    Attributes:
        _config: the sizes.
        _path: URL or path of the weights.
        transform: makes, when called, the transform of texts to padded ids.

    Example:
        >>> bundle = T5_BASE_GENERATION
        >>> model, transform = bundle.get_model(with_generation_utils=True), bundle.transform()
        >>> ids = model.generate(transform(["summarize: ..."]), max_length=20)
        >>> transform.decode(ids.tolist())
    """

    _config: T5Conf
    _path: str | None = None
    transform: Callable[..., Any] | None = None

    @property
    def config(self) -> T5Conf:
        """The sizes of the model."""
        return self._config

    def get_model(
        self,
        *,
        with_generation_utils: bool = False,
        load_weights: bool = True,
        freeze_model: bool = False,
        dl_kwargs: dict[str, Any] | None = None,
        gen_kwargs: dict[str, Any] | None = None,
    ) -> T5Model | GenerationUtilsForT5:
        """Build the model.

        Args:
            with_generation_utils: give the model within `GenerationUtilsForT5`.
            load_weights: fetch and load the weights, strictly.
            freeze_model: no parameter gets a gradient.
            dl_kwargs: options of `torch.hub.load_state_dict_from_url`.
            gen_kwargs: arguments of `GenerationUtilsForT5`.

        Raises:
            AssertionError: weights are asked for, but the bundle has none; upstream's type of error.
            DownloadError: they could not be fetched.
            CheckpointError: they do not fit.
        """
        if load_weights and self._path is None:
            raise AssertionError("this bundle has no weights: pass load_weights=False.")
        if freeze_model and not load_weights:
            logger.warning("The model is frozen and its weights are not loaded: it stays as it was drawn.")
        model = self.build_model(
            self._config,
            freeze_model=freeze_model,
            checkpoint=self._path if load_weights else None,
            strict=True,
            dl_kwargs=dl_kwargs,
        )
        return GenerationUtilsForT5(model, **(gen_kwargs or {})) if with_generation_utils else model

    @classmethod
    def build_model(
        cls,
        config: T5Conf,
        *,
        freeze_model: bool = False,
        checkpoint: str | dict[str, Any] | None = None,
        strict: bool = False,
        dl_kwargs: dict[str, Any] | None = None,
    ) -> T5Model:
        """Build a model of these sizes, with weights of one's own.

        Args:
            config: the sizes.
            freeze_model: no parameter gets a gradient.
            checkpoint: URL or path of a file, or a state itself, which is copied.
            strict: names must fit. Otherwise parameters that the checkpoint lacks get new values.
            dl_kwargs: options of `torch.hub.load_state_dict_from_url`.

        Raises:
            TypeError: `checkpoint` is something else.
            CheckpointError: names or shapes do not fit; a RuntimeError too.
        """
        if checkpoint is None:
            return T5Model(config, freeze_model)
        state = read_state(checkpoint, dl_kwargs)
        # What was read from a file is nobody else's and is not copied.
        return _loaded(config, freeze_model, state, strict=strict, assign=isinstance(checkpoint, str))

    @staticmethod
    def build_model_from_huggingface_ckpt(
        ckpt_path: str | os.PathLike[str],
        encoder_only: bool = False,
        *,
        freeze_model: bool = False,
        strict: bool = True,
    ) -> T5Model:
        """Build a model of what `save_pretrained` of transformers wrote for a T5, T5 v1.1, Flan-T5 or mT5.

        A head that shares the embeddings becomes one of its own with the same values. Scores of models whose head is
        their own are smaller here by the root of the width than in transformers, as upstream's are.

        Args:
            ckpt_path: the folder, with `config.json` and the weights, in one file or in shards.
            encoder_only: build and load the encoder alone.
            freeze_model: no parameter gets a gradient.
            strict: names must fit.

        Raises:
            MissingCheckpointError: a file is missing.
            CheckpointError: the folder holds another model, or names or shapes do not fit.
        """
        found = read_weights(ckpt_path)
        config = read_conf(ckpt_path, found, encoder_only=encoder_only)
        state = renamed(found, config)
        if config.linear_head and state["lm_head.weight"] is state["token_embeddings.weight"]:
            state["lm_head.weight"] = state["lm_head.weight"].clone()
        return _loaded(config, freeze_model, state, strict=strict, assign=True)


def _loaded(config: T5Conf, freeze: bool, state: Mapping[str, Any], *, strict: bool, assign: bool) -> T5Model:
    with empty_parameters():
        model = T5Model(config, freeze)
    report = load_into(model, state, strict=strict, assign=assign)
    if any(report):
        logger.warning("Some names do not fit, and what the checkpoint lacks was drawn anew: %s.", report)
    return model


def _bundles(enum: type[WeightsEnum], **sizes: Any) -> tuple[T5Bundle, T5Bundle, T5Bundle]:
    """The encoder's bundle, the whole model's, and that with the head."""
    conf = T5Conf(**sizes)
    encoder, model, generation = (enum[name] for name in ("ENCODER", "MODEL", "GENERATION"))
    return (
        T5Bundle(replace(conf, encoder_only=True), encoder.url, partial(_transform, encoder)),
        T5Bundle(conf, model.url, partial(_transform, model)),
        T5Bundle(replace(conf, linear_head=True), generation.url, partial(_transform, generation)),
    )


def _transform(member: WeightsEnum) -> Any:
    return member.transforms()


_24_LAYERS: Mapping[str, int] = {"num_encoder_layers": 24, "num_decoder_layers": 24}
_FLAN: Mapping[str, str] = {"feed_forward_proj": "gated-gelu"}

T5_SMALL_ENCODER, T5_SMALL, T5_SMALL_GENERATION = _bundles(
    weights.T5_Small_Weights,
    embedding_dim=512,
    num_attention_heads=8,
    num_encoder_layers=6,
    num_decoder_layers=6,
    ffn_dimension=2048,
)
T5_BASE_ENCODER, T5_BASE, T5_BASE_GENERATION = _bundles(weights.T5_Base_Weights)
T5_LARGE_ENCODER, T5_LARGE, T5_LARGE_GENERATION = _bundles(
    weights.T5_Large_Weights, embedding_dim=1024, num_attention_heads=16, ffn_dimension=4096, **_24_LAYERS
)
T5_3B_ENCODER, T5_3B, T5_3B_GENERATION = _bundles(
    weights.T5_3B_Weights,
    embedding_dim=1024,
    qkv_dim=128,
    num_attention_heads=32,
    ffn_dimension=16384,
    **_24_LAYERS,
)
T5_11B_ENCODER, T5_11B, T5_11B_GENERATION = _bundles(
    weights.T5_11B_Weights,
    embedding_dim=1024,
    qkv_dim=128,
    num_attention_heads=128,
    ffn_dimension=65536,
    **_24_LAYERS,
)
FLAN_T5_BASE_ENCODER, FLAN_T5_BASE, FLAN_T5_BASE_GENERATION = _bundles(
    weights.Flan_T5_Base_Weights, ffn_dimension=2048, **_FLAN
)
FLAN_T5_LARGE_ENCODER, FLAN_T5_LARGE, FLAN_T5_LARGE_GENERATION = _bundles(
    weights.Flan_T5_Large_Weights,
    embedding_dim=1024,
    num_attention_heads=16,
    ffn_dimension=2816,
    **_24_LAYERS,
    **_FLAN,
)
FLAN_T5_XL_ENCODER, FLAN_T5_XL, FLAN_T5_XL_GENERATION = _bundles(
    weights.Flan_T5_XL_Weights,
    embedding_dim=2048,
    num_attention_heads=32,
    ffn_dimension=5120,
    **_24_LAYERS,
    **_FLAN,
)
FLAN_T5_XXL_ENCODER, FLAN_T5_XXL, FLAN_T5_XXL_GENERATION = _bundles(
    weights.Flan_T5_XXL_Weights,
    embedding_dim=4096,
    num_attention_heads=64,
    ffn_dimension=10240,
    **_24_LAYERS,
    **_FLAN,
)
