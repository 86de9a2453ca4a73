"""Where random numbers come from, and how what was drawn is kept."""

import pytest
import torch
from classes_table import picture, sample
from torch.utils.data import DataLoader, Dataset

from flambeau.vision.transforms import v2

NOISY = v2.Compose([v2.RandomResizedCrop(8), v2.RandomHorizontalFlip(), v2.TrivialAugmentWide()])


class Pictures(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.transform(picture()).as_subclass(torch.Tensor)


def loaded(transform, seed, workers=2):
    generator = torch.Generator().manual_seed(seed)
    return torch.cat(list(DataLoader(Pictures(transform), batch_size=2, num_workers=workers, generator=generator)))


@pytest.mark.parametrize("own", [None, 11])
def test_workers_with_one_seed_load_the_same_and_with_another_something_else(own):
    generator = None if own is None else torch.Generator().manual_seed(own)
    pipeline = v2.Compose([v2.RandomResizedCrop(8), v2.RandAugment()], generator=generator)
    first = loaded(pipeline, seed=1)
    assert torch.equal(loaded(pipeline, seed=1), first)
    assert not torch.equal(loaded(pipeline, seed=2), first)
    # Workers differ from each other although each has a copy of the generator.
    assert not torch.equal(first[:2], first[2:4])


def test_a_generator_of_a_transform_is_for_it_alone():
    def pipeline(seed):
        return v2.Compose([v2.RandomCrop(10, generator=torch.Generator().manual_seed(seed)), v2.RandomInvert()])

    state = torch.get_rng_state()
    _, first = pipeline(0)(picture(), return_params=True)
    assert not torch.equal(torch.get_rng_state(), state)  # RandomInvert drew from the default one
    _, second = pipeline(0)(picture(), return_params=True)
    assert first[0] == second[0]


def test_a_generator_of_a_pipeline_serves_all_that_have_none():
    state = torch.get_rng_state()
    v2.Compose(list(NOISY.transforms), generator=torch.Generator())(picture())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_generator_of_a_call_goes_before_all_others():
    own = torch.Generator().manual_seed(1)
    before = own.get_state()
    v2.Compose([v2.RandomCrop(10, generator=own)])(picture(), generator=torch.Generator())
    assert torch.equal(own.get_state(), before)


def test_recorded_decisions_name_transform_and_parameters_in_order():
    _, params = v2.Compose([v2.RandomCrop(10), v2.RandomHorizontalFlip(1.0)])(picture(), return_params=True)
    assert [record["transform"] for record in params] == ["RandomCrop", "RandomHorizontalFlip", "RandomHorizontalFlip"]
    assert params[0]["params"]["height"] == 10
    assert params[1]["params"] == {"applied": True}


def test_a_replay_does_to_a_mask_what_was_done_to_its_image():
    transform = v2.Compose([v2.RandomCrop(10), v2.RandomRotation(30), v2.RandomHorizontalFlip()])
    both = sample()
    out, params = transform(both["image"], both["masks"], return_params=True)
    assert torch.equal(transform(both["masks"], replay=params), out[1])


def test_a_replay_of_another_pipeline_is_refused():
    _, params = v2.RandomCrop(10)(picture(), return_params=True)
    with pytest.raises(ValueError, match="RandomResize"):
        v2.RandomResize(8, 9)(picture(), replay=params)
    with pytest.raises(ValueError, match="has ended"):
        v2.RandomCrop(10)(picture(), replay=[])
    with pytest.raises(ValueError, match="nobody asked"):
        v2.RandomCrop(10)(picture(), replay=params * 2)


def test_draws_are_those_of_torch_in_the_documented_order():
    torch.manual_seed(0)
    _, params = v2.RandomHorizontalFlip(0.5)(picture(), return_params=True)
    torch.manual_seed(0)
    assert params[0]["params"]["applied"] == bool(torch.rand(1) < 0.5)
    torch.manual_seed(1)
    _, params = v2.ColorJitter(0.4, hue=0.1)(picture(), return_params=True)
    torch.manual_seed(1)
    drawn = params[0]["params"]
    assert torch.equal(drawn["fn_idx"], torch.randperm(4))
    assert drawn["brightness_factor"] == torch.empty(1).uniform_(0.6, 1.4).item()
    assert drawn["hue_factor"] == torch.empty(1).uniform_(-0.1, 0.1).item()


def test_the_ratio_of_mixup_is_the_one_of_torchs_beta_distribution():
    images, labels = torch.zeros(2, 3, 4, 4), torch.tensor([0, 1])
    torch.manual_seed(2)
    _, params = v2.MixUp(alpha=0.3, num_classes=2)(images, labels, return_params=True)
    torch.manual_seed(2)
    expected = torch.distributions.Beta(torch.tensor([0.3]), torch.tensor([0.3])).sample(())
    assert params[0]["params"]["lam"] == pytest.approx(float(expected))


def test_a_description_from_elsewhere_calls_nothing_outside():
    spec = {"transform": "Lambda", "args": {"lambd": {"name": "os:system"}, "types": []}}
    with pytest.raises(ValueError, match="trust=True"):
        v2.from_spec(spec)
    spec["args"]["lambd"]["name"] = "flambeau.vision.transforms.v2._spec:torch.load"
    with pytest.raises(ValueError, match="through a module"):
        v2.from_spec(spec)
    with pytest.raises(ValueError, match="Resize"):
        v2.from_spec({"transform": "Rezise"})


def test_what_has_no_name_has_no_description():
    with pytest.raises(ValueError, match="cannot be found by name"):
        v2.Lambda(lambda value: value).to_spec()
