"""Tacotron 2: mel spectrograms from symbols (Shen et al. 2017, arXiv:1712.05884).

Attention is location-sensitive (Chorowski et al. 2015, arXiv:1506.07503).
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.audio.models._api import register_model
from flambeau.audio.models._attention import padding_mask
from flambeau.audio.models._recurrent import Recurrent
from flambeau.audio.weights.synthesis import Tacotron2_Weights
from flambeau.core.weights import build_with_weights

__all__ = ["Tacotron2", "tacotron2"]


def _linear(in_dim: int, out_dim: int, bias: bool = True, gain: str = "linear") -> nn.Linear:
    layer = nn.Linear(in_dim, out_dim, bias=bias)
    nn.init.xavier_uniform_(layer.weight, gain=nn.init.calculate_gain(gain))  # type: ignore[arg-type]
    return layer


def _conv1d(in_channels: int, out_channels: int, kernel_size: int, bias: bool, gain: str) -> nn.Conv1d:
    """A convolution that keeps the number of frames, for odd kernels."""
    layer = nn.Conv1d(in_channels, out_channels, kernel_size, padding=(kernel_size - 1) // 2, bias=bias)
    nn.init.xavier_uniform_(layer.weight, gain=nn.init.calculate_gain(gain))  # type: ignore[arg-type]
    return layer


class _LocationLayer(nn.Module):
    """Features of where attention was before."""

    def __init__(self, attention_n_filter: int, attention_kernel_size: int, attention_hidden_dim: int) -> None:
        super().__init__()
        self.location_conv = _conv1d(2, attention_n_filter, attention_kernel_size, bias=False, gain="linear")
        self.location_dense = _linear(attention_n_filter, attention_hidden_dim, bias=False, gain="tanh")

    def forward(self, attention_weights_cat: Tensor) -> Tensor:
        """(batch, 2, symbols) -> (batch, symbols, attention_hidden_dim)."""
        return self.location_dense(self.location_conv(attention_weights_cat).transpose(1, 2))  # type: ignore[no-any-return]


class _Attention(nn.Module):
    """Location-sensitive attention."""

    def __init__(
        self,
        attention_rnn_dim: int,
        encoder_embedding_dim: int,
        attention_hidden_dim: int,
        attention_location_n_filter: int,
        attention_location_kernel_size: int,
    ) -> None:
        super().__init__()
        self.query_layer = _linear(attention_rnn_dim, attention_hidden_dim, bias=False, gain="tanh")
        self.memory_layer = _linear(encoder_embedding_dim, attention_hidden_dim, bias=False, gain="tanh")
        self.v = _linear(attention_hidden_dim, 1, bias=False)
        self.location_layer = _LocationLayer(
            attention_location_n_filter, attention_location_kernel_size, attention_hidden_dim
        )

    def forward(
        self, query: Tensor, memory: Tensor, processed_memory: Tensor, weights_cat: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Attend.

        Args:
            query: (batch, attention_rnn_dim).
            memory: (batch, symbols, encoder_embedding_dim).
            processed_memory: (batch, symbols, attention_hidden_dim).
            weights_cat: (batch, 2, symbols), the weights of the step before and their sum so far.
            mask: (batch, symbols) bool, True where a symbol is padding.

        Returns:
            Context (batch, encoder_embedding_dim) and weights (batch, symbols).
        """
        processed_query = self.query_layer(query.unsqueeze(1))
        energies = self.v(torch.tanh(processed_query + self.location_layer(weights_cat) + processed_memory))
        weights = energies.squeeze(2).masked_fill(mask, float("-inf")).softmax(dim=1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1), weights


