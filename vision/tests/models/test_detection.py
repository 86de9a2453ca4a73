"""Detectors: their parts one by one, then what goes in and comes out of the whole."""

import math

import pytest
import torch
from torch import nn

from flambeau.vision.models import detection
from flambeau.vision.models.detection import roi_heads
from flambeau.vision.models.detection._masks import _paste_all, expand_boxes
from flambeau.vision.models.detection._utils import (
    BalancedPositiveNegativeSampler,
    BoxCoder,
    BoxLinearCoder,
    Matcher,
    SSDMatcher,
    _box_loss,
    overwrite_eps,
    retrieve_out_channels,
)
from flambeau.vision.models.detection.anchor_utils import AnchorGenerator, DefaultBoxGenerator
from flambeau.vision.models.detection.backbone_utils import (
    _validate_trainable_layers,
    mobilenet_backbone,
    resnet_fpn_backbone,
)
from flambeau.vision.models.detection.image_list import ImageList
from flambeau.vision.models.detection.rpn import RPNHead
from flambeau.vision.models.detection.ssd import SSD
from flambeau.vision.models.detection.transform import GeneralizedRCNNTransform
from flambeau.vision.ops.misc import FrozenBatchNorm2d


class TinyBackbone(nn.Module):
    """Two maps of eight channels, strides 4 and 8."""

    out_channels = 8

    def __init__(self):
        super().__init__()
        self.fine = nn.Conv2d(3, 8, 4, stride=4)
        self.coarse = nn.Conv2d(8, 8, 2, stride=2)

    def forward(self, x):
        fine = self.fine(x)
        return {"0": fine, "1": self.coarse(fine)}


SIZES = {"min_size": 64, "max_size": 96}
ANCHORS = {"sizes": ((16,), (32,)), "aspect_ratios": ((0.5, 1.0, 2.0),) * 2}


def tiny(kind: str):
    """A detector small enough to train in a blink."""
    torch.manual_seed(0)
    backbone = TinyBackbone()
    proposals = {"rpn_anchor_generator": AnchorGenerator(**ANCHORS), "rpn_post_nms_top_n_test": 20}
    match kind:
        case "faster_rcnn":
            return detection.FasterRCNN(backbone, 3, **SIZES, **proposals)
        case "mask_rcnn":
            return detection.MaskRCNN(backbone, 3, **SIZES, **proposals)
        case "keypoint_rcnn":
            return detection.KeypointRCNN(backbone, 2, num_keypoints=4, **SIZES, **proposals)
        case "retinanet":
            return detection.RetinaNet(backbone, 3, anchor_generator=AnchorGenerator(**ANCHORS), **SIZES)
        case "fcos":
            points = AnchorGenerator(((4,), (8,)), ((1.0,), (1.0,)))
            return detection.FCOS(FlatBackbone(), 3, anchor_generator=points, **SIZES)
        case "ssd":
            return SSD(backbone, DefaultBoxGenerator([[2], [2]]), (64, 64), 3)
    raise ValueError(kind)


class FlatBackbone(TinyBackbone):
    """As many channels as group normalization wants."""

    out_channels = 32

    def __init__(self):
        super().__init__()
        self.fine, self.coarse = nn.Conv2d(3, 32, 4, stride=4), nn.Conv2d(32, 32, 2, stride=2)


KINDS = ["faster_rcnn", "mask_rcnn", "keypoint_rcnn", "retinanet", "fcos", "ssd"]


def pictures() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(3, 50, 70, generator=generator), torch.rand(3, 64, 48, generator=generator)]


def target(boxes: list[list[float]], height: int = 50, width: int = 70) -> dict[str, torch.Tensor]:
    tensor = torch.tensor(boxes).reshape(-1, 4)
    count = len(tensor)
    masks = torch.zeros(count, height, width, dtype=torch.uint8)
    for mask, (left, top, right, bottom) in zip(masks, tensor.int().tolist(), strict=True):
        mask[top:bottom, left:right] = 1
    center = (tensor[:, :2] + tensor[:, 2:]) / 2
    keypoints = torch.cat([center, torch.ones(count, 1)], 1)[:, None].repeat(1, 4, 1)
    labels = torch.ones(count, dtype=torch.int64)
    return {"boxes": tensor, "labels": labels, "masks": masks, "keypoints": keypoints}


