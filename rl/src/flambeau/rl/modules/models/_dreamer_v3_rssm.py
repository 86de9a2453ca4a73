"""The recurrent state space of DreamerV3, whose latent states are discrete (arXiv:2301.04104)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from flambeau.rl.modules.models._dreamer_v3_layers import normed_layers, reset_all_weights
from flambeau.rl.modules.models._dreamer_v3_recurrence import LatentBlockGRU


def mixed_probabilities(logits: Tensor, unimix: float) -> Tensor:
    """Probabilities of categories, a part of them uniform, in float32."""
    probabilities = logits.float().softmax(-1)
    if not unimix:
        return probabilities
    return (1 - unimix) * probabilities + unimix / logits.shape[-1]


def drawn_state(logits: Tensor, unimix: float, uniform: Tensor | None) -> Tensor:
    """One category of each variable, by inversion: one-hot forward, the probabilities' gradient backward.

    Args:
        logits: (*batch, N, K).
        unimix: the uniform part of the probabilities.
        uniform: numbers in [0, 1), (*batch, N); drawn unless given.

    Returns:
        (*batch, N * K), float32.
    """
    probabilities = mixed_probabilities(logits, unimix)
    if uniform is None:
        uniform = torch.rand(logits.shape[:-1], device=logits.device)
    below = probabilities.detach().cumsum(-1) <= uniform.unsqueeze(-1)
    # The last sum may be a little below 1.
    index = below.sum(-1).clamp(max=logits.shape[-1] - 1)
    one_hot = nn.functional.one_hot(index, logits.shape[-1]).to(probabilities.dtype)
    return (one_hot + probabilities - probabilities.detach()).flatten(-2)


def _check_unimix(name: str, unimix: float) -> None:
    if not 0 <= unimix < 1:
        raise ValueError(f"{name}: unimix is {unimix}, expected in [0, 1).")


class RSSMPriorV3(nn.Module):
    """The next belief, and what it says of the next state: `num_categoricals` variables of `num_classes` categories.

    Args:
        action_spec: of actions; only its shape is read.
        hidden_dim: size of layers.
        rnn_hidden_dim: H, size of beliefs.
        num_categoricals, num_classes: N and K; states have N * K features.
        action_dim: A, size of actions; None waits for the first call.
        device: of the parameters.
        action_shape: in place of `action_spec`.
        recurrent_model: "gru" for torch's cell, "block_gru" for the paper's.
        num_blocks, num_layers: of the block GRU.
        prior_num_layers: layers from belief to state with the block GRU; 1 with the other.
        norm_eps: added to mean squares with the block GRU.
        unimix: the uniform part of the probabilities that states are drawn with; the paper has 0.01.

    Raises:
        ValueError: an argument has a value that is not allowed, or two exclude one another.
    """

    def __init__(
        self, action_spec: Any = None, hidden_dim: int = 512, rnn_hidden_dim: int = 512, num_categoricals: int = 32,
        num_classes: int = 32, action_dim: int | None = None, device: Any = None, *,
        action_shape: Sequence[int] | None = None, recurrent_model: Literal["gru", "block_gru"] = "gru",
        num_blocks: int = 8, num_layers: int = 1, prior_num_layers: int = 2, norm_eps: float = 1e-4,
        unimix: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        if action_spec is not None and action_shape is not None:
            raise ValueError("RSSMPriorV3: action_spec and action_shape are both given, expected one of them.")
        if recurrent_model not in ("gru", "block_gru"):
            raise ValueError(f"RSSMPriorV3: recurrent_model is {recurrent_model!r}, expected 'gru' or 'block_gru'.")
        _check_unimix("RSSMPriorV3", unimix)
        self.action_shape = action_spec.shape if action_spec is not None else action_shape
        self.num_categoricals, self.num_classes = num_categoricals, num_classes
        self.rnn_hidden_dim, self.unimix, self.recurrent_model = rnn_hidden_dim, unimix, recurrent_model
        state_dim = num_categoricals * num_classes
        if recurrent_model == "block_gru":
            if action_dim is None:
                raise ValueError("RSSMPriorV3: action_dim is None, expected the size of actions with 'block_gru'.")
            if rnn_hidden_dim % num_blocks:
                raise ValueError(
                    f"RSSMPriorV3: rnn_hidden_dim is {rnn_hidden_dim}, expected a multiple of {num_blocks} blocks."
                )
            self.action_state_projector: nn.Module | None = None
            self.rnn: nn.Module = LatentBlockGRU(
                state_dim, action_dim, hidden_dim, rnn_hidden_dim, num_blocks, num_layers, norm_eps, device,
            )  # fmt: skip
            sizes = [rnn_hidden_dim] + [hidden_dim] * prior_num_layers
            layers = normed_layers(sizes, norm_eps, device)
            self.rnn_to_prior_projector = nn.Sequential(*layers, nn.Linear(sizes[-1], state_dim, device=device))
            reset_all_weights(self.rnn_to_prior_projector)
            return
        self.rnn = nn.GRUCell(hidden_dim, rnn_hidden_dim, device=device)
        first: nn.Module = nn.LazyLinear(hidden_dim, device=device)
        if action_dim is not None:
            first = nn.Linear(state_dim + action_dim, hidden_dim, device=device)
        self.action_state_projector = nn.Sequential(first, nn.SiLU())
        self.rnn_to_prior_projector = nn.Sequential(
            nn.Linear(rnn_hidden_dim, hidden_dim, device=device),
            nn.SiLU(),
            nn.Linear(hidden_dim, state_dim, device=device),
        )

    def next_belief(self, state: Tensor, belief: Tensor, action: Tensor) -> Tensor:
        """The belief after an action: (*batch, S), (*batch, H), (*batch, A) -> (*batch, H)."""
        if self.action_state_projector is None:
            following: Tensor = self.rnn(state, belief, action)
            return following
        hidden = self.action_state_projector(torch.cat([state, action], -1))
        following = (
            self.rnn(hidden.flatten(0, -2), belief.flatten(0, -2)) if hidden.ndim > 2 else self.rnn(hidden, belief)
        )
        return following.reshape(*hidden.shape[:-1], -1)

    def forward(
        self, state: Tensor, belief: Tensor, action: Tensor, *, _uniform: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Take a step.

        Args:
            state: (*batch, N * K).
            belief: (*batch, H).
            action: (*batch, A).

        Returns:
            Logits of the next state (*batch, N, K), without the uniform part; a draw of it (*batch, N * K), one-hot and
            differentiated straight through; the next belief (*batch, H).
        """
        belief = self.next_belief(state, belief, action)
        logits = self.rnn_to_prior_projector(belief).unflatten(-1, (self.num_categoricals, self.num_classes))
        return logits, drawn_state(logits, self.unimix, _uniform), belief


