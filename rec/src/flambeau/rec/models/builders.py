"""Models by name, with tables for the usual data and sizes that can be changed.

Each takes `num_embeddings`: the rows of every table, or of each one.
"""

from __future__ import annotations

from collections.abc import Sequence

from flambeau.rec.errors import OptionError
from flambeau.rec.models._api import register_model
from flambeau.rec.models.bert4rec import BERT4Rec
from flambeau.rec.models.deepfm import SimpleDeepFMNN
from flambeau.rec.models.dlrm import DLRM, DLRM_DCN, DLRM_Projection
from flambeau.rec.models.experimental.transformerdlrm import DLRM_Transformer
from flambeau.rec.models.two_tower import TwoTower
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection

__all__ = [
    "bert4rec_movielens",
    "deepfm_criteo",
    "dlrm_criteo",
    "dlrm_dcn_criteo",
    "dlrm_projection_criteo",
    "dlrm_transformer_criteo",
    "two_tower_movielens",
]

_DENSE, _SPARSE = 13, 26  # features of Criteo's logs


def _criteo(num_embeddings: int | Sequence[int], embedding_dim: int) -> EmbeddingBagCollection:
    rows = [num_embeddings] * _SPARSE if isinstance(num_embeddings, int) else list(num_embeddings)
    if len(rows) != _SPARSE:
        raise OptionError(f"num_embeddings has {len(rows)} entries, expected {_SPARSE}: one for each feature.")
    return EmbeddingBagCollection(
        [
            EmbeddingBagConfig(
                name=f"t_cat_{at}", feature_names=[f"cat_{at}"], num_embeddings=count, embedding_dim=embedding_dim
            )
            for at, count in enumerate(rows)
        ]
    )


@register_model(task="click-prediction", tags=["criteo"])
def dlrm_criteo(
    *,
    num_embeddings: int | Sequence[int] = 10_000,
    embedding_dim: int = 64,
    dense_arch_layer_sizes: Sequence[int] = (512, 256, 64),
    over_arch_layer_sizes: Sequence[int] = (512, 512, 256, 1),
) -> DLRM:
    """DLRM for Criteo's logs (Naumov et al. 2019, arXiv:1906.00091).

    Args:
        num_embeddings: rows of the 26 tables.
        embedding_dim: columns of all tables, and of the last layer over dense features.
        dense_arch_layer_sizes: columns of layers over the 13 dense features.
        over_arch_layer_sizes: columns of layers over the interactions.
    """
    ebc = _criteo(num_embeddings, embedding_dim)
    return DLRM(ebc, _DENSE, list(dense_arch_layer_sizes), list(over_arch_layer_sizes))


@register_model(task="click-prediction", tags=["criteo"])
def dlrm_dcn_criteo(
    *,
    num_embeddings: int | Sequence[int] = 10_000,
    embedding_dim: int = 64,
    dense_arch_layer_sizes: Sequence[int] = (512, 256, 64),
    over_arch_layer_sizes: Sequence[int] = (512, 512, 256, 1),
    dcn_num_layers: int = 3,
    dcn_low_rank_dim: int = 128,
) -> DLRM_DCN:
    """DLRM with a cross network, as MLPerf trains it (Wang et al. 2021, arXiv:2008.13535).

    Args:
        num_embeddings: rows of the 26 tables.
        embedding_dim: columns of all tables, and of the last layer over dense features.
        dense_arch_layer_sizes: columns of layers over the 13 dense features.
        over_arch_layer_sizes: columns of layers over the interactions.
        dcn_num_layers: of the cross network.
        dcn_low_rank_dim: of the cross network.
    """
    ebc, sizes = _criteo(num_embeddings, embedding_dim), list(over_arch_layer_sizes)
    return DLRM_DCN(ebc, _DENSE, list(dense_arch_layer_sizes), sizes, dcn_num_layers, dcn_low_rank_dim)


