"""The names that frames offer, and what importing them loads."""

import importlib
import subprocess
import sys

import pytest

import flambeau.data.frame as ta

COLUMN = """
    dtype device length null_count is_nullable is_unique is_monotonic_increasing is_monotonic_decreasing
    append cast head tail map transform flatmap filter reduce sort isin fill_null drop_null
    drop_duplicates all any to_pandas to_arrow to_pylist to_tensor batch unbatch
"""
OPERATORS = """
    add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow and rand or ror xor
    rxor eq ne lt le gt ge getitem iter len
"""
NUMBERS = """
    log abs ceil floor round cumsum min max sum mean std median mode quantile percentile describe
"""
TEXT = """
    length slice split strip isalpha isnumeric isalnum isdigit isdecimal isspace islower isupper istitle
    lower upper startswith endswith count find replace match contains findall cat
"""
FRAME = """
    columns copy describe isin log min max sum mean std median mode drop rename reorder transform select
    where groupby
"""
FUNCTIONS = """
    bucketize sigrid_hash firstx clamp_list has_id_overlap id_overlap_count get_max_count
    get_jaccard_similarity get_cosine_similarity get_score_sum get_score_min get_score_max add_tokens
    bpe_tokenize lookup_indices array_constructor array_except scale_to_0_1 scale_to_z_score if_else
    get_jagged_sequences slice width_bucket array_intersect
"""
MODULES = {
    "": """dataframe column concat if_else from_arrow from_pandas from_pysequence me Column NumericalColumn StringColumn
        ListColumn MapColumn DataFrame Scope reader scan_parquet""",
    "dtypes": """boolean int8 int16 int32 int64 float32 float64 string List Map Struct Field Tuple Any Void Int64
        is_list infer_dtype_from_value common_dtype dtype_of_type""",
    "functional": FUNCTIONS,
    "icolumn": "Column column concat if_else",
    "idataframe": "DataFrame dataframe me",
    "inumerical_column": "NumericalColumn",
    "istring_column": "StringColumn StringMethods",
    "ilist_column": "ListColumn ListMethods",
    "imap_column": "MapColumn MapMethods",
    "interop": "from_arrow from_pandas from_pylist from_pysequence",
    "expression": "Expression Var GetAttr Call eval_expression expression",
    "scope": "Scope",
    "pytorch": "WithPresence PackedList PackedMap DefaultTensorConversion PadSequence TensorConversion from_tensor",
    "pytorch.rec": """Dense IndividualSparse PackedSparse PackOption JaggedSparse CombineOption Embedding Scalar""",
}
METHODS = {
    "Column": COLUMN,
    "NumericalColumn": f"{COLUMN} {NUMBERS}",
    "StringColumn": "str",
    "ListColumn": "list",
    "MapColumn": "maps",
    "DataFrame": f"{COLUMN} {FRAME}",
}


@pytest.mark.parametrize("module", MODULES)
def test_modules_have_upstreams_names(module):
    found = importlib.import_module("flambeau.data.frame" + (f".{module}" if module else ""))
    assert [name for name in MODULES[module].split() if not hasattr(found, name)] == []


@pytest.mark.parametrize("name", METHODS)
def test_columns_have_upstreams_methods(name):
    found = getattr(ta, name)
    assert [one for one in METHODS[name].split() if not hasattr(found, one)] == []
    assert [one for one in OPERATORS.split() if not hasattr(found, f"__{one}__")] == []


def test_text_lists_and_maps_have_upstreams_methods():
    for value, names in (
        (ta.column(["a"]).str, TEXT),
        (ta.column([[1]]).list, "length join get slice vmap map filter reduce flatmap"),
        (ta.column([{"a": 1}]).maps, "keys values get"),
    ):
        assert [one for one in names.split() if not hasattr(value, one)] == []


def test_the_package_is_light_until_it_is_used():
    code = "import flambeau.data.frame, sys; print({'torch', 'numpy', 'polars', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "set()"), done.stderr


@pytest.mark.parametrize("package", ["polars", "pyarrow"])
def test_a_missing_engine_is_named_with_its_extra(package):
    code = f"import sys; sys.modules[{package!r}] = None\nimport flambeau.data.frame as ta; ta.column([1])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"{package} is not installed" in done.stderr
    assert 'pip install "flambeau-data[frame]"' in done.stderr


def test_a_missing_ray_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r'pip install "flambeau-data\[ray\]"'):
        ta.dataframe({"a": [1]}).scale()
