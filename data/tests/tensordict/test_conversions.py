"""Tensordicts from and to Python structures, arrays and tables."""

from __future__ import annotations

import builtins
import dataclasses
import json
from collections import namedtuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from flambeau.data.tensordict import (
    LazyStackedTensorDict,
    NonTensorStack,
    TensorDict,
    from_any,
    from_csv,
    from_json,
    from_list,
    from_parquet,
    from_struct_array,
)

Point = namedtuple("Point", ["x", "y"])


def table() -> TensorDict:
    numbers = {
        "i": torch.arange(3),
        "f": torch.tensor([0.5, 1.5, -2.0]).double(),
        "b": torch.tensor([True, False, True]),
    }
    others = {"s": NonTensorStack("p", 'q,"', "é"), "n": {"v": torch.arange(6).reshape(3, 2)}}
    return TensorDict({**numbers, **others}, batch_size=[3])


def test_any_structure_becomes_a_tensordict():
    @dataclasses.dataclass
    class Plain:
        a: torch.Tensor
        b: dict

    td = from_any(
        Plain(torch.ones(2), {"p": Point(torch.ones(1), "text"), "t": (torch.zeros(1), 3), "l": [{"q": 1}, {"q": 2}]})
    )
    assert td["b", "p", "x"].item() == 1 and td["b", "p", "y"] == "text"
    assert td["b", "t", "1"].item() == 3 and td["b", "l", "q"].tolist() == [1, 2]
    assert from_any("text") == "text" and from_any(3) == 3
    assert from_any({"a": torch.zeros(2, 3)}, auto_batch_size=True, batch_dims=1).batch_size == (2,)
    with pytest.raises(ValueError, match="pass one of them"):
        from_any({"a": torch.zeros(2)}, batch_dims=1, batch_size=[2])


def test_lists_of_dicts_become_dense_or_lazy_stacks():
    assert from_list([{"a": torch.ones(2)}, {"a": torch.ones(2)}])["a"].shape == (2, 2)
    assert isinstance(from_list([{"a": torch.ones(2)}, {"a": torch.ones(3)}]), LazyStackedTensorDict)
    assert isinstance(from_list([{"a": torch.ones(2)}] * 2, lazy_stack=True), LazyStackedTensorDict)


def test_named_tuples_go_there_and_back():
    td = TensorDict.from_namedtuple(Point(torch.ones(2), {"q": torch.zeros(1)}))
    back = td.to_namedtuple()
    assert back.x.sum() == 2 and back.y.q.item() == 0
    assert type(td.to_namedtuple(Point)) is Point


def containers(below):
    lists = st.lists(below, min_size=1, max_size=3)
    dicts = st.dictionaries(st.sampled_from("abc"), below, min_size=1, max_size=3)
    return lists | lists.map(tuple) | dicts | st.tuples(below, below).map(lambda pair: Point(*pair))


trees = st.recursive(st.integers(-5, 5).map(lambda value: torch.full((2,), value)), containers, max_leaves=6)


@given(trees)
def test_nested_containers_come_back_from_a_tensordict(tree):
    if torch.is_tensor(tree):
        return
    assert alike(TensorDict.from_pytree(tree).to_pytree(), tree)


def alike(first, second) -> bool:
    if torch.is_tensor(first):
        return torch.equal(first, second)
    if type(first) is not type(second) or len(first) != len(second):
        return False
    keys = first if isinstance(first, dict) else range(len(first))
    return all(alike(first[key], second[key]) for key in keys)


def test_dicts_and_lists_come_out_as_asked():
    td = TensorDict({"a": torch.arange(2), "n": {"c": torch.ones(2, 1)}}, batch_size=[2])
    assert td.to_dict(convert_tensors=True) == {"a": [0, 1], "n": {"c": [[1.0], [1.0]]}}
    assert isinstance(td.to_dict(convert_tensors="numpy")["a"], np.ndarray)
    assert td.tolist(convert_tensors=True) == [{"a": 0, "n": {"c": [1.0]}}, {"a": 1, "n": {"c": [1.0]}}]
    assert type(td.tolist(convert_nodes=False)[0]) is TensorDict and type(td.to_dict(tolist_first=True)["n"]) is list
    assert td.numpy()["n"]["c"].shape == (2, 1)


# --- structured arrays

