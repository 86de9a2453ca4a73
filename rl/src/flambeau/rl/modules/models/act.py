"""ACT: chunks of actions by transformers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["ACTModel"]


class ACTModel(nn.Module):
    """The network of ACT, a variational autoencoder of chunks of actions given what is observed.

    The encoder reads [CLS], the actions and the observation, with sinusoidal positions, and gives mean and logarithm of
    the variance of a latent z. The decoder turns one learned query for each action into the action, with attention to
    the observation and to z. Without a chunk, z is 0.

    Args:
        obs_dim: size of observations.
        action_dim: size of actions.
        chunk_size: number of actions H.
        hidden_dim: size of the transformers, divisible by `nheads`.
        nheads: number of heads.
        num_encoder_layers: of the encoder.
        num_decoder_layers: of the decoder.
        latent_dim: size of z.
        dropout: in both transformers.
        dim_feedforward: size of their inner layers; default: 4 `hidden_dim`.

    Example:
        >>> model = ACTModel(3, 2, 5, hidden_dim=8, nheads=2, num_decoder_layers=1)
        >>> model(torch.zeros(4, 3))[0].shape
        torch.Size([4, 5, 2])

    References:
        T. Z. Zhao, V. Kumar, S. Levine, C. Finn, Learning Fine-Grained Bimanual Manipulation with Low-Cost Hardware,
        arXiv:2304.13705.
    """

    positions: Tensor

    def __init__(
        self, obs_dim: int, action_dim: int, chunk_size: int, hidden_dim: int = 256, nheads: int = 8,
        num_encoder_layers: int = 4, num_decoder_layers: int = 7, latent_dim: int = 32, dropout: float = 0.1,
        dim_feedforward: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        inner = 4 * hidden_dim if dim_feedforward is None else dim_feedforward
        self.chunk_size = chunk_size
        self.latent_dim = latent_dim
        self.obs_proj = nn.Linear(obs_dim, hidden_dim)
        self.cls_embed = nn.Embedding(1, hidden_dim)
        self.action_proj = nn.Linear(action_dim, hidden_dim)
        encoder = nn.TransformerEncoderLayer(hidden_dim, nheads, inner, dropout, batch_first=True)
        self.cvae_encoder = nn.TransformerEncoder(encoder, num_encoder_layers, enable_nested_tensor=False)
        self.latent_proj = nn.Linear(hidden_dim, 2 * latent_dim)
        self.latent_out_proj = nn.Linear(latent_dim, hidden_dim)
        self.action_queries = nn.Embedding(chunk_size, hidden_dim)
        decoder = nn.TransformerDecoderLayer(hidden_dim, nheads, inner, dropout, batch_first=True)
        self.transformer_decoder = nn.TransformerDecoder(decoder, num_decoder_layers)
        self.action_head = nn.Linear(hidden_dim, action_dim)
        self.register_buffer("positions", _sinusoids(chunk_size + 2, hidden_dim), persistent=False)

    def forward(self, observation: Tensor, action_chunk: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Predict a chunk of actions.

        Args:
            observation: (*batch, obs_dim).
            action_chunk: the recorded actions (*batch, H, action_dim), to train with.

        Returns:
            Actions (*batch, H, action_dim), and of z the mean and the logarithm of the variance (*batch, latent_dim),
            both zeros without `action_chunk`.
        """
        batch = observation.shape[:-1]
        seen = self.obs_proj(observation.reshape(-1, observation.shape[-1]))
        if action_chunk is None:
            mean, log_var, latent = (seen.new_zeros(len(seen), self.latent_dim) for _ in range(3))
        else:
            mean, log_var = self._encoded(seen, action_chunk.reshape(-1, *action_chunk.shape[-2:]))
            latent = mean + torch.randn_like(mean) * (log_var / 2).exp()
        memory = torch.stack([seen, self.latent_out_proj(latent)], 1)
        queries = self.action_queries.weight.expand(len(seen), -1, -1)
        actions = self.action_head(self.transformer_decoder(queries, memory))
        return (
            actions.reshape(*batch, *actions.shape[1:]),
            mean.reshape(*batch, self.latent_dim),
            log_var.reshape(*batch, self.latent_dim),
        )

    def _encoded(self, seen: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        mark = self.cls_embed.weight.expand(len(seen), 1, -1)
        sequence = torch.cat([mark, self.action_proj(actions), seen.unsqueeze(1)], 1)
        summary = self.cvae_encoder(sequence + self.positions[: sequence.shape[1]])[:, 0]
        mean, log_var = self.latent_proj(summary).chunk(2, -1)
        return mean, log_var


def _sinusoids(length: int, size: int) -> Tensor:
    """Positions as sines and cosines of wavelengths from 2 pi to 10000 * 2 pi, (length, size)."""
    rate = 10000 ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
    angle = torch.arange(length, dtype=torch.float32).unsqueeze(1) * rate
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :size]
