"""Pipes give the samples, lengths and errors of TorchData 0.7.1 and torch, pass after pass."""

# ruff: noqa: E501  # a program is easier to read on one line

from __future__ import annotations

import pytest
from torchdata_peers import DIFFERENCES, FUNCTIONS, ROOTS, import_peers, pipes_of

from flambeau.core.testing.differential import Cell, Suite, program

import_peers()

SUITE = Suite(
    "datapipes", ours=pipes_of("flambeau.data"), peer=pipes_of("torchdata"), roots=ROOTS, differences=DIFFERENCES
)

N = "IterableWrapper(range(10))"
WORDS = "IterableWrapper(['a', 'bbb', 'cc', 'dddd', 'e', 'ffffff', 'gg', 'hhh'])"
PIPES = {
    "source": N,
    "source-of-list": "IterableWrapper([1, 2, 3])",
    "source-of-iterator": "IterableWrapper(iter([1, 2, 3]), deepcopy=False)",
    "map": f"{N}.map(double)",
    "map-input-col": f"{N}.map(keyed).map(double, input_col=1)",
    "map-output-col": f"{N}.map(keyed).map(double, input_col=1, output_col=0)",
    "map-append": f"{N}.map(keyed).map(double, input_col=1, output_col=-1)",
    "map-two-cols": f"{N}.zip({N}).map(add, input_col=[0, 1])",
    "map-two-cols-out": f"{N}.zip({N}).map(add, input_col=[0, 1], output_col=1)",
    "map-dict": "IterableWrapper([{'a': 1}, {'a': 2}]).map(double, input_col='a', output_col='b')",
    "map-fails": f"{N}.map(fail_at_7)",
    "filter": f"{N}.filter(is_even)",
    "filter-col": f"{N}.map(keyed).filter(is_even, input_col=1)",
    "filter-no-bool": f"{N}.filter(not_bool)",
    "flatmap": f"{N}.flatmap(spread)",
    "flatmap-none": f"{N}.batch(3).flatmap()",
    "flatten": "IterableWrapper([(1, (2, 3)), (4, (5, 6))]).flatten(1)",
    "flatten-all": "IterableWrapper([((1, 9), (2, 3)), ((4, 8), (5, 6))]).flatten()",
    "shuffled-flatmap": f"{N}.shuffled_flatmap(spread, buffer_size=3)",
    "batch": f"{N}.batch(3)",
    "batch-drop": f"{N}.batch(3, drop_last=True)",
    "batch-tuple": f"{N}.batch(4, wrapper_class=tuple)",
    "batch-of-batches": f"{N}.batch(2).batch(2)",
    "unbatch": f"{N}.batch(3).unbatch()",
    "unbatch-two": f"{N}.batch(2).batch(2).unbatch(unbatch_level=2)",
    "unbatch-all": f"{N}.batch(2).batch(2).unbatch(unbatch_level=-1)",
    "unbatch-too-deep": f"{N}.batch(2).unbatch(unbatch_level=2)",
    "bucketbatch": f"{WORDS}.bucketbatch(batch_size=2, batch_num=2, bucket_num=1, sort_key=sort_by_length)",
    "bucketbatch-many": f"{N}.bucketbatch(batch_size=2, drop_last=True, batch_num=2, bucket_num=2)",
    "max-token": f"{WORDS}.max_token_bucketize(max_token_count=6, len_fn=length_of)",
    "max-token-padded": f"{WORDS}.max_token_bucketize(max_token_count=6, len_fn=length_of, include_padding=True)",
    "max-token-limits": f"{WORDS}.max_token_bucketize(max_token_count=5, min_len=2, max_len=4, buffer_size=3)",
    "collate": f"{N}.batch(3).collate()",
    "collate-fn": f"{N}.batch(3).collate(collate_fn=sum)",
    "shuffle": f"{N}.shuffle()",
    "shuffle-small": f"{N}.shuffle(buffer_size=3)",
    "shuffle-seeded": f"{N}.shuffle(buffer_size=4).set_seed(3)",
    "shuffle-off": f"{N}.shuffle().set_shuffle(False)",
    "shuffle-unbatch": f"{N}.batch(2).shuffle(unbatch_level=1)",
    "in-batch-shuffle": f"{N}.batch(5).in_batch_shuffle()",
    "in-batch-shuffle-seeded": f"{N}.batch(5).in_batch_shuffle().set_seed(4)",
    "sharding": f"{N}.sharding_filter()",
    "concat": f"{N}.concat(IterableWrapper('ab'))",
    "zip": f"{N}.zip(IterableWrapper('abc'))",
    "zip-longest": f"{N}.zip_longest(IterableWrapper('abc'), fill_value='-')",
    "mux": f"{N}.mux(IterableWrapper('abc'))",
    "mux-longest": f"{N}.mux_longest(IterableWrapper('abc'))",
    "multiplexer": f"SampleMultiplexer({{{N}: 0.7, IterableWrapper('abc'): 0.3}}, seed=1)",
    "fork": f"a, b = {N}.fork(2); p = a.zip(b)",
    "fork-of-one": f"a, b = {N}.fork(2); p = a",
    "fork-small-buffer": f"a, b = {N}.fork(2, buffer_size=2); p = a.concat(b)",
    "demux": f"a, b, c = {N}.demux(3, third); p = a.zip(b, c)",
    "demux-concat": f"a, b, c = {N}.demux(3, third); p = a.concat(b).concat(c)",
    "demux-small-buffer": f"a, b, c = {N}.demux(3, third, buffer_size=1); p = a",
    "demux-too-many": f"a, b = {N}.demux(2, third); p = a",
    "demux-none": f"a, b, c = {N}.demux(3, none_if_odd, drop_none=True); p = a.concat(c)",
    "round-robin-demux": f"a, b = {N}.round_robin_demux(2); p = a.zip(b)",
    "unzip": f"a, b = {N}.map(keyed).unzip(sequence_length=2); p = a.zip(b)",
    "unzip-skip": f"(a,) = {N}.map(keyed).unzip(sequence_length=2, columns_to_skip=[0]); p = a",
    "groupby": f"{N}.groupby(third)",
    "groupby-size": f"{N}.groupby(third, group_size=2)",
    "groupby-keep": f"{N}.groupby(third, keep_key=True)",
    "groupby-small": f"{N}.groupby(third, buffer_size=4, group_size=3, guaranteed_group_size=1)",
    "groupby-drop": f"{N}.groupby(third, buffer_size=4, group_size=3, guaranteed_group_size=2, drop_remaining=True)",
    "groupby-overflow": f"{N}.groupby(third, buffer_size=3, group_size=3, guaranteed_group_size=2)",
    "cycle": f"{N}.cycle(2)",
    "cycle-none": f"{N}.cycle(0)",
    "repeat": "IterableWrapper([1, 2, 3]).repeat(2)",
    "enumerate": f"{N}.enumerate(starting_index=5)",
    "add-index": "IterableWrapper([{'a': 1}, {'a': 2}]).add_index('index')",
    "header": f"{N}.header(3)",
    "header-none": f"{N}.header(None)",
    "slice": "IterableWrapper([(1, 2, 3), (4, 5, 6)]).slice(1)",
    "slice-stop": "IterableWrapper([(1, 2, 3), (4, 5, 6)]).slice(0, 2)",
    "slice-list": "IterableWrapper([(1, 2, 3), (4, 5, 6)]).slice([0, 2])",
    "drop": "IterableWrapper([(1, 2, 3), (4, 5, 6)]).drop(1)",
    "drop-key": "IterableWrapper([{'a': 1, 'b': 2}]).drop('a')",
    "rows-columns": "IterableWrapper([[{'a': 1}, {'a': 2}], [{'a': 3}]]).rows2columnar(['a'])",
    "set-length": f"{N}.set_length(3)",
    "to-map-and-back": f"{N}.map(keyed).to_map_datapipe().to_iter_datapipe()",
    "zip-with-iter": f"{N}.map(keyed).zip_with_iter({N}.map(keyed), key_fn=itemgetter(0), merge_fn=merge)",
    "zip-with-iter-keep": f"{N}.zip_with_iter({N}.shuffle(), key_fn=same, keep_key=True)",
    "zip-with-iter-missing": f"{N}.zip_with_iter(IterableWrapper([3]), key_fn=same)",
    "zip-with-map": f"{N}.zip_with_map(map_pipes.SequenceWrapper('abcdefghijk'), key_fn=same)",
    "zip-with-map-missing": f"{N}.zip_with_map(map_pipes.SequenceWrapper('ab'), key_fn=same)",
    "random-split": f"a, b = {N}.random_split(weights={{'a': 0.5, 'b': 0.5}}, seed=0); p = a",
    "random-split-target": f"{N}.random_split(weights={{'a': 7, 'b': 3}}, seed=1, target='b')",
    "random-split-length": f"{N}.filter(is_even).random_split(weights={{'a': 3, 'b': 2}}, total_length=5, seed=1)[0]",
    "in-memory-cache": f"{N}.in_memory_cache()",
    "prefetch": f"{N}.prefetch(3)",
    "prefetch-fails": f"{N}.map(fail_at_7).prefetch(3)",
    "map-batches": f"{N}.map_batches(batched_double, batch_size=4)",
    "threadpool-map": f"{N}.threadpool_map(double, max_workers=2)",
    "threadpool-map-fails": f"{N}.threadpool_map(fail_at_7, max_workers=2)",
    "parse-csv": "IterableWrapper([('f', io.StringIO('a,b\\n1,2\\n3,4\\n'))]).parse_csv(skip_lines=1)",
    "parse-csv-as-dict": "IterableWrapper([('f', io.StringIO('a,b\\n1,2\\n3,4\\n'))]).parse_csv_as_dict()",
    "parse-csv-path": "IterableWrapper([('f', io.StringIO('a;b\\n1;2'))]).parse_csv(delimiter=';', return_path=True)",
    "readlines": "IterableWrapper([('f', io.StringIO('one\\ntwo\\n'))], deepcopy=False).readlines()",
    "readlines-keep": (
        "IterableWrapper([('f', io.StringIO('one\\r\\ntwo'))], deepcopy=False).readlines(strip_newline=False)"
    ),
    "paragraphs": "IterableWrapper([('f', 'a'), ('f', 'b'), ('f', ''), ('f', 'c')]).lines_to_paragraphs()",
    "shard-expand": "IterableWrapper(['a-{0..3}', 'b-{08..11}', 'c']).shard_expand()",
    "webdataset": "IterableWrapper([('d/a.jpg', 1), ('d/a.cls', 2), ('d/b.jpg', 3), ('e', 4)]).webdataset()",
    "routed-decode": "IterableWrapper([('a.json', b'[1]'), ('a.txt', b'x')]).routed_decode()",
    "sequence": "map_pipes.SequenceWrapper(range(6)).to_iter_datapipe()",
    "sequence-map": "map_pipes.SequenceWrapper(range(6)).map(double).to_iter_datapipe()",
    "sequence-batch": "map_pipes.SequenceWrapper(range(7)).batch(3).to_iter_datapipe()",
    "sequence-shuffle": "map_pipes.SequenceWrapper(range(7)).shuffle()",
    "sequence-shuffle-seeded": "map_pipes.SequenceWrapper(range(7)).shuffle().set_seed(5)",
    "sequence-zip": "map_pipes.SequenceWrapper(range(7)).zip(map_pipes.SequenceWrapper('ab')).to_iter_datapipe()",
    "sequence-concat": "map_pipes.SequenceWrapper(range(2)).concat(map_pipes.SequenceWrapper('ab')).to_iter_datapipe()",
    "sequence-unzip": "map_pipes.SequenceWrapper([(1, 2), (3, 4)]).unzip(2)[1].to_iter_datapipe()",
}
VIEWS = {
    "samples": "outcomes(iter(p))",
    "two-passes": "[outcomes(iter(p)), outcomes(iter(p))]",
    "length": "len(p)",
    "begun-anew": "reader = iter(p); head = outcomes(reader, 3); [head, outcomes(iter(p))]",
    "older-reader": "old = iter(p); outcomes(old, 1); new = iter(p); outcomes(new, 1); [outcomes(old, 1), outcomes(new)]",
    "copied": "outcomes(iter(copy.deepcopy(p)))",
    "pickled": "outcomes(iter(pickle.loads(pickle.dumps(p))))",
    "loader": "outcomes(iter(DataLoader2(p)))",
    "loader-again": "loader = DataLoader2(p); [outcomes(iter(loader)), outcomes(iter(loader))]",
    "loader-seeded": "loader = DataLoader2(p, reading_service=InProcessReadingService()); loader.seed(7); outcomes(iter(loader))",
}
FILES = (
    "(folder / 'a.txt').write_bytes(b'first\\nline'); (folder / 'b.txt').write_bytes(b'second'); "
    "(folder / 'd').mkdir(); (folder / 'd' / 'c.txt').write_bytes(b'third'); "
)
M = "{'a.txt': b'first', 'd/b.txt': b'second'}"
OPENED = "FileOpener(FileLister(str(folder), masks='x*'), mode='b')"
WRITTEN = {
    "lister": f"{FILES}sorted(FileLister(str(folder)))",
    "lister-masks": f"{FILES}sorted(FileLister(str(folder), masks='a*'))",
    "lister-recursive": f"{FILES}sorted(FileLister(str(folder), recursive=True))",
    "lister-list": f"{FILES}sorted(IterableWrapper([str(folder), str(folder / 'd')]).list_files())",
    "lister-length": f"{FILES}len(FileLister(str(folder), length=7))",
    "lister-missing": "list(FileLister(str(folder / 'none')))",
    "opener": f"{FILES}content_of(FileOpener(sorted(FileLister(str(folder)))))",
    "opener-bytes": f"{FILES}content_of(FileOpener(sorted(FileLister(str(folder))), mode='b'))",
    "opener-wrong-mode": f"{FILES}FileOpener([str(folder / 'a.txt')], mode='w')",
    "opener-missing": "list(FileOpener([str(folder / 'none')]))",
    "stream-reader": f"{FILES}list(FileOpener([str(folder / 'a.txt')], mode='b').read_from_stream(chunk=4))",
    "readlines": f"{FILES}list(FileOpener([str(folder / 'a.txt')]).readlines())",
    "saver": "list(IterableWrapper([('a', 'x'), ('b', 'y')]).save_to_disk(filepath_fn=partial(add, str(folder) + '/')))",
    "saver-t": "list(IterableWrapper([(str(folder / 'a'), 'x')]).save_to_disk(mode='t'))",
    "saver-b": "list(IterableWrapper([(str(folder / 'a'), b'x')]).save_to_disk(mode='b'))",
    "saver-wb": "list(IterableWrapper([(str(folder / 'a'), b'x')]).save_to_disk(mode='wb'))",
    "saver-wrong-kind": "list(IterableWrapper([(str(folder / 'a'), 'x')]).save_to_disk(mode='wb'))",
    "tar": f"(folder / 'x.tar').write_bytes(tar_of({M})); content_of({OPENED}.load_from_tar())",
    "tar-gz": f"(folder / 'x.tar.gz').write_bytes(tar_of({M}, 'w:gz')); content_of({OPENED}.load_from_tar())",
    "tar-xz": f"(folder / 'x.tar.xz').write_bytes(tar_of({M}, 'w:xz')); content_of({OPENED}.load_from_tar())",
    "tar-damaged": f"(folder / 'x.tar').write_bytes(b'no archive'); content_of({OPENED}.load_from_tar())",
    "zip": f"(folder / 'x.zip').write_bytes(zip_of({M})); content_of({OPENED}.load_from_zip())",
    "zip-damaged": f"(folder / 'x.zip').write_bytes(b'no archive'); content_of({OPENED}.load_from_zip())",
    "bz2": f"(folder / 'x.bz2').write_bytes(bz2.compress(b'one')); content_of({OPENED}.load_from_bz2())",
    "xz": f"(folder / 'x.xz').write_bytes(lzma.compress(b'one')); content_of({OPENED}.load_from_xz())",
    "decompress-gz": f"(folder / 'x.gz').write_bytes(gzip.compress(b'one')); content_of({OPENED}.decompress())",
    "decompress-xz": f"(folder / 'x.xz').write_bytes(lzma.compress(b'one')); content_of({OPENED}.decompress('lzma'))",
    "decompress-bz2": f"(folder / 'x.bz2').write_bytes(bz2.compress(b'one')); content_of({OPENED}.extract())",
    "decompress-tar": (
        f"(folder / 'x.tar').write_bytes(tar_of({M})); [s.getnames() for _, s in list({OPENED}.decompress('tar'))]"
    ),
    "decompress-tar-gz": (
        f"(folder / 'x.tar.gz').write_bytes(tar_of({M}, 'w:gz')); [s.getnames() for _, s in list({OPENED}.decompress())]"
    ),
    "decompress-zip": (
        f"(folder / 'x.zip').write_bytes(zip_of({M})); [s.namelist() for _, s in list({OPENED}.decompress('ZIP'))]"
    ),
    "decompress-unknown": f"(folder / 'x.txt').write_bytes(b'one'); content_of({OPENED}.decompress())",
    "decompress-no-such-type": f"{OPENED}.decompress('rar')",
    "json": "(folder / 'x.json').write_text('[1, 2]'); list(FileOpener([str(folder / 'x.json')]).parse_json_files())",
    "hash": (
        "list(IterableWrapper([('a', b'x')]).check_hash({'a': '9dd4e461268c8034f5c8564e155c67a6'}, hash_type='md5'))"
    ),
    "hash-wrong": "list(IterableWrapper([('a', b'x')]).check_hash({'a': '0' * 64}))",
    "hash-unknown": "list(IterableWrapper([('b', b'x')]).check_hash({'a': '0' * 64}))",
    "hash-no-such-type": "IterableWrapper([('b', b'x')]).check_hash({}, hash_type='crc')",
    "cache-t": (
        "list(IterableWrapper([str(folder / 'a')]).on_disk_cache(filepath_fn=same).map(lambda p: (p, io.StringIO('text')))"
        ".end_caching(mode='t', filepath_fn=same))"
    ),
    "cache-wb": (
        "list(IterableWrapper([str(folder / 'a')]).on_disk_cache(filepath_fn=same).map(lambda p: (p, io.BytesIO(b'text')))"
        ".end_caching(mode='wb', filepath_fn=same))"
    ),
    "cache-twice": (
        "made = []; p = IterableWrapper([str(folder / 'a')]).on_disk_cache(filepath_fn=same)"
        ".map(lambda p: (made.append(1), (p, io.StringIO('text')))[1]).end_caching(mode='wt', filepath_fn=same); "
        "[list(p), list(p), len(made)]"
    ),
    "cache-not-ended": "list(IterableWrapper(['a']).on_disk_cache(filepath_fn=same))",
    "cache-ended-only": "IterableWrapper(['a']).end_caching()",
}
ERRORS = {
    "map-no-callable": f"{N}.map(3)",
    "map-output-only": f"{N}.map(double, output_col=1)",
    "map-keyword-only": f"{N}.map(lambda *, x: x)",
    "map-too-many": f"{N}.map(add)",
    "map-bad-index": f"list({N}.map(keyed).map(double, input_col=5))",
    "batch-zero": f"{N}.batch(0)",
    "unbatch-negative": f"{N}.batch(2).unbatch(unbatch_level=-2)",
    "shuffle-zero": f"{N}.shuffle(buffer_size=0)",
    "fork-zero": f"{N}.fork(0)",
    "demux-zero": f"{N}.demux(0, third)",
    "zip-nothing": "Zipper()",
    "concat-nothing": "Concater()",
    "zip-no-pipe": f"{N}.zip([1])",
    "cycle-negative": f"{N}.cycle(-1)",
    "repeat-one": f"{N}.repeat(1)",
    "header-negative": f"{N}.header(-1)",
    "prefetch-zero": f"{N}.prefetch(0)",
    "bucketbatch-zero": f"{N}.bucketbatch(0)",
    "max-token-wrong": f"{N}.max_token_bucketize(max_token_count=1, min_len=3, max_len=2)",
    "groupby-guaranteed-alone": f"{N}.groupby(third, guaranteed_group_size=3)",
    "groupby-guaranteed-large": f"{N}.groupby(third, group_size=2, guaranteed_group_size=3)",
    "no-such-method": f"{N}.no_such_method()",
    "sharding-out-of-range": f"{N}.sharding_filter().apply_sharding(2, 2)",
    "multiplexer-empty": "SampleMultiplexer({})",
    "multiplexer-negative": f"SampleMultiplexer({{{N}: -1}})",
    "random-split-no-length": f"{N}.filter(is_even).random_split(weights={{'a': 1, 'b': 1}}, seed=0)",
    "random-split-target": f"{N}.random_split(weights={{'a': 1, 'b': 1}}, seed=0, target='c')",
    "unzip-bad-skip": f"{N}.map(keyed).unzip(sequence_length=2, columns_to_skip=[5])",
    "sequence-index": "map_pipes.SequenceWrapper([1])[3]",
    "to-map-duplicate": "p = IterableWrapper([(1, 2), (1, 3)]).to_map_datapipe(); p[1]",
    "to-map-no-pair": "p = IterableWrapper([1]).to_map_datapipe(); p[1]",
    "dispatch-no-group": f"{N}.sharding_round_robin_dispatch()",
    "register-twice": "IterDataPipe.register_datapipe_as_function('map', Batcher)",
    "set-shuffle-chains": f"type({N}.shuffle().set_shuffle(False)).__name__",
    "repr": f"repr({N}.map(double)), str({N}.batch(2))",
}
GRAPHS = {
    "traverse": f"p = {N}.map(double).zip({N}); [type(x).__name__ for x in list_dps(traverse_dps(p))]",
    "list-order": (
        f"p = {N}.map(double).batch(2).zip({N}.shuffle()).batch(3); [type(x).__name__ for x in list_dps(traverse_dps(p))]"
    ),
    "list-exclude": (
        f"s = {N}.map(double); p = s.batch(2); [type(x).__name__ for x in list_dps(traverse_dps(p), exclude_dps=s)]"
    ),
    "find": f"p = {N}.map(double).map(negative).zip({N}); len(find_dps(traverse_dps(p), Mapper))",
    "replace": (
        f"s = {N}; m = s.map(double); p = m.batch(2); g = replace_dp(traverse_dps(p), m, s.map(negative)); list(p)"
    ),
    "replace-last": (
        f"s = {N}; m = s.map(double); g = replace_dp(traverse_dps(m), m, s.map(negative)); list(list(g.values())[0][0])"
    ),
    "remove": f"s = {N}; m = s.map(double); p = m.batch(2); remove_dp(traverse_dps(p), m); list(p)",
    "remove-source": f"s = {N}; p = s.batch(2); remove_dp(traverse_dps(p), s)",
    "remove-joining": f"z = {N}.zip({N}); p = z.batch(2); remove_dp(traverse_dps(p), z)",
    "seed": (f"p = {N}.shuffle().sharding_filter().shuffle(); set_graph_random_seed(p, SeedGenerator(123)); list(p)"),
    "seed-branches": (
        f"p = {N}.shuffle().sharding_filter().zip({N}.shuffle().map(double).shuffle()); "
        "set_graph_random_seed(p, SeedGenerator(5)); list(p)"
    ),
    "linter-good": f"check_shuffle_before_sharding({N}.shuffle().sharding_filter())",
    "linter-bad": f"check_shuffle_before_sharding({N}.sharding_filter().shuffle())",
    "seeds": "g = SeedGenerator(123); [g.generate_shared_seed(), g.generate_seed(), g.spawn(3).generate_seed()]",
    "seeds-many": "g = SeedGenerator(9); [g.generate_seed() for _ in range(9)] + [g.generate_shared_seed() for _ in 'abc']",
    "shards": (
        f"p = {N}.sharding_filter(); out = []\nfor i in range(3):\n    p.apply_sharding(3, i)\n    out.append([list(p), len(p)])\nout"
    ),
    "shards-of-groups": (
        f"p = {N}.sharding_filter(); p.apply_sharding(2, 1, sharding_group=SHARDING_PRIORITIES.DISTRIBUTED); "
        "p.apply_sharding(2, 0, sharding_group=SHARDING_PRIORITIES.MULTIPROCESSING); [list(p), len(p)]"
    ),
    "shards-mixed": (
        f"p = {N}.sharding_filter(); p.apply_sharding(2, 1); "
        "p.apply_sharding(2, 0, sharding_group=SHARDING_PRIORITIES.MULTIPROCESSING)"
    ),
}


def cells(area: str, programs: dict[str, str]) -> list[Cell]:
    return [Cell(f"{area}/{name}", area, program(text, FUNCTIONS)) for name, text in programs.items()]


def views() -> dict[str, str]:
    found = {}
    for name, pipe in PIPES.items():
        built = f"{pipe}; " if "p = " in pipe else f"p = {pipe}; "
        found |= {f"{name}/{view}": built + text for view, text in VIEWS.items()}
    return found


SUITE.add(*cells("pipes", views()), *cells("files", WRITTEN), *cells("errors", ERRORS), *cells("graphs", GRAPHS))


@pytest.mark.parametrize("cell", SUITE.cells, ids=str)
def test_both_libraries_give_the_same(cell):
    SUITE.check(cell)


def test_every_intended_difference_is_one():
    SUITE.check_differences()
