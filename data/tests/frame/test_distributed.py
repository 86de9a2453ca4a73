"""The same program on one machine and on a cluster of Ray, which runs for real on this one."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import flambeau.data.frame as ta
from flambeau.data.frame import dtypes as dt
from flambeau.data.frame import functional, me

ray = pytest.importorskip("ray", reason='Ray is not installed; run: pip install "flambeau-data[ray]"')

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "frame_on_a_cluster.py"))


# Ray's own sockets and files outlive its shutdown, and its progress bars use names that are on their way out.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", object_store_memory=128 << 20)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clicks")
    EXAMPLE["write_files"](folder, rows=2000, files=3)
    return folder


def test_the_example_program_gives_equal_tables(folder):
    program = EXAMPLE["program"]
    here = program(ta.scan_parquet(folder)).to_arrow()
    there = program(ta.scan_parquet(folder).scale(ray)).to_arrow()
    assert here.num_rows > 500
    assert here.equals(there)


def test_a_plan_recorded_before_is_scaled_as_it_stands(folder):
    frame = ta.scan_parquet(folder)
    frame["twice"] = frame["label"] * 2
    kept = frame.where(me["twice"] > 1)
    assert kept.to_arrow().equals(kept.scale(ray).to_arrow())
    assert list(kept["items"].list.length()) == list(kept.scale(ray)["items"].list.length())


def test_rows_in_memory_are_cut_into_blocks_and_keep_their_order():
    frame = ta.dataframe({"a": list(range(100)), "s": [str(one) for one in range(100)]})
    frame["b"] = list(range(100, 200))
    scaled = frame.scale(ray, blocks=7)
    scaled["c"] = scaled["a"] + scaled["b"]
    assert list(scaled["c"]) == list(range(100, 300, 2))
    assert list(scaled[scaled["a"] % 2 == 1]["s"]) == [str(one) for one in range(1, 100, 2)]
    assert list(scaled.head(3)["b"]) == [100, 101, 102]
    assert scaled[::-1]["a"][0] == 99


def test_numbers_about_columns_are_put_together_from_blocks():
    values = [None if one % 5 == 0 else one * 0.5 for one in range(100)]
    here = ta.dataframe({"x": values, "n": list(range(100))})
    there = here.scale(ray, blocks=3)
    for name in ("min", "max", "sum", "median", "mode"):
        assert getattr(there["x"], name)() == getattr(here["x"], name)()
    for name in ("mean", "std"):
        assert getattr(there["x"], name)() == pytest.approx(getattr(here["x"], name)(), rel=1e-12)
    assert (len(there), there["x"].null_count) == (100, 20)
    assert there["n"].any()
    assert not there["n"].all()
    assert len(there.where(me["n"] > 1000)) == 0
    assert there.where(me["n"] > 1000)["n"].max() is None


def test_what_needs_all_rows_gathers_them():
    here = ta.dataframe({"k": [3, 1, 2, 1] * 10, "v": list(range(40))})
    there = here.scale(ray, blocks=4)
    assert there.sort(by=["k", "v"]).to_arrow().equals(here.sort(by=["k", "v"]).to_arrow())
    assert list(there["v"].cumsum()) == list(here["v"].cumsum())
    assert list(there.drop_duplicates("k")["v"]) == list(here.drop_duplicates("k")["v"])
    assert list(there["k"].flatmap(lambda one: [one] * one)) == list(here["k"].flatmap(lambda one: [one] * one))


def test_functions_of_users_travel_with_what_they_close_over():
    offset = 10

    class Add:
        def __call__(self, value):
            return value + offset

    there = ta.dataframe({"a": [1, 2, 3]}).scale(ray)
    assert list(there["a"].map(Add(), dtype=dt.int64)) == [11, 12, 13]
    assert list(there["a"].transform(lambda one: one * offset)) == [10, 20, 30]
    assert list(functional.sigrid_hash(there["a"], 0, 100)) == [60, 54, 54]


def test_a_users_error_arrives():
    there = ta.dataframe({"a": [1, 0]}).scale(ray)
    with pytest.raises(ZeroDivisionError, match="division"):
        list(1 // there["a"])
    with pytest.raises(ValueError, match="1 values are missing"):
        list(ta.dataframe({"a": [1, None]}).scale(ray)["a"].cast(dt.int32))


def test_ray_datasets_come_out_and_go_in():
    frame = ta.dataframe({"a": [1, 2, 3, 4]})
    frame["b"] = frame["a"] * 2
    dataset = frame.to_ray(ray)
    assert dataset.take_all() == [{"a": one, "b": 2 * one} for one in (1, 2, 3, 4)]
    other = ray.data.from_items([{"a": 10}, {"a": 20}])
    assert list(frame.scale(other)["b"]) == [20, 40]
    with pytest.raises(TypeError, match="no column 'a'"):
        frame.scale(ray.data.from_items([{"z": 1}]))


def test_columns_of_different_frames_do_not_combine_on_a_cluster():
    there = ta.dataframe({"a": [1, 2]}).scale(ray)
    with pytest.raises(ValueError, match="on a cluster; collect"):
        there["b"] = [1, 2]
    local = there.collect()
    local["b"] = [1, 2]
    assert list(local["b"]) == [1, 2]


def test_nested_and_missing_values_arrive_whole():
    record = dt.Struct([dt.Field("a", dt.Int64(True)), dt.Field("b", dt.String(True))], nullable=True)

    def program(frame):
        frame["b"] = frame["maps"].maps.get("b", 0)
        frame["a"] = frame["records"]["a"]
        frame["inner"] = frame["inner"].rename({"x": "w"})
        return frame.where(me["k"] > 1)

    here = ta.dataframe(
        {
            "maps": [{"a": 1}, {}, {"b": 2, "c": 3}],
            "records": ta.column([(1, "x"), None, (2, None)], record),
            "lists": [[[1], []], [], [[2, 3]]],
            "inner": ta.dataframe({"x": [1, 2, 3], "y": ["a", "b", "c"]}),
            "k": [1, 2, 3],
        }
    )
    there = here.scale(ray, blocks=2)
    assert program(there).to_arrow().equals(program(here).to_arrow())
    missing = ta.dataframe(record).append([None, (3, "q")]).scale(ray)
    assert (list(missing), missing.null_count) == ([None, (3, "q")], 1)
