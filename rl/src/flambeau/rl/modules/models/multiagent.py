"""Networks of several agents, which share parameters or have their own, and see themselves or all."""

from __future__ import annotations

import copy as copying
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from flambeau.data.tensordict import TensorDict
from flambeau.data.tensordict.nn.params import TensorDictParams
from flambeau.rl.modules.models._conv import ConvNet
from flambeau.rl.modules.models._mixers import Mixer as Mixer
from flambeau.rl.modules.models._mixers import QMixer as QMixer
from flambeau.rl.modules.models._mixers import VDNMixer as VDNMixer
from flambeau.rl.modules.models._mlp import MLP
from flambeau.rl.modules.models.utils import _reset_parameters_recursive

__all__ = ["Mixer", "MultiAgentConvNet", "MultiAgentMLP", "MultiAgentNetBase", "QMixer", "VDNMixer"]


class MultiAgentNetBase(nn.Module):
    """The root of networks of several agents.

    A subclass makes the network of one agent in `_build_single_net`, and puts inputs in shape in `_pre_forward_check`.

    Args:
        n_agents: number of agents.
        centralized: let each agent see the inputs of all.
        share_params: let all agents use the same parameters; else each has its own, along the first dimension.
        agent_dim: the dimension of the agents, counted from the end.
        vmap_randomness: of networks with dropout: "different", "same" or "error".
        use_td_params: keep parameters as `params`, a `TensorDictParams`; else in `_empty_net`. Names in the state
            dictionary begin so.
        kwargs: of the network of one agent.

    Raises:
        TypeError: `centralized` or `share_params` is not given.
    """

    def __init__(
        self,
        *,
        n_agents: int,
        centralized: bool | None = None,
        share_params: bool | None = None,
        agent_dim: int | None = None,
        vmap_randomness: str = "different",
        use_td_params: bool = True,
        **kwargs: Any,
    ) -> None:
        for name, value in (("centralized", centralized), ("share_params", share_params)):
            if value is None:
                raise TypeError(f"{type(self).__name__}: give {name}=True or {name}=False.")
        if "_modules" not in self.__dict__:  # a subclass may have begun, to set what its networks need
            super().__init__()
        self.n_agents, self.centralized, self.share_params = n_agents, centralized, share_params
        self.agent_dim = -2 if agent_dim is None else agent_dim
        if self.agent_dim >= 0:
            raise ValueError(f"{type(self).__name__}: agent_dim is {agent_dim}, expected a negative number.")
        self._vmap_randomness, self.use_td_params = vmap_randomness, use_td_params
        nets = [self._build_single_net(**kwargs) for _ in range(1 if share_params else n_agents)]
        tensors = [each for net in nets for each in (*net.parameters(), *net.buffers())]
        self.initialized = not any(isinstance(each, (UninitializedBuffer, UninitializedParameter)) for each in tensors)
        if self.initialized:
            self._take(nets)
        else:
            self._waiting = nn.ModuleList(nets)

    # --- what subclasses say

    def _build_single_net(self, *, device: Any, **kwargs: Any) -> nn.Module:
        raise NotImplementedError(f"{type(self).__name__} defines no _build_single_net(device=..., **kwargs).")

    def _pre_forward_check(self, inputs: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} defines no _pre_forward_check(inputs).")

    # --- parameters

    def _take(self, nets: Sequence[nn.Module]) -> None:
        """Keep the parameters of some networks, and the empty shell of one."""
        values = (
            TensorDict.from_module(nets[0]) if self.share_params else TensorDict.from_modules(*nets, as_module=False)
        )
        shell = copying.deepcopy(nets[0])
        if self.use_td_params:
            self.params = TensorDictParams(values, no_convert=True) if self.share_params else TensorDictParams(values)
            _empty(shell)
        else:
            _fill(shell, dict(values.flatten_keys(".").items()))
        self._empty_net = shell

    def _values(self) -> dict[str, Tensor]:
        return {str(name): value for name, value in self.params.flatten_keys(".").items()}

    @property
    def vmap_randomness(self) -> str:
        """How dropout draws for the agents."""
        return self._vmap_randomness

    def get_stateful_net(self, copy: bool = True) -> nn.Module:
        """The network with all parameters in it, those of several agents along their first dimension.

        For initializing by name, not for calling: see `from_stateful_net`.

        Args:
            copy: leave this module as it is; False gives the shell itself, with the very parameters.
        """
        if not self.use_td_params:
            return copying.deepcopy(self._empty_net) if copy else self._empty_net
        net = copying.deepcopy(self._empty_net) if copy else self._empty_net
        _fill(net, {name: value.detach().clone() if copy else value for name, value in self._values().items()})
        return net

    @torch.no_grad()
    def from_stateful_net(self, stateful_net: nn.Module) -> None:
        """Take the values of a network that `get_stateful_net` gave.

        Args:
            stateful_net: has the same names and shapes.

        Raises:
            KeyError: its names are others.
        """
        given = {**dict(stateful_net.named_parameters()), **dict(stateful_net.named_buffers())}
        own = self._values() if self.use_td_params else dict(self._empty_net.state_dict(keep_vars=True))
        if given.keys() != own.keys():
            raise KeyError(f"from_stateful_net: the network has {sorted(given)}, expected {sorted(own)}.")
        for name, value in own.items():
            if given[name] is not value:
                value.copy_(given[name])
        if self.use_td_params and stateful_net is self._empty_net:
            _empty(self._empty_net)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw new values, for each agent its own."""
        own = self._values() if self.use_td_params else dict(self._empty_net.state_dict(keep_vars=True))
        net = copying.deepcopy(self._empty_net)
        for agent in range(1 if self.share_params else self.n_agents):
            mine = {name: value.detach() if self.share_params else value.detach()[agent] for name, value in own.items()}
            _fill(net, mine)  # views: what is drawn in place reaches the parameters
            _reset_parameters_recursive(net)

    # --- calls

    @staticmethod
    def vmap_func_module(
        module: nn.Module,
        in_dims: Any = 0,
        out_dims: Any = 0,
        randomness: str = "error",
        *,
        chunk_size: int | None = None,
    ) -> Any:
        """A function of parameters and inputs, mapped over dimensions of them; arguments as of `torch.vmap`.

        Args:
            module: is called with the parameters in it.
            in_dims: see `torch.vmap`.
            out_dims: see `torch.vmap`.
            randomness: see `torch.vmap`.
            chunk_size: see `torch.vmap`.
        """

        def call(parameters: Any, *inputs: Any) -> Any:
            with parameters.to_module(module):
                return module(*inputs)

        return torch.vmap(call, in_dims, out_dims, randomness, chunk_size=chunk_size)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Call the networks of all agents.

        Args:
            inputs: (*batch, n_agents, ...); several are joined along their last dimension.

        Returns:
            (*batch, n_agents, ...).

        Raises:
            ValueError: the dimension of the agents has another size.
        """
        joined = torch.cat([*inputs], -1) if len(inputs) > 1 else inputs[0]
        values = self._pre_forward_check(joined)
        if not self.initialized:
            self._initialize(values)
        if not self.share_params:
            return self._call_each(values)
        out: Tensor
        if self.use_td_params:
            # Views: a parameter that is put in the shell would be registered there.
            own = {name: value.view_as(value) for name, value in self._values().items()}
            out = torch.func.functional_call(self._empty_net, own, (values,))
        else:
            out = self._empty_net(values)
        if not self.centralized:
            return out
        # All agents saw the same and answer the same.
        dim = self._out_agent_dim()
        return out.unsqueeze(dim).expand(*out.shape[: dim + 1], self.n_agents, *out.shape[dim + 1 :])

    def _out_agent_dim(self) -> int:
        """The dimension of the agents in what comes out: all networks here give vectors."""
        return -2

    def _call_each(self, values: Tensor) -> Tensor:
        names = self._values() if self.use_td_params else dict(self._empty_net.state_dict(keep_vars=True))

        def call(parameters: dict[str, Tensor], x: Tensor) -> Any:
            return torch.func.functional_call(self._empty_net, parameters, (x,))

        mapped = torch.vmap(
            call,
            in_dims=(0, None if self.centralized else self.agent_dim),
            out_dims=self._out_agent_dim(),
            randomness=self._vmap_randomness,
        )
        out: Tensor = mapped(names, values)
        return out

    def _initialize(self, values: Tensor) -> None:
        nets = self._waiting
        with torch.no_grad():
            for at, net in enumerate(nets):
                net(values if self.share_params or self.centralized else values.select(self.agent_dim, at))
        del self._waiting
        self._take(list(nets))
        self.initialized = True

    def __repr__(self) -> str:
        net = self._empty_net if self.initialized else self._waiting[0]
        inside = repr(net).replace("\n", "\n    ")
        return (
            f"{type(self).__name__}(\n    {inside},\n    n_agents={self.n_agents},\n    "
            f"share_params={self.share_params},\n    centralized={self.centralized},\n    agent_dim={self.agent_dim})"
        )


