"""Names, methods and signatures are the recorded ones; stubs know every method."""

import inspect
import re
import subprocess
import sys
from importlib import import_module

import pytest

from flambeau.core.testing.golden import upstream_facts
from flambeau.data.datapipes import stubs
from flambeau.data.datapipes.datapipe import IterDataPipe, MapDataPipe


def recorded() -> dict:
    return upstream_facts("datapipes", __file__)


def subjects():
    return [
        pytest.param(kind, name, record, id=f"{kind}.{name}")
        for kind in ("iter", "map")
        for name, record in recorded()[kind].items()
    ]


def test_there_is_a_record():
    assert len(subjects()) > 90


@pytest.mark.parametrize(("kind", "name", "record"), subjects())
def test_a_pipe_has_its_name_method_and_parameters(kind, name, record):
    module = import_module(f"flambeau.data.datapipes.{kind}")
    pipe = getattr(module, name)
    assert name in module.__all__
    assert pipe.__name__ == record["class"]
    owner = IterDataPipe if kind == "iter" else MapDataPipe
    if record["method"] is not None:
        assert owner.functions[record["method"]].__wrapped__ is pipe
    if record["has_len"]:
        assert hasattr(pipe, "__len__")
    if name not in ("IterDataPipe", "MapDataPipe"):
        compare(pipe, record["signature"])


def compare(pipe, signature):
    theirs = [described(text) for text in split(signature) if text != "*"]
    parameters = list(inspect.signature(pipe.__init__).parameters.values())[1:]
    known = {name for name, _ in theirs}
    added = [p for p in parameters if p.name not in known and p.kind is p.KEYWORD_ONLY and p.default is not p.empty]
    assert [mine(p) for p in parameters if p not in added] == theirs


def split(signature):
    """The parameters in the text of a signature."""
    depth, parts = 0, [""]
    for character in signature[1 : signature.rindex(")")]:
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def described(text):
    name = re.match(r"\**\w+", text).group()
    annotated = ":" in text
    _, equals, default = text.partition(" = " if annotated else "=")
    return name.lstrip("*"), re.sub(r"[<>]", "", default) if equals else None


def mine(parameter):
    if parameter.default is parameter.empty:
        return parameter.name, None
    default = parameter.default
    return parameter.name, default.__name__ if callable(default) else repr(default)


# Every method of the specification, those of the frames among them.
METHODS = """
map filter collate batch unbatch groupby shuffle sharding_filter concat zip mux demux fork routed_decode
read_from_stream list_files open_files add_index async_map_batches bucketbatch check_hash cycle dataframe
decompress drop end_caching enumerate extract flatmap flatten fullsync header in_batch_shuffle in_memory_cache
lines_to_paragraphs list_files_by_ais list_files_by_fsspec list_files_by_iopath list_files_by_s3
load_files_by_ais load_files_by_s3 load_from_bz2 load_from_rar load_from_tar load_from_tfrecord load_from_xz
load_from_zip load_parquet_as_df map_batches max_token_bucketize memory_cell mux_longest on_disk_cache
open_files_by_fsspec open_files_by_iopath parse_csv parse_csv_as_dict parse_json_files pin_memory prefetch
random_split read_from_gdrive read_from_http read_from_remote readlines repeat round_robin_demux rows2columnar
save_by_fsspec save_by_iopath save_to_disk set_length shard_expand sharding_round_robin_dispatch
shuffled_flatmap slice threadpool_map unzip webdataset zip_longest zip_with_iter zip_with_map to_map_datapipe
trace_as_dataframe _dataframes_as_tuples _dataframes_per_row _dataframes_concat _dataframes_shuffle
_dataframes_filter _to_dataframes_pipe
""".split()  # noqa: SIM905  # shorter than a list


def test_every_method_is_registered():
    assert [name for name in METHODS if name not in IterDataPipe.functions] == []
    assert {"map", "batch", "concat", "zip", "shuffle", "unzip", "in_memory_cache", "to_iter_datapipe"} <= set(
        MapDataPipe.functions
    )


def test_the_stubs_are_those_of_the_register():
    # In a process of its own: tests here register further methods.
    command = [sys.executable, "-m", "flambeau.data.datapipes.stubs", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_stubs_are_valid_and_name_every_method():
    text = stubs.PATH.read_text()
    compile(text, "datapipe.pyi", "exec")
    assert [name for name in METHODS if f"    def {name}(" not in text] == []


def test_pipes_show_their_methods_and_documentation():
    from flambeau.data.datapipes.iter import IterableWrapper

    pipe = IterableWrapper([1])
    assert {"map", "shuffle"} <= set(dir(pipe))
    assert "random order" in pipe.shuffle.__doc__
    with pytest.raises(AttributeError, match="no attribute 'shufle'"):
        pipe.shufle()


def test_every_public_pipe_is_documented():
    for kind in ("iter", "map"):
        module = import_module(f"flambeau.data.datapipes.{kind}")
        for name in module.__all__:
            assert len(inspect.getdoc(getattr(module, name)) or "") > 20, name


def test_the_modules_of_upstream_exist_with_their_names():
    names = {
        "flambeau.data.datapipes.utils": ["StreamWrapper", "janitor", "pin_memory_fn", "to_graph"],
        "flambeau.data.dataloader2.graph": [
            "DataPipe", "DataPipeGraph", "find_dps", "list_dps", "remove_dp", "replace_dp", "set_datapipes_seed",
            "set_graph_random_seed", "traverse_dps",
        ],
        "flambeau.data.dataloader2.random": ["SeedGenerator", "dist_share_seed"],
        "flambeau.data.dataloader2.adapter": ["Adapter", "CacheTimeout", "Shuffle"],
        "flambeau.data.dataloader2.linter": ["check_shuffle_before_sharding"],
        "flambeau.data.dataloader2": [
            "CheckpointableReadingServiceInterface", "DataLoader2", "DataLoader2Iterator", "DistributedReadingService",
            "InProcessReadingService", "MultiProcessingReadingService", "PauseIteration",
            "PrototypeMultiProcessingReadingService", "ReadingServiceInterface", "SequentialReadingService",
        ],
    }  # fmt: skip
    for module, expected in names.items():
        assert [name for name in expected if not hasattr(import_module(module), name)] == [], module


def test_importing_pipes_loads_no_optional_package():
    heavy = "{'pandas', 'polars', 'pyarrow', 'fsspec', 'obstore', 'h5py', 'torch._dynamo', 'cloudpickle', 'PIL'}"
    modules = "flambeau.data.datapipes.iter, flambeau.data.dataloader2.dataloader2"
    code = f"import {modules}, sys; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "set()"), done.stderr