def targets() -> list[dict[str, torch.Tensor]]:
    return [target([[5.0, 5.0, 40.0, 45.0], [20.0, 10.0, 60.0, 30.0]]), target([[4.0, 8.0, 40.0, 60.0]], 64, 48)]


LOSSES = {
    "faster_rcnn": {"loss_classifier", "loss_box_reg", "loss_objectness", "loss_rpn_box_reg"},
    "retinanet": {"classification", "bbox_regression"},
    "fcos": {"classification", "bbox_regression", "bbox_ctrness"},
    "ssd": {"classification", "bbox_regression"},
}
LOSSES["mask_rcnn"] = LOSSES["faster_rcnn"] | {"loss_mask"}
LOSSES["keypoint_rcnn"] = LOSSES["faster_rcnn"] | {"loss_keypoint"}


class TestWhole:
    @pytest.mark.parametrize("kind", KINDS)
    def test_training_gives_finite_losses_and_gradients_for_everything(self, kind):
        model = tiny(kind)
        losses = model(pictures(), targets())
        assert set(losses) == LOSSES[kind]
        sum(losses.values()).backward()
        grads = {name: parameter.grad for name, parameter in model.named_parameters()}
        assert [name for name, grad in grads.items() if grad is None] == []
        assert all(grad.isfinite().all() for grad in grads.values())

    @pytest.mark.parametrize("kind", KINDS)
    def test_pictures_without_objects_can_be_learned_from(self, kind):
        losses = tiny(kind)(pictures(), [target([]), target([], 64, 48)])
        assert all(loss.isfinite() for loss in losses.values())
        sum(losses.values()).backward()

    @pytest.mark.parametrize("kind", KINDS)
    def test_targets_are_not_changed(self, kind):
        given = targets()
        tiny(kind)(pictures(), given)
        for before, after in zip(targets(), given, strict=True):
            assert before.keys() == after.keys()
            assert all(torch.equal(before[name], after[name]) for name in before)

    @pytest.mark.parametrize("kind", KINDS)
    def test_detections_lie_in_their_pictures_best_first(self, kind):
        model = tiny(kind).eval()
        for found, picture in zip(model(pictures()), pictures(), strict=True):
            boxes, count = found["boxes"], len(found["boxes"])
            assert found["scores"].shape == found["labels"].shape == (count,)
            assert found["labels"].dtype == torch.int64
            assert (found["scores"].diff() <= 0).all()
            assert (boxes >= 0).all()
            assert (boxes[:, 0::2] <= picture.shape[2] + 1e-3).all()
            assert (boxes[:, 1::2] <= picture.shape[1] + 1e-3).all()
            if kind == "mask_rcnn":
                assert found["masks"].shape == (count, 1, *picture.shape[1:])
            if kind == "keypoint_rcnn":
                assert (found["keypoints"].shape, found["keypoints_scores"].shape) == ((count, 4, 3), (count, 4))

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_batch_is_a_list_of_pictures(self, kind):
        model, batch = tiny(kind).eval(), torch.rand(2, 3, 40, 56)
        for one, other in zip(model(batch), model(list(batch)), strict=True):
            assert all(torch.equal(one[name], other[name]) for name in one)

    @pytest.mark.parametrize("kind", KINDS)
    def test_no_pictures_have_no_detections(self, kind):
        assert tiny(kind).eval()([]) == []
        with pytest.raises(ValueError, match="There are no pictures"):
            tiny(kind)([], [])

    @pytest.mark.parametrize("kind", KINDS)
    def test_nothing_found_is_an_answer(self, kind):
        model = tiny(kind).eval()
        heads = getattr(model, "roi_heads", model)
        heads.score_thresh = 1.1 if kind != "retinanet" else 0.999
        found = model(pictures())
        assert [len(each["boxes"]) for each in found] == [0, 0]

    @pytest.mark.parametrize("kind", ["faster_rcnn", "fcos"])
    def test_a_box_without_width_is_named_with_its_picture(self, kind):
        bad = targets()
        bad[1]["boxes"][0, 2] = bad[1]["boxes"][0, 0]
        with pytest.raises(ValueError, match=r"targets\[1\]\['boxes'\]\[0\] is \[4\.0, 8\.0, 4\.0, 60\.0\]"):
            tiny(kind)(pictures(), bad)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda given: None, "targets is None"),
            (lambda given: given[:1], "1 targets for 2 pictures"),
            (lambda given: [given[0] | {"boxes": torch.rand(2, 5)}, given[1]], r"shape \(2, 5\), expected \(K, 4\)"),
            (lambda given: [given[0] | {"boxes": [[1, 2, 3, 4]]}, given[1]], "is a list, expected a tensor"),
        ],
    )
    def test_unusable_targets_are_refused(self, change, message):
        with pytest.raises(ValueError, match=message):
            tiny("retinanet")(pictures(), change(targets()))

    def test_missing_parts_and_wrong_dtypes_of_targets_are_named(self):
        without = [{name: value for name, value in each.items() if name != "masks"} for each in targets()]
        with pytest.raises(ValueError, match=r"targets\[0\] has no masks, expected boxes, labels, masks"):
            tiny("mask_rcnn")(pictures(), without)
        wrong = [each | {"labels": each["labels"].int()} for each in targets()]
        with pytest.raises(TypeError, match=r"targets\[0\]\['labels'\] has dtype torch.int32, expected int64"):
            tiny("faster_rcnn")(pictures(), wrong)

    @pytest.mark.parametrize("kind", KINDS)
    def test_inference_exports_for_pictures_of_other_sizes(self, kind):
        model, picture = tiny(kind).eval(), torch.rand(3, 48, 64)
        height, width = torch.export.Dim("height", min=32, max=512), torch.export.Dim("width", min=32, max=512)
        shapes = ([{1: height, 2: width}],)
        program = torch.export.export(model, ([picture],), dynamic_shapes=shapes, strict=False).module()
        for other in (picture, torch.rand(3, 80, 56)):
            with torch.no_grad():
                (expected,), (found,) = model([other]), program([other])
            for name in expected:
                torch.testing.assert_close(found[name], expected[name], rtol=1e-3, atol=1e-3)


