"""Collections of embedding tables: pooled over bags, or a row for each id."""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor, nn

from flambeau.rec.modules.embedding_configs import (
    BaseEmbeddingConfig,
    DataType,
    EmbeddingBagConfig,
    EmbeddingConfig,
    PoolingType,
    data_type_to_dtype,
    pooling_type_to_str,
)
from flambeau.rec.ops._large_pages import on_large_pages
from flambeau.rec.ops.pooled_lookup import pooled_lookup
from flambeau.rec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor, KeyedTensor, SparseError

__all__ = [
    "EmbeddingBagCollection",
    "EmbeddingBagCollectionInterface",
    "EmbeddingCollection",
    "EmbeddingCollectionInterface",
    "get_embedding_names_by_table",
    "process_pooled_embeddings",
    "reorder_inverse_indices",
]


def reorder_inverse_indices(inverse_indices: tuple[list[str], Tensor] | None, feature_names: list[str]) -> Tensor:
    """Which row of a feature each example has, for features in another order.

    Args:
        inverse_indices: keys, and (keys, full batch).
        feature_names: features, each one of the keys.

    Returns:
        (features, full batch); empty where there are no inverse indices.
    """
    if inverse_indices is None:
        return torch.empty(0)
    keys, rows = inverse_indices
    places = {key: at for at, key in enumerate(keys)}
    order = torch.tensor([places[name] for name in feature_names], device=rows.device)
    return torch.index_select(rows, 0, order)


def process_pooled_embeddings(pooled_embeddings: list[Tensor], inverse_indices: Tensor) -> Tensor:
    """Join pooled embeddings side by side, and give each example of the full batch its rows.

    Args:
        pooled_embeddings: (examples of the feature, columns) each.
        inverse_indices: (features, full batch), or empty where all features have the full batch already.

    Returns:
        (full batch, columns of all features).
    """
    if inverse_indices.numel():
        pooled_embeddings = [
            torch.index_select(pooled, 0, rows)
            for pooled, rows in zip(pooled_embeddings, inverse_indices.unbind(), strict=True)
        ]
    return torch.cat(pooled_embeddings, dim=1)


def get_embedding_names_by_table(
    tables: Sequence[EmbeddingBagConfig] | Sequence[EmbeddingConfig],
) -> list[list[str]]:
    """What the embeddings of each table's features are called: as the feature, or `feature@table` if others read it."""
    readers = Counter(chain.from_iterable(table.feature_names for table in tables))
    return [
        [name if readers[name] == 1 else f"{name}@{table.name}" for name in table.feature_names] for table in tables
    ]


def check_table_names(tables: Sequence[BaseEmbeddingConfig]) -> None:
    """Refuse several tables of one name.

    Raises:
        ValueError: a name that several tables have.
    """
    for name, count in Counter(table.name for table in tables).items():
        if count > 1:
            raise ValueError(f"{count} tables are called {name!r}; give each a name of its own.")


def _trained_dtype(data_type: DataType) -> torch.dtype:
    """Upstream: tables whose numbers cannot be trained are of float16."""
    dtype = data_type_to_dtype(data_type)
    return dtype if dtype in (torch.float32, torch.bfloat16) else torch.float16


