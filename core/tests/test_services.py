"""Services: which one answers for a task, and what they do of their own accord."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError

from flambeau.core.manifest.schema import validate_manifest
from flambeau.core.services import Service, ServiceParameters, service_target

HEAD = {"schema": 1, "plugin": "a", "api": "1.0"}
SERVICE = {"task": "sum", "target": "pkg.services:Sum", "media_types": ["text/plain", "image/*"]}


class Sum(Service):
    """Sums the numbers of a text."""

    def decode(self, body: bytes, media_type: str, parameters: Any) -> Any:
        return torch.tensor([float(word) for word in body.split()])

    def prepare(self, sample: Any) -> Any:
        return sample

    def answer(self, output: Any, sample: Any, parameters: Any) -> dict[str, Any]:
        return {"sum": float(output)}


def service(model: Any, dtype: torch.dtype = torch.float64) -> Sum:
    return Sum(model=model, weights=None, device=torch.device("cpu"), dtype=dtype)  # type: ignore[arg-type]


def test_the_service_of_a_models_own_plugin_goes_before_others(site: Any) -> None:
    site.add("beta", {"services": [SERVICE | {"target": "beta:Sum"}]})
    site.add("alpha", {"services": [SERVICE | {"target": "alpha:Sum"}]})
    assert service_target("sum", "beta") == ("beta:Sum", SERVICE | {"target": "beta:Sum"})
    assert service_target("sum", "gamma") == ("alpha:Sum", SERVICE | {"target": "alpha:Sum"})
    assert service_target("product", "beta") is None


@pytest.mark.parametrize(
    ("change", "where"),
    [({"media_types": ["png"]}, "media_types[0]"), ({"target": "pkg.services"}, "target"), ({"task": 3}, "task")],
)
def test_a_service_that_a_server_could_not_use_is_refused(change: dict[str, Any], where: str) -> None:
    assert validate_manifest({**HEAD, "services": [SERVICE]}) == []
    (fault,) = validate_manifest({**HEAD, "services": [SERVICE | change]})
    assert fault.startswith(f"$.services[0].{where}")


def test_a_batch_has_the_models_type_and_each_request_its_own_output() -> None:
    one = service(lambda batch: batch.sum(1))
    samples = [one.decode(text, "", None) for text in (b"1 2", b"3 4")]
    batch = one.collate([one.prepare(sample) for sample in samples])
    assert batch.dtype == torch.float64 and batch.shape == (2, 2)
    outputs = one.split(one.forward(batch), 2)
    assert [one.answer(output, sample, None) for output, sample in zip(outputs, samples, strict=True)] == [
        {"sum": 3.0},
        {"sum": 7.0},
    ]
    assert one.split({"a": torch.arange(2), "b": torch.zeros(2, 3)}, 2)[1]["a"] == 1


def test_integers_stay_integers_in_structures() -> None:
    batch = service(None).collate([{"ids": torch.tensor([1, 2]), "x": (torch.ones(1),)} for _ in range(2)])
    assert batch["ids"].dtype == torch.int64 and batch["x"][0].dtype == torch.float64


def test_parameters_are_checked_and_what_others_ask_for_is_not() -> None:
    assert ServiceParameters.model_validate({"top": "3", "colour": "red"}).top == 3
    with pytest.raises(ValidationError):
        ServiceParameters.model_validate({"top": 0})