class TestTransform:
    def test_the_shorter_side_is_resized_unless_the_longer_one_becomes_too_long(self):
        transform = GeneralizedRCNNTransform(100, 150, [0.0] * 3, [1.0] * 3)
        batch, _ = transform([torch.rand(3, 50, 60), torch.rand(3, 40, 120)])
        assert batch.image_sizes == [(100, 120), (50, 150)]
        assert batch.tensors.shape == (2, 3, 128, 160)
        assert not batch.tensors[1, :, 50:].any()

    def test_a_fixed_size_is_width_and_height(self):
        transform = GeneralizedRCNNTransform(1, 1, [0.0] * 3, [1.0] * 3, size_divisible=1, fixed_size=(30, 20))
        assert transform([torch.rand(3, 50, 60)])[0].tensors.shape == (1, 3, 20, 30)

    def test_targets_follow_and_come_back(self):
        transform = GeneralizedRCNNTransform(100, 1000, [0.0] * 3, [1.0] * 3)
        given = target([[5.0, 5.0, 40.0, 45.0]])
        batch, (scaled,) = transform([torch.rand(3, 50, 70)], [given])
        torch.testing.assert_close(scaled["boxes"], given["boxes"] * 2)
        torch.testing.assert_close(scaled["keypoints"][..., :2], given["keypoints"][..., :2] * 2)
        assert scaled["masks"].sum() == given["masks"].sum() * 4
        back = transform.eval().postprocess([{"boxes": scaled["boxes"]}], batch.image_sizes, [(50, 70)])
        torch.testing.assert_close(back[0]["boxes"], given["boxes"])

    def test_one_of_several_sizes_is_drawn_in_training_and_the_last_used_otherwise(self):
        transform = GeneralizedRCNNTransform((32, 64), 1000, [0.0] * 3, [1.0] * 3)
        torch.manual_seed(0)
        drawn = {transform([torch.rand(3, 40, 40)])[0].image_sizes[0] for _ in range(20)}
        assert drawn == {(32, 32), (64, 64)}
        assert transform.eval()([torch.rand(3, 40, 40)])[0].image_sizes == [(64, 64)]

    def test_pictures_of_integers_or_without_channels_are_refused(self):
        transform = GeneralizedRCNNTransform(32, 64, [0.0] * 3, [1.0] * 3)
        with pytest.raises(TypeError, match=r"dtype torch.uint8, expected floating point in \[0, 1\]"):
            transform([torch.zeros(3, 8, 8, dtype=torch.uint8)])
        with pytest.raises(ValueError, match=r"images\[0\] has shape \(8, 8\), expected \(C, H, W\)"):
            transform([torch.zeros(8, 8)])


