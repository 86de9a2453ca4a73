"""World models in latent space: those of PlaNet (arXiv:1811.04551) and Dreamer (arXiv:1912.01603, 2301.04104)."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.data.tensordict.nn.common import TensorDictModuleBase
from flambeau.data.tensordict.nn.distributions.continuous import NormalParamExtractor
from flambeau.data.tensordict.nn.sequence import TensorDictSequential
from flambeau.rl.modules.models._dreamer_v3_images import DreamerV3ImageDecoder as DreamerV3ImageDecoder
from flambeau.rl.modules.models._dreamer_v3_images import DreamerV3ImageEncoder as DreamerV3ImageEncoder
from flambeau.rl.modules.models._dreamer_v3_layers import DreamerV3MLP as DreamerV3MLP
from flambeau.rl.modules.models._dreamer_v3_recurrence import DreamerV3BlockGRU as DreamerV3BlockGRU
from flambeau.rl.modules.models._dreamer_v3_recurrence import DreamerV3BlockGRUCell as DreamerV3BlockGRUCell
from flambeau.rl.modules.models._dreamer_v3_rollout import RSSMRolloutV3 as RSSMRolloutV3
from flambeau.rl.modules.models._dreamer_v3_rollout import RSSMStateEstimatorV3 as RSSMStateEstimatorV3
from flambeau.rl.modules.models._dreamer_v3_rssm import RSSMPosteriorV3 as RSSMPosteriorV3
from flambeau.rl.modules.models._dreamer_v3_rssm import RSSMPriorV3 as RSSMPriorV3
from flambeau.rl.modules.models._mlp import MLP
from flambeau.rl.modules.models._two_hot import SymExpTwoHot as SymExpTwoHot
from flambeau.rl.modules.models._two_hot import two_hot_cross_entropy as two_hot_cross_entropy
from flambeau.rl.modules.models._two_hot import two_hot_decode as two_hot_decode
from flambeau.rl.modules.models._two_hot import two_hot_encode as two_hot_encode

__all__ = [
    "DreamerActor",
    "DreamerV3BlockGRU",
    "DreamerV3BlockGRUCell",
    "DreamerV3ImageDecoder",
    "DreamerV3ImageEncoder",
    "DreamerV3MLP",
    "ObsDecoder",
    "ObsEncoder",
    "RSSMPosterior",
    "RSSMPosteriorV3",
    "RSSMPrior",
    "RSSMPriorV3",
    "RSSMRollout",
    "RSSMRolloutV3",
    "RSSMStateEstimatorV3",
    "SymExpTwoHot",
    "two_hot_cross_entropy",
    "two_hot_decode",
    "two_hot_encode",
]


class DreamerActor(nn.Module):
    """Means and standard deviations of actions, from a latent state.

    Args:
        out_features: size of actions.
        depth, num_cells, activation_class: of the `MLP`.
        std_bias: the deviation where the network gives 0.
        std_min_val: the least deviation.
        device: of the parameters.
    """

    def __init__(
        self, out_features: int, depth: int = 4, num_cells: int = 200, activation_class: Any = nn.ELU,
        std_bias: float = 5.0, std_min_val: float = 1e-4, device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.backbone = MLP(
            out_features=2 * out_features, depth=depth, num_cells=num_cells, activation_class=activation_class,
            device=device,
        )  # fmt: skip
        self.backbone.append(NormalParamExtractor(scale_mapping=f"biased_softplus_{std_bias}_{std_min_val}"))

    def forward(self, state: Tensor, belief: Tensor) -> tuple[Tensor, Tensor]:
        """(*batch, S), (*batch, H) -> two of (*batch, out_features)."""
        loc, scale = self.backbone(state, belief)
        return loc, scale


class ObsEncoder(nn.Module):
    """Convolutions that make a vector of an image (Ha and Schmidhuber 2018, arXiv:1803.10122).

    Args:
        channels: of the first layer; each next one has twice as many.
        num_layers: number of layers, each of which halves the image.
        in_channels: of the image; None waits for the first call.
        depth: former name of `channels`.
        device: of the parameters.

    Raises:
        RuntimeError: there are no layers.
    """

    def __init__(
        self, channels: int = 32, num_layers: int = 4, in_channels: int | None = None, depth: int | None = None,
        device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        channels = _channels(channels, depth, type(self).__name__, num_layers)
        layers: list[nn.Module] = []
        sizes = [in_channels, *(channels * 2**at for at in range(num_layers))]
        for inputs, outputs in itertools.pairwise(sizes):
            assert outputs is not None
            if inputs is None:
                layers.append(nn.LazyConv2d(outputs, 4, stride=2, device=device))
            else:
                layers.append(nn.Conv2d(inputs, outputs, 4, stride=2, device=device))
            layers.append(nn.ReLU())
        self.encoder = nn.Sequential(*layers)

    def forward(self, observation: Tensor) -> Tensor:
        """(*batch, C, H, W) -> (*batch, features)."""
        batch = observation.shape[:-3]
        features: Tensor = self.encoder(observation.reshape(-1, *observation.shape[-3:]))
        return features.reshape(*batch, -1)


class ObsDecoder(nn.Module):
    """Transposed convolutions that make an image of a latent state.

    Args:
        channels: of the last layer but one; each before it has twice as many.
        num_layers: number of layers, each of which doubles the image.
        kernel_sizes: of the layers; [5, 5, 6, 6] for four, which give 64 x 64 pixels, else 5.
        latent_dim: size of state and belief together; None waits for the first call.
        out_channels: of the image.
        depth: former name of `channels`.
        device: of the parameters.

    Raises:
        RuntimeError: there are no layers.
        ValueError: `kernel_sizes` has another length.
    """

    def __init__(
        self, channels: int = 32, num_layers: int = 4, kernel_sizes: Any = None, latent_dim: int | None = None,
        out_channels: int = 3, depth: int | None = None, device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        channels = _channels(channels, depth, type(self).__name__, num_layers)
        if kernel_sizes is None:
            kernel_sizes = [5, 5, 6, 6] if num_layers == 4 else 5
        kernels = list(kernel_sizes) if isinstance(kernel_sizes, (list, tuple)) else [kernel_sizes] * num_layers
        if len(kernels) != num_layers:
            raise ValueError(f"ObsDecoder: kernel_sizes has {len(kernels)} elements for {num_layers} layers.")
        width = channels * 8 * 2 * 2
        first = (
            nn.LazyLinear(width, device=device) if latent_dim is None else nn.Linear(latent_dim, width, device=device)
        )
        self.state_to_latent = nn.Sequential(first, nn.ReLU())
        sizes = [width, *(channels * 2**at for at in range(num_layers - 2, -1, -1)), out_channels]
        layers: list[nn.Module] = []
        for at, kernel in enumerate(kernels):
            layers += [nn.ConvTranspose2d(sizes[at], sizes[at + 1], kernel, stride=2, device=device), nn.ReLU()]
        self.decoder = nn.Sequential(*layers[:-1])

    def forward(self, state: Tensor, rnn_hidden: Tensor) -> Tensor:
        """(*batch, S), (*batch, H) -> (*batch, out_channels, height, width)."""
        latent = self.state_to_latent(torch.cat([state, rnn_hidden], -1))
        batch = latent.shape[:-1]
        image: Tensor = self.decoder(latent.reshape(-1, latent.shape[-1], 1, 1))
        return image.view(*batch, *image.shape[1:])


class RSSMPrior(nn.Module):
    """The next belief, and what it says of the next state.

    Args:
        action_spec: of actions, for their number of dimensions.
        hidden_dim: size of the layers.
        rnn_hidden_dim: H, size of beliefs.
        state_dim: S, size of states.
        scale_lb: the least deviation of a state.
        action_dim: size of actions; None waits for the first call.
        device: of the parameters.
    """

    def __init__(
        self, action_spec: Any, hidden_dim: int = 200, rnn_hidden_dim: int = 200, state_dim: int = 30,
        scale_lb: float = 0.1, action_dim: int | None = None, device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.rnn = nn.GRUCell(hidden_dim, rnn_hidden_dim, device=device)
        known = action_dim is not None
        first = (
            nn.Linear(state_dim + (action_dim or 0), hidden_dim, device=device)
            if known
            else nn.LazyLinear(hidden_dim, device=device)
        )
        self.action_state_projector = nn.Sequential(first, nn.ELU())
        self.rnn_to_prior_projector = nn.Sequential(
            nn.Linear(hidden_dim, hidden_dim, device=device),
            nn.ELU(),
            nn.Linear(hidden_dim, 2 * state_dim, device=device),
            NormalParamExtractor(scale_lb=scale_lb, scale_mapping="softplus"),
        )
        self.state_dim, self.rnn_hidden_dim = state_dim, rnn_hidden_dim
        self.action_shape = action_spec.shape

    def forward(
        self, state: Tensor, belief: Tensor, action: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Take a step.

        Args:
            state: (*batch, S).
            belief: (*batch, H).
            action: (*batch, A).
            noise: standard normal, (*batch, S); drawn unless given.

        Returns:
            Mean and deviation of the next state, a draw of it, and the next belief.
        """
        hidden = self.action_state_projector(torch.cat([state, action], -1))
        batch = hidden.shape[:-1]
        belief = self.rnn(hidden.reshape(-1, hidden.shape[-1]), belief.reshape(-1, belief.shape[-1]))
        belief = belief.view(*batch, -1)
        mean, std = self.rnn_to_prior_projector(belief)
        return mean, std, mean + std * (torch.randn_like(std) if noise is None else noise), belief


