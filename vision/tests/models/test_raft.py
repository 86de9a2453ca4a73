"""What is special to RAFT."""

import pytest
import torch

from flambeau.vision.models.optical_flow import raft_small
from flambeau.vision.models.optical_flow._utils import grid_sample, make_coords_grid, upsample_flow
from flambeau.vision.models.optical_flow.raft import CorrBlock


def test_sampling_at_the_pixels_themselves_gives_the_picture():
    image = torch.rand(2, 3, 5, 7)
    grid = make_coords_grid(2, 5, 7).permute(0, 2, 3, 1)
    torch.testing.assert_close(grid_sample(image, grid, align_corners=True), image)
    assert grid[0, 4, 6].tolist() == [6.0, 4.0]


def test_a_uniform_motion_stays_uniform_inside_and_grows_with_the_picture():
    flow = torch.tensor([1.5, -2.0]).view(1, 2, 1, 1).expand(1, 2, 4, 5)
    linear = upsample_flow(flow)
    torch.testing.assert_close(linear, 8 * flow.repeat_interleave(8, -1).repeat_interleave(8, -2))
    convex = upsample_flow(flow, torch.randn(1, 9 * 64, 4, 5))
    torch.testing.assert_close(convex[..., 8:-8, 8:-8], linear[..., 8:-8, 8:-8])  # zeros come in at the margin


def test_a_sure_mask_copies_each_new_pixel_from_one_old_one():
    flow = torch.rand(1, 2, 3, 4)
    mask = torch.zeros(1, 9, 8, 8, 3, 4)
    mask[:, 4] = 100.0  # the middle of the 3x3 neighbours
    nearest = 8 * flow.repeat_interleave(8, -1).repeat_interleave(8, -2)
    torch.testing.assert_close(upsample_flow(flow, mask.flatten(1, 3)), nearest)


def test_correlations_are_read_around_the_coordinates_column_by_column():
    block = CorrBlock(num_levels=2, radius=1)
    first, second = torch.rand(1, 6, 8, 8), torch.rand(1, 6, 8, 8)
    pyramid = block.build_pyramid(first, second)
    assert [tuple(level.shape) for level in pyramid] == [(64, 1, 8, 8), (64, 1, 4, 4)]
    found = block.index_pyramid(pyramid, make_coords_grid(1, 8, 8))
    assert found.shape == (1, block.out_channels, 8, 8)
    product = (first[0, :, 3, 4] * second[0, :, 4, 3]).sum() / 6**0.5  # one to the left, one down
    torch.testing.assert_close(found[0, 2, 3, 4], product)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ((1, 3, 128, 132), (1, 3, 128, 132), "multiples of 8"),
        ((1, 3, 128, 136), (1, 3, 128, 128), "expected the same"),
        ((1, 3, 120, 128), (1, 3, 120, 128), "of 128 x 128 give: enlarge or pad"),
    ],
)
def test_pictures_that_do_not_fit_are_refused(first, second, message):
    with pytest.raises(ValueError, match=message):
        raft_small()(torch.rand(first), torch.rand(second))


def test_there_is_a_flow_per_update_and_the_first_ones_do_not_depend_on_later_ones():
    torch.manual_seed(0)
    model = raft_small().eval()
    pictures = torch.rand(2, 1, 3, 128, 128) * 2 - 1
    with torch.no_grad():
        two, three = model(*pictures, num_flow_updates=2), model(*pictures, num_flow_updates=3)
    assert (len(two), len(three), three[0].shape) == (2, 3, (1, 2, 128, 128))
    torch.testing.assert_close(two, three[:2])


def test_gradients_reach_every_parameter():
    model = raft_small()
    flows = model(*torch.rand(2, 1, 3, 128, 128), num_flow_updates=2)
    sum(flow.sum() for flow in flows).backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


def test_a_compiled_model_is_one_graph_and_gives_the_same():
    torch.manual_seed(0)
    model = raft_small().eval()
    pictures = torch.rand(2, 1, 3, 128, 128)
    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")(*pictures, num_flow_updates=1)
        torch.testing.assert_close(compiled, model(*pictures, num_flow_updates=1), rtol=1e-4, atol=1e-4)
