"""Archives: what is good is read in all its forms, and what would do harm is refused before it does."""

from __future__ import annotations

import os
import zipfile

import pytest
from making import archive, manifest_of

from flambeau.serve.archives.reading import open_archive, settings_of
from flambeau.serve.engine.settings import VersionSettings
from flambeau.serve.errors import ArchiveError

HANDLER = {"handler.py": "def handle(data, context): ..."}


@pytest.mark.parametrize("name", ["net.mar", "net.tar.gz", "net"])
def test_every_form_of_archive_is_read(tmp_path, name):
    found = open_archive(archive(tmp_path / name, HANDLER), tmp_path / "cache")
    assert (found.name, found.version, found.handler) == ("net", "1.0", "handler.py")
    assert (found.folder / "handler.py").is_file()
    if name != "net":
        assert os.stat(tmp_path / "cache" / found.digest).st_mode & 0o777 == 0o700


def test_an_archive_without_a_version_has_the_first(tmp_path):
    manifest = manifest_of()
    del manifest["model"]["modelVersion"]
    assert open_archive(archive(tmp_path / "a.mar", HANDLER, manifest), tmp_path / "cache").version == "1.0"


def test_its_configuration_says_how_it_is_run(tmp_path):
    config = "minWorkers: 2\nmaxWorkers: 1\nbatchSize: 4\nmaxBatchDelay: 7\nresponseTimeout: 9\nmine: {a: [1]}\n"
    files = {**HANDLER, "config.yaml": config}
    found = open_archive(archive(tmp_path / "a.mar", files, manifest_of(configFile="config.yaml")), tmp_path / "cache")
    settings, workers = settings_of(found, VersionSettings())
    assert (settings.min_workers, settings.max_workers, settings.batch_size, workers) == (2, 2, 4, 2)
    assert (settings.max_batch_delay_ms, settings.response_timeout) == (7, 9)
    assert found.config["mine"] == {"a": [1]}


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ("batchSize: 0", "batchSize"),
        ("batchSize: true", "batchSize"),
        ("- 1", "no mapping"),
        ("a: [", "cannot be read"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(tmp_path, config, why):
    files = {**HANDLER, "config.yaml": config}
    path = archive(tmp_path / "a.mar", files, manifest_of(configFile="config.yaml"))
    with pytest.raises(ArchiveError, match=why):
        settings_of(open_archive(path, tmp_path / "cache"), VersionSettings())


def test_yaml_that_runs_code_is_refused(tmp_path):
    config = f"!!python/object/apply:os.mkdir ['{tmp_path / 'harm'}']"
    path = archive(tmp_path / "a.mar", {**HANDLER, "c.yaml": config}, manifest_of(configFile="c.yaml"))
    with pytest.raises(ArchiveError, match="cannot be read"):
        open_archive(path, tmp_path / "cache")
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    "name", ["../out.py", "/out.py", "a/../../out.py", "..\\out.py", "a\\..\\..\\out.py", "C:\\out.py"]
)
def test_names_that_lead_outside_are_refused(tmp_path, name):
    path = archive(tmp_path / "a.mar", {**HANDLER, name: "harm"})
    with pytest.raises(ArchiveError):
        open_archive(path, tmp_path / "cache")
    assert not list(tmp_path.rglob("out.py"))


@pytest.mark.parametrize("facts", [{"handler": "../x.py"}, {"serializedFile": "/etc/passwd"}, {"modelFile": "no.py"}])
def test_a_manifest_that_names_what_the_archive_does_not_hold_is_refused(tmp_path, facts):
    with pytest.raises(ArchiveError, match=next(iter(facts))):
        open_archive(archive(tmp_path / "a.mar", HANDLER, manifest_of(**facts)), tmp_path / "cache")


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "no archive"), (os.urandom(500), "no archive"), (b"PK\x03\x04 cut", "archive")],
    ids=["empty", "random", "cut"],
)
def test_what_is_no_archive_is_refused(tmp_path, content, why):
    (tmp_path / "a.mar").write_bytes(content)
    with pytest.raises(ArchiveError, match=why):
        open_archive(tmp_path / "a.mar", tmp_path / "cache")


def test_an_archive_without_a_manifest_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.mar", "w") as file:
        file.writestr("handler.py", "")
    with pytest.raises(ArchiveError, match="MANIFEST"):
        open_archive(tmp_path / "a.mar", tmp_path / "cache")


def test_a_link_is_refused(tmp_path):
    with zipfile.ZipFile(archive(tmp_path / "a.mar", HANDLER), "a") as file:
        link = zipfile.ZipInfo("link")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        file.writestr(link, "/etc")
    with pytest.raises(ArchiveError):
        open_archive(tmp_path / "a.mar", tmp_path / "cache")


def test_entries_that_differ_by_case_alone_are_refused(tmp_path):
    path = archive(tmp_path / "a.mar", {**HANDLER, "Handler.py": "other"})
    with pytest.raises(ArchiveError, match="twice"):
        open_archive(path, tmp_path / "cache")
