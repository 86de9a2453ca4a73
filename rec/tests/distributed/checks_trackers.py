"""Checks of what trackers tell of rows that batches looked up."""

from __future__ import annotations

import torch
from checks_training import CPU, KERNELS, env, local
from models import POOLED_KINDS, SEQUENCE_KINDS, bag_tables, bags, batch, plan, sequence_tables, sequences
from processes import World
from torch import nn

from flambeau.rec.distributed.embedding import EmbeddingCollectionSharder
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.model_parallel import DistributedModelParallel
from flambeau.rec.distributed.model_tracker.types import DeltaTrackerConfig, TrackingMode
from flambeau.rec.distributed.types import ShardingPlan
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType


class Inside(nn.Module):
    def __init__(self, tables: nn.Module) -> None:
        super().__init__()
        self.tables = tables

    def forward(self, features):
        return self.tables(features)


def made(world: World, kind: str, pooled: bool, optimizer=EmbOptimType.EXACT_SGD, **config):
    kernels = {**KERNELS, "optimizer": optimizer}
    tables = bag_tables() if pooled else sequence_tables()
    sharder = (EmbeddingBagCollectionSharder if pooled else EmbeddingCollectionSharder)(fused_params=kernels)
    placing = ShardingPlan({"tables": plan([kind], tables, world.size, local(world))})
    model = DistributedModelParallel(Inside(bags() if pooled else sequences()), env(), CPU, placing, [sharder])
    return model, model.init_torchrec_delta_tracker(DeltaTrackerConfig(**config))


def step(model, world: World, number: int, pooled: bool) -> None:
    found = model(batch(world.rank, number))
    rows = [found.values()] if pooled else [one.values() for one in found.wait().values()]
    sum((one**2).sum() for one in rows).backward()


def rows_of_plan(model, name: str) -> tuple[int, int]:
    """First row, and rows, of the part of a table on this process."""
    for kernel in model.module.tables._kernels():
        for table in kernel.config.embedding_tables:
            if table.name == name and table.local_metadata is not None:
                return table.local_metadata.shard_offsets[0], table.local_rows
            if table.name == name:
                return 0, table.local_rows
    return 0, 0


def expected_ids(world: World, model, kind: str, table, numbers: list[int]) -> list[int]:
    ranks = [world.rank] if kind == "data_parallel" else range(world.size)
    begin, count = rows_of_plan(model, table.name)
    ids = set()
    for rank in ranks:
        for number in numbers:
            for feature in table.feature_names:
                ids |= set(batch(rank, number)[feature].values().tolist())
    return sorted(one - begin for one in ids if begin <= one < begin + count)


def check_all_rows_that_batches_look_up_are_told(world: World):
    for pooled, kinds in ((True, POOLED_KINDS), (False, SEQUENCE_KINDS)):
        for kind in kinds:
            model, tracker = made(world, kind, pooled)
            tables = bag_tables() if pooled else sequence_tables()
            for number in range(3):
                step(model, world, number, pooled)
            found = tracker.get_unique_ids()
            inside = "embedding_bags" if pooled else "embeddings"
            for table in tables:
                wanted = expected_ids(world, model, kind, table, [0, 1, 2])
                got = found.get(f"tables.{inside}.{table.name}")
                assert ([] if got is None else got.tolist()) == wanted, f"{kind}, {table.name}"
            assert tracker.get_unique_ids() == {}, "what was given is not given again"
            assert tracker.fqn_to_feature_names()[f"tables.{inside}.t2"] == ["f2", "f3"]
            assert list(tracker.get_tracked_modules()) == ["tables"]


def check_each_consumer_is_given_what_is_new_to_it(world: World):
    model, tracker = made(world, "row_wise", False, consumers=["saving", "serving"])
    table = sequence_tables()[0]
    name = "tables.embeddings.t1"

    def told(consumer: str) -> list[int]:
        found = tracker.get_unique_ids(consumer)
        return found[name].tolist() if name in found else []

    step(model, world, 0, False)
    assert told("saving") == expected_ids(world, model, "row_wise", table, [0])
    step(model, world, 1, False)
    assert told("saving") == expected_ids(world, model, "row_wise", table, [1])
    assert told("serving") == expected_ids(world, model, "row_wise", table, [0, 1])
    assert tracker.store.per_fqn_lookups == {}, "what all consumers have is forgotten"
    step(model, world, 2, False)
    tracker.clear("saving")
    assert told("saving") == []
    assert told("serving") == expected_ids(world, model, "row_wise", table, [2])
    try:
        tracker.get_unique_ids("nobody")
        raise AssertionError("nobody was told")
    except OptionError as error:
        assert "choose one of ['saving', 'serving']" in str(error)


