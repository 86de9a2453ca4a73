"""Replay buffers do what torchrl's do: the same places, draws from the same seeds, and errors.

torchrl's compiled segment trees do not load beside every torch; a plain tree of ours stands in for them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from flambeau.core.testing.differential import Suite, cross

pytest.importorskip("torchrl", reason="needs torchrl; `nox -s parity -- peers rl` has it")

from torchrl.data.replay_buffers.samplers import prioritized

SUITE = Suite(
    "replay",
    ours="flambeau.rl.data",
    peer="torchrl.data",
    roots=("flambeau.rl", "torchrl", "flambeau.data.tensordict", "tensordict"),
    differences=Path(__file__).with_name("differences.toml"),
)


class Tree:
    """An array with the queries of a segment tree."""

    dtype: type = np.float32
    identity = 0.0

    def __init__(self, size):
        self.values = np.full(size, self.identity, self.dtype)

    def __getitem__(self, index):
        return torch.as_tensor(self.values[np.asarray(index)])

    def __setitem__(self, index, value):
        places = np.asarray(index).reshape(-1)
        for place, each in zip(places, np.broadcast_to(np.asarray(value).reshape(-1), places.shape), strict=True):
            self.values[place] = each

    def query(self, left, right):
        part = self.values[left:right]
        return float(self.join(part)) if len(part) else self.identity

    def scan_lower_bound(self, value):
        return torch.as_tensor(np.searchsorted(np.cumsum(self.values), np.asarray(value, self.dtype), side="left"))


class Sum(Tree):
    join = staticmethod(np.sum)


class Min(Tree):
    identity = float(np.finfo(np.float32).max)
    join = staticmethod(np.min)


@pytest.fixture(autouse=True, scope="module")
def _trees_for_the_peer():
    patch = pytest.MonkeyPatch()
    install(patch)
    yield
    patch.undo()


def install(patch):
    """Let the peer use the plain trees."""
    for name, base in (("Sum", Sum), ("Min", Min)):
        for width, dtype in ((32, np.float32), (64, np.float64)):
            kind = type(f"{name}Tree{width}", (base,), {"dtype": dtype})
            patch.setattr(prioritized, f"{name}SegmentTreeFp{width}", kind)


def rows(library, count, ends=(), start=0):
    """Rows of trajectories, made with the library's own tensordict."""
    module = "flambeau.data.tensordict" if library.ours else "tensordict"
    tensordict = __import__(module, fromlist=["TensorDict"]).TensorDict
    done = torch.zeros(count, 1, dtype=torch.bool)
    done[list(ends)] = True
    steps = torch.arange(start, start + count)
    follows = {"obs": steps[:, None] + 1.0, "reward": steps[:, None] / 2, "done": done, "terminated": done.clone()}
    content = {"obs": steps[:, None].float(), "traj": done.flatten().cumsum(0) - done.flatten().long(), "next": follows}
    return tensordict(content, [count])


