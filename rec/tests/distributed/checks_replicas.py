"""Checks that groups of processes with a copy of the tables each train and are saved as one process does."""

from __future__ import annotations

import torch
import torch.distributed as dist
from checks_training import CPU, KERNELS, LR, Alone, Steps
from models import bag_tables, batch, plan, ranker
from processes import World

from flambeau.rec import checkpoint
from flambeau.rec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from flambeau.rec.distributed.model_parallel import DistributedModelParallel, DMPCollection, HybridEvalDMP
from flambeau.rec.distributed.types import DMPCollectionConfig, ShardingPlan, ShardingStrategy
from flambeau.rec.errors import OptionError
from flambeau.rec.fbgemm_gpu.split_embedding_configs import EmbOptimType

SGD = {"optimizer": EmbOptimType.EXACT_SGD, "learning_rate": LR}
KINDS = ["table_wise", "row_wise", "column_wise", "data_parallel"]


class Copies(Steps):
    """A ranker with a copy in each group of processes."""

    def __init__(self, world: World, size: int, kinds: list[str], fused=SGD, seed: int = 0, **options) -> None:
        placing = ShardingPlan(
            {"bags": plan(kinds, bag_tables(), size, min(size, options.get("node_group_size", size)))}
        )
        sharder = EmbeddingBagCollectionSharder(fused_params=dict(fused))
        model = DMPCollection(
            ranker(seed), CPU, placing, world.size, size, dist.group.WORLD, sharders=[sharder], **options
        )
        super().__init__(model, torch.optim.SGD if fused is SGD else torch.optim.Adagrad)


def local_parts(tensor):
    """Of a tensor of a state, the parts here, with where they lie."""
    return list(checkpoint._parts(tensor))


def assert_same(copies: Copies, wanted: dict[str, torch.Tensor], what: str) -> None:
    for name, tensor in copies.model.state_dict().items():
        for offsets, part in local_parts(tensor):
            place = tuple(slice(at, at + n) for at, n in zip(offsets, part.shape, strict=True))
            torch.testing.assert_close(
                part, wanted[name][place], rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{what}: {name}: {text}"
            )


def sizes(world: World) -> list[int]:
    return [size for size in (1, 2, 4) if size <= world.size]


def check_copies_that_are_made_equal_train_as_one_process_does(world: World):
    # The mean of one step of SGD from the same tables is the step of the mean of gradients.
    for size in sizes(world):
        for neighbours in (False, True):
            copies, alone = Copies(world, size, KINDS, use_inter_host_allreduce=neighbours), Alone(world)
            alone.optimizer = torch.optim.SGD(alone.model.parameters(), lr=LR)
            for step in range(4):
                wanted = alone.step(step)[world.rank]
                assert abs(copies.step(world.rank, step) - wanted) < 1e-5, f"{size}, step {step}"
                copies.model.sync()
            assert_same(copies, alone.model.state_dict(), f"groups of {size}, neighbours {neighbours}")


def check_tables_are_spread_over_hosts_in_each_group(world: World):
    if world.size < 4:
        return
    kinds = ["table_row_wise", "grid_shard"]
    # Processes of a host are others where groups are of neighbours, and others again after that.
    for neighbours in (False, True, False):
        copies = Copies(world, 2, kinds, node_group_size=2, use_inter_host_allreduce=neighbours)
        alone = Alone(world)
        alone.optimizer = torch.optim.SGD(alone.model.parameters(), lr=LR)
        for step in range(3):
            wanted = alone.step(step)[world.rank]
            assert abs(copies.step(world.rank, step) - wanted) < 1e-5
            copies.model.sync()
        assert_same(copies, alone.model.state_dict(), f"{kinds}, neighbours {neighbours}")


def check_what_optimizers_keep_becomes_equal_as_well(world: World):
    for states in (False, True):
        copies = Copies(world, 1, ["table_wise"], fused=KERNELS)
        copies.step(world.rank, 0)
        copies.model.sync(include_optimizer_state=states)
        for name, kept in copies.model.fused_optimizer.state_dict()["state"].items():
            for value in kept.values():
                for _, part in local_parts(value):
                    low, high = part.clone(), part.clone()
                    dist.all_reduce(low, dist.ReduceOp.MIN)
                    dist.all_reduce(high, dist.ReduceOp.MAX)
                    if states:
                        torch.testing.assert_close(low, high)
                    elif name.endswith("t2.weight"):
                        assert not torch.equal(low, high), "without, copies keep what they learned"


