"""Files of data sets in miniature, and programs on what reads them, which either library runs."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

ROWS = [
    "\t".join(
        [str(row % 2), *(str(row * 3 + at) if (row + at) % 5 else "" for at in range(13))]
        + [f"{(row * 26 + at) % 50:08x}" if (row + at) % 7 else "" for at in range(26)]
    )
    for row in range(9)
]


def write(folder: Path) -> str:
    """The files of all data sets; gives the folder."""
    draw = np.random.RandomState(0)
    for day, rows in enumerate((7, 4, 5)):
        np.save(folder / f"day_{day}_dense.npy", draw.rand(rows, 13).astype(np.float32))
        np.save(folder / f"day_{day}_sparse.npy", draw.randint(0, 6, (rows, 26)).astype(np.int64))
        np.save(folder / f"day_{day}_labels.npy", (np.arange(rows) % 2).astype(np.int32).reshape(-1, 1))
    (folder / "day_0").write_text("\n".join(ROWS[:5]) + "\n")
    (folder / "day_1").write_text("\n".join(ROWS[5:]) + "\n")
    (folder / "test.txt").write_text("\n".join(row.partition("\t")[2] for row in ROWS[:3]) + "\n")
    (folder / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,2,3.5,1112486027\n1,29,,x\n7,2,5,12\n")
    (folder / "movies.csv").write_text(
        'movieId,title,genres\n2,"Jumanji (1995), x",Adventure|Children\n29,City,Sci-Fi\n'
    )
    (folder / "a.csv").write_text("h,k\n1,2\n")
    (folder / "b.csv").write_text('h,k\n"3, 4",5\n')
    (folder / "out").mkdir()
    return str(folder)


HELPERS = """
def days(kind, count=2):
    return [f"{root}/day_{day}_{kind}.npy" for day in range(count)]

def memory(stage="train", batch_size=3, rank=0, world_size=1, count=2, **options):
    return criteo.InMemoryBinaryCriteoIterDataPipe(
        stage, days("dense", count), days("sparse", count), days("labels", count), batch_size, rank, world_size, **options)

def seen(batches):
    return [(b.dense_features, b.sparse_features, b.labels) for b in batches]

def read(path):
    import numpy
    return numpy.load(f"{root}/{path}")

def wrapped(items):
    from torch.utils.data.datapipes.iter import IterableWrapper
    return IterableWrapper(items)
