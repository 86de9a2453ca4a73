"""Stages of the detectors, and losses that draw no random numbers, equal those recorded from the reference.

Final boxes of untrained detectors hang on the last bits of their scores, so the stages before them are compared.
"""

import pytest
import torch

from flambeau.core.testing import fill
from flambeau.core.testing.golden import golden_values, parity_module
from flambeau.vision.models import detection

pytestmark = pytest.mark.slow


def cases() -> dict[str, dict]:
    recorded = golden_values("models", __file__)["cases"]
    return {name: case for name, case in recorded.items() if "stages" in case}


def two_stages(model, batch, features, proposals) -> dict:
    maps, heads = list(features.values()), model.roi_heads
    objectness, deltas = model.rpn.head(maps)
    pooled = heads.box_roi_pool(features, proposals, batch.image_sizes)
    logits, codes = heads.box_predictor(heads.box_head(pooled))
    found = {
        "rpn.head": {"objectness": objectness, "deltas": deltas},
        "rpn.anchor_generator": model.rpn.anchor_generator(batch, maps),
        "roi.box_roi_pool": pooled,
        "roi.class_logits": logits,
        "roi.box_regression": codes,
    }
    if heads.has_mask():
        pooled = heads.mask_roi_pool(features, proposals, batch.image_sizes)
        found["roi.mask_logits"] = heads.mask_predictor(heads.mask_head(pooled))
    if heads.has_keypoint():
        pooled = heads.keypoint_roi_pool(features, proposals, batch.image_sizes)
        found["roi.keypoint_logits"] = heads.keypoint_predictor(heads.keypoint_head(pooled))
    return found


def one_stage(model, batch, features) -> dict:
    maps = list(features.values())
    return {"head": model.head(maps), "anchor_generator": model.anchor_generator(batch, maps)}


@pytest.mark.parametrize("name", cases())
def test_stages_and_losses_are_the_recorded_ones(name):
    inputs, case = parity_module("cases", __file__), cases()[name]
    model = getattr(detection, name)(weights=None, weights_backbone=None, **case["kwargs"])
    fill.fill_(model).eval()
    (images,) = inputs.make(case["inputs"], None)
    with torch.inference_mode():
        batch, _ = model.transform(images)
        features = model.backbone(batch.tensors)
        found = {
            "transform.tensors": batch.tensors,
            "transform.image_sizes": [list(size) for size in batch.image_sizes],
            "backbone": features,
        }
        if hasattr(model, "rpn"):
            proposals = [inputs.boxes(f"prop{index}", 6, size) for index, size in enumerate(batch.image_sizes)]
            found |= two_stages(model, batch, features, proposals)
        else:
            found |= one_stage(model, batch, features)
    fault = fill.matches(found, case["stages"], case["rtol"], case["atol"])
    assert fault is None, fault
    if "losses" in case:
        losses = model.train()(images, inputs.make(case["targets"], None))
        fault = fill.matches(losses, case["losses"], case["rtol"], case["atol"])
        assert fault is None, fault