class _Prenet(nn.Module):
    """Linear layers with dropout, which stays on at inference (section 2.2): it varies what is spoken."""

    def __init__(self, in_dim: int, out_sizes: list[int]) -> None:
        super().__init__()
        widths = [in_dim, *out_sizes[:-1]]
        self.layers = nn.ModuleList(
            _linear(width, size, bias=False) for width, size in zip(widths, out_sizes, strict=True)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_dim) -> (..., last of out_sizes)."""
        for layer in self.layers:
            x = F.dropout(F.relu(layer(x)), p=0.5, training=True)
        return x


class _Postnet(nn.Module):
    """Convolutions over the spectrogram that add detail."""

    def __init__(
        self, n_mels: int, postnet_embedding_dim: int, postnet_kernel_size: int, postnet_n_convolution: int
    ) -> None:
        super().__init__()
        widths = [n_mels, *[postnet_embedding_dim] * (postnet_n_convolution - 1), n_mels]
        gains = ["tanh"] * (postnet_n_convolution - 1) + ["linear"]
        self.convolutions = nn.ModuleList(
            nn.Sequential(
                _conv1d(widths[i], widths[i + 1], postnet_kernel_size, bias=True, gain=gain),
                nn.BatchNorm1d(widths[i + 1]),
            )
            for i, gain in enumerate(gains)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, n_mels, frames) -> the same shape."""
        last = len(self.convolutions) - 1
        for index, convolution in enumerate(self.convolutions):
            x = convolution(x)
            x = F.dropout(torch.tanh(x) if index < last else x, 0.5, training=self.training)
        return x


class _Encoder(nn.Module):
    """Convolutions and a bidirectional LSTM over symbols."""

    def __init__(self, encoder_embedding_dim: int, encoder_n_convolution: int, encoder_kernel_size: int) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Sequential(
                _conv1d(encoder_embedding_dim, encoder_embedding_dim, encoder_kernel_size, bias=True, gain="relu"),
                nn.BatchNorm1d(encoder_embedding_dim),
            )
            for _ in range(encoder_n_convolution)
        )
        self.lstm = Recurrent(
            "LSTM", encoder_embedding_dim, encoder_embedding_dim // 2, batch_first=True, bidirectional=True
        )

    def forward(self, x: Tensor, input_lengths: Tensor) -> Tensor:
        """(batch, channels, symbols) and lengths -> (batch, symbols, channels), zero where padded."""
        for convolution in self.convolutions:
            x = F.dropout(F.relu(convolution(x)), 0.5, self.training)
        return _both_directions(self.lstm, x.transpose(1, 2), input_lengths)


