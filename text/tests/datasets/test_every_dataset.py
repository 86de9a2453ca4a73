"""What all text datasets have in common, asked of each one over its miniature: the table of names is the table."""

import inspect
import json
import pickle

import pytest

from flambeau.core.datasets import get_dataset_info
from flambeau.core.errors import DownloadError
from flambeau.core.testing import parametrize_with_checks
from flambeau.core.testing.golden import upstream_facts
from flambeau.data.dataloader2.graph import list_dps, traverse_dps
from flambeau.text import datasets
from flambeau.text.datasets._tables import NAMES

UNSPLIT = ("QQP", "EnWik9", "CC100")


EVERY = [getattr(datasets, name) for name in NAMES]  # importing one registers it


@parametrize_with_checks("text", kinds=["dataset"])
def test_it_answers_what_every_dataset_is_asked(check):
    check()


@pytest.fixture(params=NAMES)
def published(request, publish):
    return publish(request.param)


def test_each_split_has_its_items_and_a_second_pass_asks_the_server_for_nothing(published):
    for split in published.splits:
        pipe = published.pipe(split)
        assert list(pipe) == published.items[split]
        asked = len(published.server.log)
        assert list(pipe) == published.items[split]
        assert list(published.pipe(split)) == published.items[split]
        assert len(published.server.log) == asked


def test_building_a_pipeline_makes_a_folder_and_nothing_else(published):
    published.pipe(published.splits[0])
    assert not published.server.log
    assert list(published.folder.iterdir()) == []


def test_its_graph_can_be_pickled_and_shuffles_before_it_shares_out(published):
    pipe = published.pipe(published.splits[0])
    kinds = [type(each).__name__ for each in list_dps(traverse_dps(pipe))]
    assert kinds.index("ShardingFilterIterDataPipe") < kinds.index("ShufflerIterDataPipe")  # from the end backwards
    assert list(pickle.loads(pickle.dumps(pipe))) == published.items[published.splits[0]]


def test_its_items_by_index_are_those_of_the_pipeline(published):
    for split in published.items:
        indexed = published.indexed(split)
        items = [tuple(item) if isinstance(item, list) else item for item in published.items[split]]
        assert [indexed[number] for number in range(len(indexed))] == items
        assert indexed[-1] == items[-1]
        with pytest.raises(IndexError):
            indexed[len(items)]


def test_its_columns_have_the_names_of_its_schema(published):
    for split in published.items:
        named = published.indexed(split, named=True)
        assert tuple(named[0]) == named.columns
        required = {field.key for field in named.schema if not field.optional}
        assert required <= set(named.columns) <= {field.key for field in named.schema}
        values = named[0].values()
        first = published.items[split][0]
        assert tuple(values) == (tuple(first) if isinstance(first, list | tuple) else (first,))


def test_a_file_with_another_checksum_is_refused_by_name_and_not_kept(published):
    damaged = {path: body[:-1] + bytes([body[-1] ^ 1]) for path, body in published.server.files.items()}
    published.server.files.update(damaged)
    if published.module.MD5 is None:
        pytest.skip("its owner states no checksum")
    split = published.splits[0]
    checked = [download for download in published.module._plan(split).source.downloads if download.digest]
    with pytest.raises(DownloadError) as caught:
        list(published.pipe(split))
    message = str(caught.value)
    assert checked[0].path in message
    assert checked[0].digest in message
    assert str(published.folder) in message  # where to put it by hand
    assert not (published.folder / checked[0].path).exists()


def test_a_tuple_of_splits_gives_pipelines_in_its_order_and_none_gives_all(published):
    if published.name in UNSPLIT:
        assert "split" not in inspect.signature(getattr(datasets, published.name)).parameters
        return
    function = getattr(datasets, published.name)
    first, *_, last = published.splits
    turned = function(root=str(published.root), split=(last, first))
    assert [list(pipe) for pipe in turned] == [published.items[last], published.items[first]]
    assert [list(pipe) for pipe in function(str(published.root))] == [published.items[s] for s in published.splits]
    with pytest.raises(TypeError, match=f"{published.name} has no split 'nonsense'"):
        function(str(published.root), split="nonsense")


def recorded():
    return upstream_facts("datasets", __file__)["datasets"]


@pytest.mark.parametrize("name", sorted(recorded()))
def test_its_tables_are_those_on_record(name):
    record, module = recorded()[name], inspect.getmodule(inspect.unwrap(getattr(datasets, name)))
    assert record["url"] == module.URL
    assert record.get("checksum") == module.MD5
    assert record.get("archive") == getattr(module, "_PATH", None)
    assert tuple(record["splits"]) == module._SPLITS
    for key, attribute in {"extracted_files_md5": "_EXTRACTED_FILES_MD5", "split_list": "SPLIT_LIST"}.items():
        assert record.get(key) == getattr(module, attribute, None)
    lines = module.NUM_LINES and json.loads(json.dumps(module.NUM_LINES, default=str)) if "IWSLT" not in name else None
    assert lines is None or lines == record["num_lines"]
    assert get_dataset_info(f"text/{name.lower()}").splits[: len(record["splits"])] == tuple(record["splits"])


def test_the_tables_over_all_datasets_read_the_modules_each_time(monkeypatch):
    assert len(datasets.DATASETS) == 31
    assert list(datasets.URLS) == list(datasets.MD5) == list(datasets.NUM_LINES) == list(datasets.DATASETS)
    assert datasets.DATASETS["SST2"] is datasets.SST2
    monkeypatch.setattr("flambeau.text.datasets.sst2.URL", "http://127.0.0.1/other.zip")
    assert datasets.URLS["SST2"] == "http://127.0.0.1/other.zip"