DATA = {
    "short": lambda library: rows(library, 3, [1]),
    "full": lambda library: rows(library, 8, [2, 5]),
    "wraps": lambda library: rows(library, 11, [2, 5, 9]),
    "laps": lambda library: rows(library, 20, [4, 5, 11, 16]),
    "tensor": lambda library: torch.arange(12.0).reshape(6, 2),
}
STORAGES = {
    "list": "ListStorage(8)",
    "lazy": "LazyTensorStorage(8)",
    "memmap": "LazyMemmapStorage(8)",
    "stack": "LazyStackStorage(8)",
}
PROGRAMS = [
    "i = rb.extend(d); (i, len(rb), rb.write_count, flat(rb[:]))",
    "rb.extend(d); rb.extend(d[:3]); (rb._writer._cursor, flat(rb[:]))",
    "i = rb.add(d[0]); j = rb.add(d[1]); (i, j, len(rb), flat(rb[0]))",
    "rb.extend(d); rb.add(d[1]); (len(rb), rb._writer._cursor)",
    "rb.extend(d); flat(rb[1])",
    "rb.extend(d); flat(rb[1:3])",
    "rb.extend(d); flat(rb[[0, 2]])",
    "rb.extend(d); flat(rb[torch.tensor([2, 0])])",
    "rb.extend(d); rb[20]",
    "rb.extend(d); rb[0] = d[1]; flat(rb[:])",
    "rb.extend(d); rb.empty(); (len(rb), rb._writer._cursor, rb.write_count)",
    "rb.extend(d); rb.empty(); rb.sample(2)",
    "rb.extend(d[:0])",
    "rb.extend(d); rb._writer.state_dict()",
    "rb.sample(2)",
    "rb.extend(d); rb.sample()",
    "rb.extend(d); flat(rb.sample(5))",
    "rb.extend(d); rb.set_rng(torch.Generator().manual_seed(3)); flat(rb.sample(5))",
    "rb.extend(d); x, info = rb.sample(4, return_info=True); (flat(x), info)",
]
SAMPLERS = {
    "random": "RandomSampler()",
    "without": "SamplerWithoutReplacement()",
    "ordered": "SamplerWithoutReplacement(shuffle=False)",
    "dropping": "SamplerWithoutReplacement(drop_last=True)",
    "prioritized": "PrioritizedSampler(8, 0.7, 0.5)",
    "prioritized64": "PrioritizedSampler(8, 1.0, 0.9, dtype=torch.float64)",
    "slices": "SliceSampler(num_slices=2)",
    "slice_len": "SliceSampler(slice_len=2, end_key=('next', 'done'))",
    "by_traj": "SliceSampler(slice_len=2, traj_key='traj')",
    "loose": "SliceSampler(slice_len=4, strict_length=False)",
    "padded": "SliceSampler(slice_len=4, strict_length=False, pad_output=True)",
    "spanning": "SliceSampler(slice_len=2, span=(True, False))",
    "span_one": "SliceSampler(slice_len=2, span=1)",
    "unmarked": "SliceSampler(slice_len=2, truncated_key=None)",
    "slices_once": "SliceSamplerWithoutReplacement(num_slices=2)",
    "slice_len_once": "SliceSamplerWithoutReplacement(slice_len=2, shuffle=False)",
    "by_traj_once": "SliceSamplerWithoutReplacement(slice_len=2, traj_key='traj')",
    "loose_once": "SliceSamplerWithoutReplacement(slice_len=4, strict_length=False)",
    "slices_weighed": "PrioritizedSliceSampler(8, 0.7, 0.5, num_slices=2)",
    "slice_len_weighed": "PrioritizedSliceSampler(8, 1.0, 0.9, slice_len=4, strict_length=False)",
    "streaming": "StreamingSliceSampler(slice_len=2)",
    "consuming": "ConsumingSampler()",
    "consuming_twice": "ConsumingSampler(2)",
    "stale": "StalenessAwareSampler(version_key='traj')",
    "fresh": "StalenessAwareSampler(2, lambda s: s + 1.0, 'traj')",
    "prompts": "PromptGroupSampler(num_groups=2, group_key='traj')",
    "prompts_recent": "PromptGroupSampler(samples_per_group=2, group_key='traj', strategy='recency')",
    "prompts_best": "PromptGroupSampler(samples_per_group=2, group_key='traj', strategy='reward')",
    "prompts_varied": "PromptGroupSampler(samples_per_group=2, group_key='traj', strategy='variance')",
}
DRAWS = [
    "rb.extend(d); flat(rb.sample())",
    "rb.extend(d); x, info = rb.sample(return_info=True); {str(k): info[k] for k in info}",
    "rb.extend(d); [flat(rb.sample()) for _ in range(4)]",
    "rb.extend(d); rb.extend(d[:3]); flat(rb.sample())",
    "rb.extend(d); a = flat(rb.sample()); rb.add(d[0]); (a, flat(rb.sample()))",
    "rb.extend(d); rb.set_rng(torch.Generator().manual_seed(3)); flat(rb.sample())",
    "rb.sample()",
    "rb.extend(d); rb.update_priority(torch.arange(3), torch.tensor([1.0, 2.0, 3.0])); flat(rb.sample())",
    "rb.extend(d); rb.update_priority(torch.arange(3), torch.tensor([1.0, 2.0])); 0",
    "rb.extend(d); rb.update_priority(torch.arange(3), torch.tensor([1.0, -2.0, 3.0])); flat(rb[:])",
    "rb.extend(d); rb.sampler.ran_out",
]
VERSIONS = [
    "rb.extend(d); [rb.sampler.increment_consumer_version() for _ in range(3)]; x, i = rb.sample(return_info=True); "
    "(flat(x), i['staleness'])",
    "rb.extend(d); [rb.sampler.increment_consumer_version() for _ in range(3)]; flat(rb.sample(20))",
    "rb.extend(d); rb.sampler.consumer_version = 30; rb.sampler.max_staleness = 2; rb.sample()",
    "rb.sampler.state_dict(), repr(rb.sampler), rb.sampler.max_staleness",
]


def flat(value):
    """What a batch holds, as plain values."""
    if isinstance(value, torch.Tensor):
        return torch.as_tensor(value).clone().as_subclass(torch.Tensor)
    return [
        (str(key), torch.as_tensor(each).clone())
        for key, each in sorted(value.items(True, True), key=lambda e: str(e[0]))
    ]