class RSSMPosteriorV3(nn.Module):
    """What a belief and an observation say of the state.

    Args:
        hidden_dim: size of layers.
        num_categoricals, num_classes: N and K, as of the prior.
        rnn_hidden_dim, obs_embed_dim: H and E, sizes of beliefs and encoded observations; both, or none to wait for
            the first call.
        device: of the parameters.
        use_rms_norm: layers have RMS norms, as in the paper.
        num_layers: their number with norms; 1 without.
        norm_eps: added to mean squares.
        unimix: the uniform part of the probabilities that states are drawn with.

    Raises:
        ValueError: norms without sizes, or `unimix` outside [0, 1).
    """

    def __init__(
        self, hidden_dim: int = 512, num_categoricals: int = 32, num_classes: int = 32,
        rnn_hidden_dim: int | None = None, obs_embed_dim: int | None = None, device: Any = None, *,
        use_rms_norm: bool = False, num_layers: int = 1, norm_eps: float = 1e-4, unimix: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        _check_unimix("RSSMPosteriorV3", unimix)
        self.hidden_dim, self.num_categoricals, self.num_classes = hidden_dim, num_categoricals, num_classes
        self.unimix = unimix
        state_dim = num_categoricals * num_classes
        known = rnn_hidden_dim is not None and obs_embed_dim is not None
        inputs = (rnn_hidden_dim or 0) + (obs_embed_dim or 0)
        if use_rms_norm:
            if not known:
                raise ValueError("RSSMPosteriorV3: use_rms_norm needs rnn_hidden_dim and obs_embed_dim; give both.")
            sizes = [inputs] + [hidden_dim] * num_layers
            layers = normed_layers(sizes, norm_eps, device)
            self.obs_rnn_to_post_projector = nn.Sequential(*layers, nn.Linear(sizes[-1], state_dim, device=device))
            reset_all_weights(self)
            return
        self.obs_rnn_to_post_projector = nn.Sequential(
            nn.Linear(inputs, hidden_dim, device=device) if known else nn.LazyLinear(hidden_dim, device=device),
            nn.SiLU(),
            nn.Linear(hidden_dim, state_dim, device=device),
        )

    def forward(
        self, belief: Tensor, obs_embedding: Tensor, *, _uniform: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """(*batch, H), (*batch, E) -> logits of the state (*batch, N, K), and a draw of it (*batch, N * K)."""
        features = self.obs_rnn_to_post_projector(torch.cat([belief, obs_embedding], -1))
        logits = features.unflatten(-1, (self.num_categoricals, self.num_classes))
        return logits, drawn_state(logits, self.unimix, _uniform)
