"""A small policy that sees, reads and acts."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import torch
from torch import Tensor, nn

from flambeau.data.tensordict import TensorDictBase
from flambeau.data.tensordict.nn import InteractionType
from flambeau.rl.data.vla.tokenizers import ActionTokenizerBase
from flambeau.rl.modules.models.models import MLP, ConvNet
from flambeau.rl.modules.vla.common import VLAWrapperBase

__all__ = ["TinyVLA"]


class TinyVLA(VLAWrapperBase):
    """A policy of a few small layers, to try data, losses and collectors with; it is no good at robots.

    Two convolutions of the image, a perceptron of the state and an embedding of the instruction's hash go through a
    perceptron to a linear head. Sizes of images and states are those of the first call.

    Args:
        action_dim: as for `VLAWrapperBase`, like what is not named here.
        chunk_size: number of actions.
        action_head: "continuous" or "tokens".
        vocab_size: number of tokens.
        use_state: read states.
        hidden_dim: size of the layers.
        text_vocab: number of embeddings.
        text_dim: their size.
        default_interaction_type: how tokens are chosen.
        log_probs_mode: "sequence" or "token".
        mode: an old name of how tokens are chosen.
        device: of the parameters.
        input_mode: what is read.
        output_mode: what is written.
        return_vla_action_container: whether as a `VLAAction`.
        action_tokenizer: from actions to tokens and back.
        return_log_probs: whether to write logarithms of probabilities.
        return_logits: whether to write scores.
        logits_only: whether to write nothing else.
        inplace: where to write.
        num_samples: how many to draw.

    Example:
        >>> from flambeau.data.tensordict import TensorDict
        >>> seen = TensorDict({"image": torch.zeros(2, 3, 16, 16), "state": torch.zeros(2, 5)}, [2])
        >>> data = TensorDict({"observation": seen, "language_instruction": "pick"}, [2])
        >>> TinyVLA(action_dim=7, chunk_size=4)(data)["vla_action", "chunk"].shape
        torch.Size([2, 4, 7])
    """

    def __init__(
        self, *, action_dim: int, chunk_size: int, action_head: Literal["continuous", "tokens"] = "continuous",
        vocab_size: int = 256, use_state: bool = True, hidden_dim: int = 128, text_vocab: int = 256, text_dim: int = 32,
        default_interaction_type: InteractionType = InteractionType.DETERMINISTIC,
        log_probs_mode: Literal["sequence", "token"] = "sequence", mode: Literal["sample", "greedy"] | None = None,
        device: Any = None, input_mode: Literal["canonical", "preprocessed"] = "canonical",
        output_mode: Literal["chunk", "tokens", "both"] | None = None, return_vla_action_container: bool = True,
        action_tokenizer: ActionTokenizerBase | None = None, return_log_probs: bool | None = None,
        return_logits: bool = False, logits_only: bool = False, inplace: Any = True, num_samples: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            action_dim=action_dim, chunk_size=chunk_size, action_head=action_head, vocab_size=vocab_size,
            use_state=use_state, default_interaction_type=default_interaction_type, log_probs_mode=log_probs_mode,
            mode=mode, device=device, input_mode=input_mode, output_mode=output_mode,
            return_vla_action_container=return_vla_action_container, action_tokenizer=action_tokenizer,
            return_log_probs=return_log_probs, return_logits=return_logits, logits_only=logits_only, inplace=inplace,
            num_samples=num_samples,
        )  # fmt: skip
        convolutions = ConvNet(num_cells=[16, 32], kernel_sizes=3, strides=2, paddings=1, device=device)
        self.image_encoder = nn.Sequential(convolutions, nn.LazyLinear(hidden_dim, device=device), nn.ReLU())
        if use_state:
            self.state_encoder = MLP(out_features=hidden_dim, num_cells=[hidden_dim], device=device)
        self.text_vocab = text_vocab
        self.text_embedding = nn.Embedding(text_vocab, text_dim, device=device)
        self.trunk = MLP(out_features=hidden_dim, num_cells=[hidden_dim], device=device)
        size = chunk_size * action_dim * (vocab_size if action_head == "tokens" else 1)
        self.head = nn.LazyLinear(size, device=device)

    def _hash_text(self, strings: list[str], device: Any) -> Tensor:
        hashes = [int(hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), 16) for text in strings]
        return torch.tensor([number % self.text_vocab for number in hashes], device=device)

    def _predict(self, tensordict: TensorDictBase) -> Tensor:
        image = self._get_image(tensordict)
        image = image.float() / 255 if image.dtype is torch.uint8 else image.float()
        features = [self.image_encoder(image)]
        if self.use_state:
            features.append(self.state_encoder(self._get_state(tensordict).float()))
        features.append(self.text_embedding(self._hash_text(self._get_instruction(tensordict), image.device)))
        found: Tensor = self.head(self.trunk(torch.cat(features, -1)))
        return found