def kinds(buffers, data):
    return {
        f"{name}/{which}": {"rb": text, "d": build} for name, text in buffers.items() for which, build in data.items()
    }


LENT = {"torch": torch, "flat": flat}
ANY = {name: f"ReplayBuffer(storage={text})" for name, text in STORAGES.items()}
SUITE.add(*cross("storing", kinds(ANY, DATA), PROGRAMS, names=LENT))
SAMPLED = {
    name: f"TensorDictReplayBuffer(storage=LazyTensorStorage(8), sampler={text}, batch_size=4)"
    for name, text in SAMPLERS.items()
}
STALE = {name: SAMPLED[name] for name in ("stale", "fresh")}
TENSORDICTS = {name: DATA[name] for name in ("full", "wraps")}
SUITE.add(*cross("drawing", kinds(SAMPLED, TENSORDICTS), DRAWS, names=LENT))
SUITE.add(*cross("versions", kinds(STALE, TENSORDICTS), VERSIONS, names=LENT))
ENDS = {
    "some": [0, 0, 1, 0, 0, 0, 1, 0],
    "last": [0, 0, 1, 0, 0, 0, 1, 1],
    "none": [0] * 8,
    "all": [1] * 8,
    "first": [1, 0, 0],
}
SUITE.add(
    *cross(
        "ends",
        {name: {"e": lambda library, each=each: torch.tensor(each)} for name, each in ENDS.items()},
        [
            f"find_start_stop_traj({which}, at_capacity={full}, cursor={cursor})"
            for which in (
                "end=e.bool()",
                "end=e.bool()[:, None].expand(-1, 2)",
                "trajectory=e.cumsum(0)",
                "trajectory=e",
            )
            for full, cursors in ((False, (None,)), (True, (None, 0, 2, "range(1, 3)")))
            for cursor in cursors
        ],
        names=LENT,
    )
)
PROCESSED = {"some": lambda library: rows(library, 8, [2, 5]), "none": lambda library: rows(library, 5)}
SUITE.add(
    *cross(
        "processing",
        {name: {"d": build} for name, build in PROCESSED.items()},
        [
            *(f"flat(MultiStep({gamma}, {steps})({d}))" for gamma in (0.9, 1.0) for steps in (1, 3, 20)
              for d in ("d", "d.unsqueeze(0)", "d.expand(2, *d.shape)")),
            "MultiStep(0.9, 3).state_dict()", "MultiStep(1.9, 3)", "MultiStep(0.9, 0)",
            *(f"flat(DensifyReward({args})({d}))" for args in ("", "discount=0.5", "reward_key_out='r'", "time_dim=0")
              for d in ("d", "d.unsqueeze(0)") if not ("=0" in args and "un" in d and "time" in args)),
            "BinaryToDecimal(2, 'cpu', torch.int64)(torch.tensor([[1, 0, 1, 1], [0, 1, 0, 0]]))",
            "BinaryToDecimal(4, 'cpu', torch.int32, True)(torch.tensor([[1.0, -2, 0.5, 0]]))",
            "BinaryToDecimal(3, 'cpu', torch.int32)(torch.tensor([[1, 0, 1, 1]]))",
            "SipHash(as_tensor=False)(d['obs'])", "SipHash()(d['obs']).shape", "RandomProjectionHash()(d['obs']).dtype",
            "RandomProjectionHash(n_components=3).n_components",
            "QueryModule(['obs'])(d)['_index']", "QueryModule(['obs', 'traj'], index_key='_index')(d)['_index']",
            "q = QueryModule(['traj']); (q.in_keys, q.out_keys, q(d)['_index'], q(d, extend=False)['_index'])",
        ],
        names=LENT,
    )
)  # fmt: skip
GOALS = (
    "rb = HERReplayBuffer(lambda td: td['desired_goal'] - td['next', 'obs'], storage=LazyTensorStorage(8), "
    "batch_size=12, achieved_goal_key='obs', {}); rb.extend(d.set('desired_goal', d['obs'] * 0 - 9)); flat(rb.sample())"
)
SUITE.add(
    *cross(
        "goals",
        {name: {"d": DATA[name]} for name in ("short", "full", "wraps")},
        [GOALS.format(f"strategy='{which}', her_ratio=1.0") for which in ("future", "final", "episode", "random")]
        + [GOALS.format(f"her_ratio={ratio}") for ratio in (0.0, 0.3, 0.8, 1.5)]
        + [GOALS.format("strategy='past'")],
        names=LENT,
    )
)


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
