"""Conformer: transformer layers with a convolution inside (Gulati et al. 2020, arXiv:2005.08100)."""

from __future__ import annotations

from torch import Tensor, nn

from flambeau.audio.models._attention import key_mask, padding_mask, projected_self_attention

__all__ = ["Conformer", "ConformerLayer"]


class _ConvolutionModule(nn.Module):
    """Pointwise convolution with gate, depthwise convolution, norm, SiLU, pointwise convolution (section 2.2).

    Args:
        input_dim: channels outside.
        num_channels: channels inside.
        depthwise_kernel_size: taps of the depthwise convolution, odd.
        dropout: probability at the end.
        bias: whether the convolutions have one.
        use_group_norm: group norm of one group in place of batch norm.

    Raises:
        ValueError: the number of taps is even.
    """

    def __init__(
        self,
        input_dim: int,
        num_channels: int,
        depthwise_kernel_size: int,
        dropout: float = 0.0,
        bias: bool = False,
        use_group_norm: bool = False,
    ) -> None:
        super().__init__()
        if depthwise_kernel_size % 2 == 0:
            raise ValueError(
                f"depthwise_kernel_size is {depthwise_kernel_size}, expected an odd number, for 'SAME' padding."
            )
        self.layer_norm = nn.LayerNorm(input_dim)
        depthwise = nn.Conv1d(
            num_channels,
            num_channels,
            depthwise_kernel_size,
            padding=(depthwise_kernel_size - 1) // 2,
            groups=num_channels,
            bias=bias,
        )
        self.sequential = nn.Sequential(
            nn.Conv1d(input_dim, 2 * num_channels, 1, bias=bias),
            nn.GLU(dim=1),
            depthwise,
            nn.GroupNorm(1, num_channels) if use_group_norm else nn.BatchNorm1d(num_channels),
            nn.SiLU(),
            nn.Conv1d(num_channels, input_dim, 1, bias=bias),
            nn.Dropout(dropout),
        )

    def forward(self, input: Tensor) -> Tensor:
        """(batch, time, input_dim) -> the same shape."""
        return self.sequential(self.layer_norm(input).transpose(1, 2)).transpose(1, 2)  # type: ignore[no-any-return]


class _FeedForwardModule(nn.Module):
    """Layer norm, linear layer, SiLU, linear layer (section 2.3)."""

    def __init__(self, input_dim: int, hidden_dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.sequential = nn.Sequential(
            nn.LayerNorm(input_dim),
            nn.Linear(input_dim, hidden_dim),
            nn.SiLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden_dim, input_dim),
            nn.Dropout(dropout),
        )

    def forward(self, input: Tensor) -> Tensor:
        """(..., input_dim) -> the same shape."""
        return self.sequential(input)  # type: ignore[no-any-return]


class ConformerLayer(nn.Module):
    """Half a feed-forward, attention, convolution, half a feed-forward, layer norm (section 2.4).

    Args:
        input_dim: channels.
        ffn_dim: channels inside the feed-forward halves.
        num_attention_heads: heads.
        depthwise_conv_kernel_size: taps of the convolution, odd.
        dropout: probability throughout.
        use_group_norm: group norm in place of batch norm in the convolution.
        convolution_first: convolution before attention.
    """

    def __init__(
        self,
        input_dim: int,
        ffn_dim: int,
        num_attention_heads: int,
        depthwise_conv_kernel_size: int,
        dropout: float = 0.0,
        use_group_norm: bool = False,
        convolution_first: bool = False,
    ) -> None:
        super().__init__()
        self.ffn1 = _FeedForwardModule(input_dim, ffn_dim, dropout)
        self.self_attn_layer_norm = nn.LayerNorm(input_dim)
        self.self_attn = nn.MultiheadAttention(input_dim, num_attention_heads, dropout=dropout)
        self.self_attn_dropout = nn.Dropout(dropout)
        self.conv_module = _ConvolutionModule(
            input_dim, input_dim, depthwise_conv_kernel_size, dropout, bias=True, use_group_norm=use_group_norm
        )
        self.ffn2 = _FeedForwardModule(input_dim, ffn_dim, dropout)
        self.final_layer_norm = nn.LayerNorm(input_dim)
        self.convolution_first = convolution_first

    def _attend(self, x: Tensor, mask: Tensor | None) -> Tensor:
        attended = projected_self_attention(self.self_attn, self.self_attn_layer_norm(x), mask)
        return self.self_attn_dropout(attended) + x  # type: ignore[no-any-return]

    def forward(self, input: Tensor, key_padding_mask: Tensor | None) -> Tensor:
        """Apply.

        Args:
            input: (time, batch, input_dim).
            key_padding_mask: (batch, time) bool, True where a frame is padding; None where none is.

        Returns:
            (time, batch, input_dim).
        """
        x, mask = input.transpose(0, 1), key_mask(key_padding_mask)
        x = x + 0.5 * self.ffn1(x)
        if self.convolution_first:
            x = x + self.conv_module(x)
        x = self._attend(x, mask)
        if not self.convolution_first:
            x = x + self.conv_module(x)
        x = x + 0.5 * self.ffn2(x)
        return self.final_layer_norm(x).transpose(0, 1)  # type: ignore[no-any-return]


class Conformer(nn.Module):
    """A stack of Conformer layers.

    Args:
        input_dim: channels.
        num_heads: heads of each layer.
        ffn_dim: channels inside the feed-forward halves.
        num_layers: layers.
        depthwise_conv_kernel_size: taps of the convolutions, odd.
        dropout: probability throughout.
        use_group_norm: group norm in place of batch norm in the convolutions.
        convolution_first: convolution before attention.

    Example:
        >>> conformer = Conformer(input_dim=80, num_heads=4, ffn_dim=128, num_layers=2, depthwise_conv_kernel_size=31)
        >>> output, lengths = conformer(torch.rand(2, 40, 80), torch.tensor([40, 25]))
        >>> output.shape
        torch.Size([2, 40, 80])
    """

    def __init__(
        self,
        input_dim: int,
        num_heads: int,
        ffn_dim: int,
        num_layers: int,
        depthwise_conv_kernel_size: int,
        dropout: float = 0.0,
        use_group_norm: bool = False,
        convolution_first: bool = False,
    ) -> None:
        super().__init__()
        self.conformer_layers = nn.ModuleList(
            ConformerLayer(
                input_dim,
                ffn_dim,
                num_heads,
                depthwise_conv_kernel_size,
                dropout=dropout,
                use_group_norm=use_group_norm,
                convolution_first=convolution_first,
            )
            for _ in range(num_layers)
        )

    def forward(self, input: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encode.

        Args:
            input: (batch, time, input_dim).
            lengths: (batch,) valid frames. Upstream: attention leaves padding out, the convolutions see it.

        Returns:
            (batch, time, input_dim), and `lengths`.
        """
        mask = padding_mask(lengths, input.shape[1])
        x = input.transpose(0, 1)
        for layer in self.conformer_layers:
            x = layer(x, mask)
        return x.transpose(0, 1), lengths