class TestCoding:
    def test_decoding_undoes_encoding(self):
        proposals = torch.tensor([[2.0, 3.0, 12.0, 23.0], [5.0, 5.0, 6.0, 9.0]], dtype=torch.float64)
        boxes = torch.tensor([[1.0, 4.0, 20.0, 21.0], [4.0, 5.5, 7.0, 8.0]], dtype=torch.float64)
        coder = BoxCoder((10.0, 10.0, 5.0, 5.0))
        torch.testing.assert_close(coder.decode_single(coder.encode_single(boxes, proposals), proposals), boxes)
        codes = coder.encode([boxes[:1], boxes[1:]], [proposals[:1], proposals[1:]])
        torch.testing.assert_close(coder.decode(torch.cat(codes), [proposals[:1], proposals[1:]])[:, 0], boxes)
        for normalize in (True, False):
            linear = BoxLinearCoder(normalize_by_size=normalize)
            torch.testing.assert_close(linear.decode(linear.encode(proposals, boxes), proposals), boxes)

    def test_sides_grow_to_a_limit_and_do_not_overflow(self):
        decoded = BoxCoder((1.0, 1.0, 1.0, 1.0)).decode_single(
            torch.full((1, 4), 1e4), torch.tensor([[0.0, 0, 16, 16]])
        )
        sides = decoded[0, 2:] - decoded[0, :2]
        torch.testing.assert_close(sides, torch.tensor([1000.0, 1000.0]), rtol=1e-3, atol=0)

    def test_no_proposals_give_no_boxes(self):
        decoded = BoxCoder((1.0, 1.0, 1.0, 1.0)).decode(torch.empty(0, 8), [torch.empty(0, 4)])
        assert decoded.shape == (0, 2, 4)

    def test_box_losses_are_named(self):
        coder, boxes = BoxCoder((1.0, 1.0, 1.0, 1.0)), torch.tensor([[0.0, 0.0, 4.0, 4.0]])
        for name in ("l1", "smooth_l1", "giou", "diou", "ciou"):
            assert _box_loss(name, coder, boxes, boxes, torch.zeros(1, 4)).item() == pytest.approx(0, abs=1e-6)
        with pytest.raises(ValueError, match="Box loss 'l3' is unknown, expected l1"):
            _box_loss("l3", coder, boxes, boxes, torch.zeros(1, 4))


