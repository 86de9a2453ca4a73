"""Managed collisions beside torchrec's: which ids have which rows, batch after batch."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from part_of import part_of
from sparse_describing import describe_sparse

from flambeau.core.testing.differential import Cell, Suite
from flambeau.core.testing.fill import integers, tensor

pytest.importorskip("torchrec", reason="needs torchrec; `nox -s parity -- peers rec` has it")

SUITE = Suite(
    "collision",
    ours="flambeau.rec",
    peer="torchrec",
    roots=("flambeau.rec", "torchrec"),
    differences=Path(__file__).with_name("differences.toml"),
    describers=[describe_sparse],
)
BATCHES = {
    "short": [[10, 20, 10], [30, 20, 10], [40, 50, 60, 60], [60, 60, 70], [10, 20], [70, 70, 80], [5], [5, 5, 10]],
    "random": [integers(f"b{at}", (12,), 9).tolist() for at in range(8)],
    "wide": [(integers(f"w{at}", (20,), 40) ** 2).tolist() for at in range(9)],
    "empty": [[], [3, 3, 1], [], [1]],
    "same": [[7, 8, 9]] * 6,
}
POLICIES = {
    "lfu": "LFU_EvictionPolicy()",
    "lru": "LRU_EvictionPolicy()",
    "lru-decay": "LRU_EvictionPolicy(decay_exponent=2.0)",
    "distance": "DistanceLFU_EvictionPolicy()",
    "distance-decay": "DistanceLFU_EvictionPolicy(decay_exponent=0.5)",
    "filtered": "LFU_EvictionPolicy(average_threshold_filter)",
    "filtered-distance": "DistanceLFU_EvictionPolicy(threshold_filtering_func=average_threshold_filter)",
    "filtered-lru": "LRU_EvictionPolicy(threshold_filtering_func=lambda counts: dynamic_threshold_filter(counts, 1.0))",
}


def module(library, policy, size=4, interval=1, **options):
    mc = part_of(library, "modules.mc_modules")
    made = eval(policy, dict(vars(mc)))
    return mc.MCHManagedCollisionModule(
        zch_size=size, device=torch.device("cpu"), eviction_policy=made, eviction_interval=interval,
        input_hash_size=10000, **options,
    )  # fmt: skip


def jagged(library, values):
    made = part_of(library, "sparse.jagged_tensor").JaggedTensor
    return made(torch.tensor(values, dtype=torch.int64), lengths=torch.tensor([len(values), 0]))


def follow(library, made, batches):
    """What each batch is mapped to, what was evicted, and what is kept."""
    seen = []
    for values in batches:
        rows = made({"f": jagged(library, values)})["f"]
        state = {name: value.clone() for name, value in made.state_dict().items()}
        seen.append([rows, made.evict(), made.open_slots(), state])
    made.eval()
    return [seen, made({"f": jagged(library, [10, 7, 999])})["f"], made.evict()]


for _policy, _text in POLICIES.items():
    for _name, _batches in BATCHES.items():
        for _size, _interval in ((4, 1), (4, 2), (7, 3), (2, 1)):
            SUITE.add(
                Cell(
                    f"mapping/{_policy}/{_name}/{_size} rows/every {_interval}",
                    "mapping",
                    lambda library, given, text=_text, size=_size, interval=_interval, batches=_batches: follow(
                        library, module(library, text, size, interval), batches
                    ),
                )
            )

PROGRAMS = [
    "[made.input_size(), made.output_size(), made.buckets(), made.open_slots(), made.device, made.readable_suffix]",
    "made.state_dict()",
    "[name for name, _ in made.named_buffers()]",
    "module(library, LFU, output_global_offset=100)({'f': jagged(library, [5, 6])})",
    "module(library, LFU, input_hash_func=lambda v, s: v * 2 % s).preprocess({'f': jagged(library, [5, 6000])})",
    "made.preprocess({'f': jagged(library, [5, 6000])})",
    "made.eval()({'f': jagged(library, [5, 6000])})",
    "(lambda m: [m, m.state_dict(), m.output_size(), m.buckets(), m({'f': jagged(library, [1, 2])})])"
    "(module(library, LFU, 8, output_segments=[0, 4, 8], buckets=2).rebuild_with_output_id_range((4, 8), [4, 8]))",
    "[made({'f': jagged(library, [5])}), made({'f': jagged(library, [6, 6])}), made.evict(), made.evict()]",
    "[made({'f': jagged(library, [5])}), other.load_state_dict(made.state_dict()), other({'f': jagged(library, [6])}), "
    "other.state_dict()]",
    "made({'f': jagged(library, [5]), 'g': jagged(library, [6, 5])})",
    "mc.apply_mc_method_to_jt_dict(made, 'forward', {'f': jagged(library, [5])})",
    "made.validate_state()",
    "module(library, LFU, 8, output_segments=[0, 3, 6]).validate_state()",
    "module(library, LFU, output_segments=list(range(2000)))",
    "mc.average_threshold_filter(torch.tensor([1, 5, 3]))",
    "mc.dynamic_threshold_filter(torch.tensor([1, 5, 300]))",
    "mc.dynamic_threshold_filter(torch.tensor([1, 5, 300]), 1.0)",
    "mc.probabilistic_threshold_filter(torch.tensor([1, 5, 300]), 0.1)",
    "mc.probabilistic_threshold_filter(torch.tensor([1, 5, 300]))",
    "[mc.LFU_EvictionPolicy().metadata_info, mc.LRU_EvictionPolicy().metadata_info, "
    "mc.DistanceLFU_EvictionPolicy().metadata_info]",
    "mc.DistanceLFU_EvictionPolicy().coalesce_history_metadata(4, {'last_access_iter': torch.tensor([1, 2, 3])}, "
    "torch.tensor([2, 1]), torch.tensor([0, 1, 0]), threshold_mask=torch.tensor([True, False]))",
    "mc.LRU_EvictionPolicy().coalesce_history_metadata(4, {'last_access_iter': torch.tensor([1, 2, 3])}, "
    "torch.tensor([2, 1, 1]), torch.tensor([0, 1, 0, 2]), additional_ids=torch.tensor([9]))",
    "collection(features)",
    "[collection(features), collection.evict(), collection.open_slots(), collection.table_to_number_buckets()]",
    "collection.state_dict()",
    "[one.name for one in collection.embedding_configs()]",
    "collection(heavy)",
    "mc.ManagedCollisionCollection({'t1': module(library, LFU)}, tables)",
    "mc.ManagedCollisionCollection({'t1': module(library, LFU, 5), 't2': module(library, LFU, 6)}, tables)",
    "embedding.ManagedCollisionEmbeddingBagCollection(bags, collection)(features)",
    "embedding.ManagedCollisionEmbeddingBagCollection(bags, collection, return_remapped_features=True)(features)",
    "embedding.ManagedCollisionEmbeddingBagCollection(bags, collection).state_dict()",
    "embedding.ManagedCollisionEmbeddingBagCollection(bags, collection).lookup_remapped_lengths_mask(features)",
    "embedding.ManagedCollisionEmbeddingBagCollection(bags, collection).eval()(features)",
    "embedding.ManagedCollisionEmbeddingCollection(rows, collection)",
    "embedding.ManagedCollisionEmbeddingCollection(rows, mc.ManagedCollisionCollection({'t1': module(library, LFU), "
    "'t2': module(library, LFU, 6)}, rows.embedding_configs()))(features)",
    "embedding.return_remapped_lengths_as_mask(features)",
    "embedding.return_custom_metadata(torch.ones(2))",
    "embedding.evict({'t1': None}, bags)",
    "copy.deepcopy(made)({'f': jagged(library, [5])})",
]


def evaluate(library, given, text):
    mc, configs = part_of(library, "modules.mc_modules"), part_of(library, "modules.embedding_configs")
    modules = part_of(library, "modules.embedding_modules")
    sparse = part_of(library, "sparse.jagged_tensor").KeyedJaggedTensor
    lfu = POLICIES["lfu"]

    def tables(kind):
        return [kind(4, 2, "t1", feature_names=["f1", "f2"]), kind(6, 2, "t2", feature_names=["f3"])]

    bags = tables(configs.EmbeddingBagConfig)
    keys, ids = ["f1", "f2", "f3"], torch.tensor([10, 20, 30, 20, 500, 600, 10])
    lengths = torch.tensor([1, 1, 2, 0, 3, 0])
    torch.manual_seed(0)
    names = {
        "torch": torch, "copy": copy, "library": library, "mc": mc, "LFU": lfu, "module": module, "jagged": jagged,
        "made": module(library, lfu), "other": module(library, lfu), "tables": bags,
        "embedding": part_of(library, "modules.mc_embedding_modules"),
        "bags": modules.EmbeddingBagCollection(bags),
        "rows": modules.EmbeddingCollection(tables(configs.EmbeddingConfig)),
        "collection": mc.ManagedCollisionCollection({"t1": module(library, lfu), "t2": module(library, lfu, 6)}, bags),
        "features": sparse(keys, ids, lengths=lengths),
        "heavy": sparse(keys, ids.clone(), tensor("w", (7,)), lengths=lengths),
    }  # fmt: skip
    torch.manual_seed(0)
    return eval(text, names)


for _text in PROGRAMS:
    SUITE.add(Cell(f"modules/{_text}", "modules", lambda library, given, text=_text: evaluate(library, given, text)))


HASHING = [
    f"[{made}.eval()({{'f': jagged(library, {ids})}}), {made}.state_dict()]"
    for made in (
        "hashed()", "hashed(total_num_buckets=1)", "hashed(input_hash_size=1000)", "hashed(max_probe=2)",
        "hashed(is_inference=True)", "hashed(zch_size=64, total_num_buckets=8)",
        "hashed(persist_hash_zch_bucket=False)",
        "hashed(write_runtime_meta_dim=2)", "hashed(track_id_freq=True)", "hashed(disable_fallback=True)",
        "hashed().rebuild_with_output_id_range((4, 8))", "hashed(zch_size=4, start_bucket=1, end_bucket=2)",
    )
    for ids in (list(range(12)), [5, 5, 100, 999], [])
] + [
    f"(lambda m: [{program}])(hashed())"
    for program in (
        "m.input_size(), m.output_size(), m.buckets(), m.max_probe, m.disable_fallback, m.eviction_flag, m.is_sharded",
        "m.device, m.get_reserved_slots_per_bucket(), m.get_indices_of_reserved_slots_per_bucket(), m.readable_suffix",
        "m.open_slots(), m.evict(), m.preprocess({'f': jagged(library, [5])}), m.profile({'f': jagged(library, [5])})",
        "m.reset_inference_mode(), m.reset_training_mode(), m.reset_intrainer_bulk_eval_mode(), m.state_dict()",
        "m.input_mapper(torch.tensor([1, 2, 5, 7]))", "m.input_mapper(torch.tensor([1, 2]), torch.tensor([100]))",
        "[name for name, _ in m.named_parameters()]",
    )
] + [
    "hashed(zch_size=15)", "hashed(percent_reserved_slots=25.0).get_indices_of_reserved_slots_per_bucket()",
    "hashed(percent_reserved_slots=25.0, opt_in_prob=50).get_indices_of_reserved_slots_per_bucket()",
    "hashed(percent_reserved_slots=25.0).get_reserved_slots_per_bucket()",
    "hashed(write_runtime_meta_dim=2).lookup_custom_runtime_meta(torch.tensor([5, 6]))",
    "hashed(eviction_policy_name=evictions.HashZchEvictionPolicyName.SINGLE_TTL_EVICTION)",
    "hashed(eviction_policy_name=evictions.HashZchEvictionPolicyName.SINGLE_TTL_EVICTION, "
    "eviction_config=evictions.HashZchEvictionConfig(['f'], 5)).state_dict()",
    "[(one.name, evictions.get_kernel_from_policy(one)) for one in evictions.HashZchEvictionPolicyName]",
    "evictions.get_kernel_from_policy(None)", "evictions.HashZchEvictionConfig(['f'])",
    "evictions.get_eviction_module(evictions.HashZchEvictionPolicyName.SINGLE_TTL_EVICTION, None)",
    *(
        f"(lambda s: [s.gen_score({feature}, torch.device('cpu')) - s.gen_threshold()])(evictions.get_eviction_scorer("
        f"evictions.HashZchEvictionPolicyName.{policy}, evictions.HashZchEvictionConfig({config})))"
        for policy, config, feature in (
            ("SINGLE_TTL_EVICTION", "['f'], 5", "jagged(library, [1, 2])"),
            ("SINGLE_TTL_EVICTION", "['f']", "jagged(library, [1, 2])"),
            ("PER_FEATURE_TTL_EVICTION", "['f', 'g'], None, [5, 7]", "counted"),
            ("PER_FEATURE_TTL_EVICTION", "['f', 'g']", "counted"),
        )
    ),
]  # fmt: skip


def hash_modules(library, given, text):
    made = part_of(library, "modules.hash_mc_modules").HashZchManagedCollisionModule
    sparse = part_of(library, "sparse.jagged_tensor").JaggedTensor

    def hashed(**options):
        return made(**{"zch_size": 16, "device": torch.device("cpu"), "total_num_buckets": 4, **options})

    names = {
        "torch": torch, "library": library, "jagged": jagged, "hashed": hashed,
        "evictions": part_of(library, "modules.hash_mc_evictions"),
        "counted": sparse(torch.tensor([1, 2, 3]), torch.tensor([2, 1]), torch.tensor([1, 0, 2, 0])),
    }  # fmt: skip
    return eval(text, names)


for _text in HASHING:
    SUITE.add(
        Cell(f"hashing/{_text}", "hashing", lambda library, given, text=_text: hash_modules(library, given, text))
    )


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_do_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