class RSSMPosterior(nn.Module):
    """What a belief and an observation say of the state.

    Args:
        hidden_dim: size of the layer.
        state_dim: S, size of states.
        scale_lb: the least deviation of a state.
        rnn_hidden_dim, obs_embed_dim: sizes of beliefs and of encoded observations; both, or none to wait for the first
            call.
        device: of the parameters.
    """

    def __init__(
        self, hidden_dim: int = 200, state_dim: int = 30, scale_lb: float = 0.1, rnn_hidden_dim: int | None = None,
        obs_embed_dim: int | None = None, device: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        first: nn.Module = nn.LazyLinear(hidden_dim, device=device)
        if rnn_hidden_dim is not None and obs_embed_dim is not None:
            first = nn.Linear(rnn_hidden_dim + obs_embed_dim, hidden_dim, device=device)
        self.obs_rnn_to_post_projector = nn.Sequential(
            first,
            nn.ELU(),
            nn.Linear(hidden_dim, 2 * state_dim, device=device),
            NormalParamExtractor(scale_lb=scale_lb, scale_mapping="softplus"),
        )
        self.hidden_dim = hidden_dim

    def forward(
        self, belief: Tensor, obs_embedding: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(*batch, H), (*batch, E) -> mean and deviation of the state, and a draw of it."""
        mean, std = self.obs_rnn_to_post_projector(torch.cat([belief, obs_embedding], -1))
        return mean, std, mean + std * (torch.randn_like(std) if noise is None else noise)


class RSSMRollout(TensorDictModuleBase):
    """Prior and posterior over a sequence, along the last dimension of the batch, each step from the last posterior.

    Args:
        rssm_prior: reads state, belief and action.
        rssm_posterior: reads the next belief and the encoded observation, and writes ("next", state).
        use_scan: accepted for compatibility; it loops over time.
        compile_step: compile a step.
        compile_backend, compile_mode: of `torch.compile`.
    """

    def __init__(
        self, rssm_prior: Any, rssm_posterior: Any, use_scan: bool = False, compile_step: bool = False,
        compile_backend: str = "inductor", compile_mode: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        both = TensorDictSequential(rssm_prior, rssm_posterior)
        self.in_keys, self.out_keys = both.in_keys, [*rssm_prior.out_keys, *rssm_posterior.out_keys]
        self.rssm_prior, self.rssm_posterior = rssm_prior, rssm_posterior
        self.use_scan, self.compile_step = use_scan, compile_step
        self.compile_backend, self.compile_mode = compile_backend, compile_mode
        self.__dict__["_compiled"] = None

    def _step(self, tensordict: Any) -> Any:
        return self.rssm_posterior(self.rssm_prior(tensordict))

    def _step_function(self) -> Any:
        if not self.compile_step:
            return self._step
        if self.__dict__["_compiled"] is None:
            compiled = torch.compile(self._step, backend=self.compile_backend, mode=self.compile_mode)
            self.__dict__["_compiled"] = compiled
        return self.__dict__["_compiled"]

    def forward(self, tensordict: Any) -> Any:
        """(*batch, T) -> the same with what each step read and wrote."""
        step, done = self._step_function(), []
        carried: dict[Any, Any] = {}
        for now in tensordict.exclude(*(key for key in self.out_keys if key != "_")).unbind(-1):
            for key, value in carried.items():
                now.set(key, value)
            after = step(now)
            done.append(after)
            carried = {}
            for key in self.rssm_prior.in_keys:
                following = ("next", *((key,) if isinstance(key, str) else key))
                if following in self.out_keys:
                    carried[key] = after.get(following)
        return torch.stack(done, tensordict.ndim - 1).contiguous()


def _channels(channels: int, depth: int | None, name: str, num_layers: int) -> int:
    if num_layers < 1:
        raise RuntimeError(f"{name}: num_layers is {num_layers}, expected at least 1.")
    if depth is None:
        return channels
    warnings.warn(f"{name}: `depth` is called `channels` now.", DeprecationWarning, stacklevel=3)
    return depth
