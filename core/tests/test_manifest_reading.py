"""Reading a manifest trusts nothing: whatever is wrong ends in one error with the JSON path of the fault."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flambeau.core import MANIFEST_NAME, SCHEMA_VERSION, read_manifest, validate_manifest
from flambeau.core.errors import ManifestError
from flambeau.core.manifest import reading

HEAD = {"schema": 1, "plugin": "alpha", "api": "1.0"}
MODEL = {"name": "net", "target": "alpha.zoo:net"}
MEMBER = {"model": "net", "enum": "alpha.zoo:W", "name": "V1", "url": "https://e.example/a.pth"}


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / MANIFEST_NAME
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


def test_the_files_name_and_schema_are_fixed():
    assert (MANIFEST_NAME, SCHEMA_VERSION) == ("flambeau_plugin.json", 1)


def test_the_smallest_manifest_has_three_keys(write):
    assert read_manifest(write(HEAD)) == HEAD
    assert read_manifest(str(write(HEAD))) == HEAD


def test_unknown_keys_are_kept_and_mean_nothing(write):
    data = {**HEAD, "future": {"a": 1}, "models": [{**MODEL, "future": [1]}]}
    assert read_manifest(write(data)) == data


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe{}", "not valid JSON"),
        (b"null", r"\$ is null, expected an object|\$ is None, expected an object"),
        (b"[]", r"\$ is a list, expected an object"),
        (b'{"schema": NaN}', "NaN is not a JSON number"),
        (b'{"schema": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"schema": ' + b"1" * 5000 + b"}", "not valid JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
    ],
)
def test_a_file_that_is_no_json_object_is_refused(write, content, fault):
    with pytest.raises(ManifestError, match=fault) as caught:
        read_manifest(write(content))
    assert MANIFEST_NAME in str(caught.value)


def test_a_huge_file_is_refused_unparsed(write, monkeypatch):
    monkeypatch.setattr(reading, "MOST_BYTES", 1000)
    with pytest.raises(ManifestError, match="larger than"):
        read_manifest(write(b" " * 1001 + b"{}"))


@pytest.mark.parametrize("kind", ["absent", "folder"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, kind):
    path = tmp_path / MANIFEST_NAME
    if kind == "folder":
        path.mkdir()
    with pytest.raises(ManifestError, match=rf"{MANIFEST_NAME}: the manifest cannot be read \(.+\)"):
        read_manifest(path)


FAULTS = [
    ({"plugin": "alpha", "api": "1.0"}, "$.schema is missing, expected an integer"),
    ({"schema": 1, "api": "1.0"}, "$.plugin is missing"),
    ({"schema": 1, "plugin": "alpha"}, "$.api is missing"),
    ({**HEAD, "schema": "1"}, "$.schema is '1', expected an integer"),
    ({**HEAD, "schema": True}, "$.schema is True"),
    ({**HEAD, "schema": 0}, "$.schema is 0, expected 1"),
    ({**HEAD, "schema": 2}, "upgrade it"),
    ({**HEAD, "plugin": ["alpha"]}, "$.plugin is a list, expected a string"),
    ({**HEAD, "api": 1.0}, "$.api is 1.0, expected a string"),
    ({**HEAD, "api": "1"}, "$.api is '1', expected a version"),
    ({**HEAD, "api": "1.0\n"}, "$.api is '1.0\\n'"),
    ({**HEAD, "api": "9" * 5000 + ".0"}, "$.api is '9999"),
    ({**HEAD, "requires": [">=1"]}, "$.requires is a list, expected an object"),
    ({**HEAD, "requires": {"torch": 2}}, "$.requires.torch is 2, expected a version specifier"),
    ({**HEAD, "hooks": 3}, "$.hooks is 3, expected a string or null"),
    ({**HEAD, "models": {"net": MODEL}}, "$.models is an object, expected a list"),
    ({**HEAD, "models": ["net"]}, "$.models[0] is 'net', expected an object"),
    ({**HEAD, "models": [MODEL, {"name": "other"}]}, "$.models[1].target is missing"),
    ({**HEAD, "models": [{**MODEL, "name": None}]}, "$.models[0].name is None, expected a string"),
    ({**HEAD, "models": [{**MODEL, "name": "a/b"}]}, "$.models[0]: name is 'a/b', expected letters"),
    ({**HEAD, "models": [{**MODEL, "name": "\x1b[2J"}]}, "$.models[0].name is '\\x1b[2J'"),
    ({**HEAD, "home_page": "https://e.example\x1b]0;x\x07"}, "$.home_page is 'https://e.example\\x1b]0;x\\x07'"),
    ({**HEAD, "commands": [{"name": "go", "target": "m:f", "help": "a\nb"}]}, "expected one line of text"),
    ({**HEAD, "models": [{**MODEL, "aliases": 5}]}, "$.models[0].aliases is 5, expected a list"),
    ({**HEAD, "models": [MODEL, {**MODEL, "name": "b", "aliases": ["net"]}]}, "both named 'net'"),
    ({**HEAD, "models": [{**MODEL, "tags": "small"}]}, "$.models[0].tags is 'small', expected a list"),
    ({**HEAD, "models": [{**MODEL, "tags": ["a", 1]}]}, "$.models[0].tags[1] is 1, expected a string"),
    ({**HEAD, "models": [MODEL, MODEL]}, "$.models[1] and $.models[0] are both named 'net'"),
    ({**HEAD, "weights": [{**MEMBER, "url": 12}]}, "$.weights[0].url is 12"),
    ({**HEAD, "weights": [{**MEMBER, "size": 1.5}]}, "$.weights[0].size is 1.5, expected an integer or null"),
    ({**HEAD, "weights": [{**MEMBER, "size": True}]}, "$.weights[0].size is True"),
    ({**HEAD, "weights": [{**MEMBER, "default": 1}]}, "$.weights[0].default is 1, expected true or false"),
    ({**HEAD, "weights": [{**MEMBER, "meta": []}]}, "$.weights[0].meta is a list, expected an object"),
    ({**HEAD, "weights": [{**MEMBER, "name": "V:1"}]}, "$.weights[0]: name is 'V:1', expected letters"),
    ({**HEAD, "weights": [{**MEMBER, "aliases": ["a b"]}]}, "$.weights[0]: name is 'a b'"),
    ({**HEAD, "weights": [MEMBER, {**MEMBER, "name": "V2", "aliases": ["V1"]}]}, "both named 'net:V1'"),
    (
        {**HEAD, "weights": [{**MEMBER, "default": True}, {**MEMBER, "name": "V2", "default": True}]},
        "both named 'net:DEFAULT'",
    ),
    ({**HEAD, "datasets": [{"name": "toy"}]}, "$.datasets[0].target is missing"),
    ({**HEAD, "kernels": [{"namespace": "x"}]}, "$.kernels[0].library is missing"),
    ({**HEAD, "commands": [{"name": "go", "target": "m:f", "help": 1}]}, "$.commands[0].help is 1"),
    ({**HEAD, "predictors": [{"target": "m:f"}]}, "$.predictors[0].task is missing"),
]


@pytest.mark.parametrize(("data", "fault"), FAULTS, ids=[fault[:40] for _, fault in FAULTS])
def test_the_fault_is_named_with_its_path(write, data, fault):
    with pytest.raises(ManifestError) as caught:
        read_manifest(write(data))
    assert fault in str(caught.value)
    assert len(str(caught.value)) < 400


def test_one_name_may_stand_in_several_tables(write):
    data = {**HEAD, "models": [MODEL], "datasets": [MODEL], "tensor_types": [MODEL]}
    assert read_manifest(write(data)) == data


def test_an_alias_that_repeats_the_name_or_the_default_is_no_clash(write):
    data = {**HEAD, "weights": [{**MEMBER, "default": True, "aliases": ["DEFAULT", "V1"]}]}
    assert read_manifest(write(data)) == data


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=12,
)
keys = sorted({key for required, optional in reading.TABLES.values() for key in (*required, *optional)})
plausible = st.sampled_from(["net", "a.b:c", "https://e.x/f", ["net"], True, 7])
records = st.builds(
    lambda base, changes: {**base, **changes},
    st.sampled_from([{}, MODEL, MEMBER]),
    st.dictionaries(st.sampled_from(keys), json_values | plausible, max_size=3),
)
tables = st.dictionaries(st.sampled_from([*reading.TABLES]), st.lists(records, min_size=1, max_size=3), min_size=1)


@given(st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_make_reading_fail_in_any_other_way(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("manifest") / MANIFEST_NAME
    path.write_bytes(content)
    try:
        assert isinstance(read_manifest(path), dict)
    except ManifestError as error:
        assert str(path) in str(error)


@pytest.mark.parametrize("version", [True, 1.0, "1", None])
def test_a_version_that_merely_equals_one_is_refused_by_reading_and_by_the_schema(version):
    data = {**HEAD, "schema": version}
    with pytest.raises(ManifestError, match=r"\$\.schema"):
        reading.check_head(data, reading.Path("memory"))
    (fault,) = validate_manifest(data)
    assert fault.startswith("$.schema: ")


@given(tables, st.dictionaries(st.sampled_from([*HEAD, *reading.HEAD_OPTIONAL]), json_values, max_size=2))
def test_no_tables_make_reading_fail_in_any_other_way_and_what_the_schema_accepts_can_be_read(tables, head):
    path, data = reading.Path("memory"), {**tables, **HEAD, **head}
    try:
        reading.check_head(data, path)
        reading.check_tables(data, path)
    except ManifestError as error:
        assert validate_manifest(data), error
