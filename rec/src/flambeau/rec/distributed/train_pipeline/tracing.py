"""How the arguments of modules come from a batch, read off the model's program."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx, nn

from flambeau.rec.distributed.train_pipeline.pipeline_context import TrainPipelineContext
from flambeau.rec.distributed.train_pipeline.postproc import PipelinedPostproc
from flambeau.rec.distributed.train_pipeline.types import ArgInfo, BaseArgInfoStep, CallArgs
from flambeau.rec.distributed.types import ShardedModule

__all__ = [
    "ArgInfoStepFactory",
    "DictArgInfoStep",
    "GetAttrArgInfoStep",
    "GetItemArgInfoStep",
    "ListArgInfoStep",
    "NodeArgsHelper",
    "NoopArgInfoStep",
    "PostprocArgInfoStep",
    "ScalarArgInfoStep",
    "Tracer",
]


class NoopArgInfoStep(BaseArgInfoStep):
    """The thing itself."""

    def process(self, arg: Any) -> Any:
        """The thing itself."""
        return arg


class GetAttrArgInfoStep(BaseArgInfoStep):
    """An attribute.

    Args:
        attr_name: its name.
    """

    def __init__(self, attr_name: str) -> None:
        self.attr_name = attr_name

    def process(self, arg: Any) -> Any:
        """The attribute."""
        return getattr(arg, self.attr_name)


class GetItemArgInfoStep(BaseArgInfoStep):
    """An entry.

    Args:
        item_index: its place or key.
    """

    def __init__(self, item_index: str | int) -> None:
        self.item_index = item_index

    def process(self, arg: Any) -> Any:
        """The entry."""
        return arg[self.item_index]


class PostprocArgInfoStep(BaseArgInfoStep):
    """What a module makes of the batch.

    Args:
        postproc_module: the module.
    """

    def __init__(self, postproc_module: PipelinedPostproc) -> None:
        self.postproc_module = postproc_module

    def process(self, arg: Any) -> Any:
        """The module's result."""
        return self.postproc_module.compute(arg)


class ScalarArgInfoStep(BaseArgInfoStep):
    """A constant.

    Args:
        value: it.
    """

    def __init__(self, value: object) -> None:
        self.value = value

    def process(self, _arg: Any) -> Any:
        """The constant."""
        return self.value


class ListArgInfoStep(BaseArgInfoStep):
    """A list, whose entries may come from the batch.

    Args:
        value: entries, or steps that lead to them.
    """

    def __init__(self, value: list[object]) -> None:
        self.value = value

    def process(self, arg: Any) -> Any:
        """The list."""
        return [_entry(one, arg) for one in self.value]


class DictArgInfoStep(BaseArgInfoStep):
    """A dictionary, whose entries may come from the batch.

    Args:
        value: entries, or steps that lead to them.
    """

    def __init__(self, value: dict[str, object]) -> None:
        self.value = value

    def process(self, arg: Any) -> Any:
        """The dictionary."""
        return {key: _entry(one, arg) for key, one in self.value.items()}


class _MadeArgInfoStep(BaseArgInfoStep):
    """An object that the model makes of parts of the batch."""

    def __init__(self, kind: type, args: CallArgs) -> None:
        self.kind, self.args = kind, args

    def process(self, arg: Any) -> Any:
        args, kwargs = self.args.build_args_kwargs(arg)
        return self.kind(*args, **kwargs)


def _entry(one: object, arg: Any) -> Any:
    if isinstance(one, ArgInfo):
        return one.process_steps(arg)
    return one.process(arg) if isinstance(one, BaseArgInfoStep) else one


class ArgInfoStepFactory:
    """Makes steps."""

    @classmethod
    def noop(cls) -> NoopArgInfoStep:
        """The thing itself."""
        return NoopArgInfoStep()

    @classmethod
    def get_attr(cls, name: str) -> GetAttrArgInfoStep:
        """An attribute."""
        return GetAttrArgInfoStep(name)

    @classmethod
    def get_item(cls, index: str | int) -> GetItemArgInfoStep:
        """An entry."""
        return GetItemArgInfoStep(index)

    @classmethod
    def postproc(cls, pipelined_postproc_module: PipelinedPostproc) -> PostprocArgInfoStep:
        """What a module makes of the batch."""
        return PostprocArgInfoStep(pipelined_postproc_module)

    @classmethod
    def from_scalar(cls, value: object) -> ScalarArgInfoStep:
        """A constant."""
        return ScalarArgInfoStep(value)

    @classmethod
    def from_list(cls, value: list[object]) -> ListArgInfoStep:
        """A list."""
        return ListArgInfoStep(value)

    @classmethod
    def from_dict(cls, value: dict[str, object]) -> DictArgInfoStep:
        """A dictionary."""
        return DictArgInfoStep(value)


