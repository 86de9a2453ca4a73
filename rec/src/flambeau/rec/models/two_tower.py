"""Two towers (Covington et al. 2016; Yi et al. 2019): queries and candidates become vectors, near if they fit."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.models.dlrm import _Labelled
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection
from flambeau.rec.modules.mlp import MLP
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor, KeyedTensor

__all__ = ["TwoTower", "TwoTowerRetrieval", "TwoTowerTrainTask", "convert_TwoTower_to_TwoTowerRetrieval"]


def _joined(pooled: KeyedTensor, names: list[str]) -> Tensor:
    return torch.cat([pooled[name] for name in names], dim=1)


class TwoTower(nn.Module):
    """The model that is trained.

    Args:
        embedding_bag_collection: two tables of one number of columns: of queries, then of candidates.
        layer_sizes: columns after each layer of either tower.
        device: of the layers.

    Raises:
        OptionError: other than two tables, or of different numbers of columns.
    """

    def __init__(
        self,
        embedding_bag_collection: EmbeddingBagCollection,
        layer_sizes: list[int],
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        tables = embedding_bag_collection.embedding_bag_configs()
        dims = [table.embedding_dim for table in tables]
        if len(dims) != 2 or dims[0] != dims[1]:
            raise OptionError(f"the tables have {dims or 'no'} columns, expected two tables of one embedding_dim.")
        self._feature_names_query: list[str] = tables[0].feature_names
        self._candidate_feature_names: list[str] = tables[1].feature_names
        self.ebc = embedding_bag_collection
        self.query_proj = MLP(dims[0], layer_sizes, device=device)
        self.candidate_proj = MLP(dims[0], layer_sizes, device=device)

    def forward(self, kjt: KeyedJaggedTensor) -> tuple[Tensor, Tensor]:
        """Ids of both tables' features to queries and candidates, (B, columns of the last layer) each."""
        pooled = self.ebc(kjt)
        query: Tensor = self.query_proj(_joined(pooled, self._feature_names_query))
        candidate: Tensor = self.candidate_proj(_joined(pooled, self._candidate_feature_names))
        return query, candidate


class TwoTowerTrainTask(nn.Module):
    """Two towers with their loss, as training pipelines take them: whether a query and a candidate fit.

    Args:
        two_tower: the model.
    """

    def __init__(self, two_tower: TwoTower) -> None:
        super().__init__()
        self.two_tower = two_tower
        self.loss_fn: nn.Module = nn.BCEWithLogitsLoss()

    def forward(self, batch: _Labelled) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """Predict and compare.

        Args:
            batch: with `sparse_features` and `labels`, (B,) of 0 and 1.

        Returns:
            The binary cross entropy of dot products; and detached from the graph: it, they (B,), and the labels.
        """
        query, candidate = self.two_tower(batch.sparse_features)
        logits = (query * candidate).sum(dim=1)
        loss = self.loss_fn(logits, batch.labels.float())
        return loss, (loss.detach(), logits.detach(), batch.labels.detach())


class Index(Protocol):
    """Vectors by number that can be searched: those of `flambeau.rec.retrieval`, or an index of faiss."""

    def search(self, x: Any, k: int) -> tuple[Any, Any]:
        """Squared distances and numbers of the nearest ones, (n, k) each; -1 for none."""


def _found(index: Index, queries: Tensor, k: int) -> Tensor:
    """The numbers (n, k) that an index finds; faiss's own take and give NumPy's arrays."""
    given: Any = queries.detach().float()
    if type(index).__module__.partition(".")[0] == "faiss":
        given = given.cpu().numpy()
    return torch.as_tensor(index.search(given, k)[1], device=queries.device).to(torch.int64)


class TwoTowerRetrieval(nn.Module):
    """The model that is served: the candidates that fit a query best, of those that an index is near to.

    Args:
        faiss_index: vectors of all candidates by their numbers.
        query_ebc: one table, of queries.
        candidate_ebc: one table, of candidates.
        layer_sizes: columns after each layer of either tower.
        k: candidates that the index gives for each query.
        device: of the layers.
        dtype: of the layers.

    Raises:
        OptionError: collections of other than one table, or of different numbers of columns.
    """

    def __init__(
        self,
        faiss_index: Index,
        query_ebc: EmbeddingBagCollection,
        candidate_ebc: EmbeddingBagCollection,
        layer_sizes: list[int],
        k: int,
        device: torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        tables = [*query_ebc.embedding_bag_configs(), *candidate_ebc.embedding_bag_configs()]
        dims = [table.embedding_dim for table in tables]
        if len(dims) != 2 or dims[0] != dims[1]:
            raise OptionError(f"the tables have {dims or 'no'} columns, expected one of queries and one of candidates.")
        self.k = k
        self.faiss_index = faiss_index
        self.query_ebc, self.candidate_ebc = query_ebc, candidate_ebc
        self.query_feature_names: list[str] = tables[0].feature_names
        self.candidate_feature_names: list[str] = tables[1].feature_names
        self.query_proj = MLP(dims[0], layer_sizes, device=device, dtype=dtype)
        self.candidate_proj = MLP(dims[0], layer_sizes, device=device, dtype=dtype)
        self.register_load_state_dict_pre_hook(_without_task)  # type: ignore[no-untyped-call]

    def forward(self, query_kjt: KeyedJaggedTensor) -> Tensor:
        """Find and score.

        Args:
            query_kjt: ids of the queries' features.

        Returns:
            (B * k,) between 0 and 1: how well each candidate found for a query fits it, query after query; 0 where
            the index found fewer than k.
        """
        query = self.query_proj(_joined(self.query_ebc(query_kjt), self.query_feature_names))
        found = _found(self.faiss_index, query, self.k).reshape(-1)
        ids = found.clamp(min=0)
        candidates = KeyedJaggedTensor(
            self.candidate_feature_names,
            ids.repeat(len(self.candidate_feature_names)),
            lengths=torch.ones(len(ids) * len(self.candidate_feature_names), dtype=torch.int64, device=ids.device),
        )
        pooled = _joined(self.candidate_ebc(candidates), self.candidate_feature_names)
        candidate = self.candidate_proj(pooled).view(len(query), self.k, -1)
        scores: Tensor = torch.bmm(candidate, query.unsqueeze(2)).reshape(-1)
        return scores.sigmoid().where(found >= 0, 0.0)


def _without_task(module: nn.Module, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
    """The towers' layers by the names that they have in a `TwoTowerTrainTask`."""
    begin = f"{prefix}two_tower."
    for name in [name for name in state_dict if name.startswith(begin)]:
        state_dict[prefix + name.removeprefix(begin)] = state_dict.pop(name)


def convert_TwoTower_to_TwoTowerRetrieval(
    sd: dict[str, Tensor], query_tables: list[str], candidate_tables: list[str]
) -> dict[str, Tensor]:
    """The state of a `TwoTowerTrainTask` as a `TwoTowerRetrieval` takes it.

    Args:
        sd: the state, which is changed.
        query_tables: tables of queries.
        candidate_tables: tables of candidates.

    Returns:
        It, with the tables under their new names.

    Raises:
        KeyError: a table that it does not have.
    """
    for collection, tables in (("query_ebc", query_tables), ("candidate_ebc", candidate_tables)):
        for table in tables:
            name = f"embedding_bags.{table}.weight"
            sd[f"{collection}.{name}"] = sd.pop(f"two_tower.ebc.{name}")
    return sd
