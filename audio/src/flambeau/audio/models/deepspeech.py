"""Deep Speech (Hannun et al. 2014, arXiv:1412.5567)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from flambeau.audio.models._recurrent import Recurrent

__all__ = ["DeepSpeech", "FullyConnected"]


class FullyConnected(nn.Module):
    """Linear layer, ReLU clipped from above, dropout.

    Args:
        n_feature: channels of the input.
        n_hidden: channels of the output.
        dropout: probability.
        relu_max_clip: the largest value that is passed on.
    """

    def __init__(self, n_feature: int, n_hidden: int, dropout: float, relu_max_clip: int = 20) -> None:
        super().__init__()
        self.fc = nn.Linear(n_feature, n_hidden)
        self.relu_max_clip = relu_max_clip
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """(..., n_feature) -> (..., n_hidden)."""
        x = self.fc(x).clamp(0, self.relu_max_clip)
        return F.dropout(x, self.dropout, self.training) if self.dropout else x


class DeepSpeech(nn.Module):
    """Three layers per frame, a bidirectional recurrent layer, two more layers.

    Args:
        n_feature: channels of the input.
        n_hidden: channels of all layers.
        n_class: classes.
        dropout: probability behind each layer.
    """

    def __init__(self, n_feature: int, n_hidden: int = 2048, n_class: int = 40, dropout: float = 0.0) -> None:
        super().__init__()
        self.n_hidden = n_hidden
        self.fc1 = FullyConnected(n_feature, n_hidden, dropout)
        self.fc2 = FullyConnected(n_hidden, n_hidden, dropout)
        self.fc3 = FullyConnected(n_hidden, n_hidden, dropout)
        self.bi_rnn = Recurrent("RNN_RELU", n_hidden, n_hidden, bidirectional=True)
        self.fc4 = FullyConnected(n_hidden, n_hidden, dropout)
        self.out = nn.Linear(n_hidden, n_class)

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities of the classes.

        Args:
            x: (batch, 1, time, n_feature).

        Returns:
            (batch, time, n_class).
        """
        x = self.fc3(self.fc2(self.fc1(x)))
        both, _ = self.bi_rnn(x.squeeze(1).transpose(0, 1))
        forwards, backwards = both.split(self.n_hidden, dim=2)
        x = self.out(self.fc4(forwards + backwards))
        return F.log_softmax(x.transpose(0, 1), dim=2)