def _both_directions(lstm: nn.RNNBase, x: Tensor, lengths: Tensor) -> Tensor:
    """A one-layer bidirectional LSTM over items of different lengths, in any order, on any device.

    Each item is turned around within its own length for the backward direction. Packing would do the same, but wants
    lengths on the CPU and cannot be compiled.
    """
    steps = torch.arange(x.shape[1], device=x.device)
    valid = steps < lengths[:, None]
    turned = torch.where(valid, lengths[:, None] - 1 - steps, steps)[..., None]
    outputs = []
    for suffix, direction in (("", x), ("_reverse", x.gather(1, turned.expand_as(x)))):
        parameters = [getattr(lstm, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        start = x.new_zeros(1, len(x), lstm.hidden_size)
        output, _, _ = torch.lstm(direction, (start, start), parameters, True, 1, 0.0, lstm.training, False, True)
        outputs.append(output)
    outputs[1] = outputs[1].gather(1, turned.expand_as(outputs[1]))
    return torch.cat(outputs, dim=2) * valid[..., None]


class _State(NamedTuple):
    """What the decoder keeps from step to step."""

    attention_hidden: Tensor
    attention_cell: Tensor
    decoder_hidden: Tensor
    decoder_cell: Tensor
    weights: Tensor
    weights_cum: Tensor
    context: Tensor


class _Decoder(nn.Module):
    """Frames one step after another, each from the one before and from what attention picks."""

    def __init__(
        self,
        n_mels: int,
        n_frames_per_step: int,
        encoder_embedding_dim: int,
        decoder_rnn_dim: int,
        decoder_max_step: int,
        decoder_dropout: float,
        decoder_early_stopping: bool,
        attention_rnn_dim: int,
        attention_hidden_dim: int,
        attention_location_n_filter: int,
        attention_location_kernel_size: int,
        attention_dropout: float,
        prenet_dim: int,
        gate_threshold: float,
    ) -> None:
        super().__init__()
        self.n_mels, self.n_frames_per_step = n_mels, n_frames_per_step
        self.encoder_embedding_dim = encoder_embedding_dim
        self.attention_rnn_dim, self.decoder_rnn_dim = attention_rnn_dim, decoder_rnn_dim
        self.prenet_dim = prenet_dim
        self.decoder_max_step, self.gate_threshold = decoder_max_step, gate_threshold
        self.attention_dropout, self.decoder_dropout = attention_dropout, decoder_dropout
        self.decoder_early_stopping = decoder_early_stopping
        # Upstream: the first layer reads one frame, the last of a step.
        self.prenet = _Prenet(n_mels * n_frames_per_step, [prenet_dim, prenet_dim])
        self.attention_rnn = nn.LSTMCell(prenet_dim + encoder_embedding_dim, attention_rnn_dim)
        self.attention_layer = _Attention(
            attention_rnn_dim,
            encoder_embedding_dim,
            attention_hidden_dim,
            attention_location_n_filter,
            attention_location_kernel_size,
        )
        self.decoder_rnn = nn.LSTMCell(attention_rnn_dim + encoder_embedding_dim, decoder_rnn_dim)
        self.linear_projection = _linear(decoder_rnn_dim + encoder_embedding_dim, n_mels * n_frames_per_step)
        self.gate_layer = _linear(decoder_rnn_dim + encoder_embedding_dim, 1, gain="sigmoid")

    def _initial(self, memory: Tensor) -> _State:
        batch, symbols, _ = memory.shape
        widths = [self.attention_rnn_dim] * 2 + [self.decoder_rnn_dim] * 2
        return _State(
            *(memory.new_zeros(batch, width) for width in (*widths, symbols, symbols, self.encoder_embedding_dim))
        )

    def _step(
        self, frame: Tensor, state: _State, memory: Tensor, processed_memory: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, _State]:
        """Mel values (batch, n_mels x frames per step), gate logit (batch, 1) and the next state."""
        hidden, cell = self.attention_rnn(
            torch.cat([frame, state.context], dim=1), (state.attention_hidden, state.attention_cell)
        )
        hidden = F.dropout(hidden, self.attention_dropout, self.training)
        so_far = torch.stack([state.weights, state.weights_cum], dim=1)
        context, weights = self.attention_layer(hidden, memory, processed_memory, so_far, mask)
        out, out_cell = self.decoder_rnn(
            torch.cat([hidden, context], dim=1), (state.decoder_hidden, state.decoder_cell)
        )
        out = F.dropout(out, self.decoder_dropout, self.training)
        both = torch.cat([out, context], dim=1)
        state = _State(hidden, cell, out, out_cell, weights, state.weights_cum + weights, context)
        return self.linear_projection(both), self.gate_layer(both), state

    def _frames(self, steps: list[Tensor]) -> Tensor:
        """One (batch, n_mels x frames per step) per step -> (batch, n_mels, frames)."""
        stacked = torch.stack(steps, dim=1)
        return stacked.unflatten(2, (self.n_frames_per_step, self.n_mels)).flatten(1, 2).transpose(1, 2)  # type: ignore[no-any-return]

    def forward(
        self, memory: Tensor, mel_specgram_truth: Tensor, memory_lengths: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Predict each step from the true frames before it.

        Args:
            memory: (batch, symbols, encoder_embedding_dim).
            mel_specgram_truth: (batch, n_mels, frames); frames that do not fill a step are left out.
            memory_lengths: (batch,) valid symbols.

        Returns:
            Spectrogram (batch, n_mels, frames), gate logits (batch, steps), attention weights (batch, steps, symbols).
        """
        frames = mel_specgram_truth.shape[2] // self.n_frames_per_step * self.n_frames_per_step
        truth = mel_specgram_truth[..., :frames].transpose(1, 2)
        truth = truth.unflatten(1, (-1, self.n_frames_per_step)).flatten(2)
        inputs = self.prenet(F.pad(truth, (0, 0, 1, 0))[:, :-1].transpose(0, 1))
        mask = padding_mask(memory_lengths, memory.shape[1])
        state, processed_memory = self._initial(memory), self.attention_layer.memory_layer(memory)
        mels, gates, alignments = [], [], []
        for frame in inputs:
            mel, gate, state = self._step(frame, state, memory, processed_memory, mask)
            mels.append(mel)
            gates.append(gate.squeeze(1))
            alignments.append(state.weights)
        return self._frames(mels), torch.stack(gates, dim=1), torch.stack(alignments, dim=1)

    def infer(self, memory: Tensor, memory_lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Predict each step from the predicted ones before it, until all gates are open.

        Args:
            memory: (batch, symbols, encoder_embedding_dim).
            memory_lengths: (batch,) valid symbols.

        Returns:
            Spectrogram (batch, n_mels, frames), (batch,) valid frames, gate logits (batch, steps), attention weights
            (batch, steps, symbols).
        """
        mask = padding_mask(memory_lengths, memory.shape[1])
        state, processed_memory = self._initial(memory), self.attention_layer.memory_layer(memory)
        lengths = torch.zeros(len(memory), dtype=torch.int32, device=memory.device)
        finished = torch.zeros(len(memory), dtype=torch.bool, device=memory.device)
        mel = memory.new_zeros(len(memory), self.n_mels * self.n_frames_per_step)
        mels, gates, alignments = [], [], []
        for _ in range(self.decoder_max_step):
            mel, gate, state = self._step(self.prenet(mel), state, memory, processed_memory, mask)
            mels.append(mel)
            gates.append(gate.squeeze(1))
            alignments.append(state.weights)
            lengths += ~finished * self.n_frames_per_step
            finished |= gate.squeeze(1).sigmoid() > self.gate_threshold
            if self.decoder_early_stopping and bool(finished.all()):
                break
        else:
            if self.decoder_early_stopping:
                warnings.warn(
                    f"Reached max decoder steps ({self.decoder_max_step}) before the end of every item; the speech may "
                    "be cut off. Raise `decoder_max_step`.",
                    stacklevel=3,
                )
        return self._frames(mels), lengths, torch.stack(gates, dim=1), torch.stack(alignments, dim=1)


class Tacotron2(nn.Module):
    """The network of the paper.

    Args:
        mask_padding: whether `forward` clears what lies behind the end of an item.
        n_mels: mel bands.
        n_symbol: symbols.
        n_frames_per_step: frames of a decoder's step.
        symbol_embedding_dim: channels of symbols.
        encoder_embedding_dim: channels of the encoder, equal to `symbol_embedding_dim`.
        encoder_n_convolution: its convolutions.
        encoder_kernel_size: their taps.
        decoder_rnn_dim: channels of the decoder's second LSTM.
        decoder_max_step: steps after which `infer` stops at the latest.
        decoder_dropout: probability behind that LSTM.
        decoder_early_stopping: stop when the gates of all items are open.
        attention_rnn_dim: channels of the first LSTM.
        attention_hidden_dim: channels inside attention.
        attention_location_n_filter: filters over the weights of the steps before.
        attention_location_kernel_size: their taps.
        attention_dropout: probability behind the first LSTM.
        prenet_dim: channels of the prenet.
        postnet_n_convolution: convolutions of the postnet.
        postnet_kernel_size: their taps.
        postnet_embedding_dim: their channels.
        gate_threshold: probability from which on a gate counts as open.
    """

    def __init__(
        self,
        mask_padding: bool = False,
        n_mels: int = 80,
        n_symbol: int = 148,
        n_frames_per_step: int = 1,
        symbol_embedding_dim: int = 512,
        encoder_embedding_dim: int = 512,
        encoder_n_convolution: int = 3,
        encoder_kernel_size: int = 5,
        decoder_rnn_dim: int = 1024,
        decoder_max_step: int = 2000,
        decoder_dropout: float = 0.1,
        decoder_early_stopping: bool = True,
        attention_rnn_dim: int = 1024,
        attention_hidden_dim: int = 128,
        attention_location_n_filter: int = 32,
        attention_location_kernel_size: int = 31,
        attention_dropout: float = 0.1,
        prenet_dim: int = 256,
        postnet_n_convolution: int = 5,
        postnet_kernel_size: int = 5,
        postnet_embedding_dim: int = 512,
        gate_threshold: float = 0.5,
    ) -> None:
        super().__init__()
        self.mask_padding, self.n_mels, self.n_frames_per_step = mask_padding, n_mels, n_frames_per_step
        self.embedding = nn.Embedding(n_symbol, symbol_embedding_dim)
        nn.init.xavier_uniform_(self.embedding.weight)
        self.encoder = _Encoder(encoder_embedding_dim, encoder_n_convolution, encoder_kernel_size)
        self.decoder = _Decoder(
            n_mels,
            n_frames_per_step,
            encoder_embedding_dim,
            decoder_rnn_dim,
            decoder_max_step,
            decoder_dropout,
            decoder_early_stopping,
            attention_rnn_dim,
            attention_hidden_dim,
            attention_location_n_filter,
            attention_location_kernel_size,
            attention_dropout,
            prenet_dim,
            gate_threshold,
        )
        self.postnet = _Postnet(n_mels, postnet_embedding_dim, postnet_kernel_size, postnet_n_convolution)

    def _encoded(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return self.encoder(self.embedding(tokens).transpose(1, 2), lengths)  # type: ignore[no-any-return]

    def forward(
        self, tokens: Tensor, token_lengths: Tensor, mel_specgram: Tensor, mel_specgram_lengths: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Predict each frame from the true ones before it, as training does.

        Args:
            tokens: (batch, symbols) integers; items in any order.
            token_lengths: (batch,) valid symbols.
            mel_specgram: (batch, n_mels, frames), the truth.
            mel_specgram_lengths: (batch,) valid frames; used where `mask_padding` is set.

        Returns:
            Spectrogram before and behind the postnet (batch, n_mels, frames), gate logits (batch, steps), and attention
            weights (batch, steps, symbols).
        """
        memory = self._encoded(tokens, token_lengths)
        mel, gates, alignments = self.decoder(memory, mel_specgram, token_lengths)
        refined = mel + self.postnet(mel)
        if self.mask_padding:
            mask = padding_mask(mel_specgram_lengths, mel.shape[2])
            mel, refined = (value.masked_fill(mask[:, None], 0.0) for value in (mel, refined))
            gates = gates.masked_fill(mask[:, :: self.n_frames_per_step], 1e3)
        return mel, refined, gates, alignments

    def infer(self, tokens: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Speak.

        Args:
            tokens: (batch, symbols) integers.
            lengths: (batch,) valid symbols; None where none is padding.

        Returns:
            Spectrogram (batch, n_mels, frames), (batch,) valid frames, attention weights (batch, steps, symbols).
        """
        if lengths is None:
            lengths = torch.full((len(tokens),), tokens.shape[1], device=tokens.device)
        mel, mel_lengths, _, alignments = self.decoder.infer(self._encoded(tokens, lengths), lengths)
        return mel + self.postnet(mel), mel_lengths, alignments


@register_model(task="text-to-spectrogram", tags=("speech",))
def tacotron2(
    n_symbol: int | None = None,
    *,
    weights: Tacotron2_Weights | None = None,
    progress: bool = True,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    **kwargs: Any,
) -> Tacotron2:
    """Tacotron 2 with the sizes of the paper (Shen et al. 2017, arXiv:1712.05884).

    Args:
        n_symbol: symbols; None for as many as the weights have, 148 without weights.
        weights: pretrained weights, their name, or None for random initialization.
        progress: show the download's progress.
        device: where the network goes.
        dtype: of its parameters.
        kwargs: for `Tacotron2`.
    """
    member = Tacotron2_Weights.verify(weights)
    if n_symbol is None:
        n_symbol = 148 if member is None else len(member.meta["symbols"])
    return build_with_weights(
        Tacotron2, member, progress=progress, device=device, dtype=dtype, n_symbol=n_symbol, **kwargs
    )