class EmbeddingBagCollectionInterface(abc.ABC, nn.Module):
    """What looks up and pools embeddings, wherever its tables are."""

    @abc.abstractmethod
    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Pooled embeddings of each feature."""

    @abc.abstractmethod
    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """The tables."""

    @abc.abstractmethod
    def is_weighted(self) -> bool:
        """Whether the weights of features are used."""


class EmbeddingBagCollection(EmbeddingBagCollectionInterface):
    """Tables of embeddings whose rows are pooled over bags: the sparse half of most models of recommendation.

    Parameters are `embedding_bags.<table>.weight`. All tables are looked up in one call; gradients are dense.

    Args:
        tables: sizes, features and ways of pooling. A feature that several tables read is called `feature@table` in the
            result.
        is_weighted: whether each id counts by its weight; a mean is then the weighted sum over the number of ids.
        device: of the tables; on "meta" they stay empty.

    Raises:
        ValueError: several tables have one name.

    Example:
        >>> table = EmbeddingBagConfig(num_embeddings=10, embedding_dim=4, name="t_item", feature_names=["item"])
        >>> collection = EmbeddingBagCollection([table])
        >>> features = KeyedJaggedTensor(["item"], torch.tensor([1, 2, 2]), lengths=torch.tensor([2, 1]))
        >>> collection(features).values().shape
        torch.Size([2, 4])
    """

    def __init__(
        self, tables: list[EmbeddingBagConfig], is_weighted: bool = False, device: torch.device | None = None
    ) -> None:
        super().__init__()
        check_table_names(tables)
        self._is_weighted = is_weighted
        self._device = torch.device("cpu") if device is None else torch.device(device)
        self._embedding_bag_configs = tables
        self.embedding_bags = nn.ModuleDict()
        for table in tables:
            self.embedding_bags[table.name] = nn.EmbeddingBag(
                num_embeddings=table.num_embeddings,
                embedding_dim=table.embedding_dim,
                mode=pooling_type_to_str(table.pooling),
                device=self._device,
                include_last_offset=True,
                dtype=_trained_dtype(table.data_type),
            )
            on_large_pages(self.embedding_bags[table.name].weight, filled=True)  # type: ignore[arg-type]
            if not table.feature_names:
                table.feature_names = [table.name]
        self._feature_names = [table.feature_names for table in tables]
        self._embedding_names = list(chain.from_iterable(get_embedding_names_by_table(tables)))
        self._names = list(chain.from_iterable(self._feature_names))
        self._reads = [at for at, table in enumerate(tables) for _ in table.feature_names]
        self._means = [int(tables[at].pooling == PoolingType.MEAN) for at in self._reads]
        self._lengths_per_embedding = [tables[at].embedding_dim for at in self._reads]
        self.reset_parameters()

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Look up and pool.

        Args:
            features: ids of all features of the tables; others are left alone. Each feature may have a batch of its
                own, with inverse indices that say which of its examples each one of the full batch has.

        Returns:
            (B, columns) for each feature, in the order of the tables.

        Raises:
            KeyError: a feature is missing.
            RuntimeError: an id outside of its table.
        """
        inverse = features.inverse_indices_or_none()
        places = features.index_per_key()
        at = [places[name] for name in self._names]
        weights = features.weights() if self._is_weighted else None
        variable = features.variable_stride_per_key()
        if variable:
            rows, strides = features.lengths_offset_per_key(), features.stride_per_key()
            starts, sizes = [rows[place] for place in at], [strides[place] for place in at]
        else:
            batch = features.stride()
            starts, sizes = [place * batch for place in at], [batch] * len(at)
        flat = variable and len(set(sizes)) > 1
        if not at:
            empty = torch.empty(features.stride(), 0, device=features.device())
            return KeyedTensor(keys=[], values=empty, length_per_key=[])
        values = pooled_lookup(
            [bag.weight for bag in self.embedding_bags.values()],  # type: ignore[misc]
            features.values(), features.offsets(), weights,
            self._reads, starts, sizes, self._means, self._names, flat,
        )  # fmt: skip
        if inverse is not None:
            values = self._full_batch(values, sizes if flat else None, inverse)
        elif flat:
            raise SparseError(
                f"features {self._names} have {sizes} examples and no inverse indices; give all of them one number, or "
                "inverse_indices that say which of its examples each one of the full batch has."
            )
        return KeyedTensor(keys=self._embedding_names, values=values, length_per_key=self._lengths_per_embedding)

    def _full_batch(self, values: Tensor, sizes: list[int] | None, inverse: tuple[list[str], Tensor]) -> Tensor:
        """Each example's rows; `sizes` are given where values are flat."""
        widths = self._lengths_per_embedding
        if sizes is None:
            parts = list(values.split(widths, 1))
        else:
            pieces = values.split([size * width for size, width in zip(sizes, widths, strict=True)])
            parts = [piece.view(-1, width) for piece, width in zip(pieces, widths, strict=True)]
        return process_pooled_embeddings(parts, reorder_inverse_indices(inverse, self._names))

    def is_weighted(self) -> bool:
        """Whether the weights of features are used."""
        return self._is_weighted

    def embedding_bag_configs(self) -> list[EmbeddingBagConfig]:
        """The tables."""
        return self._embedding_bag_configs

    @property
    def device(self) -> torch.device:
        """Where the tables were made."""
        return self._device

    def reset_parameters(self) -> None:
        """Fill the tables anew, as their configurations say."""
        _fill(self._embedding_bag_configs, self.embedding_bags, self._device)


def _fill(tables: Sequence[BaseEmbeddingConfig], modules: nn.ModuleDict, device: torch.device) -> None:
    if device.type == "meta":
        return
    with torch.no_grad():
        for table in tables:
            assert table.init_fn is not None
            table.init_fn(modules[table.name].weight)  # type: ignore[arg-type]


class EmbeddingCollectionInterface(abc.ABC, nn.Module):
    """What looks up an embedding for each id, wherever its tables are."""

    @abc.abstractmethod
    def forward(self, features: KeyedJaggedTensor) -> dict[str, JaggedTensor]:
        """Embeddings of each feature."""

    @abc.abstractmethod
    def embedding_configs(self) -> list[EmbeddingConfig]:
        """The tables."""

    @abc.abstractmethod
    def need_indices(self) -> bool:
        """Whether ids are given beside their embeddings."""

    @abc.abstractmethod
    def embedding_dim(self) -> int:
        """Columns of all tables."""

    @abc.abstractmethod
    def embedding_names_by_table(self) -> list[list[str]]:
        """What the embeddings of each table's features are called."""


