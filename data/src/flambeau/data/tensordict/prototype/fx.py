"""Modules of tensordicts as `torch.fx` graphs: the entries that they pass on become plain values of the graph."""

from __future__ import annotations

import operator
from typing import Any

from torch import fx, nn

from flambeau.data.tensordict.nn import TensorDictModule, TensorDictModuleBase, TensorDictSequential, dispatch

__all__ = ["TDGraphModule", "symbolic_trace"]


class TDGraphModule(nn.Module):
    """A graph with the keys of the module that it was traced from.

    Args:
        graph_module: takes a tensordict, gives a tuple with the values of `out_keys`.
        in_keys: the entries that are read.
        out_keys: the entries that are written.
    """

    def __init__(self, graph_module: fx.GraphModule, in_keys: list[Any], out_keys: list[Any]) -> None:
        super().__init__()
        self.graph_module = graph_module
        self.in_keys, self.out_keys = in_keys, out_keys

    @property
    def graph(self) -> fx.Graph:
        """The graph."""
        return self.graph_module.graph

    @property
    def code(self) -> str:
        """The Python code of the graph."""
        return self.graph_module.code

    @dispatch(auto_batch_size=False)  # type: ignore[untyped-decorator]  # it is Any: with or without arguments
    def forward(self, tensordict: Any, *, tensordict_out: Any = None) -> Any:
        """Run the graph, and write its results.

        Args:
            tensordict: holds `in_keys`.
            tensordict_out: receives the results; by default the input does.
        """
        out = tensordict if tensordict_out is None else tensordict_out
        for key, value in zip(self.out_keys, self.graph_module(tensordict), strict=True):
            out.set(key, value)
        return out


def symbolic_trace(td_module: TensorDictModuleBase) -> TDGraphModule:
    """Trace a `TensorDictModule`, or a sequence of such, into one graph.

    Each module inside is one call; entries go from call to call without a tensordict.

    Raises:
        TypeError: there is another kind of module inside, whose reading and writing no graph can know.

    Example:
        >>> module = TensorDictModule(nn.Tanh(), in_keys=["x"], out_keys=["y"])
        >>> [node.op for node in symbolic_trace(module).graph.nodes]
        ['placeholder', 'call_function', 'call_module', 'output']
    """
    root, graph = nn.Module(), fx.Graph()
    tensordict = graph.placeholder("tensordict")
    values: dict[Any, fx.Node] = {}

    def value_of(key: Any) -> fx.Node:
        if key not in values:
            values[key] = graph.call_function(operator.getitem, (tensordict, key))
        return values[key]

    for number, module in enumerate(_flat(td_module)):
        name = f"module_{number}"
        arguments = [value_of(key) for key in module.in_keys]
        kwargs = dict(module.method_kwargs)
        if module._keywords is not None:
            kwargs |= dict(zip(module._keywords, arguments, strict=True))
            arguments = []
        result = _call(graph, root, name, module, tuple(arguments), kwargs)
        written = module.out_keys_source
        if len(written) == 1:
            values[written[0]] = result
            continue
        for position, key in enumerate(written):
            if key != "_":
                values[key] = graph.call_function(operator.getitem, (result, position))
    graph.output(tuple(values[key] for key in td_module.out_keys))
    graph.lint()
    return TDGraphModule(fx.GraphModule(root, graph), list(td_module.in_keys), list(td_module.out_keys))


def _call(
    graph: fx.Graph, root: nn.Module, name: str, module: TensorDictModule, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> fx.Node:
    function = module.module
    if not isinstance(function, nn.Module):
        return graph.call_function(function, args, kwargs)
    root.add_module(name, function)
    if module.method is None:
        return graph.call_module(name, args, kwargs)
    return graph.call_method(module.method, (graph.get_attr(name), *args), kwargs)


def _flat(module: Any) -> list[TensorDictModule]:
    if isinstance(module, TensorDictSequential):
        return [leaf for member in module for leaf in _flat(member)]
    if type(module) is not TensorDictModule:
        raise TypeError(
            f"symbolic_trace knows what TensorDictModule and TensorDictSequential read and write, not what a "
            f"{type(module).__name__} does; wrap its function in a TensorDictModule."
        )
    return [module]