class TestMatching:
    QUALITY = torch.tensor([[0.9, 0.5, 0.1, 0.2], [0.2, 0.6, 0.1, 0.3]])

    def test_good_ones_match_bad_ones_are_background_and_the_rest_is_neither(self):
        assert Matcher(0.7, 0.4)(self.QUALITY).tolist() == [0, -2, -1, -1]

    def test_with_low_quality_matches_every_target_has_a_prediction(self):
        assert Matcher(0.7, 0.4, allow_low_quality_matches=True)(self.QUALITY).tolist() == [0, 1, -1, -1]

    def test_ssd_gives_every_target_its_best_prediction(self):
        assert SSDMatcher(0.7)(self.QUALITY).tolist() == [0, 1, -1, -1]

    def test_nothing_to_match_is_an_error(self):
        with pytest.raises(ValueError, match=r"shape \(0, 3\), expected at least one target"):
            Matcher(0.7, 0.4)(torch.empty(0, 3))
        with pytest.raises(ValueError, match=r"low_threshold is 0\.8, expected at most high_threshold, 0\.7"):
            Matcher(0.7, 0.8)

    def test_samples_are_balanced_and_negatives_fill_up(self):
        labels = torch.tensor([1] * 10 + [0] * 30 + [-1] * 5)
        (positive,), (negative,) = BalancedPositiveNegativeSampler(16, 0.25)([labels])
        assert (positive.sum(), negative.sum()) == (4, 12)
        assert not (positive.bool() & (labels != 1)).any()
        assert not (negative.bool() & (labels != 0)).any()


class TestAnchors:
    def test_they_lie_around_the_corners_of_cells_in_the_order_of_rows(self):
        generator = AnchorGenerator(((8,),), ((1.0,),))
        anchors = generator(ImageList(torch.zeros(2, 3, 32, 64), [(32, 60), (30, 64)]), [torch.zeros(2, 1, 2, 4)])
        assert len(anchors) == 2
        assert anchors[0].shape == (8, 4)
        assert anchors[0][1].tolist() == [12, -4, 20, 4]
        assert anchors[0][4].tolist() == [-4, 12, 4, 20]

    def test_ratios_keep_the_area(self):
        (anchors,) = AnchorGenerator(((64,),), ((0.25, 4.0),)).cell_anchors
        assert (anchors[:, 2:] - anchors[:, :2]).tolist() == [[128, 32], [32, 128]]

    def test_every_map_needs_its_sizes(self):
        with pytest.raises(ValueError, match="sizes for 1 maps and was given 2 maps"):
            AnchorGenerator()(ImageList(torch.zeros(1, 3, 8, 8), [(8, 8)]), [torch.zeros(1, 1, 2, 2)] * 2)

    def test_default_boxes_have_the_scales_of_the_paper(self):
        generator = DefaultBoxGenerator([[2], [2, 3]], min_ratio=0.2, max_ratio=0.9)
        assert generator.num_anchors_per_location() == [4, 6]
        assert generator.scales == pytest.approx([0.2, 0.9, 1.0])
        (boxes,) = generator(ImageList(torch.zeros(1, 3, 100, 200), [(100, 200)]), [torch.zeros(1, 1, 1, 1)])
        center = (boxes[:, :2] + boxes[:, 2:]) / 2
        torch.testing.assert_close(center, torch.tensor([[100.0, 50.0]]).expand(4, 2))
        assert (boxes[0, 2:] - boxes[0, :2]).tolist() == pytest.approx([40, 20])

    def test_steps_and_scales_have_to_fit_the_maps(self):
        with pytest.raises(ValueError, match="steps has 1 entries, expected 2"):
            DefaultBoxGenerator([[2], [2]], steps=[8])
        with pytest.raises(ValueError, match="scales has 2 entries, expected 3"):
            DefaultBoxGenerator([[2], [2]], scales=[0.1, 0.2])

    @pytest.mark.parametrize("generator", [AnchorGenerator, lambda: DefaultBoxGenerator([[2]])])
    def test_they_have_values_when_built_without_memory(self, generator):
        with torch.device("meta"):
            made = generator()
        (anchors,) = made(ImageList(torch.zeros(1, 3, 8, 8), [(8, 8)]), [torch.zeros(1, 1, 1, 1)])
        assert not anchors.is_meta


