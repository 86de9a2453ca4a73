"""Retrieval by two towers: candidates near to a query are scored as the trained towers score them."""

from __future__ import annotations

import pytest
import torch

from flambeau.rec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from flambeau.rec.errors import OptionError
from flambeau.rec.models.two_tower import TwoTowerRetrieval
from flambeau.rec.retrieval import ExactIndex, IVFPQIndex

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


def built(index, k: int = 3) -> tuple[TwoTowerRetrieval, torch.Tensor]:
    """A model over an index, which is given all items; and those."""
    torch.manual_seed(0)
    model = TwoTowerRetrieval(index, collection("query"), collection("item"), [16, 4], k=k)
    items = model.candidate_proj(model.candidate_ebc(one_id_each("item", torch.arange(ROWS))).values()).detach()
    return model, items


@pytest.mark.parametrize("kind", ["exact", "ivfpq", "faiss"])
def test_any_index_serves(kind):
    if kind == "faiss":
        index = pytest.importorskip("faiss").IndexFlatL2(4)
    else:
        index = ExactIndex(4) if kind == "exact" else IVFPQIndex(4, 2, 4, 3, num_probe=2)
    model, items = built(index)
    if kind == "ivfpq":
        index.train(items)
    index.add(items.numpy())
    asked = one_id_each("query", torch.tensor([5, 2]))
    scores = model(asked).view(2, 3)
    queries = model.query_proj(model.query_ebc(asked).values()).detach()
    all_scores = (queries @ items.T).sigmoid()
    for score, possible in zip(scores, all_scores, strict=True):
        assert all(any(torch.isclose(one, other) for other in possible) for one in score)
    if kind != "ivfpq":
        near = torch.cdist(queries, items).topk(3, largest=False).indices
        torch.testing.assert_close(scores, all_scores.gather(1, near))


def test_what_an_index_lacks_scores_nothing():
    index = ExactIndex(4)
    model, items = built(index, k=4)
    index.add(items[:2])
    scores = model(one_id_each("query", torch.tensor([5, 2]))).view(2, 4)
    assert (scores[:, :2] > 0).all()
    assert (scores[:, 2:] == 0).all()


def test_towers_of_different_widths_are_refused():
    with pytest.raises(OptionError, match="one of queries and one of candidates"):
        TwoTowerRetrieval(Exact(torch.empty(0)), collection("query"), collection("item", 4), [4], k=1)
