"""DLRM as a server asks it: an example of a `PredictFactory`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flambeau.rec.inference.modules import (
    BatchingMetadata,
    PredictFactory,
    PredictModule,
    quantize_inference_model,
    shard_quant_model,
)
from flambeau.rec.models.dlrm import DLRM
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

__all__ = ["DLRMModelConfig", "DLRMPredictFactory", "DLRMPredictModule", "create_training_batch"]


@dataclass
class DLRMModelConfig:
    """A DLRM.

    Args:
        dense_arch_layer_sizes: of the perceptron of dense features; the last is `embedding_dim`.
        dense_in_features: dense features.
        embedding_dim: columns of all tables.
        id_list_features_keys: sparse features, each with a table.
        num_embeddings_per_feature: rows of each table.
        num_embeddings: rows of all tables, where they are not given one by one.
        over_arch_layer_sizes: of the perceptron over all; the last is 1.
        sample_input: a batch of the right form.
    """

    dense_arch_layer_sizes: list[int]
    dense_in_features: int
    embedding_dim: int
    id_list_features_keys: list[str]
    num_embeddings_per_feature: list[int]
    num_embeddings: int
    over_arch_layer_sizes: list[int]
    sample_input: Any


class DLRMPredictModule(PredictModule):
    """A DLRM that takes a batch by names.

    Args:
        embedding_bag_collection: the tables.
        dense_in_features: dense features.
        dense_arch_layer_sizes: of the perceptron of dense features.
        over_arch_layer_sizes: of the perceptron over all.
        id_list_features_keys: sparse features, in the order of batches.
        dense_device: where all but embeddings is computed.
    """

    def __init__(
        self,
        embedding_bag_collection: EmbeddingBagCollection,
        dense_in_features: int,
        dense_arch_layer_sizes: list[int],
        over_arch_layer_sizes: list[int],
        id_list_features_keys: list[str],
        dense_device: torch.device | None = None,
    ) -> None:
        model = DLRM(
            embedding_bag_collection=embedding_bag_collection,
            dense_in_features=dense_in_features,
            dense_arch_layer_sizes=dense_arch_layer_sizes,
            over_arch_layer_sizes=over_arch_layer_sizes,
            dense_device=dense_device,
        )
        super().__init__(model, None if dense_device is None else str(dense_device))
        self.id_list_features_keys = id_list_features_keys

    def predict_forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Probabilities.

        Args:
            batch: "float_features" (examples, dense features), "id_list_features.lengths" and "id_list_features.values"
                of the sparse ones, feature-major.

        Returns:
            {"default": (examples,)} of [0, 1].
        """
        features = KeyedJaggedTensor(
            keys=self.id_list_features_keys,
            lengths=batch["id_list_features.lengths"],
            values=batch["id_list_features.values"],
        )
        logits = self.predict_module(batch["float_features"], features)
        return {"default": logits.sigmoid().reshape(-1)}


class DLRMPredictFactory(PredictFactory):
    """Makes a quantized DLRM.

    Args:
        model_config: of the model.
    """

    def __init__(self, model_config: DLRMModelConfig) -> None:
        self.model_config = model_config

    def create_predict_module(self, world_size: int = 1, device: str = "cpu") -> nn.Module:
        """A DLRM with tables of eight bits, without weights of its own yet.

        Args:
            world_size: devices; the tables are spread over several ones of the kind of `device`.
            device: where it computes.
        """
        config = self.model_config
        rows = config.num_embeddings_per_feature or [config.num_embeddings] * len(config.id_list_features_keys)
        tables = [
            EmbeddingBagConfig(
                name=f"t_{name}", embedding_dim=config.embedding_dim, num_embeddings=count, feature_names=[name]
            )
            for name, count in zip(config.id_list_features_keys, rows, strict=True)
        ]
        module = DLRMPredictModule(
            EmbeddingBagCollection(tables=tables, device=torch.device(device)),
            config.dense_in_features,
            config.dense_arch_layer_sizes,
            config.over_arch_layer_sizes,
            config.id_list_features_keys,
            torch.device(device),
        )
        quantized = quantize_inference_model(module)
        if world_size == 1:
            return quantized
        kind = torch.device(device).type
        made, _ = shard_quant_model(quantized, world_size, compute_device=kind, sharding_device=device)
        return made

    def batching_metadata(self) -> dict[str, BatchingMetadata]:
        """Dense features, and ids."""
        return {
            "float_features": BatchingMetadata(type="dense", device="cpu", pinned=["float_features"]),
            "id_list_features": BatchingMetadata(
                type="sparse",
                device="cpu",
                pinned=["id_list_features.lengths", "id_list_features.values"],
            ),
        }

    def result_metadata(self) -> str:
        """A tensor for each example, by name."""
        return "dict_of_tensor"

    def run_weights_independent_tranformations(self, predict_module: nn.Module) -> nn.Module:
        """Nothing is changed."""
        return predict_module

    def run_weights_dependent_transformations(self, predict_module: nn.Module) -> nn.Module:
        """Nothing is changed."""
        return predict_module


def create_training_batch(args: Any) -> Any:
    """A random batch.

    Args:
        args: what command lines give: `num_float_features`, `batch_size`, `num_embeddings` or
            `num_embeddings_per_feature`, and `sparse_feature_names`; several with commas between.

    Returns:
        `datasets.utils.Batch`.
    """
    from flambeau.rec.datasets.random import RandomRecDataset

    names = args.sparse_feature_names.split(",")
    given = getattr(args, "num_embeddings_per_feature", None)
    sizes = [int(one) for one in given.split(",")] if isinstance(given, str) else given
    dataset = RandomRecDataset(
        keys=names,
        batch_size=args.batch_size,
        hash_size=None if sizes else args.num_embeddings,
        hash_sizes=sizes or None,
        ids_per_feature=1,
        num_dense=args.num_float_features,
        num_batches=1,
    )
    return next(iter(dataset))