class EmbeddingCollection(EmbeddingCollectionInterface):
    """Tables of embeddings that give a row for each id: for models that read sequences.

    Parameters are `embeddings.<table>.weight`.

    Args:
        tables: sizes and features, of one number of columns. A feature that several tables read is called
            `feature@table` in the result.
        device: of the tables; on "meta" they stay empty.
        need_indices: whether results have the ids as their weights.
        use_gather_select: whether sharded tables pick rows by gathering.
        use_gather_select_per_sharding: the same by way of sharding.

    Raises:
        ValueError: several tables have one name, or their numbers of columns differ.

    Example:
        >>> table = EmbeddingConfig(num_embeddings=10, embedding_dim=4, name="t_item", feature_names=["item"])
        >>> rows = EmbeddingCollection([table])(
        ...     KeyedJaggedTensor(["item"], torch.tensor([1, 2, 2]), lengths=torch.tensor([2, 1]))
        ... )
        >>> rows["item"].values().shape
        torch.Size([3, 4])
    """

    def __init__(
        self,
        tables: list[EmbeddingConfig],
        device: torch.device | None = None,
        need_indices: bool = False,
        use_gather_select: bool = False,
        use_gather_select_per_sharding: dict[str, bool] | None = None,
    ) -> None:
        super().__init__()
        check_table_names(tables)
        dims = {table.name: table.embedding_dim for table in tables}
        if len(set(dims.values())) > 1:
            raise ValueError(f"all tables of an EmbeddingCollection have one embedding_dim; theirs are {dims}.")
        self._embedding_configs = tables
        self._embedding_dim = tables[0].embedding_dim if tables else -1
        self._need_indices = need_indices
        self._use_gather_select = use_gather_select
        self._use_gather_select_per_sharding = use_gather_select_per_sharding
        self._device = torch.device("cpu") if device is None else torch.device(device)
        self.embeddings = nn.ModuleDict()
        for table in tables:
            self.embeddings[table.name] = nn.Embedding(
                num_embeddings=table.num_embeddings,
                embedding_dim=table.embedding_dim,
                device=self._device,
                dtype=_trained_dtype(table.data_type),
            )
            # Upstream: at once, while a collection of bags is filled when all its tables are there.
            _fill([table], self.embeddings, self._device)
            if not table.feature_names:
                table.feature_names = [table.name]
        self._feature_names = [table.feature_names for table in tables]
        self._embedding_names_by_table = get_embedding_names_by_table(tables)

    def forward(self, features: KeyedJaggedTensor) -> dict[str, JaggedTensor]:
        """Look up.

        Args:
            features: ids of all features of the tables; others are left alone.

        Returns:
            For each feature, in the order of the tables, bags of (ids, columns).

        Raises:
            KeyError: a feature is missing.
            IndexError: an id outside of its table.
        """
        parts = features.to_dict()
        found = {}
        modules = zip(self.embeddings.values(), self._feature_names, self._embedding_names_by_table, strict=True)
        for embedding, feature_names, embedding_names in modules:
            for feature_name, embedding_name in zip(feature_names, embedding_names, strict=True):
                part = parts[feature_name]
                found[embedding_name] = JaggedTensor(
                    values=embedding(part.values()).float(),
                    lengths=part.lengths(),
                    offsets=part.offsets(),
                    weights=part.values() if self._need_indices else None,
                )
        return found

    def need_indices(self) -> bool:
        """Whether results have the ids as their weights."""
        return self._need_indices

    def use_gather_select(self) -> bool:
        """Whether sharded tables pick rows by gathering."""
        return self._use_gather_select

    def use_gather_select_per_sharding(self) -> dict[str, bool] | None:
        """The same by way of sharding."""
        return self._use_gather_select_per_sharding

    def embedding_dim(self) -> int:
        """Columns of all tables; -1 where there are none."""
        return self._embedding_dim

    def embedding_configs(self) -> list[EmbeddingConfig]:
        """The tables."""
        return self._embedding_configs

    def embedding_names_by_table(self) -> list[list[str]]:
        """What the embeddings of each table's features are called."""
        return self._embedding_names_by_table

    @property
    def device(self) -> torch.device:
        """Where the tables were made."""
        return self._device

    def reset_parameters(self) -> None:
        """Fill the tables anew, as their configurations say."""
        _fill(self._embedding_configs, self.embeddings, self._device)
