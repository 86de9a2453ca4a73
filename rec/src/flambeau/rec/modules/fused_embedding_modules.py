"""Collections of embedding tables that their own backward pass trains: gradients of tables are never made."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    EmbeddingLocation,
    PoolingMode,
    SplitTableBatchedEmbeddingBagsCodegen,
)
from flambeau.rec.modules.embedding_configs import (
    BaseEmbeddingConfig,
    EmbeddingBagConfig,
    EmbeddingConfig,
    data_type_to_sparse_type,
    pooling_type_to_pooling_mode,
)
from flambeau.rec.modules.embedding_modules import (
    EmbeddingBagCollection,
    EmbeddingBagCollectionInterface,
    EmbeddingCollection,
    EmbeddingCollectionInterface,
    check_table_names,
    get_embedding_names_by_table,
    process_pooled_embeddings,
    reorder_inverse_indices,
)
from flambeau.rec.optim import optimizers
from flambeau.rec.optim.fused import FusedOptimizer, FusedOptimizerModule
from flambeau.rec.optim.keyed import CombinedOptimizer, KeyedOptimizer
from flambeau.rec.optim.rowwise_adagrad import RowWiseAdagrad
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor, KeyedTensor

__all__ = [
    "EmbeddingFusedOptimizer",
    "FusedEmbeddingBagCollection",
    "FusedEmbeddingCollection",
    "convert_optimizer_type_and_kwargs",
    "fuse_embedding_optimizer",
]

_TYPES: dict[type[Optimizer], EmbOptimType] = {
    torch.optim.SGD: EmbOptimType.EXACT_SGD,
    torch.optim.Adagrad: EmbOptimType.EXACT_ADAGRAD,
    torch.optim.Adam: EmbOptimType.ADAM,
    optimizers.SGD: EmbOptimType.EXACT_SGD,
    optimizers.LarsSGD: EmbOptimType.LARS_SGD,
    optimizers.LAMB: EmbOptimType.LAMB,
    optimizers.PartialRowWiseLAMB: EmbOptimType.PARTIAL_ROWWISE_LAMB,
    optimizers.Adam: EmbOptimType.ADAM,
    optimizers.PartialRowWiseAdam: EmbOptimType.PARTIAL_ROWWISE_ADAM,
    optimizers.Adagrad: EmbOptimType.EXACT_ADAGRAD,
    RowWiseAdagrad: EmbOptimType.EXACT_ROWWISE_ADAGRAD,
}


def convert_optimizer_type_and_kwargs(
    optimizer_type: type[Optimizer], optimizer_kwargs: dict[str, Any]
) -> tuple[EmbOptimType, dict[str, Any]] | None:
    """What table-batched embeddings call an optimizer and its options.

    Args:
        optimizer_type: of torch's or of `flambeau.rec.optim`.
        optimizer_kwargs: its options.

    Returns:
        Their name for it, and options under their names; None where they have no such optimizer.
    """
    if optimizer_type not in _TYPES:
        return None
    options = dict(optimizer_kwargs)
    if "lr" in options:
        options["learning_rate"] = options.pop("lr")
    if "betas" in options:
        options["beta1"], options["beta2"] = options.pop("betas")
    return _TYPES[optimizer_type], options


class EmbeddingFusedOptimizer(FusedOptimizer):
    """What trains some tables in their backward pass, by the names of the tables that it keeps something of.

    Args:
        tables: in the order in which the module has them.
        emb_module: the module.
    """

    def __init__(self, tables: list[BaseEmbeddingConfig], emb_module: SplitTableBatchedEmbeddingBagsCodegen) -> None:
        self._emb_module = emb_module
        params, state = {}, {}
        weights = emb_module.split_embedding_weights()
        states = emb_module.split_optimizer_states() or [[] for _ in weights]
        for table, weight, kept in zip(tables, weights, states, strict=True):
            name = f"{table.name}.weight"
            if kept:
                params[name] = weight
                state[weight] = {f"{name}.momentum_{at}": one for at, one in enumerate(kept, 1)}
        group = {"params": list(params.values()), "lr": emb_module.get_learning_rate()}
        super().__init__(params, state, [group])

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Have the learning rate of the group hold."""
        self._apply_lr()

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Have the learning rate of the group hold; the backward pass did the rest."""
        self._apply_lr()

    def _apply_lr(self) -> None:
        (group,) = self.param_groups
        self._emb_module.set_learning_rate(group["lr"])


class _Group:
    """Tables that are looked up in one call.

    Args:
        tables: with the same pooling and element type.
        pooling: what becomes of the rows of a bag.
        optimizer: what trains them, and its options.
        device: where they are.
        location: which memory of it they are in.
    """

    def __init__(
        self,
        tables: Sequence[BaseEmbeddingConfig],
        pooling: PoolingMode,
        optimizer: tuple[EmbOptimType, dict[str, Any]],
        device: torch.device,
        location: EmbeddingLocation | None,
    ) -> None:
        self.tables = list(tables)
        self.features = list(chain.from_iterable(table.feature_names for table in tables))
        on_cpu = device.type in ("cpu", "meta")
        where = location or (EmbeddingLocation.HOST if on_cpu else EmbeddingLocation.DEVICE)
        computing = ComputeDevice.CPU if on_cpu else ComputeDevice.CUDA
        kind, options = optimizer
        self.kernel = SplitTableBatchedEmbeddingBagsCodegen(
            [(table.num_embeddings, table.embedding_dim, where, computing) for table in tables],
            [at for at, table in enumerate(tables) for _ in table.feature_names],
            pooling_mode=pooling,
            weights_precision=data_type_to_sparse_type(tables[0].data_type),
            optimizer=kind,
            device=device,
            table_names=[table.name for table in tables],
            **options,
        )

    def look_up(self, features: KeyedJaggedTensor, weighted: bool) -> Tensor:
        """What the kernel gives for the group's features: flat where each has a batch of its own."""
        places = features.index_per_key()
        mine = features.permute([places[name] for name in self.features])
        sizes = mine.stride_per_key_per_rank() if mine.variable_stride_per_key() else None
        if sizes is not None:
            sizes = [[sum(ranks)] for ranks in sizes]
        output: Tensor = self.kernel(
            mine.values(),
            mine.offsets(),
            mine.weights() if weighted else None,
            batch_size_per_feature_per_rank=sizes,
        )
        return output


