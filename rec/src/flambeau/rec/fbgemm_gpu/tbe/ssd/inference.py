"""Tables of bytes on disk, for inference: rows of a batch are fetched into memory, and looked up there."""

from __future__ import annotations

from multiprocessing.util import Finalize
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu._inference_layout import SCALED
from flambeau.rec.fbgemm_gpu.split_embedding_configs import SparseType
from flambeau.rec.fbgemm_gpu.split_table_batched_embeddings_ops_inference import (
    IntNBitTableBatchedEmbeddingBagsCodegen,
    rounded_row_size_in_bytes,
    unpadded_row_size_in_bytes,
)
from flambeau.rec.fbgemm_gpu.tbe.config.embedding_config import BoundsCheckMode, EmbeddingLocation, PoolingMode
from flambeau.rec.fbgemm_gpu.tbe.ssd._folders import folder_of, when_gone
from flambeau.rec.fbgemm_gpu.tbe.ssd._tiers import TableSpec, TieredTables
from flambeau.rec.ops import bounds, tbe, tbe_inference

__all__ = ["SSDIntNBitTableBatchedEmbeddingBags"]


class SSDIntNBitTableBatchedEmbeddingBags(nn.Module):
    """Tables of bytes on disk whose rows are pooled over bags.

    Rows that were never written are zero bytes. `streaming_update` writes rows while others are looked up, and
    `load_snapshot` goes over to the tables of another folder. Options of RocksDB and of remote stores are taken for
    compatibility.

    Args:
        embedding_specs: (name, rows, columns, elements) of each table.
        feature_table_map: the table of each feature, in any order; one feature for each table by default.
        pooling_mode: sum, mean, or none.
        output_dtype: of the result: FP32, FP16 or BF16.
        row_alignment: bytes that rows are a multiple of; 16 by default.
        fp8_exponent_bits: of FP8 tables.
        fp8_exponent_bias: of FP8 tables.
        cache_assoc: rows of a set of the cache.
        scale_bias_size_in_bytes: 4.
        cache_sets: of the cache; 0 for a fifth of all rows.
        ssd_storage_directory: where the files go.
        tbe_unique_id: from 0 on, the tables have a folder of this number, which stays, and is opened again.
        enable_cache_locking: rows of a batch stay in memory while it is looked up in any case.

    Raises:
        ValueError: tables or features that do not fit together, or a folder with other tables.
        OSError: the folder is open elsewhere, or is damaged.
    """

    def __init__(
        self,
        embedding_specs: list[tuple[str, int, int, SparseType]],
        feature_table_map: list[int] | None = None,
        pooling_mode: PoolingMode = PoolingMode.SUM,
        output_dtype: SparseType = SparseType.FP16,
        row_alignment: int | None = None,
        fp8_exponent_bits: int | None = None,
        fp8_exponent_bias: int | None = None,
        cache_assoc: int = 32,
        scale_bias_size_in_bytes: int = 4,
        cache_sets: int = 0,
        ssd_storage_directory: str = "/tmp",
        ssd_shards: int = 1,
        ssd_memtable_flush_period: int = -1,
        ssd_memtable_flush_offset: int = -1,
        ssd_l0_files_per_compact: int = 4,
        ssd_rate_limit_mbps: int = 0,
        ssd_size_ratio: int = 10,
        ssd_compaction_trigger: int = 8,
        ssd_write_buffer_size: int = 2 * 1024 * 1024 * 1024,
        ssd_max_write_buffer_num: int = 16,
        ssd_cache_location: EmbeddingLocation = EmbeddingLocation.MANAGED,
        ssd_uniform_init_lower: float = -0.01,
        ssd_uniform_init_upper: float = 0.01,
        ps_hosts: tuple[tuple[str, int]] | None = None,
        ps_max_key_per_request: int | None = None,
        ps_client_thread_num: int | None = None,
        ps_max_local_index_length: int | None = None,
        tbe_unique_id: int = -1,
        enable_cache_locking: bool = False,
    ) -> None:
        super().__init__()
        self._rows: Tensor
        if ps_hosts is not None:
            raise OptionError("tables on other machines (ps_hosts) are not served; keep them on disk.")
        self.embedding_specs, self.row_alignment = embedding_specs, row_alignment or 16
        # It knows tables and features; what rows of a batch are, it is told for each batch.
        self._kernel = IntNBitTableBatchedEmbeddingBagsCodegen(
            [(name, 0, dim, kind, EmbeddingLocation.HOST) for name, _, dim, kind in embedding_specs],
            feature_table_map,
            pooling_mode=pooling_mode,
            device="cpu",
            output_dtype=output_dtype,
            row_alignment=self.row_alignment,
            fp8_exponent_bits=fp8_exponent_bits,
            fp8_exponent_bias=fp8_exponent_bias,
            scale_bias_size_in_bytes=scale_bias_size_in_bytes,
        )
        self.feature_table_map, self.pooling_mode = self._kernel.feature_table_map, pooling_mode
        self.scale_bias_size_in_bytes = scale_bias_size_in_bytes
        self._row_bytes = [
            rounded_row_size_in_bytes(dim, kind, self.row_alignment, scale_bias_size_in_bytes)
            for _, _, dim, kind in embedding_specs
        ]
        rows = [rows for _, rows, _, _ in embedding_specs]
        self.register_buffer("_rows", torch.tensor([rows[table] for table in self.feature_table_map]), persistent=False)
        self._cache_rows = cache_sets * cache_assoc or max(sum(rows) // 5, cache_assoc)
        folder, temporary = folder_of(ssd_storage_directory, tbe_unique_id)
        self.tables, self._closing = self._open(folder, temporary=temporary)

    def _open(self, folder: Path, *, temporary: bool) -> tuple[TieredTables, Finalize]:
        specs = [
            TableSpec(rows, size, 0.0, 0.0)
            for (_, rows, _, _), size in zip(self.embedding_specs, self._row_bytes, strict=True)
        ]
        tables = TieredTables(folder, specs, torch.uint8, [], self._cache_rows)
        return tables, when_gone(self, folder if temporary else None, tables.close)

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self.tables.store.folder

    def _batch(self, indices: Tensor, offsets: Tensor) -> tbe.Lookup:
        features = len(self.feature_table_map)
        batch, rest = divmod(offsets.numel() - 1, features)
        if rest or int(offsets[-1]) != indices.numel():
            raise RuntimeError(
                f"offsets has {offsets.numel()} entries up to {int(offsets[-1])}, for {features} features and "
                f"{indices.numel()} indices; expected one more than a multiple of the features, up to the indices."
            )
        starts = torch.arange(features + 1) * batch
        layout = torch.zeros(5, features, dtype=torch.int64)
        return tbe.Lookup(self.tables.arena.weights, layout, indices, offsets.long(), starts, 0, tbe.SUM)

    def prefetch(self, indices: Tensor, offsets: Tensor) -> Tensor:
        """Fetch the rows of a batch into memory.

        Args:
            indices: (L,) rows of each feature's table, feature-major.
            offsets: (features * B + 1,).

        Returns:
            (L,) int64: where in the cache each row is.
        """
        with self.tables.lock:
            return self.tables.locate(
                self._batch(indices, offsets), self.feature_table_map, allocate=False
            ).lookup.indices

    def forward(self, indices: Tensor, offsets: Tensor, per_sample_weights: Tensor | None = None) -> Tensor:
        """Pool rows.

        Args:
            indices: (L,) int32 or int64, feature-major; strays are looked up as row 0, and -1 is no row.
            offsets: (features * B + 1,) int32 or int64.
            per_sample_weights: (L,) factors of rows.

        Returns:
            (B, columns of all features), or (L, columns) without pooling, of `output_dtype`.
        """
        indices, offsets = indices.long().clone(), offsets.long().clone()
        kernel = self._kernel
        bounds.bounds_check_indices(
            self._rows, indices, offsets, int(BoundsCheckMode.WARNING), kernel.bounds_check_warning, per_sample_weights
        )
        nothing = indices < 0
        with self.tables.lock:
            located = self.tables.locate(
                self._batch(indices.clamp(min=0), offsets), self.feature_table_map, allocate=False
            ).lookup
            kernel.weights_host, kernel.host_size = located.weights, located.weights.numel()
            # Tables begin where their regions of the cache do, and their rows are slots.
            kernel.weights_offsets, kernel.weight_initialized = located.layout[0].contiguous(), True
            weights = None if per_sample_weights is None else per_sample_weights.float().contiguous()
            return tbe_inference.look_up(kernel, located.indices.masked_fill(nothing, -1), offsets, weights)

    @torch.no_grad()
    def streaming_update(self, indices: Tensor, weights: Tensor) -> None:
        """Overwrite rows.

        Args:
            indices: (count,) numbers of rows through all tables, each once: those of a table come after those of the
                tables before it.
            weights: (count, bytes) uint8, scales and biases included; of narrower rows, the first bytes count.

        Raises:
            ValueError: a row that there is not.
        """
        given, begin = indices.cpu().numpy(), 0
        total = sum(spec.rows for spec in self.tables.specs)
        if len(given) and not 0 <= given.min() <= given.max() < total:
            raise OptionError(f"indices run from {given.min()} to {given.max()}; tables have {total} rows together.")
        for table, spec in enumerate(self.tables.specs):
            mine = (given >= begin) & (given < begin + spec.rows)
            values = weights[torch.from_numpy(mine)][:, : spec.columns]
            if len(values):
                padded = torch.nn.functional.pad(values, (0, spec.columns - values.shape[1]))
                self.tables.write_part(table, given[mine] - begin, 0, padded)
            begin += spec.rows

    def assign_embedding_weights(self, q_weight_list: list[tuple[Tensor, Tensor | None]]) -> None:
        """Write whole tables.

        Args:
            q_weight_list: of each table, codes (rows, bytes) and scales with biases (rows, 4), or None.
        """
        for table, (codes, scales) in enumerate(q_weight_list):
            parts = [codes.view(torch.uint8)] if scales is None else [scales.view(torch.uint8), codes.view(torch.uint8)]
            rows = torch.cat(parts, 1)
            padded = torch.nn.functional.pad(rows, (0, self._row_bytes[table] - rows.shape[1]))
            self.tables.write_part(table, np.arange(len(rows)), 0, padded)

    def split_embedding_weights(self, split_scale_shifts: bool = True) -> list[tuple[Tensor, Tensor | None]]:
        """Copies of the tables in memory.

        Args:
            split_scale_shifts: whether scales and biases are apart from codes.

        Returns:
            Of each table, codes (rows, bytes) and scales with biases (rows, 4), or None where there are none.
        """
        found: list[tuple[Tensor, Tensor | None]] = []
        for table, (_, rows, dim, kind) in enumerate(self.embedding_specs):
            stored = self.tables.read_part(table, np.arange(rows), 0)
            end = unpadded_row_size_in_bytes(dim, kind, self.scale_bias_size_in_bytes)
            begin = self.scale_bias_size_in_bytes if kind in SCALED else 0
            if split_scale_shifts and begin:
                found.append((stored[:, begin:end], stored[:, :begin]))
            else:
                found.append((stored[:, :end], None))
        return found

    def checkpoint(self) -> None:
        """Make what was written durable, whole or not at all."""
        self.tables.commit(b"")

    def close(self) -> None:
        """Let go of the files, and remove them where they have no `tbe_unique_id`."""
        self._closing()

    def load_snapshot(  # noqa: D417 - what RocksDB is told means nothing here
        self,
        ssd_storage_directory: str,
        ssd_shards: int = 1,
        ssd_memtable_flush_period: int = -1,
        ssd_memtable_flush_offset: int = -1,
        ssd_l0_files_per_compact: int = 4,
        ssd_rate_limit_mbps: int = 0,
        ssd_size_ratio: int = 10,
        ssd_compaction_trigger: int = 8,
        ssd_write_buffer_size: int = 2 * 1024 * 1024 * 1024,
        ssd_max_write_buffer_num: int = 16,
        ssd_uniform_init_lower: float = -0.01,
        ssd_uniform_init_upper: float = 0.01,
    ) -> None:
        """Go over to the tables of another folder; look-ups meanwhile see the old ones or the new ones.

        Args:
            ssd_storage_directory: the folder of such tables at a checkpoint: `folder` of the module that wrote them.

        Raises:
            ValueError: there are none, or others.
        """
        folder = Path(ssd_storage_directory)
        if not (folder / "manifest.json").exists():
            raise OptionError(
                f"{folder} holds no checkpoint of tables; expected the `folder` of a module that wrote one."
            )
        tables, closing = self._open(folder, temporary=False)
        before = self.tables
        with before.lock:
            old, self.tables, self._closing = self._closing, tables, closing
            old()
