"""Retrieval by two towers: candidates near to a query are scored as the trained towers score them."""

from __future__ import annotations

import pytest
import torch

from flambeau.rec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from flambeau.rec.errors import OptionError
from flambeau.rec.models.two_tower import TwoTowerRetrieval

ROWS, DIM = 12, 8


class Exact:
    """The nearest of some vectors, by all distances."""

    def __init__(self, vectors: torch.Tensor) -> None:
        self.vectors = vectors

    def search(self, x, k):
        return torch.cdist(x, self.vectors).square().topk(k, largest=False)


def collection(name: str, dim: int = DIM) -> EmbeddingBagCollection:
    table = EmbeddingBagConfig(name=f"t_{name}", num_embeddings=ROWS, embedding_dim=dim, feature_names=[name])
    return EmbeddingBagCollection([table])


def one_id_each(name: str, ids: torch.Tensor) -> KeyedJaggedTensor:
    return KeyedJaggedTensor([name], ids, lengths=torch.ones(len(ids), dtype=torch.int64))


def test_the_nearest_candidates_are_scored_by_their_products_with_the_query():
    torch.manual_seed(0)
    model = TwoTowerRetrieval(Exact(torch.empty(0)), collection("query"), collection("item"), [16, 4], k=3)
    items = model.candidate_proj(model.candidate_ebc(one_id_each("item", torch.arange(ROWS))).values()).detach()
    model.faiss_index = Exact(items)
    asked = torch.tensor([5, 2])
    queries = model.query_proj(model.query_ebc(one_id_each("query", asked)).values()).detach()

    scores = model(one_id_each("query", asked)).view(2, 3)

    near = torch.cdist(queries, items).topk(3, largest=False).indices
    expected = (items[near] * queries.unsqueeze(1)).sum(-1).sigmoid()
    torch.testing.assert_close(scores, expected)
    assert scores.unique().numel() > 1


def test_towers_of_different_widths_are_refused():
    with pytest.raises(OptionError, match="one of queries and one of candidates"):
        TwoTowerRetrieval(Exact(torch.empty(0)), collection("query"), collection("item", 4), [4], k=1)