class _FusedTables(FusedOptimizerModule, nn.Module):
    """What fused collections share: groups of tables, whose memory their parameters are views of."""

    _parent: str  # of the tables' parameters
    _groups: list[_Group]

    def _set_up(
        self,
        tables: Sequence[BaseEmbeddingConfig],
        poolings: Sequence[PoolingMode],
        optimizer_type: type[Optimizer],
        optimizer_kwargs: dict[str, Any],
        device: torch.device | None,
        location: EmbeddingLocation | None,
    ) -> None:
        check_table_names(tables)
        self._optimizer_type, self._optimizer_kwargs = optimizer_type, optimizer_kwargs
        self._device = torch.device("cpu") if device is None else torch.device(device)
        optimizer = convert_optimizer_type_and_kwargs(optimizer_type, optimizer_kwargs)
        if optimizer is None:
            known = ", ".join(f"{one.__module__}.{one.__name__}" for one in _TYPES)
            raise OptionError(f"optimizer_type is {optimizer_type.__name__}, expected one of {known}.")
        for table in tables:
            if not table.feature_names:
                table.feature_names = [table.name]
        chosen: dict[Any, list[int]] = {}
        for at, (table, pooling) in enumerate(zip(tables, poolings, strict=True)):
            chosen.setdefault((pooling, table.data_type), []).append(at)
        # A plain list: what the groups hold is registered once, as parameters by the names of the tables.
        self._groups = [
            _Group([tables[at] for at in places], pooling, optimizer, self._device, location)
            for (pooling, _), places in chosen.items()
        ]
        holder = nn.ModuleDict({table.name: nn.Module() for table in tables})
        self.add_module(self._parent, holder)
        self._link()
        if self._device.type != "meta":
            with torch.no_grad():
                for table in tables:
                    assert table.init_fn is not None
                    table.init_fn(holder[table.name].weight)  # type: ignore[arg-type]

    def _link(self) -> None:
        """Make the parameters views of the groups' memory."""
        holder = getattr(self, self._parent)
        self._optims = []
        for group in self._groups:
            for table, weight in zip(group.tables, group.kernel.split_embedding_weights(), strict=True):
                holder[table.name].register_parameter("weight", nn.Parameter(weight))
            self._optims.append(EmbeddingFusedOptimizer(group.tables, group.kernel))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        for group in self._groups:
            group.kernel._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._link()
        return super()._apply(lambda tensor: tensor, recurse)  # type: ignore[no-untyped-call]

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = self.__class__.__new__(self.__class__)
        memo[id(self)] = made
        made.__dict__.update({key: copy.deepcopy(value, memo) for key, value in self.__dict__.items()})
        made._link()
        return made

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._link()

    def train(self, mode: bool = True) -> Any:
        """Train or evaluate; see `nn.Module.train`."""
        for group in self._groups:
            group.kernel.train(mode)
        return super().train(mode)

    def fused_optimizer(self) -> KeyedOptimizer:  # type: ignore[override]
        """What trains the tables, with what it keeps of each: `<table>.weight` are the names."""
        return CombinedOptimizer(list(self._optims))

    def optimizer_type(self) -> type[Optimizer]:
        """What it was constructed with."""
        return self._optimizer_type

    def optimizer_kwargs(self) -> dict[str, Any]:
        """What it was constructed with."""
        return self._optimizer_kwargs

    @property
    def device(self) -> torch.device:
        """Where the tables were made."""
        return self._device


