"""Where tables and optimizer states lie: sizes, places and offsets as FBGEMM counts them."""

from __future__ import annotations

import pytest

from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    EmbeddingLocation,
    construct_split_state,
)

DEVICE, MANAGED, CACHED, HOST = [EmbeddingLocation[name] for name in ("DEVICE", "MANAGED", "MANAGED_CACHING", "HOST")]
INT8 = SparseType.INT8
SPECS = [(4, 4, DEVICE, ComputeDevice.CUDA), (3, 8, MANAGED, ComputeDevice.CUDA), (2, 8, CACHED, ComputeDevice.CUDA)]


@pytest.mark.parametrize(
    ("options", "places", "offsets", "sizes"),
    [
        ({"rowwise": False, "cacheable": True}, [DEVICE, MANAGED, CACHED], [0, 0, 24], (16, 0, 40)),
        ({"rowwise": False, "cacheable": False}, [DEVICE, MANAGED, MANAGED], [0, 0, 24], (16, 0, 40)),
        ({"rowwise": True, "cacheable": True}, [DEVICE] * 3, [0, 4, 7], (9, 0, 0)),
        ({"rowwise": True, "cacheable": True, "placement": HOST}, [HOST] * 3, [0, 4, 7], (0, 9, 0)),
        ({"rowwise": False, "cacheable": True, "precision": INT8}, [DEVICE, MANAGED, CACHED], [0, 0, 48], (48, 0, 80)),
    ],
    ids=["cached", "uncached", "by row", "by row on the host", "int8"],
)  # fmt: skip
def test_each_table_has_its_place(options, places, offsets, sizes):
    state = construct_split_state(SPECS, **options)
    assert state.placements == places
    assert state.offsets == offsets
    assert (state.dev_size, state.host_size, state.uvm_size) == sizes