def check_a_hook_takes_the_place_of_the_sum(world: World):
    copies, seen = Copies(world, 1, ["table_wise"], fused=KERNELS), []
    copies.model.set_all_reduce_hook(seen.append)
    copies.model.sync()
    assert [len(one) for one in seen] == [4, 4]
    copies.model.sync(include_optimizer_state=False)
    assert len(seen) == 3


def check_copies_begin_equal(world: World):
    copies = Copies(world, 1, ["table_wise"], seed=world.rank)
    before = ranker(0).state_dict()
    for name, tensor in copies.model.state_dict().items():
        if "bags" in name:
            for _, part in local_parts(tensor):
                assert torch.equal(part, before[name])


def check_fully_sharded_copies_need_no_sync(world: World):
    copies = Copies(world, 1, ["table_wise"], sharding_strategy=ShardingStrategy.FULLY_SHARDED)
    alone = Alone(world)
    alone.optimizer = torch.optim.SGD(alone.model.parameters(), lr=LR)
    for step in range(3):
        wanted = alone.step(step)[world.rank]
        assert abs(copies.step(world.rank, step) - wanted) < 1e-5
    copies.model.ensure_reduce_scatter_complete()


def check_modules_of_a_class_have_groups_of_their_own(world: World):
    kinds = ["row_wise", "table_wise"]
    own = DMPCollectionConfig(
        module=type(ranker().bags),
        plan=ShardingPlan({"": plan(kinds, bag_tables(), world.size, world.size)}),
        sharding_group_size=world.size,
    )
    sharder = EmbeddingBagCollectionSharder(fused_params=dict(SGD))
    model = DMPCollection(
        ranker(), CPU, ShardingPlan({}), world.size, 1, dist.group.WORLD, sharders=[sharder], submodule_configs=[own]
    )
    assert dist.get_world_size(model.sharding_pg) == 1
    assert dist.get_world_size(model.module.bags._pg) == world.size
    before = ranker()
    for step in range(2):
        wanted = before(batch(world.rank, step)).item()
        assert abs(model(batch(world.rank, step)).item() - wanted) < 1e-5
    model.sync()


def check_copies_are_saved_once_and_loaded_by_others(world: World):
    copies, folder = Copies(world, 1, ["table_wise"], fused=KERNELS), world.folder / "copies"
    copies.step(world.rank, 0)
    copies.model.sync()
    checkpoint.save(copies.model, folder, copies.optimizer)
    plain = ranker(seed=4)
    checkpoint.load(plain, folder)
    assert_same(copies, plain.state_dict(), "one process")
    for size in sizes(world):
        other = Copies(world, size, ["row_wise", "column_wise"], fused=KERNELS, seed=3)
        checkpoint.load(other.model, folder, other.optimizer)
        assert_same(other, plain.state_dict(), f"groups of {size}")


def check_groups_that_do_not_divide_the_processes_are_refused(world: World):
    for size, fragment in ((world.size + 1, "expected a divisor"), (0, "expected a divisor")):
        try:
            DMPCollection(ranker(), CPU, ShardingPlan({}), world.size, size, dist.group.WORLD)
            raise AssertionError("it was made")
        except OptionError as error:
            assert fragment in str(error)
    placing = ShardingPlan({"bags": plan(["row_wise"], bag_tables(), 2, 2)})
    try:
        DMPCollection(ranker(), CPU, placing, world.size, 1, dist.group.WORLD)
        raise AssertionError("it was made")
    except OptionError as error:
        assert "on process 1; a sharding group has 1" in str(error)


def check_models_for_evaluation_share_tables_that_all_processes_have(world: World):
    placing = ShardingPlan({"bags": plan(["data_parallel", "table_wise"], bag_tables(), world.size, world.size)})
    model = HybridEvalDMP(ranker(), device=CPU, plan=placing, sharders=[EmbeddingBagCollectionSharder()])
    assert not model.training
    wanted = [model(batch(world.rank, step)).item() for step in range(2)]
    model.share_embedding_memory(dist.group.WORLD)
    assert [model(batch(world.rank, step)).item() for step in range(2)] == wanted
    table = model.state_dict()["bags.embedding_bags.t1.weight"]
    dist.barrier()
    if world.rank == 0:
        with torch.no_grad():
            table.fill_(3.0)
    dist.barrier()
    assert torch.equal(table, torch.full_like(table, 3.0)), "what one process writes all of them read"
    model.to(torch.float64)
    assert model.module.over.weight.dtype == torch.float64
    assert table.dtype == torch.float32, "tables are left alone"
    assert isinstance(model, DistributedModelParallel)