def check_embeddings_are_those_before_the_first_change(world: World):
    for kind in SEQUENCE_KINDS[1:]:
        for compact in (False, True):
            model, tracker = made(
                world, kind, False, tracking_mode=TrackingMode.EMBEDDING, auto_compact=compact, delete_on_read=False
            )
            before = sequences().state_dict()
            for number in range(3):
                step(model, world, number, False)
            for name, rows in tracker.get_unique().items():
                table = name.rpartition(".")[2]
                begin, _ = rows_of_plan(model, table)
                whole = before[f"embeddings.{table}.weight"]
                shards = [
                    one.local_metadata.shard_offsets[1]
                    for kernel in model.module.tables._kernels()
                    for one in kernel.config.embedding_tables
                    if one.name == table
                ]
                width = rows.states.shape[1] // len(shards)
                wanted = torch.cat([whole[rows.ids + begin, at : at + width] for at in shards], 1)
                assert torch.equal(rows.states, wanted), f"{kind}, {name}, compact {compact}"


def check_changes_of_what_optimizers_keep_are_told(world: World):
    for kind in ("table_wise", "row_wise", "column_wise"):
        for pooled in (False, True):
            for mode, optimizer in (
                (TrackingMode.ROWWISE_ADAGRAD, EmbOptimType.EXACT_ROWWISE_ADAGRAD),
                (TrackingMode.MOMENTUM_DIFF, EmbOptimType.EXACT_ADAGRAD),
                (TrackingMode.MOMENTUM_LAST, EmbOptimType.ADAM),
            ):
                model, tracker = made(world, kind, pooled, optimizer, tracking_mode=mode, delete_on_read=False)
                step(model, world, 0, pooled)
                middle = {name: value.clone() for name, value in tracker.get_latest().items()}
                step(model, world, 1, pooled)
                latest, found = tracker.get_latest(), tracker.get_unique(None)
                assert set(found) <= set(latest)
                for name, rows in found.items():
                    if mode is TrackingMode.MOMENTUM_LAST:
                        seen = _second(tracker, name)
                        wanted = middle[name][seen]
                        got = rows.states[torch.isin(rows.ids, seen)]
                        assert torch.equal(got, wanted), f"{kind}, {mode}, {name}"
                    else:
                        # They are 0 before the first step.
                        assert torch.equal(rows.states, latest[name][rows.ids]), f"{kind}, {mode}, {name}"


def _second(tracker, name: str) -> torch.Tensor:
    """Rows that the second batch looked up."""
    lookups = tracker.store.per_fqn_lookups[name]
    ids = [one.ids for one in lookups if one.batch_idx == tracker.curr_batch_idx]
    return torch.cat(ids).unique() if ids else torch.empty(0, dtype=torch.int64)


def check_the_rows_that_changed_most_are_told_alone(world: World):
    for top, ordered in ((0.5, True), (0.5, False), (1.0, False)):
        given = {"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD, "tracking_mode": TrackingMode.ROWWISE_ADAGRAD}
        model, tracker = made(world, "table_wise", False, **given, delete_on_read=False, consumers=["a", "b"])
        for number in range(2):
            step(model, world, number, False)
        every, some = tracker.get_unique("a"), tracker.get_unique("b", top_percentage=top, sorted_by_indices=ordered)
        for name, rows in some.items():
            whole = every[name]
            count = round(top * len(whole.ids))
            assert len(rows.ids) == count
            assert sorted(rows.states.tolist()) == sorted(whole.states.tolist())[len(whole.ids) - count :]
            order = rows.ids.tolist() if ordered else [-one for one in rows.states.tolist()]
            assert order == sorted(order)


def check_what_is_not_tracked_is_left_out_or_refused(world: World):
    model, tracker = made(world, "table_wise", False, fqns_to_skip=["tables.embeddings.t1"])
    step(model, world, 0, False)
    assert "tables.embeddings.t1" not in tracker.get_unique_ids()
    model, tracker = made(world, "table_wise", False, fqns_to_skip=["tables"])
    step(model, world, 0, False)
    assert tracker.get_unique_ids() == {}
    assert model.get_delta_tracker() is tracker
    for pooled, mode, fragment in (
        (True, TrackingMode.EMBEDDING, "pools its embeddings"),
        (False, TrackingMode.MOMENTUM_LAST, "does not keep"),
        (False, TrackingMode.ROWWISE_ADAGRAD, "does not keep"),
    ):
        try:
            made(world, "row_wise", pooled, tracking_mode=mode)
            raise AssertionError(f"{mode} is tracked")
        except OptionError as error:
            assert fragment in str(error), error