dtypes = st.sampled_from(["i4", "f8", "?", "u1", "c8", "f2"])
fields = st.lists(
    st.tuples(st.sampled_from("abcd"), dtypes, st.sampled_from([(), (2,), (1, 3)])),
    min_size=1,
    max_size=4,
    unique_by=lambda f: f[0],
)


@given(fields.flatmap(lambda spec: hnp.arrays(np.dtype(spec), (3,), elements=None)))
def test_structured_arrays_come_back(array):
    back = from_struct_array(array).to_struct_array()
    assert back.dtype == array.dtype and back.tobytes() == np.ascontiguousarray(array).tobytes()


def test_text_and_nested_fields_of_structured_arrays():
    array = np.array([(1, ("a", 0.5)), (2, ("bcd", 1.5))], dtype=[("i", ">i4"), ("n", [("s", "U5"), ("f", "f4")])])
    td = from_struct_array(array)
    assert td["i"].tolist() == [1, 2] and td["n", "s"] == ["a", "bcd"] and td.batch_size == (2,)
    assert td.to_struct_array()["n"]["s"].tolist() == ["a", "bcd"]
    with pytest.raises(TypeError, match="bfloat16, which NumPy lacks"):
        TensorDict({"a": torch.zeros(2).bfloat16()}, batch_size=[2]).to_struct_array()
    with pytest.raises(TypeError, match="no fields"):
        from_struct_array(np.zeros(3))


# --- tables


@pytest.mark.parametrize("lines", [False, True])
def test_json_files_go_there_and_back_without_other_libraries(tmp_path, monkeypatch, lines):
    forbid(monkeypatch, "pandas", "pyarrow")
    path = tmp_path / ("x.jsonl" if lines else "x.json")
    table().to_json(path, lines=lines)
    back = from_json(path, lines=lines)
    assert (back == table()).all() and back["f"].dtype is torch.float64 and list(back.keys()) == list(table().keys())
    table().to_json(path, separator=".", lines=lines)
    assert (from_json(path, separator=".", lines=lines) == table()).all()


def test_csv_files_go_there_and_back_without_other_libraries(tmp_path, monkeypatch):
    forbid(monkeypatch, "pandas", "pyarrow")
    table().to_csv(tmp_path / "x.csv", separator="/")
    assert (from_csv(tmp_path / "x.csv", separator="/") == table()).all()
    with pytest.raises(ValueError, match=r"separator='\.'"):
        table().to_csv(tmp_path / "y.csv")


def forbid(monkeypatch, *names):
    load = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.partition(".")[0] in names:
            raise ImportError(name)
        return load(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_csv_cells_say_what_a_column_is(tmp_path):
    (tmp_path / "x.csv").write_text("i;f;gap;t;big\n1;1;2.5;x;99999999999999999999\n-2;0.5;;;1\n")
    td = from_csv(tmp_path / "x.csv", delimiter=";")
    assert (
        td["i"].dtype is torch.int64 and td["f"].tolist() == [1.0, 0.5] and td["gap"].isnan().tolist() == [False, True]
    )
    assert td["t"] == ["x", ""] and td["big"].dtype is torch.float64
    assert from_csv(tmp_path / "x.csv", delimiter=";", dtype=torch.float32)["i"].dtype is torch.float32
    (tmp_path / "bad.csv").write_text("a,b\n1\n")
    with pytest.raises(ValueError, match=r"bad\.csv, line 2: 1 columns, but the header has 2"):
        from_csv(tmp_path / "bad.csv")


@pytest.mark.parametrize(
    ("text", "message"), [("{", "is no JSON"), ("3", "expected an array"), ('{"a": [1], "b": [1, 2]}', "one length")]
)
def test_json_files_that_are_no_table_are_named(tmp_path, text, message):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        from_json(tmp_path / "x.json")


def test_json_columns_with_gaps_become_values(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps([{"a": 1}, {"a": None, "b": "t"}]))
    td = from_json(tmp_path / "x.json")
    assert td["a"] == [1, None] and td["b"] == [None, "t"]


def test_parquet_files_go_there_and_back(tmp_path):
    pytest.importorskip("pyarrow")
    for separator in (None, "."):
        table().to_parquet(tmp_path / "x.parquet", separator=separator)
        assert (from_parquet(tmp_path / "x.parquet", separator=separator) == table()).all()
    assert list(from_parquet(tmp_path / "x.parquet", columns=["f"]).keys()) == ["f"]


def test_missing_libraries_are_named_with_what_installs_them(tmp_path, monkeypatch):
    forbid(monkeypatch, "pandas", "pyarrow", "h5py", "zarr", "streaming", "redis")
    cases = {
        "pandas": lambda: table().to_pandas(separator="."),
        "pyarrow": lambda: from_parquet(tmp_path / "x"),
        "h5py": lambda: TensorDict.from_h5(tmp_path / "x"),
        "zarr": lambda: TensorDict.from_zarr(tmp_path / "x"),
        "mosaicml-streaming": lambda: table().to_mds(out=str(tmp_path)),
        "redis": lambda: table().to_store(),
    }
    for name, call in cases.items():
        with pytest.raises(ImportError, match=rf"{name}.*Run: pip install|{name}(?s:.*)pip install"):
            call()


def test_pandas_frames_go_there_and_back():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "n.b": [0.5, 1.5], "s": ["x", "y"]})
    td = TensorDict.from_pandas(frame, separator=".")
    assert td["n", "b"].tolist() == [0.5, 1.5] and td["s"] == ["x", "y"]
    assert TensorDict.from_pandas(td.to_pandas(separator="."), separator=".")["a"].tolist() == [1, 2]


