"""`EnsembleModule`: copies of a module with parameters of their own, computed at once."""

from __future__ import annotations

from typing import Any

import torch

from flambeau.data.tensordict._non_tensor.data import NonTensorDataBase
from flambeau.data.tensordict._td import TensorDict
from flambeau.data.tensordict.nn._module_base import TensorDictModuleBase
from flambeau.data.tensordict.nn.params import TensorDictParams

__all__ = ["EnsembleModule"]


class EnsembleModule(TensorDictModuleBase):
    """Several copies of a module, computed by one `torch.vmap`.

    Args:
        module: what is copied; its `reset_parameters` methods give each copy values of its own.
        num_copies: how many.
        expand_input: every copy reads the whole input, and results get a new first dimension. False: the input has a
            first dimension of `num_copies`, and each copy reads its part.

    Raises:
        ValueError: there is no copy to make.

    Example:
        >>> from torch import nn
        >>> from flambeau.data.tensordict.nn import TensorDictModule
        >>> ensemble = EnsembleModule(TensorDictModule(nn.Linear(3, 2), in_keys=["x"], out_keys=["y"]), num_copies=4)
        >>> ensemble(TensorDict(x=torch.ones(5, 3), batch_size=[5]))["y"].shape
        torch.Size([4, 5, 2])
    """

    def __init__(self, module: TensorDictModuleBase, num_copies: int, expand_input: bool = True) -> None:
        super().__init__()
        if num_copies < 1:
            raise ValueError(f"num_copies is {num_copies}, expected at least 1.")
        self.in_keys, self.out_keys = module.in_keys, module.out_keys
        self.num_copies = num_copies
        self.module = module
        params = TensorDict.from_module(module).data.expand(num_copies).clone()
        self.params_td = TensorDictParams(params)
        self.reset_parameters_recursive()
        self.expand_input = expand_input

    def _run_one(self, tensordict: Any, params: Any) -> Any:
        with params.to_module(self.module):
            return self.module(tensordict).select(*self.out_keys)

    def forward(self, tensordict: Any) -> Any:
        """Give what the input holds and the outputs of all copies, (num_copies, *batch); the input stays as it is."""
        of_input = None if self.expand_input else 0
        # Made for each call: a vmapped bound method could be neither copied nor pickled with the module.
        each = torch.vmap(self._run_one, in_dims=(of_input, 0), randomness="different")
        outputs = each(tensordict.select(*self.in_keys, strict=False), self.params_td._param_td)
        whole = tensordict.expand(self.num_copies, *tensordict.batch_size) if self.expand_input else tensordict
        result = whole.copy()
        for key, value in tensordict.non_tensor_items(include_nested=True):
            if isinstance(value, NonTensorDataBase):  # the one value goes to every copy, not a list of it
                result.set(key, value._sized(result.batch_size))
        return result.update(outputs)

    def reset_parameters_recursive(self, parameters: Any = None) -> Any:
        """Draw new values, other ones for each copy.

        Args:
            parameters: a tensordict as `params_td`, which receives the values; the module's own otherwise.

        Returns:
            The parameters given, or None.
        """
        target = self.params_td.data if parameters is None else parameters.data
        with torch.no_grad():
            for copy in target.unbind(0):
                with copy.to_module(self.module):
                    self.module.reset_parameters_recursive()
        return parameters
