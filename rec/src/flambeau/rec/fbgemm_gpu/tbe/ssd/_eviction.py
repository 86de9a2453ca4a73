"""Which rows of virtual tables leave, and when."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flambeau.rec.fbgemm_gpu.tbe.ssd._blocks import Rows
from flambeau.rec.fbgemm_gpu.tbe.ssd._tiers import TieredTables
from flambeau.rec.fbgemm_gpu.tbe.ssd.ssd_config import EvictionPolicy

__all__ = ["free_memory_gb", "is_due", "leaving"]

_NEVER, _STEPS, _MEMORY, _ASKED, _COUNT, _FREE_MEMORY = range(6)
_OLD, _RARE, _RARE_AND_OLD, _SHORT, _STAMPED, _SCORED = range(6)


def free_memory_gb() -> float:
    """Memory of the machine that programs can still have, in GiB; infinite where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found = {name: rest for name, _, rest in (line.partition(":") for line in lines)}
        return int(found["MemAvailable"].split()[0]) / 2**20
    except (OSError, KeyError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (ValueError, OSError, AttributeError):
        return float("inf")


def is_due(policy: EvictionPolicy, tables: TieredTables, step: int) -> bool:
    """Whether rows are to leave after a step."""
    mode = policy.eviction_trigger_mode
    if mode == _STEPS:
        return step % (policy.eviction_step_intervals or 1) == 0
    if mode == _MEMORY:
        taken = sum(len(ids) * tables.forms[table].record_bytes for table, ids in tables.ids.items())
        return taken > (policy.eviction_mem_threshold_gb or 0) * 2**30
    if mode == _COUNT:
        most = policy.training_id_eviction_trigger_count or []
        return any(len(ids) > limit for ids, limit in zip(tables.ids.values(), most, strict=False))
    if mode == _FREE_MEMORY:
        interval = policy.eviction_free_mem_check_interval_batch or 1
        return step % interval == 0 and free_memory_gb() < (policy.eviction_free_mem_threshold_gb or 0)
    return False


def leaving(policy: EvictionPolicy, tables: TieredTables, table: int) -> Rows:
    """The rows of a virtual table that leave; of the policy's entries, those of the table.

    Counts and scores decay by their rates where rows leave by them.
    """
    ids = tables.ids[table]
    at = list(tables.ids).index(table)
    rows, facts = ids.rows(), ids.facts
    strategy = policy.eviction_strategy
    none = np.zeros(len(rows), np.bool_)

    def of_table(entries: list[float] | list[int] | list[bool] | None) -> float:
        return (entries or [0])[at]

    def rare() -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = facts["count"][rows] < of_table(policy.counter_thresholds)
        ids.decay(of_table(policy.counter_decay_rates))
        return found

    def old() -> npt.NDArray[np.bool_]:
        limit = of_table(policy.ttls_in_mins)
        if not limit:
            return none
        found: npt.NDArray[np.bool_] = facts["minute"][rows] < time.time() // 60 - limit
        return found

    if strategy in (_OLD, _STAMPED):
        chosen = old()
    elif strategy == _RARE:
        chosen = rare()
    elif strategy == _RARE_AND_OLD:
        chosen = rare() & old()
    elif strategy == _SHORT:
        norms = tables.read_part(table, rows, 0).float().norm(dim=1).numpy()
        chosen = norms < of_table(policy.l2_weight_thresholds)
    else:
        chosen = none.copy()
        keep = int(of_table(policy.training_id_keep_count))
        if of_table(policy.enable_eviction_for_feature_score_eviction_policy) and len(rows) > keep:
            chosen[np.argsort(facts["score"][rows], kind="stable")[: len(rows) - keep]] = True
        ids.decay(of_table(policy.feature_score_counter_decay_rates))
    return rows[chosen]