class FusedEmbeddingBagCollection(_FusedTables, EmbeddingBagCollectionInterface):
    """An `EmbeddingBagCollection` that its own backward pass trains.

    Tables of one way of pooling and one element type are looked up in one call. Parameters are
    `embedding_bags.<table>.weight`; they have no gradients.

    Args:
        tables: sizes, features and ways of pooling.
        optimizer_type: what trains the tables: one of torch's or of `flambeau.rec.optim`.
        optimizer_kwargs: its options.
        is_weighted: whether each id counts by its weight.
        device: of the tables.
        location: which memory they are in.

    Raises:
        ValueError: several tables have one name, or there is no such optimizer.

    Example:
        >>> table = EmbeddingBagConfig(num_embeddings=10, embedding_dim=4, name="t_item", feature_names=["item"])
        >>> collection = FusedEmbeddingBagCollection([table], torch.optim.SGD, {"lr": 0.5})
        >>> before = collection.embedding_bags["t_item"].weight.detach().clone()
        >>> features = KeyedJaggedTensor(["item"], torch.tensor([1, 2]), lengths=torch.tensor([1, 1]))
        >>> collection(features).values().sum().backward()
        >>> (before - collection.embedding_bags["t_item"].weight)[:3].sum(1).round(decimals=3).tolist()
        [0.0, 2.0, 2.0]
    """

    _parent = "embedding_bags"

    def __init__(
        self,
        tables: list[EmbeddingBagConfig],
        optimizer_type: type[Optimizer],
        optimizer_kwargs: dict[str, Any],
        is_weighted: bool = False,
        device: torch.device | None = None,
        location: EmbeddingLocation | None = None,
    ) -> None:
        super().__init__()
        self._is_weighted = is_weighted
        self._embedding_bag_configs = tables
        poolings = [pooling_type_to_pooling_mode(table.pooling) for table in tables]
        self._set_up(tables, poolings, optimizer_type, optimizer_kwargs, device, location)
        self._embedding_names = list(chain.from_iterable(get_embedding_names_by_table(tables)))
        self._names = list(chain.from_iterable(table.feature_names for table in tables))
        self._widths = [table.embedding_dim for table in tables for _ in table.feature_names]
        # Groups give their features one after another; the result has those of the tables in order.
        place = {table.name: at for at, table in enumerate(tables)}
        first = [sum(len(table.feature_names) for table in tables[:at]) for at in range(len(tables))]
        given = [
            first[place[table.name]] + number
            for group in self._groups
            for table in group.tables
            for number in range(len(table.feature_names))
        ]
        self._order = sorted(range(len(given)), key=given.__getitem__)
        self._in_order = self._order == list(range(len(given)))
        self._given = given

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Look up and pool; see `EmbeddingBagCollection.forward`."""
        outputs = [group.look_up(features, self._is_weighted) for group in self._groups]
        if features.variable_stride_per_key():
            values = self._full_batch(torch.cat(outputs), features)
        elif not outputs:
            values = torch.empty(features.stride(), 0, device=features.device())
        else:
            values = outputs[0] if len(outputs) == 1 else torch.cat(outputs, 1)
            if not self._in_order:
                parts = values.split([self._widths[at] for at in self._given], 1)
                values = torch.cat([parts[at] for at in self._order], 1)
        return KeyedTensor(keys=self._embedding_names, values=values, length_per_key=self._widths)

    def _full_batch(self, flat: Tensor, features: KeyedJaggedTensor) -> Tensor:
        places, strides = features.index_per_key(), features.stride_per_key()
        widths = [self._widths[at] for at in self._given]
        sizes = [strides[places[self._names[at]]] for at in self._given]
        pieces = flat.split([size * width for size, width in zip(sizes, widths, strict=True)])
        parts = [piece.view(-1, width) for piece, width in zip(pieces, widths, strict=True)]
        inverse = reorder_inverse_indices(features.inverse_indices_or_none(), self._names)
        return process_pooled_embeddings([parts[at] for at in self._order], inverse)

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """The tables."""
        return self._embedding_bag_configs

    def is_weighted(self) -> bool:
        """Whether the weights of features are used."""
        return self._is_weighted


class FusedEmbeddingCollection(_FusedTables, EmbeddingCollectionInterface):
    """An `EmbeddingCollection` that its own backward pass trains.

    Parameters are `embeddings.<table>.weight`; they have no gradients.

    Args:
        tables: sizes and features, of one number of columns.
        optimizer_type: what trains the tables: one of torch's or of `flambeau.rec.optim`.
        optimizer_kwargs: its options.
        device: of the tables.
        need_indices: whether results have the ids as their weights.
        location: which memory tables are in.

    Raises:
        ValueError: several tables have one name, their numbers of columns differ, or there is no such optimizer.
    """

    _parent = "embeddings"

    def __init__(
        self,
        tables: list[EmbeddingConfig],
        optimizer_type: type[Optimizer],
        optimizer_kwargs: dict[str, Any],
        device: torch.device | None = None,
        need_indices: bool = False,
        location: EmbeddingLocation | None = None,
    ) -> None:
        super().__init__()
        dims = {table.name: table.embedding_dim for table in tables}
        if len(set(dims.values())) > 1:
            raise ValueError(f"all tables of a FusedEmbeddingCollection have one embedding_dim; theirs are {dims}.")
        self._need_indices = need_indices
        self._embedding_configs = tables
        self._embedding_dim = tables[0].embedding_dim if tables else -1
        self._set_up(tables, [PoolingMode.NONE] * len(tables), optimizer_type, optimizer_kwargs, device, location)
        self._embedding_names_by_table = get_embedding_names_by_table(tables)
        names = dict(zip([table.name for table in tables], self._embedding_names_by_table, strict=True))
        self._names_by_group = [
            list(chain.from_iterable(names[table.name] for table in group.tables)) for group in self._groups
        ]

    def forward(self, features: KeyedJaggedTensor) -> dict[str, JaggedTensor]:
        """Look up; see `EmbeddingCollection.forward`."""
        parts = features.to_dict()
        found = {}
        for group, names in zip(self._groups, self._names_by_group, strict=True):
            chosen = [parts[feature] for feature in group.features]
            rows = group.look_up(features, weighted=False).split([len(part.values()) for part in chosen])
            for name, part, values in zip(names, chosen, rows, strict=True):
                found[name] = JaggedTensor(
                    values=values,
                    lengths=part.lengths(),
                    offsets=part.offsets(),
                    weights=part.values() if self._need_indices else None,
                )
        return found

    def embedding_configs(self) -> list[EmbeddingConfig]:
        """The tables."""
        return self._embedding_configs

    def embedding_dim(self) -> int:
        """Columns of all tables; -1 where there are none."""
        return self._embedding_dim

    def embedding_names_by_table(self) -> list[list[str]]:
        """What the embeddings of each table's features are called."""
        return self._embedding_names_by_table

    def need_indices(self) -> bool:
        """Whether results have the ids as their weights."""
        return self._need_indices