class MultiAgentMLP(MultiAgentNetBase):
    """An `MLP` of several agents: (*batch, n_agents, inputs) -> (*batch, n_agents, outputs).

    Args:
        n_agent_inputs: inputs of an agent; None waits for the first call.
        n_agent_outputs: outputs of an agent.
        n_agents, centralized, share_params, use_td_params: see `MultiAgentNetBase`.
        device: of the parameters.
        depth, num_cells, activation_class, kwargs: of the `MLP`; three layers of 32 before the last unless given.

    Example:
        >>> net = MultiAgentMLP(3, 2, n_agents=4, centralized=False, share_params=False, depth=1)
        >>> net(torch.zeros(5, 4, 3)).shape
        torch.Size([5, 4, 2])
    """

    def __init__(
        self,
        n_agent_inputs: int | None,
        n_agent_outputs: int,
        n_agents: int,
        *,
        centralized: bool | None = None,
        share_params: bool | None = None,
        device: Any = None,
        depth: int | None = None,
        num_cells: Sequence[int] | int | None = None,
        activation_class: type[nn.Module] | None = nn.Tanh,
        use_td_params: bool = True,
        **kwargs: Any,
    ) -> None:
        nn.Module.__init__(self)
        self.n_agent_inputs, self.n_agent_outputs = n_agent_inputs, n_agent_outputs
        self.num_cells, self.activation_class, self.depth = num_cells, activation_class, depth
        super().__init__(
            n_agents=n_agents, centralized=centralized, share_params=share_params, agent_dim=-2, device=device,
            use_td_params=use_td_params, **kwargs,
        )  # fmt: skip

    def _build_single_net(self, *, device: Any, **kwargs: Any) -> nn.Module:
        inputs = self.n_agent_inputs
        if inputs is not None and self.centralized:
            inputs *= self.n_agents
        options = {
            "depth": self.depth,
            "num_cells": self.num_cells,
            "activation_class": self.activation_class,
            **kwargs,
        }
        return MLP(in_features=inputs, out_features=self.n_agent_outputs, device=device, **options)

    def _pre_forward_check(self, inputs: Tensor) -> Tensor:
        if inputs.shape[-2] != self.n_agents:
            raise ValueError(
                f"MultiAgentMLP: inputs have shape {tuple(inputs.shape)}, expected (..., {self.n_agents}, inputs)."
            )
        return inputs.flatten(-2, -1) if self.centralized else inputs