class TestMasks:
    def test_a_mask_fills_its_box_and_nothing_else(self):
        image = roi_heads.paste_mask_in_image(torch.ones(4, 4), torch.tensor([2, 1, 5, 3]), 6, 8)
        expected = torch.zeros(6, 8)
        expected[1:4, 2:6] = 1
        assert torch.equal(image, expected)

    def test_boxes_may_reach_beyond_the_picture_or_lie_outside(self):
        masks, boxes = torch.ones(2, 1, 4, 4), torch.tensor([[-5.0, -5.0, 3.0, 3.0], [50.0, 50.0, 60.0, 60.0]])
        pasted = roi_heads.paste_masks_in_image(masks, boxes, (10, 12))
        assert pasted.shape == (2, 1, 10, 12)
        assert pasted[0, 0, :2, :2].all()
        assert not pasted[1].any()

    def test_the_way_for_exported_programs_gives_the_same(self):
        generator = torch.Generator().manual_seed(0)
        corners = torch.rand(6, 2, generator=generator) * 20 - 5
        boxes = torch.cat([corners, corners + torch.rand(6, 2, generator=generator) * 20 + 1], 1)
        masks = torch.rand(6, 1, 14, 14, generator=generator)
        padded, scale = roi_heads.expand_masks(masks, 1)
        exported = _paste_all(padded, expand_boxes(boxes, scale).long(), (24, 30))
        torch.testing.assert_close(exported, roi_heads.paste_masks_in_image(masks, boxes, (24, 30)))

    def test_no_masks_give_no_pictures(self):
        assert roi_heads.paste_masks_in_image(torch.zeros(0, 1, 4, 4), torch.zeros(0, 4), (5, 6)).shape == (0, 1, 5, 6)


class TestKeypoints:
    def test_a_point_and_its_cell(self):
        rois = torch.tensor([[10.0, 10.0, 20.0, 30.0]])
        points = torch.tensor([[[10.0, 10.0, 1], [20.0, 30.0, 1], [15.0, 20.0, 0], [9.0, 10.0, 1]]])
        positions, valid = roi_heads.keypoints_to_heatmap(points, rois, 5)
        assert positions.tolist() == [[0, 24, 0, 0]]
        assert valid.tolist() == [[1, 1, 0, 0]]

    def test_the_highest_position_of_a_heat_map_becomes_a_point_in_the_box(self):
        maps = torch.zeros(1, 1, 4, 4)
        maps[0, 0, 1, 2] = 5.0
        points, scores = roi_heads.heatmaps_to_keypoints(maps, torch.tensor([[100.0, 200.0, 104.0, 204.0]]))
        assert points.tolist() == [[[102.5, 201.5, 1.0]]]
        assert scores.item() == 5.0

    @pytest.mark.parametrize("count", [0, 3])
    def test_a_compiled_program_finds_the_same_points(self, count):
        maps = torch.rand(count, 2, 7, 7, generator=torch.Generator().manual_seed(0))
        corners = torch.rand(count, 2, generator=torch.Generator().manual_seed(1)) * 20
        rois = torch.cat([corners, corners + 3.3], 1)
        compiled = torch.compile(roi_heads.heatmaps_to_keypoints, fullgraph=True, backend="eager")
        for found, expected in zip(compiled(maps, rois), roi_heads.heatmaps_to_keypoints(maps, rois), strict=True):
            assert torch.equal(found, expected)

    def test_the_operator_is_all_that_torch_asks_of_one(self):
        boxes = torch.tensor([[1.0, 2.0, 9.5, 7.0], [0.0, 0.0, 3.0, 3.0]])
        torch.library.opcheck(torch.ops.flambeau_vision._heatmap_peaks.default, (torch.rand(2, 3, 5, 5), boxes))
        with pytest.raises(RuntimeError, match="maps are of 2 boxes and rois of 1"):
            torch.ops.flambeau_vision._heatmap_peaks(torch.rand(2, 3, 5, 5), boxes[:1])