"""

PROGRAMS = {
    "criteo": [
        "list(criteo.criteo_terabyte([f'{root}/day_0']))",
        "list(criteo.criteo_terabyte([f'{root}/day_0', f'{root}/day_1'], row_mapper=None))",
        "list(criteo.criteo_terabyte([f'{root}/day_1'], row_mapper=len))",
        "list(criteo.criteo_kaggle(f'{root}/test.txt'))",
        "list(criteo.criteo_kaggle(f'{root}/day_1', encoding='ascii'))",
        "list(criteo.CriteoIterDataPipe([f'{root}/day_1']))",
        "list(criteo.criteo_kaggle(f'{root}/absent'))",
        "(criteo.DEFAULT_COLUMN_NAMES, criteo.DEFAULT_INT_NAMES, criteo.DEFAULT_CAT_NAMES, criteo.DEFAULT_LABEL_NAME)",
        "(criteo.DAYS, criteo.TOTAL_TRAINING_SAMPLES, criteo.FREQUENCY_THRESHOLD, criteo.INT_FEATURE_COUNT, criteo.CAT_FEATURE_COUNT)",
    ],
    "arrays": [
        "U.tsv_to_npys(f'{root}/day_0', f'{root}/out/d', f'{root}/out/s', f'{root}/out/l'); 1",
        "o = [f'{root}/out/{k}.npy' for k in 'dsl']; U.tsv_to_npys(f'{root}/day_0', *o); [read(f'out/{k}.npy') for k in 'dsl']",
        "o = [f'{root}/out/{k}.npy' for k in 'dsl']; U.tsv_to_npys(f'{root}/day_1', *o, dataset_name='criteo_kaggle'); [read(f'out/{k}.npy') for k in 'dsl']",
        "U.get_shape_from_npy(f'{root}/day_0_dense.npy')",
        "U.get_shape_from_npy(f'{root}/day_1_labels.npy')",
        "U.load_npy_range(f'{root}/day_0_dense.npy', 0, 7)",
        "U.load_npy_range(f'{root}/day_0_dense.npy', 2, 3)",
        "U.load_npy_range(f'{root}/day_0_sparse.npy', 6, 1)",
        "import numpy; numpy.array(U.load_npy_range(f'{root}/day_0_sparse.npy', 1, 2, mmap_mode=True))",
        "U.load_npy_range(f'{root}/day_0_dense.npy', 7, 1)",
        "U.load_npy_range(f'{root}/day_0_dense.npy', 5, 3)",
        "U.load_npy_range(f'{root}/absent.npy', 5, 3)",
        "U.sparse_to_contiguous(days('sparse'), f'{root}/out'); [read(f'out/day_{d}_sparse_contig_freq.npy') for d in range(2)]",
        "U.sparse_to_contiguous(days('sparse', 3), f'{root}/out', frequency_threshold=1); [read(f'out/day_{d}_sparse_contig_freq.npy') for d in range(3)]",
        "U.sparse_to_contiguous(days('sparse'), f'{root}/out', frequency_threshold=9); [read(f'out/day_{d}_sparse_contig_freq.npy') for d in range(2)]",
        "U.sparse_to_contiguous(days('sparse'), f'{root}/out', output_file_suffix='_x.npy'); [read(f'out/day_{d}_sparse_x.npy') for d in range(2)]",
        "import numpy; U.shuffle(root, root, f'{root}/out', {0: 7, 1: 4}, days=3); sorted(map(tuple, numpy.concatenate([read(f'out/day_{d}_dense.npy') for d in range(2)]).tolist()))",
        "U.shuffle(root, root, f'{root}/out', {0: 7, 1: 4}, days=3); [read(f'out/day_{d}_{k}.npy').shape for d in range(2) for k in ('dense', 'sparse', 'labels')]",
        "U.shuffle(root, root, f'{root}/out', {0: 7, 1: 4}, days=3); [read(f'out/day_{d}_{k}.npy').dtype for d in range(2) for k in ('dense', 'sparse', 'labels')]",
        "U.shuffle(root, root, f'{root}/out', {0: 7, 1: 4}, days=3, random_seed=4, output_dir_full_set=f'{root}/out'); [read('out/full.npy')] + [read(f'out/day_{d}_{k}.npy') for d in range(2) for k in ('dense', 'sparse', 'labels')]",
    ]
    + [
        f"r, rest = U.get_file_row_ranges_and_remainder({lengths}, {rank}, {world}{more}); ({{k: tuple(map(int, v)) for k, v in r.items()}}, rest)"
        for lengths, world, more in (
            ([10, 20], 2, ""), ([5], 3, ""), ([3, 3, 3], 4, ""), ([7], 7, ""), ([10, 20], 2, ", 5, 25"), ([0, 4, 0, 2], 2, ""),
        )
        for rank in range(world)
    ],
    "memory": [
        "m = memory(); (len(m), seen(m))",
        "m = memory(drop_last=True); (len(m), seen(m))",
        "m = memory(rank=0, world_size=2); (len(m), seen(m))",
        "m = memory(rank=1, world_size=2); (len(m), seen(m))",
        "m = memory(rank=1, world_size=2, drop_last=True); (len(m), seen(m))",
        "m = memory(rank=0, world_size=3); (len(m), seen(m))",
        "m = memory(rank=2, world_size=3); (len(m), seen(m))",
        "m = memory(batch_size=4, count=3); (len(m), seen(m))",
        "m = memory(batch_size=100); (len(m), seen(m))",
        "m = memory(batch_size=1, rank=1, world_size=4); (len(m), seen(m))",
        "m = memory('val'); (len(m), seen(m))",
        "m = memory('test'); (len(m), seen(m))",
        "m = memory('val', rank=1, world_size=2, count=1); (len(m), seen(m))",
        "m = memory('test', rank=0, world_size=2, count=1); (len(m), seen(m))",
        "m = memory('test', rank=1, world_size=2, count=1); (len(m), seen(m))",
        "m = memory(mmap_mode=True); (len(m), seen(m))",
        "m = memory(hashes=[4] * 26); (len(m), seen(m))",
        "m = memory(hashes=list(range(1, 27)), mmap_mode=True); (len(m), seen(m))",
        "memory(hashes=[4] * 3)",
        "memory('other')",
        "m = memory(shuffle_batches=True); [sorted(b.dense_features[:, 0].tolist()) for b in m]",
        "m = memory(shuffle_training_set=True); (len(m), seen(m))",
        "m = memory(shuffle_training_set=True, shuffle_training_set_random_seed=5, rank=1, world_size=2); (len(m), seen(m))",
        "m = memory(shuffle_training_set=True, batch_size=2, rank=1, world_size=3); (len(m), seen(m))",
        "m = memory(shuffle_training_set=True, mmap_mode=True); sorted(v for b in m for v in b.dense_features[:, 0].tolist())",
        "b = next(iter(memory())); c = b.to(torch.device('cpu')); (c.dense_features, c.sparse_features, c.labels)",
    ],
    "movielens": [
        f"list(movielens.{name}(root{options}))"
        for name in ("movielens_20m", "movielens_25m")
        for options in ("", ", include_movies_data=True", ", row_mapper=None", ", include_movies_data=True, row_mapper=len")
    ]
    + ["(movielens.DEFAULT_COLUMN_NAMES, movielens.RATINGS_FILENAME, movielens.MOVIES_FILENAME)",
       "list(movielens.movielens_20m(f'{root}/absent'))"],
    "random": [
        f"d = random.RandomRecDataset(['a', 'b'], 3, num_dense=2, num_batches=3, {options}); (len(d), seen(d))"
        for options in (
            "hash_size=10, ids_per_feature=2, manual_seed=1", "hash_size=10, ids_per_feature=2",
            "hash_sizes=[5, 9], ids_per_features=[2, 4], manual_seed=2", "hash_size=7, manual_seed=3", "manual_seed=4",
            "hash_sizes=[5, 9], ids_per_features=[2, 4], min_ids_per_features=[0, 1], manual_seed=2",
            "hash_size=9, ids_per_feature=5, min_ids_per_feature=1, manual_seed=2", "hash_size=9, min_ids_per_feature=0",
            "hash_size=9, ids_per_feature=2, num_generated_batches=1", "hash_size=9, ids_per_feature=2, num_generated_batches=-1",
            "hash_size=9, ids_per_feature=2, num_generated_batches=2, manual_seed=0", "hash_sizes=[3]", "ids_per_features=[3]",
            "min_ids_per_features=[3]", "ids_per_feature=1, min_ids_per_feature=2", "ids_per_features=[1, 0], hash_sizes=[2, 3]",
        )
    ]
    + ["len(random.RandomRecDataset(['a'], 3))",
       "import itertools; seen(itertools.islice(random.RandomRecDataset(['a'], 2, ids_per_feature=1, num_generated_batches=2), 5))"],
    "utils": [
        "utils.safe_cast('3', int, 0)", "utils.safe_cast('x', int, 7)", "utils.safe_cast(None, int, 7)", "utils.safe_cast('', str, 'q')",
        "list(utils.Limit(wrapped(range(10)), 3))", "list(utils.Limit(wrapped(range(2)), 3))", "list(utils.Limit(wrapped(range(2)), 0))",
        "[list(p) for p in utils.idx_split_train_val(wrapped(range(20)), 0.7, 1)]",
        "[list(p) for p in utils.idx_split_train_val(wrapped(range(200)), 0.753)]",
        "[list(p) for p in utils.idx_split_train_val(wrapped(range(20)), 0.5, 1, lambda n: n // 2)]",
        "[list(p) for p in utils.rand_split_train_val(wrapped(range(40)), 0.7, 3)]",
        "[list(p) for p in utils.rand_split_train_val(wrapped(range(40)), 0.2)]",
        "a, b = utils.rand_split_train_val(wrapped(range(9)), 0.5); [list(a), list(b), list(a)]",
        "utils.idx_split_train_val(wrapped([1]), 0.0)", "utils.idx_split_train_val(wrapped([1]), 1.0)",
        "utils.rand_split_train_val(wrapped([1]), -1)", "utils.rand_split_train_val(wrapped([1]), 1.5)",
        "[utils.train_filter(lambda n: n, 0.7, 2, n) for n in (0, 69, 70, 99, 100)]",
        "[utils.val_filter(lambda n: n, 0.7, 2, n) for n in (0, 69, 70, 99, 100)]",
        "[(p, f.read()) for p, f in utils.LoadFiles([f'{root}/a.csv', f'{root}/b.csv'], mode='r')]",
        "[(p, f.read()) for p, f in utils.LoadFiles([f'{root}/a.csv'], mode='rb')]",
        "len(utils.LoadFiles([f'{root}/a.csv'], length=5))", "len(utils.LoadFiles([f'{root}/a.csv']))",
        "list(utils.ReadLinesFromCSV(utils.LoadFiles([f'{root}/a.csv', f'{root}/b.csv'], mode='r')))",
        "list(utils.ReadLinesFromCSV(utils.LoadFiles([f'{root}/a.csv', f'{root}/b.csv'], mode='r'), skip_first_line=True))",
        "list(utils.ReadLinesFromCSV(utils.LoadFiles([f'{root}/a.csv'], mode='r'), delimiter='k'))",
        "list(utils.ParallelReadConcat(wrapped(range(3)), wrapped(range(5, 7))))",
        "list(utils.ParallelReadConcat(wrapped(range(3)), wrapped(range(5, 7)), dp_selector=lambda pipes: pipes[1:]))",
    ],
}  # fmt: skip


def names(library: Any, root: str) -> dict[str, Any]:
    """What a program sees: the library's modules, the folder, and some helpers."""
    import torch

    seen: dict[str, Any] = {
        "root": root,
        "torch": torch,
        **{name: getattr(library, name) for name in ("criteo", "movielens", "random", "utils")},
    }
    seen["U"] = library.criteo.BinaryCriteoUtils
    exec(HELPERS, seen)
    return seen
