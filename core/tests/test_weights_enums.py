"""Weights and the enums that name them: facts without torch, members that stay singletons, equality by content."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flambeau.core.weights import Weights, WeightsEnum, lazy
from flambeau.core.weights.files import expected_sha256, named_hash
from flambeau.core.weights.records import weights_record

META: dict[str, Any] = {"categories": ["cat", "dog"], "num_params": 7, "license": "MIT"}


def preset(size: int = 8, *, mean: float = 0.0) -> tuple[int, float]:
    """Stands for a class of preprocessing."""
    return size, mean


class Lamp_Weights(WeightsEnum):
    V1 = Weights("https://host.example/lamp-0123abcd.pth", partial(preset, size=4), META)
    V2 = Weights(
        "https://host.example/lamp2.pth",
        lazy(f"{__name__}:preset", size=4),
        {**META, "num_params": 8},
        sha256="f" * 64,
        size=12,
        mirrors=("https://mirror.example/lamp2.pth",),
        format="safetensors",
    )
    DEFAULT = V2


class Torch_Weights(WeightsEnum):
    V1 = Weights("https://host.example/torch.pth", preset, {})


MEMBERS = st.sampled_from([*Lamp_Weights, *Torch_Weights])


class TestMembers:
    def test_default_is_an_alias_and_iteration_yields_each_member_once(self) -> None:
        assert Lamp_Weights.DEFAULT is Lamp_Weights.V2
        assert list(Lamp_Weights) == [Lamp_Weights.V1, Lamp_Weights.V2]

    def test_repr_is_class_and_name(self) -> None:
        assert repr(Lamp_Weights.V1) == str(Lamp_Weights.V1) == "Lamp_Weights.V1"

    @given(MEMBERS)
    def test_copies_and_pickles_are_the_same_object(self, member: WeightsEnum) -> None:
        assert copy.copy(member) is member
        assert copy.deepcopy({"deep": [member]})["deep"][0] is member
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(member, protocol)) is member

    def test_pickles_hold_the_name_and_not_the_facts(self) -> None:
        assert b"host.example" not in pickle.dumps(Lamp_Weights.V1)

    def test_members_are_hashable_and_differ(self) -> None:
        assert len({Lamp_Weights.V1, Lamp_Weights.V2, Lamp_Weights.DEFAULT, Torch_Weights.V1}) == 3

    def test_facts_are_attributes_of_the_member(self) -> None:
        member = Lamp_Weights.V2
        assert (member.url, member.meta["num_params"]) == ("https://host.example/lamp2.pth", 8)
        assert (member.sha256, member.size, member.format) == ("f" * 64, 12, "safetensors")
        assert (member.mirrors, member.license) == (("https://mirror.example/lamp2.pth",), "MIT")
        assert member.transforms() == (4, 0.0)

    def test_members_that_are_no_weights_are_refused_with_the_reason(self) -> None:
        class Wrong(WeightsEnum):
            V1 = "https://host.example/lamp.pth"

        with pytest.raises(TypeError, match=r"Wrong\.V1 is a str; members of a WeightsEnum are Weights"):
            _ = Wrong.V1.url


class TestVerify:
    @pytest.mark.parametrize("name", ["V2", "DEFAULT", "Lamp_Weights.V2", "Lamp_Weights.DEFAULT"])
    def test_strings_name_members(self, name: str) -> None:
        assert Lamp_Weights.verify(name) is Lamp_Weights.V2

    def test_none_and_members_pass(self) -> None:
        assert Lamp_Weights.verify(None) is None
        assert Lamp_Weights.verify(Lamp_Weights.V1) is Lamp_Weights.V1

    @pytest.mark.parametrize("wrong", [Torch_Weights.V1, True, 3, META, Lamp_Weights, Lamp_Weights.V1.value])
    def test_anything_else_is_a_type_error_that_names_the_class(self, wrong: object) -> None:
        with pytest.raises(TypeError, match="expected Lamp_Weights, a member or its name"):
            Lamp_Weights.verify(wrong)

    @pytest.mark.parametrize("kind", [TypeError, KeyError, ValueError])
    @pytest.mark.parametrize("name", ["V3", "Torch_Weights.V1", "", "Lamp_Weights."])
    def test_unknown_names_are_caught_however_upstream_code_catches_them(
        self, kind: type[Exception], name: str
    ) -> None:
        with pytest.raises(kind, match="expected Lamp_Weights, whose members are V1, V2, DEFAULT"):
            Lamp_Weights.verify(name)

    def test_a_misspelt_name_gets_a_suggestion(self) -> None:
        with pytest.raises(TypeError, match="Close names: DEFAULT"):
            Lamp_Weights.verify("DEFALT")


class TestEquality:
    def test_partials_with_equal_parts_are_equal(self) -> None:
        one = Weights("u", partial(preset, size=4), {"a": 1})
        assert one == Weights("u", partial(preset, size=4), {"a": 1})
        assert hash(one) == hash(Weights("u", partial(preset, size=4), {"a": 1}))

    @pytest.mark.parametrize(
        "other",
        [
            Weights("v", partial(preset, size=4), {"a": 1}),
            Weights("u", partial(preset, size=5), {"a": 1}),
            Weights("u", partial(preset, 4), {"a": 1}),
            Weights("u", partial(dict, size=4), {"a": 1}),
            Weights("u", preset, {"a": 1}),
            Weights("u", lazy(f"{__name__}:preset", size=5), {"a": 1}),
            Weights("u", partial(preset, size=4), {"a": 2}),
            "u",
        ],
    )
    def test_any_difference_in_url_transforms_or_meta_counts(self, other: object) -> None:
        assert Weights("u", partial(preset, size=4), {"a": 1}) != other

    def test_hash_size_mirrors_and_format_do_not_count(self) -> None:
        assert Weights("u", preset, {}, sha256="a" * 64, size=3, format="torch") == Weights("u", preset, {})

    def test_lazy_and_real_partials_are_equal_either_way_round(self) -> None:
        named, real = lazy(f"{__name__}:preset", size=4), partial(preset, size=4)
        assert Weights("u", named, {}) == Weights("u", real, {})
        assert Weights("u", real, {}) == Weights("u", named, {})

    @given(st.dictionaries(st.sampled_from(["size", "mean"]), st.integers()))
    def test_deep_copies_and_pickles_of_weights_are_equal(self, params: dict[str, int]) -> None:
        for transforms in (partial(preset, **params), lazy(f"{__name__}:preset", **params)):
            weights = Weights("u", transforms, {"a": [1, {"b": 2}]})
            assert copy.deepcopy(weights) == pickle.loads(pickle.dumps(weights)) == weights

    def test_weights_are_a_frozen_dataclass_with_upstreams_three_positions(self) -> None:
        names = [field.name for field in dataclasses.fields(Weights)]
        assert names[:3] == ["url", "transforms", "meta"]
        with pytest.raises(TypeError):
            Weights("u", preset)  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            Weights("u", preset, {}, "f" * 64)  # type: ignore[misc]
        with pytest.raises(dataclasses.FrozenInstanceError):
            Weights("u", preset, {}).url = "v"  # type: ignore[misc]
        assert dataclasses.replace(Weights("u", preset, {}), url="v") == Weights("v", preset, {})


class TestLazyTransforms:
    def test_access_gives_the_real_partial(self) -> None:
        transforms = Lamp_Weights.V2.transforms
        assert isinstance(transforms, partial)
        assert (transforms.func, transforms.keywords) == (preset, {"size": 4})
        assert Lamp_Weights.V2.transforms is transforms

    def test_the_reference_itself_can_be_called_with_more_arguments(self) -> None:
        assert lazy(f"{__name__}:preset", size=3)(mean=0.5) == (3, 0.5)

    def test_comparing_and_showing_unresolved_references_imports_nothing(self) -> None:
        one = Weights("u", lazy("no.such.module:Preset", size=3), {})
        assert one == Weights("u", lazy("no.such.module:Preset", size=3), {})
        assert one != Weights("u", lazy("no.such.module:Preset", size=4), {})
        assert one != Weights("u", partial(preset, size=4), {})
        assert "lazy('no.such.module:Preset', size=3)" in repr(one)

    @pytest.mark.parametrize("target", ["module", "module:", ":name", ""])
    def test_a_target_without_module_and_name_is_refused(self, target: str) -> None:
        with pytest.raises(ValueError, match=r"expected 'package.module:Name'"):
            lazy(target)

    def test_enums_and_their_facts_need_no_torch(self) -> None:
        program = """
            import sys
            from flambeau.core.weights import Weights, WeightsEnum, get_weight, lazy, list_models, register_model
            class Net_Weights(WeightsEnum):
                V1 = Weights("u", lazy("torch.nn:Linear", in_features=2), {"categories": ["a"]})
            def net(*, weights: Net_Weights | None = None): ...
            register_model()(net)
            assert list_models(include="net") and get_weight("net:V1") is get_weight("Net_Weights.V1")
            print(*(name for name in ("torch", "numpy", "pydantic", "pluggy", "safetensors") if name in sys.modules))
        """
        code = "\n".join(line[12:] for line in program.splitlines())
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
        assert (done.stdout.strip(), done.stderr) == ("", "")


class TestRecords:
    def test_a_record_is_plain_short_and_complete(self) -> None:
        assert weights_record("lamp", Lamp_Weights.V2) == {
            "model": "lamp",
            "enum": f"{__name__}:Lamp_Weights",
            "name": "V2",
            "url": "https://host.example/lamp2.pth",
            "sha256": "f" * 64,
            "size": 12,
            "mirrors": ["https://mirror.example/lamp2.pth"],
            "format": "safetensors",
            "default": True,
            "aliases": ["DEFAULT"],
            "meta": {"num_categories": 2, "num_params": 8, "license": "MIT"},
            "transforms": {"target": f"{__name__}:preset", "params": {"size": 4}},
            "license": "MIT",
        }

    def test_real_partials_are_recorded_like_lazy_ones(self) -> None:
        assert weights_record("lamp", Lamp_Weights.V1)["transforms"] == {
            "target": f"{__name__}:preset",
            "params": {"size": 4},
        }

    def test_preprocessing_without_a_name_is_recorded_as_none(self) -> None:
        class Odd_Weights(WeightsEnum):
            V1 = Weights("u", lambda: None, {})

        assert weights_record("odd", Odd_Weights.V1)["transforms"] is None

    def test_members_inside_meta_are_recorded_by_name(self) -> None:
        class Small_Weights(WeightsEnum):
            V1 = Weights("u", preset, {"unquantized": Lamp_Weights.V1})

        assert weights_record("small", Small_Weights.V1)["meta"] == {"unquantized": "Lamp_Weights.V1"}


class TestNamedHashes:
    @pytest.mark.parametrize(
        ("file", "digits"),
        [
            ("resnet50-0676ba61.pth", "0676ba61"),
            ("shufflenetv2_x1-5666bf0f80.pth", "5666bf0f80"),
            ("net-" + "a" * 64 + ".safetensors", "a" * 64),
            ("net-0676ba6.pth", None),
            ("net-0676BA61.pth", None),
            ("net.pth", None),
            ("net-20240131.pth", None),
            ("net-20241331.pth", "20241331"),
        ],
    )
    def test_file_names_carry_the_first_digits_of_the_digest(self, file: str, digits: str | None) -> None:
        assert named_hash(file) == digits

    def test_a_stated_digest_comes_before_the_one_in_the_name(self) -> None:
        assert expected_sha256(Lamp_Weights.V1.value) == "0123abcd"
        assert expected_sha256(Weights("https://e/lamp-0123abcd.pth", preset, {}, sha256="f" * 64)) == "f" * 64


@pytest.mark.parametrize(
    "name", ["my.pth", "runs/last.PT", "/tmp/weights", "model.safetensors", "https://e.example/a.pth", Path("my.pth")]
)
def test_a_file_in_the_place_of_a_member_is_told_how_it_is_loaded(name: object) -> None:
    with pytest.raises(TypeError, match=r"is a file and no member of Lamp_Weights.*get_model.*load_into\(module, '"):
        Lamp_Weights.verify(name)
