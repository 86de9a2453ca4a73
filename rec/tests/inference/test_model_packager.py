"""Archives hold a factory, its configurations and whatever else belongs to it."""

from __future__ import annotations

import io
import sys
import textwrap

import pytest
import torch

from flambeau.rec.errors import OptionError
from flambeau.rec.inference import model_packager
from flambeau.rec.inference.inference_legacy import model_packager as legacy
from flambeau.rec.inference.model_packager import PredictFactoryPackager, load_config_text

FACTORY = """
    from flambeau.rec.inference.modules import PredictFactory

    class Factory(PredictFactory):
        def create_predict_module(self):
            return "made"
        def batching_metadata(self):
            return {}
        def result_metadata(self):
            return "dict_of_tensor"
        def run_weights_independent_tranformations(self, predict_module):
            return predict_module
        def run_weights_dependent_transformations(self, predict_module):
            return predict_module
"""


@pytest.fixture
def factory(tmp_path, monkeypatch):
    (tmp_path / "packaged_factory.py").write_text(textwrap.dedent(FACTORY))
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("packaged_factory").Factory
    sys.modules.pop("packaged_factory")


class Packager(PredictFactoryPackager):
    @classmethod
    def set_extern_modules(cls, pe):
        pe.extern(["torch.**", "flambeau.**"])

    @classmethod
    def set_mocked_modules(cls, pe):
        pe.mock(["notthere.**"])


def test_an_archive_makes_the_model_and_knows_its_configuration(factory):
    file = io.BytesIO()
    Packager.save_predict_factory(factory, {"text": "wide", "sizes": {"a": 1}}, file, {"README": "about"})
    file.seek(0)
    archive = torch.package.PackageImporter(file)
    found = archive.import_module(model_packager.LOADER_MODULE).MODULE_FACTORY
    assert found is not factory and found().create_predict_module() == "made"
    assert archive.load_text(model_packager.CONFIG_MODULE, "text") == "wide"
    assert archive.load_pickle(model_packager.CONFIG_MODULE, "sizes") == {"a": 1}
    assert archive.load_text("extra_files", "README") == "about"


def test_configurations_are_in_archives_alone():
    with pytest.raises(RuntimeError, match="not loaded from an archive"):
        load_config_text("text")


def test_other_files_are_text_or_bytes(factory):
    with pytest.raises(OptionError, match=r"extra_files\['x'\] is a int"):
        Packager.save_predict_factory(factory, {}, io.BytesIO(), {"x": 1})


def test_the_older_path_names_the_same():
    assert legacy.PredictFactoryPackager is PredictFactoryPackager