class MultiAgentConvNet(MultiAgentNetBase):
    """A `ConvNet` of several agents: (*batch, n_agents, C, H, W) -> (*batch, n_agents, features).

    Args:
        n_agents, centralized, share_params, use_td_params: see `MultiAgentNetBase`; a centralized network joins the
            channels of all agents.
        in_features: channels of an agent; None waits for the first call.
        device: of the parameters.
        num_cells, kernel_sizes, strides, paddings, activation_class, kwargs: of the `ConvNet`.
    """

    def __init__(
        self,
        n_agents: int,
        centralized: bool | None = None,
        share_params: bool | None = None,
        *,
        in_features: int | None = None,
        device: Any = None,
        num_cells: Sequence[int] | None = None,
        kernel_sizes: Sequence[int | Sequence[int]] | int = 5,
        strides: Sequence[Any] | int = 2,
        paddings: Sequence[Any] | int = 0,
        activation_class: type[nn.Module] = nn.ELU,
        use_td_params: bool = True,
        **kwargs: Any,
    ) -> None:
        nn.Module.__init__(self)
        self.in_features, self.num_cells = in_features, num_cells
        self.kernel_sizes, self.strides, self.paddings = kernel_sizes, strides, paddings
        self.activation_class = activation_class
        super().__init__(
            n_agents=n_agents, centralized=centralized, share_params=share_params, agent_dim=-4, device=device,
            use_td_params=use_td_params, **kwargs,
        )  # fmt: skip

    def _build_single_net(self, *, device: Any, **kwargs: Any) -> nn.Module:
        inputs = self.in_features
        if inputs is not None and self.centralized:
            inputs *= self.n_agents
        return ConvNet(
            in_features=inputs, num_cells=self.num_cells, kernel_sizes=self.kernel_sizes, strides=self.strides,
            paddings=self.paddings, activation_class=self.activation_class, device=device, **kwargs,
        )  # fmt: skip

    def _pre_forward_check(self, inputs: Tensor) -> Tensor:
        if inputs.ndim < 4 or inputs.shape[-4] != self.n_agents:
            raise ValueError(
                f"MultiAgentConvNet: inputs have shape {tuple(inputs.shape)}, expected "
                f"(..., {self.n_agents}, channels, height, width)."
            )
        return inputs.flatten(-4, -3) if self.centralized else inputs


# --- the shell of a network


def _empty(net: nn.Module) -> None:
    """Put tensors without memory, which are no parameters, in the place of all parameters and buffers."""
    for module in net.modules():
        for store in (module._parameters, module._buffers):
            for name, value in list(store.items()):
                if value is not None:
                    del store[name]
                    setattr(module, name, value.detach().to("meta"))


def _fill(net: nn.Module, values: dict[str, Tensor]) -> None:
    """Put values in their places again; what needs gradients as parameters."""
    for name, value in values.items():
        path, _, last = name.rpartition(".")
        module = net.get_submodule(path)
        for store in (module._parameters, module._buffers, module.__dict__):
            store.pop(last, None)
        if isinstance(value, nn.Parameter) or value.is_floating_point():
            setattr(module, last, value if isinstance(value, nn.Parameter) else nn.Parameter(value))
        else:
            module.register_buffer(last, value)
