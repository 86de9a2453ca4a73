"""Modules that return what a model computes on the way to its result.

::

    features = create_feature_extractor(resnet50(), {"layer2": "low", "layer4": "high"})
    features(images)["low"].shape

With `mode="fx"` the model is traced, names come from `get_graph_node_names`, any intermediate result can be had, and
what is not needed for it is dropped. With `mode="hooks"` the model runs as it is, names are those of its modules.
"""

from __future__ import annotations

import math
import operator
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Literal

import torch
from torch import fx, nn

from flambeau.core.errors import close_names
from flambeau.vision import ops
from flambeau.vision.models._dual_graph import DualGraphModule
from flambeau.vision.models._hooked_features import HookedFeatures
from flambeau.vision.models._node_names import LeafModuleAwareTracer, NodePathTracer

__all__ = [
    "DualGraphModule",
    "LeafModuleAwareTracer",
    "NodePathTracer",
    "create_feature_extractor",
    "get_graph_node_names",
]

_OPERATORS = "flambeau.vision.ops."
Nodes = Sequence[str] | Mapping[str, str]
_IN_PLACE = {getattr(operator, name) for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow")}


def get_graph_node_names(
    model: nn.Module,
    tracer_kwargs: dict[str, Any] | None = None,
    suppress_diff_warning: bool = False,
    concrete_args: dict[str, Any] | None = None,
) -> tuple[list[str], list[str]]:
    """Names of all intermediate results of a model, in the order of their computation.

    Modules of torch and of `flambeau.vision.ops` are one result each, named by their path (`layer1.0.conv1`). Functions
    are named by the path of the module that calls them and their own name (`layer1.0.add`, `flatten`). Repeated names
    get `_1`, `_2`, ...

    Args:
        model: any module that torch.fx can trace; it is left as it is.
        tracer_kwargs: for `NodePathTracer`: `leaf_modules`, `autowrap_modules`, `autowrap_functions`,
            `param_shapes_constant`.
        suppress_diff_warning: do not warn where the names differ between the modes.
        concrete_args: fixed arguments of the model's `forward`, so that its control flow on them can be traced.

    Returns:
        The names in train mode, and those in eval mode.

    Raises:
        torch.fx.proxy.TraceError: the model's control flow depends on values.

    Example:
        >>> train, evaluation = get_graph_node_names(nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU()))
        >>> evaluation
        ['input', '0', '1']
    """
    tracers = _trace(model, tracer_kwargs, concrete_args)
    names = {mode: list(tracer.node_to_qualname.values()) for mode, tracer in tracers.items()}
    if names[True] != names[False] and not suppress_diff_warning:
        _warn_of_difference(names[True], names[False])
    return names[True], names[False]


def create_feature_extractor(
    model: nn.Module,
    return_nodes: Nodes | None = None,
    train_return_nodes: Nodes | None = None,
    eval_return_nodes: Nodes | None = None,
    tracer_kwargs: dict[str, Any] | None = None,
    suppress_diff_warning: bool = False,
    concrete_args: dict[str, Any] | None = None,
    *,
    mode: Literal["fx", "hooks"] = "fx",
) -> fx.GraphModule | nn.Module:
    """Make a module that returns intermediate results of a model.

    Layers are shared with the model, not copied. A result that a later layer would overwrite in place is copied.

    Args:
        model: the model; it is left as it is.
        return_nodes: names of results, or name -> key in what the new module returns. A truncated name means the last
            result below it: `layer4` is `layer4.2.relu_2`.
        train_return_nodes: as `return_nodes`, for train mode alone; together with `eval_return_nodes`.
        eval_return_nodes: for eval mode alone.
        tracer_kwargs: as for `get_graph_node_names`; fx only.
        suppress_diff_warning: do not warn where names differ between the modes; fx only.
        concrete_args: as for `get_graph_node_names`; fx only.
        mode: "fx" traces the model. "hooks" works for models that cannot be traced: names are those of modules
            (`layer4`, and `relu_1` for the second call of `relu`), the whole model runs each time, and results are
            copied.

    Returns:
        A module with the model's inputs, which returns a dict of results in the order of their computation: with
        "fx" a `torch.fx.GraphModule` whose state_dict has the model's names for what is still needed.

    Raises:
        ValueError: a name is not there (the message suggests near ones), or the three arguments do not go together.
        torch.fx.proxy.TraceError: the model's control flow depends on values; use "hooks".

    Example:
        >>> extractor = create_feature_extractor(nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU()), ["0"])
        >>> extractor(torch.zeros(1, 3, 2, 2))["0"].shape
        torch.Size([1, 4, 2, 2])
    """
    wanted = _wanted(return_nodes, train_return_nodes, eval_return_nodes)
    if mode == "hooks":
        return HookedFeatures(model, wanted[True], wanted[False])
    if mode != "fx":
        raise ValueError(f"mode is {mode!r}, expected 'fx' or 'hooks'.")
    tracers = _trace(model, tracer_kwargs, concrete_args)
    names = {each: list(tracer.node_to_qualname.values()) for each, tracer in tracers.items()}
    if return_nodes is not None and names[True] != names[False] and not suppress_diff_warning:
        _warn_of_difference(names[True], names[False])
    for each, tracer in tracers.items():
        _return_results(tracer, wanted[each])
    return DualGraphModule(model, tracers[True].graph, tracers[False].graph, type(model).__name__)


def _wanted(both: Nodes | None, train: Nodes | None, evaluation: Nodes | None) -> dict[bool, dict[str, str]]:
    """Mode (True for train) -> name of a result -> its key."""
    if both is None and (train is None or evaluation is None):
        raise ValueError("Give return_nodes, or train_return_nodes and eval_return_nodes together.")
    if both is not None and (train is not None or evaluation is not None):
        raise ValueError("return_nodes is for both modes; leave out train_return_nodes and eval_return_nodes.")
    by_mode = {True: train, False: evaluation} if both is None else {True: both, False: both}
    return {
        mode: {
            str(name): str(key) for name, key in (nodes if isinstance(nodes, Mapping) else _same(nodes or ())).items()
        }
        for mode, nodes in by_mode.items()
    }


def _same(names: Sequence[str]) -> dict[str, str]:
    return {str(name): str(name) for name in names}


def _trace(
    model: nn.Module, tracer_kwargs: dict[str, Any] | None, concrete_args: dict[str, Any] | None
) -> dict[bool, NodePathTracer]:
    """The tracer of each mode, after it has traced the model."""
    options = dict(tracer_kwargs or {})
    options["leaf_modules"] = (*_layers(), *options.get("leaf_modules", ()))
    options["autowrap_modules"] = (math, *options.get("autowrap_modules", ()))
    options["autowrap_functions"] = (*_operators(), *options.get("autowrap_functions", ()))
    tracers = {}
    with modes_kept(model):
        for mode in (True, False):
            tracer = NodePathTracer(**options)
            try:
                tracer.trace(model.train(mode), concrete_args=concrete_args)
            except (TypeError, RuntimeError, fx.proxy.TraceError) as error:  # what code raises that meets a proxy
                raise fx.proxy.TraceError(
                    f"{type(model).__name__} cannot be traced ({error}). Name the module as a leaf (tracer_kwargs="
                    "{'leaf_modules': [...]}), fix the argument (concrete_args), or use "
                    "create_feature_extractor(..., mode='hooks')."
                ) from error
            tracers[mode] = tracer
    return tracers


def _layers() -> list[type[nn.Module]]:
    """The layers of `flambeau.vision.ops`; what derives from them is one node, too."""
    values = [getattr(ops, name) for name in ops.__all__]
    return [each for each in values if isinstance(each, type) and issubclass(each, nn.Module)]


def _operators() -> list[Callable[..., Any]]:
    """The functions of `flambeau.vision.ops` that are in use; they become one node each."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(_OPERATORS)]
    values = [value for module in modules for value in list(vars(module).values())]
    return [each for each in values if isinstance(each, FunctionType) and each.__module__.startswith(_OPERATORS)]


@contextmanager
def modes_kept(model: nn.Module) -> Iterator[None]:
    """Give every module of a model its mode back, which need not be the same for all."""
    before = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


def _warn_of_difference(train: list[str], evaluation: list[str]) -> None:
    only = {"train": sorted({*train} - {*evaluation}), "eval": sorted({*evaluation} - {*train})}
    shown = "; ".join(f"only in {mode} mode: {', '.join(names[:5])}" for mode, names in only.items() if names)
    warnings.warn(
        f"The model computes other results in train mode than in eval mode ({shown or 'in another order'}). Choose by "
        "mode with train_return_nodes and eval_return_nodes, or set suppress_diff_warning=True.",
        stacklevel=3,
    )


def _return_results(tracer: NodePathTracer, wanted: Mapping[str, str]) -> None:
    """Let a traced graph return these results, and drop what they do not need."""
    graph = tracer.graph
    place = {node: index for index, node in enumerate(graph.nodes)}
    chosen: dict[str, fx.Node] = {}
    output = next(iter(reversed(graph.nodes)))
    for name, key in wanted.items():
        # Upstream: of two results with one key the earlier is returned.
        chosen[key] = min(_last_node(tracer, name), chosen.get(key, output), key=place.__getitem__)
    last = max((place[node] for node in chosen.values()), default=-1)
    for node in reversed(list(graph.nodes)):
        if place[node] > last and node.op != "placeholder":
            graph.erase_node(node)
    results = {}
    for key, node in sorted(chosen.items(), key=lambda item: place[item[1]]):
        results[key] = node
        if any(_overwrites(user, node, tracer.root) for user in node.users):
            with graph.inserting_after(node):
                results[key] = graph.call_function(torch.clone, (node,))
    graph.output(results)
    for node in reversed(list(graph.nodes)):
        if not node.users and node.op not in ("placeholder", "output") and not _matters(node, tracer.root, place):
            graph.erase_node(node)
        elif isinstance(node.type, str):
            node.type = None  # an annotation that is not evaluated, which cannot be pickled
    graph.lint()


def _last_node(tracer: NodePathTracer, name: str) -> fx.Node:
    for node, qualname in reversed(tracer.node_to_qualname.items()):
        if qualname == name or qualname.startswith(f"{name}."):
            return node
    known = list(tracer.node_to_qualname.values())
    near = close_names(name, known)
    hint = f"Close names: {', '.join(near)}." if near else "get_graph_node_names(model) lists them all."
    raise ValueError(f"The model computes nothing named {name!r}. {hint}")


def _overwrites(node: fx.Node, value: fx.Node, root: nn.Module) -> bool:
    """Whether a node changes a value in place."""
    if not node.args or node.args[0] is not value:
        return False
    if node.op == "call_module":
        return getattr(root.get_submodule(str(node.target)), "inplace", False) is True
    name = node.target if node.op == "call_method" else getattr(node.target, "__name__", "")
    named_so = str(name).endswith("_") and not str(name).endswith("__")
    return named_so or node.target in _IN_PLACE or node.kwargs.get("inplace") is True


def _matters(node: fx.Node, root: nn.Module, place: Mapping[fx.Node, int]) -> bool:
    """Whether a node whose result nobody uses has an effect: an assertion, or a change of what a later node reads."""
    if node.op == "call_function" and node.is_impure():
        return True
    return any(
        _overwrites(node, value, root) and any(place.get(user, math.inf) > place.get(node, 0) for user in value.users)
        for value in node.all_input_nodes
    )
