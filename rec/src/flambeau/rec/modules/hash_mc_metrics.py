"""Numbers that tell how a hash table of rows does: hits, inserts, collisions, evictions and use."""

from __future__ import annotations

import abc
import logging
import time

import torch
from torch import Tensor, nn

from flambeau.rec.modules.hash_mc_evictions import HashZchEvictionConfig

__all__ = ["ConsoleScalarLoggerBackend", "ScalarLogger", "ScalarLoggerBackend"]

logger = logging.getLogger(__name__)


class ScalarLoggerBackend(abc.ABC):
    """Where numbers go."""

    @abc.abstractmethod
    def report(self, log_message: str, name: str, run_type: str, step: int, rate_metrics: dict[str, float]) -> None:
        """Take numbers.

        Args:
            log_message: all of them, for people.
            name: of the table.
            run_type: "train" or "eval", or what else the caller says.
            step: batches of training so far.
            rate_metrics: the rates among them, by name.
        """


class ConsoleScalarLoggerBackend(ScalarLoggerBackend):
    """Writes messages to the log, and to a file.

    Args:
        log_file_path: the file, which messages are added to; none where empty.
    """

    def __init__(self, log_file_path: str = "") -> None:
        self._logger = logger
        if log_file_path:
            # Of the module's logger: messages of several tables go to one file, and to the log as well.
            self._logger = logging.getLogger(f"{__name__}.{log_file_path}")
            self._logger.setLevel(logging.INFO)
            if not self._logger.handlers:
                self._logger.addHandler(logging.FileHandler(log_file_path))

    def report(self, log_message: str, name: str, run_type: str, step: int, rate_metrics: dict[str, float]) -> None:
        """Write the message."""
        self._logger.info(log_message)


class ScalarLogger(nn.Module):
    """Counts what becomes of ids, and reports rates of it.

    Args:
        name: of the table.
        zch_size: rows.
        frequency: batches of training from one report to the next; in evaluation, each call reports.
        start_bucket: the first part of the rows that is here.
        num_buckets_per_rank: parts here.
        num_reserved_slots_per_bucket: of each part's rows, how many are shared by ids that are not opted in.
        device: of the count of batches.
        disable_fallback: whether ids without a row are left out.
        log_file_path: of the default backend.
        backend: where numbers go; a `ConsoleScalarLoggerBackend` by default.
    """

    _scalar_logger_steps: Tensor

    def __init__(
        self,
        name: str,
        zch_size: int,
        frequency: int,
        start_bucket: int,
        num_buckets_per_rank: int,
        num_reserved_slots_per_bucket: int,
        device: torch.device,
        disable_fallback: bool,
        log_file_path: str = "",
        backend: ScalarLoggerBackend | None = None,
    ) -> None:
        super().__init__()
        self._name, self._zch_size, self._frequency = name, zch_size, frequency
        self._start_bucket, self._num_buckets_per_rank = start_bucket, num_buckets_per_rank
        self._num_reserved_slots_per_bucket = max(num_reserved_slots_per_bucket, 0)
        self._device, self._disable_fallback = device, disable_fallback
        self._bucket_size = zch_size // max(num_buckets_per_rank, 1)
        self.register_buffer(
            "_scalar_logger_steps", torch.tensor(1, dtype=torch.int64, device=device), persistent=False
        )
        self._backend = backend or ConsoleScalarLoggerBackend(log_file_path)
        self._forget()

    def _forget(self) -> None:
        self._total_cnt = self._hit_cnt = self._insert_cnt = self._collision_cnt = 0
        self._eviction_cnt = self._opt_in_cnt = 0
        self._sum_eviction_age = 0.0

    def should_report(self) -> bool:
        """Whether `forward` would report: something was counted, and it is time."""
        if not self._total_cnt:
            return False
        if not self.training:
            return True
        return self._frequency > 0 and int(self._scalar_logger_steps) % self._frequency == 0

    @torch.no_grad()
    def update(
        self,
        identities_0: Tensor,
        identities_1: Tensor,
        values: Tensor,
        remapped_ids: Tensor,
        hit_indices: Tensor,
        evicted_emb_indices: Tensor | None,
        metadata: Tensor | None,
        eviction_config: HashZchEvictionConfig | None = None,
    ) -> None:
        """Count what became of a batch's ids.

        Args:
            identities_0: (rows, 1): the id of each row before the batch; -1 for none.
            identities_1: (rows, 1): likewise, after it.
            values: (L,) ids.
            remapped_ids: their rows; where ids without one are left out, of those at `hit_indices`.
            hit_indices: places of ids that have rows.
            evicted_emb_indices: rows that changed hands.
            metadata: (rows, 1): the hour, counted from 1970, until which the id of each row stayed before the batch.
            eviction_config: for how long ids stay.
        """
        self._total_cnt += values.numel()
        placed = values[hit_indices] if self._disable_fallback else values
        before, after = identities_0[remapped_ids, 0], identities_1[remapped_ids, 0]
        hits = int((before == placed).sum())
        inserts = int(((before != placed) & (after == placed)).sum())
        self._hit_cnt += hits
        self._insert_cnt += inserts
        self._collision_cnt += values.numel() - hits - inserts
        if self._bucket_size:
            opted = remapped_ids % self._bucket_size < self._bucket_size - self._num_reserved_slots_per_bucket
            self._opt_in_cnt += int(opted.sum())
        if evicted_emb_indices is None or not evicted_emb_indices.numel():
            return
        self._eviction_cnt += evicted_emb_indices.numel()
        if metadata is not None and eviction_config is not None:
            stayed = time.time() // 3600 - metadata.view(-1)[evicted_emb_indices].double() + _hours(eviction_config)
            self._sum_eviction_age += float(stayed.sum())

    def forward(self, run_type: str, identities: Tensor) -> None:
        """Report if it is time; in training, count the batch.

        Args:
            run_type: what the numbers are of, such as "train".
            identities: (rows, 1): the id of each row; -1 for none.
        """
        if self.should_report():
            self._report(run_type, identities)
            self._forget()
        if self.training:
            self._scalar_logger_steps += 1

    def _report(self, run_type: str, identities: Tensor) -> None:
        unused = int((identities[:, 0] == -1).sum())
        rates: dict[str, float] = {
            "hit_rate": self._hit_cnt / self._total_cnt,
            "insert_rate": self._insert_cnt / self._total_cnt,
            "collision_rate": self._collision_cnt / self._total_cnt,
            "eviction_rate": self._eviction_cnt / self._total_cnt,
            "opt_in_rate": self._opt_in_cnt / self._total_cnt,
            "avg_eviction_age": self._sum_eviction_age / self._eviction_cnt if self._eviction_cnt else 0,
            "table_usage_ratio": (self._zch_size - unused) / self._zch_size,
        }
        rates = {name: round(value, 3) for name, value in rates.items()}
        told = ", ".join(f"{name} {value:.4g}" for name, value in rates.items())
        message = f"table {self._name} ({run_type}): {self._total_cnt} ids, {told}, {unused} rows unused"
        self._backend.report(message, self._name, run_type, int(self._scalar_logger_steps), rates)


def _hours(config: HashZchEvictionConfig) -> int:
    """For how long an id stays that is not seen; the longest of those that differ by feature."""
    return config.single_ttl or max(config.per_feature_ttl or [0])
