"""Train a DLRM, quantize it, spread its tables, export it, and serve it to many clients at once.

::

    python inference_dlrm.py                        # tables of four bits on three devices that are one CPU
    python inference_dlrm.py --bits 8 --devices 1
    python inference_dlrm.py --package dlrm.pt2     # compiled ahead of time: takes a minute, answers without this code

Clicks are made up: each user likes one of two kinds of items. Prints what training learned, what quantization cost,
and how long requests of several clients took.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from flambeau.rec.distributed.planner.types import ParameterConstraints
from flambeau.rec.inference.dlrm_predict import DLRMPredictModule
from flambeau.rec.inference.export import compile_ahead, export_model, load
from flambeau.rec.inference.modules import quantize_inference_model, shard_quant_model
from flambeau.rec.inference.server import BatchingPredictor, PredictionRequest, SparseFeatures
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection
from flambeau.rec.quant.embedding_modules import quant_prep_enable_quant_state_dict_split_scale_bias_for_types
from flambeau.rec.sparse.jagged_tensor import KeyedJaggedTensor

ROWS = {"user": 500, "item": 300, "shop": 50}
DENSE = 4
BITS = {8: torch.qint8, 4: torch.quint4x2, 2: torch.quint2x4}
KINDS = {"float_features": "dense", "id_list_features": "sparse"}


def clicks(examples: int, generator: torch.Generator) -> tuple[dict[str, Tensor], Tensor]:
    """A batch as servers get it, and whether there was a click."""
    ids = torch.stack([torch.randint(0, rows, (examples,), generator=generator) for rows in ROWS.values()])
    dense = torch.rand(examples, DENSE, generator=generator)
    liked = (ids[0] % 2) == (ids[1] % 2)
    noise = torch.rand(examples, generator=generator) < 0.05
    batch = {
        "float_features": dense,
        "id_list_features.lengths": torch.ones(ids.numel(), dtype=torch.int64),
        "id_list_features.values": ids.reshape(-1),
    }
    return batch, (liked ^ noise).float()


def train(model: DLRMPredictModule, steps: int, generator: torch.Generator) -> None:
    """Fit the model, printing its loss."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    model.train()
    for step in range(steps):
        batch, labels = clicks(2048, generator)
        features = KeyedJaggedTensor(
            list(ROWS), batch["id_list_features.values"], lengths=batch["id_list_features.lengths"]
        )
        logits = model.predict_module(batch["float_features"], features).squeeze(1)
        loss = binary_cross_entropy_with_logits(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % (steps // 4 or 1) == 0 or step == steps - 1:
            print(f"step {step:4}: loss {float(loss.detach()):.3f}")
    model.eval()


def quality(model: Callable[[dict[str, Tensor]], Any], batch: dict[str, Tensor], labels: Tensor) -> float:
    """Share of examples that are predicted right."""
    with torch.no_grad():
        return float(((model(batch)["default"] > 0.5) == labels.bool()).float().mean())


def requests(clients: int, each: int) -> list[list[PredictionRequest]]:
    """What clients will ask: some items for one user at a time."""
    asked = []
    for client in range(clients):
        generator = torch.Generator().manual_seed(1000 + client)
        mine = []
        for _ in range(each):
            batch, _ = clicks(16, generator)
            sparse = SparseFeatures(len(ROWS), batch["id_list_features.lengths"], batch["id_list_features.values"])
            mine.append(
                PredictionRequest(16, {"float_features": batch["float_features"]}, {"id_list_features": sparse})
            )
        asked.append(mine)
    return asked


def serve(model: Callable[[dict[str, Tensor]], Any], clients: int, each: int) -> None:
    """Have clients ask at the same time, and print how long they waited."""
    waited: list[float] = []

    def ask(mine: list[PredictionRequest]) -> None:
        for request in mine:
            start = time.perf_counter()
            predictor.predict(request, timeout_s=60)
            waited.append(1000 * (time.perf_counter() - start))

    with BatchingPredictor(model, KINDS, max_batch_size=256, max_delay_s=0.001) as predictor:
        predictor.predict(requests(1, 1)[0][0], timeout_s=60)
        threads = [threading.Thread(target=ask, args=(mine,)) for mine in requests(clients, each)]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begin
        batches = predictor.statistics.batches
    times = torch.tensor(waited)
    print(
        f"{len(waited)} requests of {clients} clients in {batches} batches: {len(waited) / seconds:,.0f} a second, "
        f"median {times.median():.1f} ms, 99 of 100 below {times.quantile(0.99):.1f} ms"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--bits", type=int, choices=sorted(BITS), default=4)
    parser.add_argument("--devices", type=int, default=3)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=50, help="of each client")
    parser.add_argument("--package", type=Path, help="compile ahead of time into this .pt2 file, and serve that")
    options = parser.parse_args(argv)
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)

    tables = [
        EmbeddingBagConfig(name=f"t_{name}", embedding_dim=16, num_embeddings=rows, feature_names=[name])
        for name, rows in ROWS.items()
    ]
    model = DLRMPredictModule(EmbeddingBagCollection(tables=tables), DENSE, [32, 16], [32, 1], list(ROWS))
    train(model, options.steps, generator)
    batch, labels = clicks(4096, generator)
    print(f"right: {quality(model, batch, labels):.1%} with tables of 32 bits")

    quant_prep_enable_quant_state_dict_split_scale_bias_for_types(model, [EmbeddingBagCollection])
    quantize_inference_model(model, quantization_dtype=BITS[options.bits])
    # The largest table is cut by rows, the next one by columns; the small one stays whole.
    ways = {"t_user": "row_wise", "t_item": "column_wise", "t_shop": "table_wise"}
    sharded, plan = shard_quant_model(
        model,
        world_size=options.devices,
        compute_device="cpu",
        sharding_device="cpu",
        constraints={name: ParameterConstraints(sharding_types=[way], min_partition=8) for name, way in ways.items()},
    )
    print(f"right: {quality(sharded, batch, labels):.1%} with tables of {options.bits} bits, spread like this:")
    print(plan)

    serve(sharded, options.clients, options.requests)
    program = export_model(sharded, batch)
    names = sorted(batch)
    if options.package is None:
        exported = program.module()
        print("exported:", end=" ")
        serve(lambda given: exported(*[given[name] for name in names]), options.clients, options.requests)
        return
    print("compiled ahead of time:", end=" ")
    serve(load(compile_ahead(program, names, options.package)), options.clients, options.requests)


if __name__ == "__main__":
    main()