@register_model(task="click-prediction", tags=["criteo"])
def dlrm_projection_criteo(
    *,
    num_embeddings: int | Sequence[int] = 10_000,
    embedding_dim: int = 64,
    dense_arch_layer_sizes: Sequence[int] = (512, 256, 64),
    over_arch_layer_sizes: Sequence[int] = (512, 512, 256, 1),
    interaction_branch1_layer_sizes: Sequence[int] = (512, 512),
    interaction_branch2_layer_sizes: Sequence[int] = (512, 512),
) -> DLRM_Projection:
    """DLRM whose features meet in projections, in fewer products than there are pairs.

    Args:
        num_embeddings: rows of the 26 tables.
        embedding_dim: columns of all tables, and of the last layer over dense features.
        dense_arch_layer_sizes: columns of layers over the 13 dense features.
        over_arch_layer_sizes: columns of layers over the interactions.
        interaction_branch1_layer_sizes: of one projection; the last is a multiple of `embedding_dim`.
        interaction_branch2_layer_sizes: of the other.
    """
    branches = list(interaction_branch1_layer_sizes), list(interaction_branch2_layer_sizes)
    ebc, sizes = _criteo(num_embeddings, embedding_dim), list(over_arch_layer_sizes)
    return DLRM_Projection(ebc, _DENSE, list(dense_arch_layer_sizes), sizes, *branches)


@register_model(task="click-prediction", tags=["criteo", "experimental"])
def dlrm_transformer_criteo(
    *,
    num_embeddings: int | Sequence[int] = 10_000,
    embedding_dim: int = 64,
    dense_arch_layer_sizes: Sequence[int] = (512, 256, 64),
    over_arch_layer_sizes: Sequence[int] = (512, 512, 256, 1),
    nhead: int = 8,
    ntransformer_layers: int = 4,
) -> DLRM_Transformer:
    """DLRM whose features meet in a transformer, which upstream calls experimental.

    Args:
        num_embeddings: rows of the 26 tables.
        embedding_dim: columns of all tables, and of the last layer over dense features.
        dense_arch_layer_sizes: columns of layers over the 13 dense features.
        over_arch_layer_sizes: columns of layers over the interactions.
        nhead: attention heads.
        ntransformer_layers: layers.
    """
    ebc, sizes = _criteo(num_embeddings, embedding_dim), list(over_arch_layer_sizes)
    return DLRM_Transformer(ebc, _DENSE, list(dense_arch_layer_sizes), sizes, nhead, ntransformer_layers)


@register_model(task="click-prediction", tags=["criteo"])
def deepfm_criteo(
    *,
    num_embeddings: int | Sequence[int] = 10_000,
    embedding_dim: int = 16,
    hidden_layer_size: int = 64,
    deep_fm_dimension: int = 32,
) -> SimpleDeepFMNN:
    """DeepFM for Criteo's logs (Guo et al. 2017, arXiv:1703.04247).

    Args:
        num_embeddings: rows of the 26 tables.
        embedding_dim: columns of all tables.
        hidden_layer_size: of the layers over the 13 dense features.
        deep_fm_dimension: columns of the deep half.
    """
    return SimpleDeepFMNN(_DENSE, _criteo(num_embeddings, embedding_dim), hidden_layer_size, deep_fm_dimension)


@register_model(task="next-item-prediction", tags=["movielens"])
def bert4rec_movielens(
    *,
    vocab_size: int = 26_746,
    max_len: int = 100,
    emb_dim: int = 256,
    nhead: int = 2,
    num_layers: int = 2,
    dropout: float = 0.1,
) -> BERT4Rec:
    """BERT4Rec for MovieLens-20M (Sun et al. 2019, arXiv:1904.06690).

    Args:
        vocab_size: movies, one for no movie, and one for what is masked.
        max_len: movies of a history.
        emb_dim: columns of every embedding.
        nhead: attention heads.
        num_layers: blocks.
        dropout: throughout.
    """
    return BERT4Rec(vocab_size, max_len, emb_dim, nhead, num_layers, dropout)


@register_model(task="retrieval", tags=["movielens"])
def two_tower_movielens(
    *, num_embeddings: int | Sequence[int] = 2**17, embedding_dim: int = 64, layer_sizes: Sequence[int] = (128, 64)
) -> TwoTower:
    """Two towers of users and movies, trained to tell who rated what.

    Args:
        num_embeddings: rows of the table of users, and of that of movies.
        embedding_dim: columns of both.
        layer_sizes: columns after each layer of either tower.
    """
    rows = [num_embeddings] * 2 if isinstance(num_embeddings, int) else list(num_embeddings)
    if len(rows) != 2:
        raise OptionError(f"num_embeddings has {len(rows)} entries, expected 2: users and movies.")
    tables = [
        EmbeddingBagConfig(name=f"t_{name}", feature_names=[name], num_embeddings=count, embedding_dim=embedding_dim)
        for name, count in zip(("userId", "movieId"), rows, strict=True)
    ]
    return TwoTower(EmbeddingBagCollection(tables), list(layer_sizes))