class TestBackbones:
    def test_only_the_last_stages_learn(self):
        body = resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=2).body
        learning = {name.partition(".")[0] for name, p in body.named_parameters() if p.requires_grad}
        assert learning == {"layer3", "layer4"}

    def test_a_mobilenet_may_have_one_map_or_a_pyramid(self):
        single = mobilenet_backbone(backbone_name="mobilenet_v2", weights=None, fpn=False)
        assert single(torch.rand(1, 3, 64, 64)).shape == (1, single.out_channels, 2, 2)
        pyramid = mobilenet_backbone(backbone_name="mobilenet_v3_large", weights=None, fpn=True, trainable_layers=0)
        assert list(pyramid(torch.rand(1, 3, 64, 64))) == ["0", "1", "pool"]
        assert not any(parameter.requires_grad for parameter in pyramid.body.parameters())

    def test_numbers_of_stages_are_checked(self):
        with pytest.raises(ValueError, match="trainable_layers is 6, expected 0 to 5"):
            resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=6)
        with pytest.raises(ValueError, match=r"returned_layers is \[4, 5\], expected 1 to 4"):
            resnet_fpn_backbone(backbone_name="resnet18", weights=None, returned_layers=[4, 5])

    def test_all_of_an_untrained_backbone_learns(self):
        assert _validate_trainable_layers(True, None, 5, 3) == 3
        assert _validate_trainable_layers(False, None, 5, 3) == 5
        with pytest.warns(UserWarning, match="trainable_backbone_layers=2 has no effect"):
            assert _validate_trainable_layers(False, 2, 5, 3) == 5

    def test_frozen_normalization_of_old_weights_has_no_epsilon(self):
        model = nn.Sequential(FrozenBatchNorm2d(2), nn.BatchNorm2d(2))
        overwrite_eps(model, 0.0)
        assert (model[0].eps, model[1].eps) == (0.0, 1e-5)

    def test_channels_of_maps_are_found_by_running(self):
        backbone = TinyBackbone().train()
        assert retrieve_out_channels(backbone, (32, 64)) == [8, 8]
        assert backbone.training

    def test_a_backbone_has_to_say_its_channels(self):
        with pytest.raises(ValueError, match="a Identity, has no attribute out_channels"):
            detection.FasterRCNN(nn.Identity(), 2)

    def test_classes_are_given_once(self):
        with pytest.raises(ValueError, match="exactly one is needed, got none"):
            detection.FasterRCNN(TinyBackbone())
        with pytest.raises(TypeError, match="rpn_anchor_generator is a Identity, expected a AnchorGenerator"):
            detection.FasterRCNN(TinyBackbone(), 2, rpn_anchor_generator=nn.Identity())


class TestBuilders:
    def test_older_checkpoints_of_heads_load(self):
        head = RPNHead(4, 3)
        old = {name.replace("conv.0.0.", "conv."): value for name, value in head.state_dict().items()}
        assert "conv.weight" in old
        RPNHead(4, 3).load_state_dict(old)

    def test_weights_fix_the_number_of_classes(self):
        weights = detection.FasterRCNN_ResNet50_FPN_Weights.DEFAULT
        with pytest.raises(ValueError, match="'num_classes' is 3, expected 91"):
            detection.fasterrcnn_resnet50_fpn(weights=weights, num_classes=3)
        with pytest.raises(ValueError, match="'num_keypoints' is 3, expected 17"):
            detection.keypointrcnn_resnet50_fpn(weights="COCO_V1", num_keypoints=3)

    def test_the_lite_network_is_built_without_running_it(self):
        with torch.device("meta"):
            model = detection.ssdlite320_mobilenet_v3_large(weights_backbone=None)
        assert sum(parameter.numel() for parameter in model.parameters()) == 3_440_060

    def test_rare_objects_are_expected_at_the_start(self):
        with torch.device("cpu"):
            head = tiny("retinanet").head.classification_head
        torch.testing.assert_close(head.cls_logits.bias.sigmoid(), torch.full((9,), 0.01))
        assert math.isclose(head.conv[0][0].weight.std().item(), 0.01, rel_tol=0.2)
