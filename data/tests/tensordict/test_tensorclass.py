"""Tensorclasses: dataclasses over tensordicts."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from flambeau.data.tensordict import MetaData, TensorClass, TensorDict, from_dataclass, is_tensorclass, tensorclass


@tensorclass
class Sample:
    image: torch.Tensor
    label: str = "?"
    weight: torch.Tensor | None = None
    kinds: ClassVar[int] = 3

    def brighter(self) -> Sample:
        return Sample(self.image + 1, self.label, batch_size=self.batch_size)

    @property
    def channels(self) -> int:
        return self.image.shape[-1]

    @classmethod
    def blank(cls, count: int) -> Sample:
        return cls(torch.zeros(count, 2), batch_size=[count])


class Frozen(TensorClass["frozen"]):
    x: torch.Tensor


class Pair(TensorClass):
    first: Sample
    second: torch.Tensor


def make() -> Sample:
    return Sample(torch.arange(6.0).reshape(3, 2), label="x", batch_size=[3])


def test_fields_methods_properties_and_class_variables_stay():
    sample = make()
    assert sample.image.shape == (3, 2) and sample.label == "x" and sample.weight is None
    assert sample.brighter().image.sum() == 21 and sample.channels == 2 and Sample.kinds == 3
    assert type(Sample.blank(2)) is Sample and list(sample.keys()) == ["image", "label"]
    assert is_tensorclass(sample) and isinstance(sample, TensorClass) and dataclasses.is_dataclass(Sample)
    assert list(inspect.signature(Sample).parameters) == ["image", "label", "weight", "batch_size", "device", "names"]


def test_operations_give_the_same_class():
    sample = make()
    results = [
        *(sample[0], sample[1:], sample.reshape(3, 1), sample.unsqueeze(0), sample.expand(2, 3), next(iter(sample))),
        *(sample + 1, sample.clone(), sample.to(torch.float64), sample.apply(lambda x: x * 2), sample.data),
        *(
            torch.stack([sample, sample]),
            torch.cat([sample, sample]),
            torch.zeros_like(sample),
            sample == sample.clone(),
        ),
        *(*sample.unbind(0), *sample.split(2)),
    ]
    assert {type(result) for result in results} == {Sample}
    assert torch.stack([sample, sample]).label == [["x"] * 3] * 2 and (sample == sample).all()


def test_fields_are_written_and_checked():
    sample = make()
    sample.image = torch.zeros(3, 2)
    sample.weight = torch.ones(3)
    sample.label = None
    assert sample.image.sum() == 0 and set(sample.keys()) == {"image", "weight"} and sample.label is None
    sample[0] = Sample(torch.ones(2), weight=torch.tensor(5.0))
    assert sample.image[0].tolist() == [1, 1] and sample.weight.tolist() == [5, 1, 1]
    with pytest.raises(RuntimeError, match="batch size"):
        sample.image = torch.zeros(2)
    with pytest.raises(
        AttributeError, match="'imagge' is no field of Sample; its fields are 'image', 'label', 'weight'"
    ):
        sample.imagge = torch.zeros(3)
    with pytest.raises(AttributeError, match="has no attribute"):
        _ = sample.nothing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((), "missing a value for 'image'"), ((1, 2, 3, 4), "3 fields"), ((torch.zeros(1), "a"), None)],
)
def test_constructors_bind_like_functions(arguments, message):
    if message is None:
        assert Sample(*arguments).label == "a"
    else:
        with pytest.raises(TypeError, match=message):
            Sample(*arguments)


def test_nested_tensorclasses_are_indexed_and_moved_together():
    pair = Pair(first=make(), second=torch.zeros(3), batch_size=[3])
    assert type(pair[1].first) is Sample and pair[1].first.image.tolist() == [2, 3]
    assert pair.get(("first", "image")).shape == (3, 2)
    pair.first.image.zero_()
    assert pair[0].first.image.sum() == 0
    assert type(pair.to_tensordict()["first"]) in (TensorDict, Sample)


def test_locking_freezes_the_fields():
    sample = make().lock_()
    with pytest.raises(RuntimeError, match="locked"):
        sample.weight = torch.ones(3)
    with sample.unlock_():
        sample.weight = torch.ones(3)
    assert sample.is_locked


def test_frozen_classes_cannot_be_assigned_to():
    @tensorclass(frozen=True)
    class Frozen:
        x: torch.Tensor

    frozen = Frozen(torch.zeros(2), batch_size=[2])
    with pytest.raises(dataclasses.FrozenInstanceError):
        frozen.x = torch.ones(2)
    assert type(frozen[0]) is Frozen


class Cast(TensorClass["autocast"]):
    x: torch.Tensor
    n: int
    sample: Sample
    td: TensorDict


def test_autocast_converts_to_the_annotation():
    made = Cast([1, 2], 3.0, {"image": torch.zeros(1)}, {"q": [1.5]})
    assert made.x.tolist() == [1, 2] and made.n == 3 and type(made.n) is int
    assert type(made.sample) is Sample and made.td["q"].tolist() == [1.5]


def test_autocast_leaves_values_of_open_types_as_they_are():
    class Open(TensorClass["autocast"]):
        a: Any = None
        b: int | None = None
        c: list[int] | None = None
        d: dict[str, int] = None
        e: MetaData[str] = None

    made = Open(a=[1, 2], b=3, c=(1, 2), d={"a": 1}, e="text")
    assert (made.a, made.b, made.c, made.d, made.e) == ([1, 2], torch.tensor(3), (1, 2), {"a": 1}, "text")
    assert Open(a=np.ones(2)).a.dtype == torch.float64


def test_numpy_scalars_stay_and_arrays_become_tensors_unless_nothing_is_cast():
    @tensorclass
    class Plain:
        x: Any

    @tensorclass(nocast=True)
    class Raw:
        x: Any

    assert type(Plain(np.float32(2)).x) is np.float32 and isinstance(Plain(np.ones(2)).x, torch.Tensor)
    assert type(Raw(np.float32(2)).x) is np.float32 and isinstance(Raw(np.ones(2)).x, np.ndarray)


def test_without_casting_numbers_become_tensors_or_stay():
    @tensorclass
    class Converts:
        x: Any

    @tensorclass(nocast=True)
    class Keeps:
        x: Any

    assert torch.is_tensor(Converts(3).x) and Converts({"a": 1}).x == {"a": 1}
    assert Keeps(3).x == 3 and type(Keeps(3).x) is int


def test_names_of_tensordict_methods_are_refused_unless_shadowed():
    with pytest.raises(AttributeError, match="would hide"):

        @tensorclass
        class Bad:
            shape: torch.Tensor

    @tensorclass(shadow=True)
    class Good:
        values: torch.Tensor

    good = Good(torch.ones(2, 3), batch_size=[2])
    assert good.values.shape == (2, 3) and good[0].values.shape == (3,)


def test_tensor_only_checks_the_annotations_once():
    class Only(TensorClass["tensor_only"]):
        x: torch.Tensor
        y: torch.Tensor | None = None

    assert Only(torch.ones(1)).x.item() == 1
    with pytest.raises(TypeError, match="'y' is annotated"):

        class Wrong(TensorClass["tensor_only"]):
            y: str

    with pytest.raises(TypeError, match="no option"):
        TensorClass["autcast"]


@pytest.mark.parametrize("pair", [("autocast", "nocast"), ("tensor_only", "autocast"), ("tensor_only", "nocast")])
def test_options_that_exclude_each_other_are_refused(pair):
    with pytest.raises(TypeError, match="choose one"):
        TensorClass[pair]
    with pytest.raises(TypeError, match="choose one"):
        tensorclass(**dict.fromkeys(pair, True))


def test_options_may_be_arguments_of_the_class_and_are_inherited():
    class Kept(TensorClass, nocast=True):
        x: Any

    class More(Kept, shadow=True):
        keys: Any

    assert Kept(3).x == 3 and type(More(3, 4).keys) is int and type(More(3, 4).x) is int


def test_a_frozen_class_derives_from_frozen_classes_alone():
    class Loose(TensorClass):
        x: Any

    class Tight(TensorClass["frozen"]):
        x: Any

    with pytest.raises(TypeError, match="frozen"):

        class Wrong(Loose, frozen=True):
            y: Any

    with pytest.raises(TypeError, match="frozen"):

        class AlsoWrong(Tight, frozen=False):
            y: Any

    class Fine(Tight):
        y: Any

    with pytest.raises(dataclasses.FrozenInstanceError):
        Fine(1, 2).y = 3


@pytest.mark.parametrize("make", [TensorClass["frozen"], tensorclass(frozen=True)], ids=["base", "decorator"])
def test_instances_of_a_frozen_class_are_locked_and_their_copies_are_not(make):
    if isinstance(make, type):

        class Fixed(make):
            x: Any
            inner: Any = None

    else:

        @make
        class Fixed:
            x: Any
            inner: Any = None

    one = Fixed(torch.zeros(2), TensorDict(a=torch.zeros(2)))
    assert one.is_locked and (one + 1).is_locked and not one.clone().is_locked
    for change in (
        lambda: one.set("x", torch.ones(2)),
        lambda: one.update({"x": torch.ones(2)}),
        lambda: one.inner.set("b", torch.ones(2)),
    ):
        with pytest.raises(RuntimeError, match="lock"):
            change()
    for name in ("x", "batch_size", "_note", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, name, torch.ones(2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.x
    assert one.zero_().set_("x", torch.ones(2)).x.tolist() == [1, 1]  # in place, what is locked can be written


def test_frozen_instances_are_memory_mapped_and_consolidated(tmp_path):
    one = Frozen(torch.arange(3.0), batch_size=[3])
    assert one.memmap(tmp_path / "folder").x.tolist() == one.consolidate().x.tolist() == [0, 1, 2]
    assert Frozen.load_memmap(tmp_path / "folder").x.tolist() == [0, 1, 2]


def test_a_field_may_be_called_data():
    @tensorclass
    class Packet:
        data: torch.Tensor
        note: Any = None

    packet = Packet(torch.zeros(3), batch_size=[3])
    packet.data = torch.ones(3)
    assert packet[1:].data.tolist() == [1, 1] and (packet + 1).data.tolist() == [2, 2, 2]
    assert packet.detach().to_dict(retain_none=False).keys() == {"data"}


def test_shadowing_fields_hide_arguments_of_the_constructor():
    class Plan(TensorClass["shadow"]):
        batch_size: torch.Tensor
        names: Any
        get: Any = 5

    plan = Plan(torch.tensor([1, 2]), names="x")
    assert plan.batch_size.tolist() == [1, 2] and plan.names == "x" and plan.get == 5
    assert Plan(batch_size=torch.tensor(1), names="y").batch_size == 1
    assert list(inspect.signature(Plan).parameters) == ["batch_size", "names", "get", "device"]
    with pytest.raises(TypeError, match="missing a value for 'names'"):
        Plan(torch.tensor(1))


def test_a_shadowed_method_is_no_default_of_the_field():
    class Table(TensorClass["shadow"]):
        keys: Any
        values: Any

    with pytest.raises(TypeError, match="missing a value for 'keys'"):
        Table(values=1)


def test_a_deleted_field_is_absent():
    sample = make()
    del sample.label
    assert list(sample.keys()) == ["image"]


def test_fields_know_metadata_of_a_type():
    class Note(TensorClass["nocast"]):
        text: MetaData[str]
        x: torch.Tensor

    note = Note("left", torch.zeros(3), batch_size=[3])
    assert note[0].text == "left" and issubclass(MetaData[str], MetaData) and MetaData[str] is MetaData[str]
    assert MetaData[str].__name__ == "MetaData[str]" and MetaData[str]("a").data == "a"


def test_a_class_with_attributes_of_its_own_making_is_constructed():
    @tensorclass
    class Any3:
        x: Any

        def __getattr__(self, name: str) -> str:
            return f"{name}?"

    assert Any3(torch.zeros(2)).other == "other?"


def test_inheritance_adds_fields_and_super_works():
    @tensorclass
    class Base:
        x: torch.Tensor

        def total(self) -> float:
            return float(self.x.sum())

    @tensorclass
    class Derived(Base):
        y: torch.Tensor

        def total(self) -> float:
            return super().total() + float(self.y.sum())

    assert Derived(torch.ones(2), torch.ones(3)).total() == 5


def test_post_init_runs_and_factories_make_defaults():
    class Post(TensorClass):
        x: torch.Tensor
        tags: dict = dataclasses.field(default_factory=dict)

        def __post_init__(self) -> None:
            self.x = self.x + 1

    assert Post(torch.zeros(2)).x.sum() == 2 and Post(torch.zeros(1)).tags == {}


def test_tensorclasses_are_pickled_copied_and_converted(tmp_path):
    sample = make()
    for again in (pickle.loads(pickle.dumps(sample)), copy.deepcopy(sample)):
        assert type(again) is Sample and (again == sample).all() and again.label == "x"
    assert sample.to_dict().keys() == {"image", "label", "weight"} and type(sample.to_tensordict()) is TensorDict
    assert type(Sample.from_tensordict(TensorDict({"image": torch.zeros(1)}))) is Sample
    with pytest.raises(ValueError, match="'q' are no fields"):
        Sample.from_tensordict(TensorDict({"q": torch.zeros(1)}))
    saved = sample.memmap(tmp_path)
    assert type(saved) is Sample and saved.is_memmap() and saved.saved_path == tmp_path
    loaded = Sample.load_memmap(tmp_path)
    assert type(loaded) is Sample and (loaded == sample).all() and loaded.weight is None
    assert type(sample.consolidate()) is Sample


def test_dataclasses_become_tensorclasses():
    @dataclasses.dataclass
    class Plain:
        x: torch.Tensor
        name: str = "n"

        def double(self):
            return self.x * 2

    made = from_dataclass(Plain(torch.ones(3)), auto_batch_size=True)
    assert made.name == "n" and made.batch_size == (3,) and made.double().sum() == 6
    assert is_tensorclass(from_dataclass(Plain)) and type(TensorDict.from_dataclass(Plain(torch.ones(1)))) is TensorDict
    with pytest.raises(TypeError, match="dataclass"):
        from_dataclass(3)


def test_it_prints_every_field():
    assert repr(make()) == (
        "Sample(\n    image=Tensor(shape=torch.Size([3, 2]), device=cpu, dtype=torch.float32, is_shared=False),\n"
        "    label=NonTensorData(data=x, batch_size=torch.Size([3]), device=None),\n    weight=None,\n"
        "    batch_size=torch.Size([3]),\n    device=None,\n    is_shared=False)"
    )


def test_a_name_means_the_class_of_its_own_module():
    def elsewhere():
        @tensorclass
        class Sample:
            other: torch.Tensor

        return Sample

    assert elsewhere() is not Sample
    Cast._resolved = None
    made = Cast([1, 2], 3.0, {"image": torch.zeros(1)}, {"q": [1.5]})
    assert type(made.sample) is Sample


def test_an_array_is_cast_to_what_it_was_given():
    class Raw(TensorClass["autocast"]):
        x: np.ndarray

    assert Raw(3).x.tolist() == 3 and Raw([1, 2]).x.tolist() == [1, 2]


def test_the_device_is_not_assigned():
    with pytest.raises(RuntimeError, match=r"to\('meta'\)"):
        make().device = "meta"


def test_instances_with_defaults_are_made_in_a_compiled_graph():
    def function(x):
        return Sample(x + 1, batch_size=x.shape[:1]).image * 2

    compiled = torch.compile(function, fullgraph=True, backend="eager")
    assert compiled(torch.ones(3, 2)).tolist() == [[4, 4]] * 3


def test_fields_without_a_value_are_none_in_dictionaries():
    one = Sample(torch.ones(2, 3), batch_size=[2])
    assert list(one.to_dict()) == ["image", "label", "weight"] and one.to_dict()["weight"] is None
    assert "weight" not in one.to_dict(retain_none=False) and "weight" not in one.to_tensordict()
    assert one.to_tensordict(retain_none=True)["weight"] is None


def test_parts_and_other_forms_keep_the_class():
    one = Sample(torch.ones(2, 3), batch_size=[2])
    chosen, rest = one.split_keys(["image"])
    assert type(chosen) is Sample and chosen.label is None and type(rest) is Sample and rest.label == "?"
    assert type(one.to_lazystack()) is Sample and one.to_lazystack()[1].label == "?"
    assert type(one.data_ptr()) is TensorDict and one.data_ptr()["image"] == one.image.data_ptr()


def test_the_full_index_copies_nothing():
    one = Sample(torch.ones(2, 3), batch_size=[2])
    assert one[...]._tensordict is one._tensordict and one[:]._tensordict is one._tensordict


def test_a_tensordict_is_wrapped_under_the_private_name_too():
    one = Sample(torch.ones(2, 3), batch_size=[2])
    assert Sample._from_tensordict(one._tensordict).image is one.image


def test_what_is_no_field_is_refused_by_every_way_of_setting():
    one = Sample(torch.ones(2, 3), batch_size=[2])
    with pytest.raises(ValueError, match="'colour' are no fields of Sample"):
        one.update({"colour": torch.ones(2)})
    with pytest.raises(ValueError, match="'colour' are no fields of Sample"):
        one.update(colour=torch.ones(2))
    with pytest.raises(TypeError, match="3 of type int is no key"):
        one.set(3, torch.ones(2))
    assert list(one.keys()) == ["image", "label"]
    assert one.update(Sample(torch.zeros(2, 3), "new", batch_size=[2])) is one
    assert one.label == "new" and one.image.sum() == 0


def test_selected_fields_are_an_instance_or_a_tensordict():
    one = Sample(torch.ones(2, 3), batch_size=[2])
    assert type(one.select("image")) is Sample and one.select("image").label is None
    plain = one.select("image", as_tensordict=True)
    assert type(plain) is TensorDict and list(plain.keys()) == ["image"]
    assert one.select("image", inplace=True) is one and one.label is None
