"""Upstream's way to a pretrained RoBERTa: a bundle of sizes, a checkpoint's URL, and a transform of texts.

The same checkpoints have names in the catalogue: `get_model("roberta_base", weights="DEFAULT")`.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from flambeau.core.weights import WeightsEnum, empty_parameters, load_into
from flambeau.text.models._checkpoints import read_state
from flambeau.text.models._huggingface import read_weights
from flambeau.text.models.roberta._legacy import rename_encoder_layers
from flambeau.text.models.roberta.huggingface import encoder_state, read_encoder_conf
from flambeau.text.models.roberta.model import RobertaEncoderConf, RobertaModel
from flambeau.text.models.roberta.preprocessing import roberta_transform as roberta_transform
from flambeau.text.models.roberta.preprocessing import xlmr_transform as xlmr_transform
from flambeau.text.weights import roberta as weights

__all__ = [
    "ROBERTA_BASE_ENCODER",
    "ROBERTA_DISTILLED_ENCODER",
    "ROBERTA_LARGE_ENCODER",
    "XLMR_BASE_ENCODER",
    "XLMR_LARGE_ENCODER",
    "RobertaBundle",
]

logger = logging.getLogger(__name__)


@dataclass
class RobertaBundle:
    """A pretrained encoder: its sizes, where its weights are, and how texts are prepared.

    Attributes:
        _encoder_conf: the sizes.
        _path: URL or path of the weights.
        _head: what is put on the features if nothing else is asked for.
        transform: makes, when called, the transform of texts to lists of ids; they are padded with 1.

    Example:
        >>> from flambeau.text.functional import to_tensor
        >>> from flambeau.text.models import RobertaClassificationHead
        >>> bundle = ROBERTA_BASE_ENCODER
        >>> model = bundle.get_model(head=RobertaClassificationHead(num_classes=2, input_dim=768))
        >>> tokens = to_tensor(bundle.transform()(["Hello world", "How are you!"]), padding_value=1)
        >>> model(tokens).shape
        torch.Size([2, 2])
    """

    _encoder_conf: RobertaEncoderConf
    _path: str | None = None
    _head: nn.Module | None = None
    transform: Callable[..., Any] | None = None

    @property
    def encoderConf(self) -> RobertaEncoderConf:
        """The sizes of the encoder."""
        return self._encoder_conf

    def get_model(
        self,
        *,
        head: nn.Module | None = None,
        load_weights: bool = True,
        freeze_encoder: bool = False,
        dl_kwargs: dict[str, Any] | None = None,
    ) -> RobertaModel:
        """Build the model.

        Args:
            head: goes on the features, in place of the bundle's own, and keeps its values.
            load_weights: fetch and load the encoder's weights.
            freeze_encoder: its parameters get no gradient.
            dl_kwargs: options of `torch.hub.load_state_dict_from_url`.

        Raises:
            AssertionError: weights are asked for, but the bundle has none; upstream's type of error.
            DownloadError: they could not be fetched.
        """
        if load_weights and self._path is None:
            raise AssertionError("this bundle has no weights: pass load_weights=False.")
        if freeze_encoder and not load_weights:
            logger.warning("The encoder is frozen and its weights are not loaded: it stays as it was drawn.")
        if head is not None and self._head is not None:
            logger.info("A head was given; the bundle's own is left out.")
        return self.build_model(
            self._encoder_conf,
            head=head if head is not None else self._head,
            freeze_encoder=freeze_encoder,
            checkpoint=self._path if load_weights else None,
            override_checkpoint_head=True,
            dl_kwargs=dl_kwargs,
        )

    @classmethod
    def build_model(
        cls,
        encoder_conf: RobertaEncoderConf,
        *,
        head: nn.Module | None = None,
        freeze_encoder: bool = False,
        checkpoint: str | dict[str, Any] | None = None,
        override_checkpoint_head: bool = False,
        strict: bool = False,
        dl_kwargs: dict[str, Any] | None = None,
    ) -> RobertaModel:
        """Build a model of these sizes, with weights of one's own.

        Args:
            encoder_conf: the sizes.
            head: goes on the features. It gets the checkpoint's values if that has all of them.
            freeze_encoder: the encoder's parameters get no gradient.
            checkpoint: URL or path of a file, or a state itself, which is copied.
            override_checkpoint_head: the head keeps its values whatever the checkpoint has.
            strict: names must fit. Otherwise parameters that the checkpoint lacks keep new values, with a warning.
            dl_kwargs: options of `torch.hub.load_state_dict_from_url`.

        Raises:
            TypeError: `checkpoint` is something else.
            CheckpointError: names or shapes do not fit; a RuntimeError too.
        """
        if checkpoint is None:
            return RobertaModel(encoder_conf, head, freeze_encoder)
        state = read_state(checkpoint, dl_kwargs)
        with empty_parameters():
            model = RobertaModel(encoder_conf, head, freeze_encoder)
        if head is not None:
            own = {f"head.{name}": value for name, value in head.state_dict().items()}
            if override_checkpoint_head or not own.keys() <= state.keys():
                state = {**{name: value for name, value in state.items() if not name.startswith("head.")}, **own}
        state = dict(state)
        rename_encoder_layers(state, "encoder.transformer.")
        # What was read from a file is nobody else's and is not copied.
        report = load_into(model, state, strict=strict, assign=isinstance(checkpoint, str))
        _warn(report.missing_keys, report.unexpected_keys, report.misshaped_keys)
        return model

    @classmethod
    def build_model_from_huggingface_ckpt(
        cls,
        ckpt_path: str | os.PathLike[str],
        head: nn.Module | None = None,
        *,
        freeze_encoder: bool = False,
    ) -> RobertaModel:
        """Build a model of what `save_pretrained` of transformers wrote for a RoBERTa, XLM-R or CamemBERT.

        Args:
            ckpt_path: the folder, with `config.json` and `model.safetensors` or `pytorch_model.bin`.
            head: goes on the features. Heads of the folder are left out.
            freeze_encoder: the encoder's parameters get no gradient.

        Raises:
            MissingCheckpointError: a file is missing.
            CheckpointError: the folder holds another model, or is damaged.
        """
        conf, epsilon = read_encoder_conf(ckpt_path)
        state = encoder_state(read_weights(ckpt_path), conf)
        with empty_parameters():
            model = RobertaModel(conf, None, freeze_encoder)
        for part in model.modules():
            if isinstance(part, nn.LayerNorm):
                part.eps = epsilon
        load_into(model, state, assign=True)
        model.head = head
        return model


def _warn(missing: list[str], unexpected: list[str], misshaped: list[str]) -> None:
    parts = [
        f"{what} {', '.join(names)}"
        for what, names in (
            ("lacks", [name for name in missing if name.startswith("encoder.")]),
            ("has in vain", [name for name in unexpected if name.startswith("encoder.")]),
            ("has in other shapes", misshaped),
        )
        if names
    ]
    if parts:
        warnings.warn(f"The checkpoint {'; '.join(parts)}. Parameters without values were drawn anew.", stacklevel=3)


def _bundle(member: WeightsEnum, **sizes: Any) -> RobertaBundle:
    # The transform is imported when it is called for.
    return RobertaBundle(RobertaEncoderConf(**sizes), member.url, None, partial(_transform, member))


def _transform(member: WeightsEnum) -> Any:
    return member.transforms()


_LARGE: Mapping[str, int] = {
    "embedding_dim": 1024, "ffn_dimension": 4096, "num_attention_heads": 16, "num_encoder_layers": 24,
}  # fmt: skip

ROBERTA_BASE_ENCODER = _bundle(weights.Roberta_Base_Weights.ENCODER)
ROBERTA_LARGE_ENCODER = _bundle(weights.Roberta_Large_Weights.ENCODER, **_LARGE)
ROBERTA_DISTILLED_ENCODER = _bundle(weights.Roberta_Distilled_Weights.ENCODER, num_encoder_layers=6)
XLMR_BASE_ENCODER = _bundle(weights.XLMR_Base_Weights.ENCODER, vocab_size=250002)
XLMR_LARGE_ENCODER = _bundle(weights.XLMR_Large_Weights.ENCODER, vocab_size=250002, **_LARGE)