class Tracer(fx.Tracer):
    """Reads a model's program down to modules in which nothing is sharded.

    Args:
        leaf_modules: paths of modules that are not read.
        extend_leaf_fqn: whether those below them are not read either.
    """

    proxy_buffer_attributes = False

    def __init__(self, leaf_modules: list[str] | None = None, extend_leaf_fqn: bool = False) -> None:
        super().__init__()
        self._leaf_modules = [] if leaf_modules is None else leaf_modules
        self._extend_leaf_fqn = extend_leaf_fqn

    def is_extended_leaf_modules(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether the module is below one that is not read."""
        return self._extend_leaf_fqn and any(
            module_qualified_name.startswith(f"{path}.") for path in self._leaf_modules
        )

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether the module is not read: sharded ones, given ones, and torch's own."""
        if isinstance(m, ShardedModule) or module_qualified_name in self._leaf_modules:
            return True
        extended = self.is_extended_leaf_modules(m, module_qualified_name)
        return extended or super().is_leaf_module(m, module_qualified_name)


class NodeArgsHelper:
    """Follows arguments of nodes back to the batch.

    Args:
        model: whose program it is.
        context: of the next batch.
        pipeline_postproc: whether modules between the batch and tables are computed ahead.
        default_stream: on which the model is computed.
        dist_stream: on which features are sent.
    """

    def __init__(
        self,
        model: nn.Module,
        context: TrainPipelineContext,
        pipeline_postproc: bool,
        default_stream: torch.Stream | None = None,
        dist_stream: torch.Stream | None = None,
    ) -> None:
        self._model, self._context, self._pipeline_postproc = model, context, pipeline_postproc
        self._streams = default_stream, dist_stream
        self._pipelined: dict[str, PipelinedPostproc] = {}

    @property
    def pipelined_postprocs(self) -> set[PipelinedPostproc]:
        """Modules between the batch and tables that were met."""
        return set(self._pipelined.values())

    def get_node_args(self, node: fx.Node, for_postproc_module: bool = False) -> tuple[CallArgs, int]:
        """The arguments of a node, from the batch.

        Args:
            node: such as a call of a sharded module.
            for_postproc_module: whether the node is a module between the batch and tables.

        Returns:
            The arguments, and how many of them could be followed back; all of them if that is their number.
        """
        found = 0
        args, kwargs = [], {}
        for one in node.args:
            info = self._followed(one)
            found += info is not None
            args.append(info or ArgInfo([ScalarArgInfoStep(None)]))
        for name, one in node.kwargs.items():
            info = self._followed(one)
            found += info is not None
            kwargs[name] = info or ArgInfo([ScalarArgInfoStep(None)])
        return CallArgs(args, kwargs), found

    def _followed(self, one: Any) -> ArgInfo | None:
        """Steps from the batch to a value of the program; None where there is none that is free of side effects."""
        if isinstance(one, (list, tuple)):
            parts = [self._followed(part) for part in one]
            return None if None in parts else ArgInfo([ListArgInfoStep(list(parts))])
        if isinstance(one, dict):
            entries = {key: self._followed(part) for key, part in one.items()}
            return None if None in entries.values() else ArgInfo([DictArgInfoStep(dict(entries))])
        if not isinstance(one, fx.Node):
            return ArgInfo([ScalarArgInfoStep(one)])
        if one.op == "placeholder":
            return self._of_placeholder(one)
        if one.op == "call_function" and one.target in (getattr, operator.getitem):
            inside = self._followed(one.args[0])
            if inside is None or isinstance(one.args[1], fx.Node):
                return None
            key: Any = one.args[1]
            return inside.append_step(GetAttrArgInfoStep(key) if one.target is getattr else GetItemArgInfoStep(key))
        if one.op == "call_function" and isinstance(one.target, type):
            call, count = self.get_node_args(one)
            complete = count == len(one.args) + len(one.kwargs)
            return ArgInfo([_MadeArgInfoStep(one.target, call)]) if complete else None
        if one.op == "call_module" and self._pipeline_postproc:
            return self._of_module(one)
        return None

    def _of_placeholder(self, node: fx.Node) -> ArgInfo | None:
        # A model is called with the batch alone; further arguments have their defaults.
        first = next(other for other in node.graph.nodes if other.op == "placeholder")
        if node is first:
            return ArgInfo([NoopArgInfoStep()])
        return ArgInfo([ScalarArgInfoStep(node.args[0])]) if node.args else None

    def _of_module(self, node: fx.Node) -> ArgInfo | None:
        path = str(node.target)
        module = self._model.get_submodule(path)
        if isinstance(module, PipelinedPostproc):
            self._pipelined[path] = module
            return ArgInfo([PostprocArgInfoStep(module)])
        trained = any(param.requires_grad for param in module.parameters())
        if isinstance(module, ShardedModule) or trained or path in self._pipelined:
            # A module with parameters would be computed with those of the step before.
            return ArgInfo([PostprocArgInfoStep(self._pipelined[path])]) if path in self._pipelined else None
        call, count = self.get_node_args(node, for_postproc_module=True)
        if count != len(node.args) + len(node.kwargs):
            return None
        made = PipelinedPostproc(module, path, call, self._context, *self._streams)
        parent, _, name = path.rpartition(".")
        setattr(self._model.get_submodule(parent), name, made)
        self._pipelined[path] = made
        return ArgInfo([PostprocArgInfoStep(made)])