def fuse_embedding_optimizer(
    model: nn.Module,
    optimizer_type: type[Optimizer],
    optimizer_kwargs: dict[str, Any],
    device: torch.device,
    location: EmbeddingLocation | None = None,
) -> nn.Module:
    """Replace all collections of a model by ones that their own backward pass trains, with the same tables.

    Args:
        model: changed in place, unless it is a collection itself.
        optimizer_type: what trains the tables.
        optimizer_kwargs: its options.
        device: of the tables.
        location: which memory they are in.

    Returns:
        The model, or the collection that takes its place.
    """
    if isinstance(model, EmbeddingBagCollection | EmbeddingCollection):
        return _fused(model, optimizer_type, optimizer_kwargs, device, location)
    for parent, name, child in list(_children(model)):
        setattr(parent, name, _fused(child, optimizer_type, optimizer_kwargs, device, location))
    return model


def _children(model: nn.Module) -> Iterator[tuple[nn.Module, str, EmbeddingBagCollection | EmbeddingCollection]]:
    for parent in model.modules():
        for name, child in parent.named_children():
            if isinstance(child, EmbeddingBagCollection | EmbeddingCollection):
                yield parent, name, child


def _fused(
    module: EmbeddingBagCollection | EmbeddingCollection,
    optimizer_type: type[Optimizer],
    optimizer_kwargs: dict[str, Any],
    device: torch.device,
    location: EmbeddingLocation | None,
) -> nn.Module:
    made: nn.Module
    if isinstance(module, EmbeddingBagCollection):
        made = FusedEmbeddingBagCollection(
            module.embedding_bag_configs(), optimizer_type, optimizer_kwargs, module.is_weighted(), device, location
        )
    else:
        made = FusedEmbeddingCollection(
            module.embedding_configs(), optimizer_type, optimizer_kwargs, device, module.need_indices(), location
        )
    if module.device.type != "meta":
        made.load_state_dict(module.state_dict())
    return made
