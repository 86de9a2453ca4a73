"""What a planner promises: plans that fit, errors that help, plans that are found again."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.planner._proposals import Proposal, ProposalParts
from flambeau.rec.distributed.planner._search import Search
from flambeau.rec.distributed.planner._static_proposers import options_by_table
from flambeau.rec.distributed.planner.drawing import draw_plan
from flambeau.rec.distributed.planner.enumerators import EmbeddingEnumerator
from flambeau.rec.distributed.planner.partitioners import GreedyPerfPartitioner, MemoryBalancedPartitioner
from flambeau.rec.distributed.planner.perf_models import NoopPerfModel, NoopStorageModel
from flambeau.rec.distributed.planner.planners import EmbeddingShardingPlanner
from flambeau.rec.distributed.planner.proposers import (
    DynamicProgrammingProposer,
    GreedyProposer,
    GridSearchProposer,
    UniformProposer,
)
from flambeau.rec.distributed.planner.stats import EmbeddingStats, NoopEmbeddingStats
from flambeau.rec.distributed.planner.types import (
    ParameterConstraints,
    PlanLoader,
    PlannerError,
    PlannerErrorType,
    Proposer,
    ShardingOption,
    Topology,
)
from flambeau.rec.modules.embedding_configs import EmbeddingBagConfig
from flambeau.rec.modules.embedding_modules import EmbeddingBagCollection

SHARDERS: list[Any] = [EmbeddingBagCollectionSharder()]


def model(*shapes: tuple[int, int]) -> nn.Module:
    whole = nn.Module()
    whole.sparse = EmbeddingBagCollection(
        [
            EmbeddingBagConfig(name=f"t{i}", num_embeddings=rows, embedding_dim=columns, feature_names=[f"f{i}"])
            for i, (rows, columns) in enumerate(shapes)
        ],
        device=torch.device("meta"),
    )
    return whole


def planner(topology: Topology, **options: Any) -> EmbeddingShardingPlanner:
    return EmbeddingShardingPlanner(topology, **{"stats": NoopEmbeddingStats(), **options})


def used(plan: list[ShardingOption], devices: int) -> list[tuple[int, int]]:
    totals = [[0, 0] for _ in range(devices)]
    for option in plan:
        for shard in option.shards:
            assert shard.rank is not None
            assert shard.storage is not None
            totals[shard.rank][0] += shard.storage.hbm
            totals[shard.rank][1] += shard.storage.ddr
    return [(hbm, ddr) for hbm, ddr in totals]


SHAPES = st.lists(
    st.tuples(st.integers(1, 40_000_000), st.sampled_from([4, 16, 64, 128, 256, 384])), min_size=1, max_size=6
)
PROPOSERS = st.sampled_from([GreedyProposer, UniformProposer, DynamicProgrammingProposer])


@given(
    SHAPES,
    st.sampled_from([(1, 1), (4, 2), (8, 4)]),
    st.integers(20, 34),
    st.integers(24, 36),
    PROPOSERS,
    st.sampled_from([GreedyPerfPartitioner, MemoryBalancedPartitioner]),
)
@settings(max_examples=40)
def test_no_plan_gives_a_device_more_than_it_has(shapes, devices, hbm, ddr, proposer, partitioner):
    topology = Topology(devices[0], "cuda", hbm_cap=1 << hbm, ddr_cap=1 << ddr, local_world_size=devices[1])
    wanted = planner(topology, proposer=proposer(), partitioner=partitioner())
    try:
        wanted.plan(model(*shapes), SHARDERS)
    except PlannerError:
        return
    room = wanted._storage_reservation.last_reserved_topology.devices
    for (hbm_used, ddr_used), device in zip(used(wanted._best_plan, devices[0]), room, strict=True):
        assert hbm_used <= device.storage.hbm
        assert ddr_used <= device.storage.ddr


class Mindful(Proposer):
    """Proposes what another proposer does, but minds what comes of it, so that nothing may be passed over."""

    def __init__(self, proposer: Proposer) -> None:
        self.proposer = proposer

    def load(self, search_space, enumerator=None):
        self.proposer.load(search_space, enumerator)

    def propose(self):
        proposal = self.proposer.propose()
        return None if proposal is None else list(proposal)

    def feedback(self, partitionable, plan=None, perf_rating=None, storage_constraint=None):
        self.proposer.feedback(partitionable, plan, perf_rating, storage_constraint)


ALL_PROPOSERS: tuple[Any, ...] = (
    lambda: GridSearchProposer(max_proposals=300),
    GreedyProposer,
    lambda: GreedyProposer(use_depth=False),
    UniformProposer,
    lambda: DynamicProgrammingProposer(hbm_bins_per_device=10),
)


@given(
    SHAPES,
    st.sampled_from([(2, 2), (8, 4)]),
    st.integers(24, 33),
    st.lists(st.sampled_from(ALL_PROPOSERS), min_size=1, max_size=4),
    st.sampled_from([GreedyPerfPartitioner, MemoryBalancedPartitioner]),
)
@settings(max_examples=25)
def test_placing_the_most_promising_proposals_first_changes_no_plan(shapes, devices, hbm, proposers, partitioner):
    topology = Topology(devices[0], "cuda", hbm_cap=1 << hbm, ddr_cap=1 << 33, local_world_size=devices[1])
    options = EmbeddingEnumerator(topology, 512).enumerate(model(*shapes), SHARDERS)

    def search(proposers: list[Proposer]) -> Search:
        for proposer in proposers:
            proposer.load(copy.copy(options))
        found = Search(partitioner(), NoopPerfModel(topology), topology)
        found.run(proposers)
        return found

    fast, plain = search([make() for make in proposers]), search([Mindful(make()) for make in proposers])
    assert fast.best_rating == plain.best_rating
    assert [str(option) for option in fast.best_plan or ()] == [str(option) for option in plain.best_plan or ()]
    assert fast.num_proposals == plain.num_proposals
    assert fast.num_plans <= plain.num_plans
    assert fast.least_storage == plain.least_storage or fast.best_plan


def changed_proposals(shapes: list[tuple[int, int]], places: list[int]) -> list[Proposal]:
    """A proposal, then ones that come of it by changing one table after another."""
    options = EmbeddingEnumerator(Topology(4, "cuda"), 512).enumerate(model(*shapes), SHARDERS)
    tables = list(options_by_table(options).values())
    proposals = [Proposal([of_table[0] for of_table in tables], ProposalParts.of_all(options))]
    for number, place in enumerate(places):
        of_table = tables[place % len(tables)]
        proposals.append(proposals[-1].changed(place % len(tables), of_table[number % len(of_table)]))
    return proposals


@given(SHAPES, st.lists(st.integers(0, 100), max_size=8))
@settings(max_examples=20)
def test_a_proposal_made_anew_is_the_same(shapes, places):
    proposals = changed_proposals(shapes, places)
    for proposal in proposals:
        again = proposal.recipe()()

        assert list(map(id, again)) == list(map(id, proposal))
        assert (again.key, again.hbm, again.ddr, again.ssd) == (proposal.key, proposal.hbm, proposal.ddr, proposal.ssd)
        assert again.slowest_device() == proposal.slowest_device()
        assert again.largest_device() == proposal.largest_device()


@given(SHAPES, st.lists(st.integers(0, 100), max_size=8))
@settings(max_examples=20)
def test_no_plan_is_faster_or_smaller_than_its_proposal_says(shapes, places):
    topology = Topology(4, "cuda", hbm_cap=1 << 50, ddr_cap=1 << 50)
    for proposal in changed_proposals(shapes, places):
        plan = GreedyPerfPartitioner().partition(proposal, topology)

        assert proposal.slowest_device() <= NoopPerfModel(topology).rate(plan)
        assert proposal.largest_device().hbm <= NoopStorageModel(topology).rate(plan)


def test_two_proposals_can_come_of_one():
    first, second = changed_proposals([(1000, 16), (2000, 32)], [0])
    other = first.changed(1, second[1])

    assert list(map(id, other.recipe()())) == list(map(id, other))
    assert list(map(id, second.recipe()())) == list(map(id, second))


def test_hardly_any_proposal_for_many_tables_is_placed():
    topology = Topology(256, "cuda", hbm_cap=1 << 32, local_world_size=8)
    shapes = [(int(5e7 / (number + 1)) + 10, (64, 128, 256)[number % 3]) for number in range(100)]
    options = EmbeddingEnumerator(topology, 512).enumerate(model(*shapes), SHARDERS)
    proposers = [GreedyProposer(), UniformProposer()]
    for proposer in proposers:
        proposer.load(options)
    found = Search(GreedyPerfPartitioner(), NoopPerfModel(topology), topology)

    found.run(proposers)

    assert found.best_plan is not None
    assert found.num_proposals > 1000
    assert found.num_plans < 10


def test_the_error_names_the_table_that_does_not_fit_and_what_to_do():
    topology = Topology(2, "cuda", hbm_cap=1 << 30, ddr_cap=1 << 30)

    with pytest.raises(PlannerError) as caught:
        planner(topology).plan(model((100, 16), (900_000_000, 128), (5000, 8)), SHARDERS)

    message = str(caught.value)
    assert caught.value.error_type is PlannerErrorType.INSUFFICIENT_STORAGE
    assert "sparse.t1, (900000000, 128)" in message
    assert "fits in no way" in message
    assert "more devices than 2" in message


def test_tables_that_fit_together_but_not_apart_are_a_matter_of_constraints():
    topology = Topology(4, "cuda", hbm_cap=2 << 30)
    alone = ParameterConstraints(sharding_types=["table_wise"], compute_kernels=["fused"])
    shapes = [(2_300_000, 128)] * 5

    with pytest.raises(PlannerError) as caught:
        planner(topology, constraints={f"t{i}": alone for i in range(5)}).plan(model(*shapes), SHARDERS)

    assert caught.value.error_type is PlannerErrorType.STRICT_CONSTRAINTS
    assert "none can be divided among the devices" in str(caught.value)


def test_a_table_without_any_way_names_what_is_offered():
    constraints = {"t0": ParameterConstraints(sharding_types=["sideways"])}

    with pytest.raises(RuntimeError, match=r"Table t0 .* offers .*table_wise.* allow sharding types .*sideways"):
        planner(Topology(2, "cuda"), constraints=constraints).plan(model((10, 4)), SHARDERS)


def test_a_search_out_of_time_keeps_the_best_plan_so_far(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    found = planner(Topology(2, "cuda"), timeout_seconds=4, proposer=GreedyProposer())

    plan = found.plan(model((1000, 16), (2000, 32)), SHARDERS)

    assert set(plan.plan["sparse"]) == {"t0", "t1"}
    assert found._num_proposals == 2


def test_no_time_at_all_is_refused():
    with pytest.raises(ValueError, match="timeout_seconds is 0"):
        planner(Topology(2, "cuda"), timeout_seconds=0)


class Kept(PlanLoader):
    def __init__(self, plan: list[ShardingOption], context: str | None) -> None:
        self.plan, self.context = {option.storage_hash(): option for option in plan}, context

    def load(self):
        return self.plan

    def plan_context_hash(self):
        return self.context


def kept_plan() -> tuple[EmbeddingShardingPlanner, Any]:
    first = planner(Topology(2, "cuda"))
    return first, first.plan(model((1000, 16), (2000, 32)), SHARDERS)


def test_a_plan_that_was_kept_is_not_looked_for_again():
    first, made = kept_plan()
    loader = Kept(first._best_plan, first.hash_planner_context_inputs_str())
    second = planner(Topology(2, "cuda"), plan_loader=loader)

    assert str(second.plan(model((1000, 16), (2000, 32)), SHARDERS)) == str(made)
    assert second._num_proposals == 0


def test_a_plan_for_other_devices_is_refused():
    first, _ = kept_plan()
    loader = Kept(first._best_plan, first.hash_planner_context_inputs_str())

    with pytest.raises(PlannerError, match="made for something else") as caught:
        planner(Topology(4, "cuda"), plan_loader=loader).plan(model((1000, 16), (2000, 32)), SHARDERS)

    assert caught.value.error_type is PlannerErrorType.PLANNER_INPUT_CONTEXT_MISMATCH


def test_a_plan_with_tables_that_are_no_more_is_refused():
    first, _ = kept_plan()

    with pytest.raises(PlannerError, match=r"1 of 2 options .* not possible now"):
        planner(Topology(2, "cuda"), plan_loader=Kept(first._best_plan, None)).plan(model((1000, 16)), SHARDERS)


def test_the_context_hash_says_whether_a_plan_would_be_for_the_same():
    def context(topology: Topology, **options: Any) -> str:
        made = planner(topology, **options)
        made.plan(model((1000, 16)), SHARDERS)
        return made.hash_planner_context_inputs_str()

    same = context(Topology(2, "cuda"))
    assert same == context(Topology(2, "cuda"))
    assert same != context(Topology(2, "cuda", hbm_cap=1 << 30))
    assert same != context(Topology(2, "cuda"), batch_size=100)
    assert same != context(Topology(2, "cuda"), constraints={"t0": ParameterConstraints(pooling_factors=[2.0])})


def test_a_plan_is_as_callbacks_leave_it():
    made = planner(Topology(2, "cuda"), callbacks=[lambda plan: plan[:1]])

    assert set(made.plan(model((1000, 16), (2000, 32)), SHARDERS).plan["sparse"]) == {"t0"}


def test_a_model_without_tables_has_an_empty_plan():
    assert planner(Topology(2, "cuda")).plan(nn.Linear(2, 2), SHARDERS).plan == {}


def test_the_report_has_a_row_for_devices_with_the_same_load_and_one_for_each_table(caplog):
    stats = EmbeddingStats()
    caplog.set_level(logging.INFO)

    planner(Topology(64, "cuda", local_world_size=8), stats=stats).plan(model((1000, 16), (10**9, 32)), SHARDERS)

    text = str(stats)
    assert "0-63" in text or "0-7" in text
    assert "sparse.t1" in text
    assert "Critical path" in text
    assert "Imbalance" in text
    assert text.splitlines()[0] in caplog.text


def test_a_picture_has_a_bar_for_each_device_that_does_something():
    made = planner(Topology(4, "cuda", local_world_size=2))
    made.plan(model((1000, 16), (10**7, 32)), SHARDERS)

    picture = draw_plan(made._best_plan, made._topology)

    assert picture.startswith("<svg")
    assert "HBM of each device" in picture
    assert "Time of a step" in picture
    assert picture.count("<rect") > 4


def test_single_shards_are_what_is_written_to_them():
    options = EmbeddingEnumerator(Topology(8, "cuda"), 512).enumerate(model((1000, 16)), SHARDERS)
    option = next(one for one in options if one.sharding_type == "row_wise")
    before = option.total_storage.hbm
    hbm = option.shards[3].storage.hbm

    option.shards[3].storage = option.shards[3].storage + option.shards[3].storage

    assert option.total_storage.hbm == before + hbm
    assert copy.deepcopy(option).shards[3].storage.hbm == 2 * hbm


def test_grids_of_options_are_gone_through_unless_there_are_too_many():
    options = EmbeddingEnumerator(Topology(2, "cuda"), 512).enumerate(model((1000, 16), (10, 4)), SHARDERS)
    few, many = GridSearchProposer(max_proposals=10), GridSearchProposer()
    few.load(options)
    many.load(options)
    seen = 0
    while many.propose():
        seen += 1
        many.feedback(True)

    assert few.propose() is None
    assert seen == (len(options) // 2) ** 2