def test_samples_are_given_to_the_writer_of_another_format_row_by_row():
    class Writer:
        def __init__(self):
            self.rows = []

        def write(self, row):
            self.rows.append(row)

    writer = Writer()
    table().exclude("n").to_mds(out="", writer=writer)
    assert [row["i"] for row in writer.rows] == [0, 1, 2] and writer.rows[2]["s"] == "é"


@pytest.mark.parametrize("storage", [None, "memmap", "shared"])
def test_a_schema_makes_zeros_in_the_storage_asked_for(tmp_path, storage):
    schema = {"obs": ([2, 2], torch.uint8), ("next", "reward"): ([], torch.float64)}
    td = TensorDict.from_schema(
        schema, batch_size=[5], storage=storage, **({"prefix": tmp_path} if storage == "memmap" else {})
    )
    td[1] = TensorDict({"obs": torch.ones(2, 2, dtype=torch.uint8)})
    assert td["obs"].sum() == 4 and td["next", "reward"].dtype is torch.float64
    assert td.is_memmap() == (storage == "memmap") and td.is_shared() == (storage == "shared")
    with pytest.raises(ValueError, match="storage is 'tape'"):
        TensorDict.from_schema(schema, storage="tape")


def test_a_list_becomes_what_it_would_be_as_an_entry():
    assert torch.equal(from_any([1, 2]), torch.tensor([1, 2]))
    ragged = from_any([torch.ones(2), torch.zeros(3)])
    assert isinstance(ragged, NonTensorStack)
    assert from_any([{"a": 1}, {"a": 2}])["a"].tolist() == [1, 2]
    with pytest.raises(ValueError, match="dicts or tensordicts"):
        from_list([[{"a": 1}]])


def test_a_data_frame_becomes_a_tensordict_of_its_columns():
    pandas = pytest.importorskip("pandas")
    td = from_any(pandas.DataFrame({"i": [1, 2], "s": ["a", "b"]}))
    assert td.batch_size == torch.Size([2])
    assert td["i"].tolist() == [1, 2]
    assert td["s"] == ["a", "b"]


def test_numbers_of_a_structured_array_are_shared_where_their_layout_allows():
    array = np.array([(1, 2.0), (3, 4.0)], dtype=[("i", np.int64), ("f", np.float64)])
    td = from_struct_array(array)
    td["f"].zero_()
    assert array["f"].tolist() == [0, 0]
    packed = np.array([(1, 2.0)], dtype=[("i", np.int8), ("f", np.float64)])
    assert from_struct_array(packed)["f"].tolist() == [2.0]


def test_a_dict_is_made_into_the_kinds_that_an_instance_holds():
    class Kind(TensorDict):
        pass

    assert type(Kind.from_dict({"a": torch.ones(2)})) is Kind
    td = TensorDict({"a": torch.zeros(2), "n": Kind({"b": torch.zeros(2)}, [2])}, [2])
    made = td.from_dict_instance({"a": torch.ones(1), "n": {"b": torch.ones(1)}, "o": {"c": 1}})
    assert made.batch_size == torch.Size([])
    assert type(made["o"]) is TensorDict
