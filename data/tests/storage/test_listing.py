"""Listing objects: which keys a URL stands for."""

import pytest

from flambeau.data.storage import ObjectMissingError, StorageError, describe_objects, list_objects

KEYS = ["folder/", "folder/a.txt", "folder/deep/b.txt", "folder-2/c.txt", "fold", "prefix-1/x", "prefix-2", "top.txt"]


@pytest.fixture
def listed(bucket, s3_endpoint):
    root = bucket({key: b"" if key.endswith("/") else key.encode() for key in KEYS})

    def listing(end: str) -> list[str]:
        found = list(list_objects(root + end, endpoint_url=s3_endpoint))
        assert all(url.startswith(root + "/") for url in found)
        return [url.removeprefix(root + "/") for url in found]

    return listing


FILES = sorted(key for key in KEYS if not key.endswith("/"))


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("", FILES),
        ("/", FILES),
        ("/folder", ["folder-2/c.txt", "folder/a.txt", "folder/deep/b.txt"]),
        ("/folder/", ["folder/a.txt", "folder/deep/b.txt"]),
        ("/folder/deep", ["folder/deep/b.txt"]),
        ("/prefix", ["prefix-1/x", "prefix-2"]),
        ("/prefix-1", ["prefix-1/x"]),
        ("/top.txt", ["top.txt"]),
        ("/fold", ["fold", "folder-2/c.txt", "folder/a.txt", "folder/deep/b.txt"]),
        ("/nothing", []),
    ],
)
def test_a_url_stands_for_all_keys_that_begin_with_it_but_folder_markers(listed, end, expected):
    assert listed(end) == expected


def test_an_empty_object_is_listed_although_an_empty_marker_is_not(bucket, s3_endpoint):
    root = bucket({"a/": b"", "a/empty": b""})
    assert list(list_objects(root, endpoint_url=s3_endpoint)) == [f"{root}/a/empty"]


def test_more_than_one_page_is_listed_completely_and_in_order(bucket, s3_endpoint):
    root = bucket({f"shard-{n:05}": b"x" for n in range(1005)})
    found = list(list_objects(f"{root}/shard", endpoint_url=s3_endpoint))
    assert found == [f"{root}/shard-{n:05}" for n in range(1005)]


def test_keys_with_spaces_and_signs_are_listed_as_they_are(bucket, s3_endpoint):
    root = bucket({"a b/ü#%25.txt": b"x"})
    assert list(list_objects(root, endpoint_url=s3_endpoint)) == [f"{root}/a b/ü#%25.txt"]


def test_a_description_has_size_and_tag(bucket, s3_endpoint):
    root = bucket({"a": b"12345"})
    (one,) = describe_objects(root, endpoint_url=s3_endpoint)
    assert (one.size, bool(one.e_tag), one.last_modified is None) == (5, True, False)


def test_a_bucket_that_is_not_there_is_reported(s3_endpoint):
    with pytest.raises(ObjectMissingError, match=r"s3://no-such-bucket"):
        list(list_objects("s3://no-such-bucket/", endpoint_url=s3_endpoint))


@pytest.mark.parametrize(
    ("url", "message"),
    [("s3://", "names no bucket"), ("folder/file", "expected it to start with"), ("http://host/x", "no listing")],
)
def test_what_cannot_be_listed_is_refused(url, message):
    with pytest.raises(StorageError, match=message):
        list_objects(url)
