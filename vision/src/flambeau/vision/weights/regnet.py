"""Weights of the RegNet family, trained on ImageNet-1K, some of them after weakly supervised pretraining."""

from __future__ import annotations

from flambeau.core.weights import WeightsEnum
from flambeau.vision.weights._records import NEW_RECIPE, RECIPES, original, refreshed
from flambeau.vision.weights._swag import end_to_end, linear

__all__ = [
    "RegNet_X_1_6GF_Weights",
    "RegNet_X_3_2GF_Weights",
    "RegNet_X_8GF_Weights",
    "RegNet_X_16GF_Weights",
    "RegNet_X_32GF_Weights",
    "RegNet_X_400MF_Weights",
    "RegNet_X_800MF_Weights",
    "RegNet_Y_1_6GF_Weights",
    "RegNet_Y_3_2GF_Weights",
    "RegNet_Y_8GF_Weights",
    "RegNet_Y_16GF_Weights",
    "RegNet_Y_32GF_Weights",
    "RegNet_Y_128GF_Weights",
    "RegNet_Y_400MF_Weights",
    "RegNet_Y_800MF_Weights",
]


class RegNet_Y_400MF_Weights(WeightsEnum):
    """Weights of `models.regnet_y_400mf`."""

    IMAGENET1K_V1 = original(
        "regnet_y_400mf-c65dace8.pth",
        num_params=4_344_144,
        accuracy=(74.046, 91.716),
        gflops=0.402,
        mebibytes=16.806,
        recipe=RECIPES + "small-models",
    )
    IMAGENET1K_V2 = refreshed(
        "regnet_y_400mf-e6988f5f.pth",
        num_params=4_344_144,
        accuracy=(75.804, 92.742),
        gflops=0.402,
        mebibytes=16.806,
        recipe=NEW_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2


class RegNet_Y_800MF_Weights(WeightsEnum):
    """Weights of `models.regnet_y_800mf`."""

    IMAGENET1K_V1 = original(
        "regnet_y_800mf-1b27b58c.pth",
        num_params=6_432_512,
        accuracy=(76.42, 93.136),
        gflops=0.834,
        mebibytes=24.774,
        recipe=RECIPES + "small-models",
    )
    IMAGENET1K_V2 = refreshed(
        "regnet_y_800mf-58fc7688.pth",
        num_params=6_432_512,
        accuracy=(78.828, 94.502),
        gflops=0.834,
        mebibytes=24.774,
        recipe=NEW_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2


class RegNet_Y_1_6GF_Weights(WeightsEnum):
    """Weights of `models.regnet_y_1_6gf`."""

    IMAGENET1K_V1 = original(
        "regnet_y_1_6gf-b11a554e.pth",
        num_params=11_202_430,
        accuracy=(77.95, 93.966),
        gflops=1.612,
        mebibytes=43.152,
        recipe=RECIPES + "small-models",
    )
    IMAGENET1K_V2 = refreshed(
        "regnet_y_1_6gf-0d7bc02a.pth",
        num_params=11_202_430,
        accuracy=(80.876, 95.444),
        gflops=1.612,
        mebibytes=43.152,
        recipe=NEW_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2


class RegNet_Y_3_2GF_Weights(WeightsEnum):
    """Weights of `models.regnet_y_3_2gf`."""

    IMAGENET1K_V1 = original(
        "regnet_y_3_2gf-b5a9779c.pth",
        num_params=19_436_338,
        accuracy=(78.948, 94.576),
        gflops=3.176,
        mebibytes=74.567,
        recipe=RECIPES + "medium-models",
    )
    IMAGENET1K_V2 = refreshed(
        "regnet_y_3_2gf-9180c971.pth",
        num_params=19_436_338,
        accuracy=(81.982, 95.972),
        gflops=3.176,
        mebibytes=74.567,
        recipe=NEW_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2


class RegNet_Y_8GF_Weights(WeightsEnum):
    """Weights of `models.regnet_y_8gf`."""

    IMAGENET1K_V1 = original(
        "regnet_y_8gf-d0d0e4a8.pth",
        num_params=39_381_472,
        accuracy=(80.032, 95.048),
        gflops=8.473,
        mebibytes=150.701,
        recipe=RECIPES + "medium-models",
    )
    IMAGENET1K_V2 = refreshed(
        "regnet_y_8gf-dc2b1b54.pth",
        num_params=39_381_472,
        accuracy=(82.828, 96.33),
        gflops=8.473,
        mebibytes=150.701,
        recipe=NEW_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2


class RegNet_Y_16GF_Weights(WeightsEnum):
    """Weights of `models.regnet_y_16gf`."""

    IMAGENET1K_V1 = original(
        "regnet_y_16gf-9e6ed7dd.pth",
        num_params=83_590_140,
        accuracy=(80.424, 95.24),
        gflops=15.912,
        mebibytes=319.49,
        recipe=RECIPES + "large-models",
    )
    IMAGENET1K_V2 = refreshed(
        "regnet_y_16gf-3e4a00f9.pth",
        num_params=83_590_140,
        accuracy=(82.886, 96.328),
        gflops=15.912,
        mebibytes=319.49,
        recipe=NEW_RECIPE,
    )
    IMAGENET1K_SWAG_E2E_V1 = end_to_end(
        "regnet_y_16gf_swag-43afe44d.pth",
        num_params=83_590_140,
        accuracy=(86.012, 98.054),
        gflops=46.735,
        mebibytes=319.49,
    )
    IMAGENET1K_SWAG_LINEAR_V1 = linear(
        "regnet_y_16gf_lc_swag-f3ec0043.pth",
        num_params=83_590_140,
        accuracy=(83.976, 97.244),
        gflops=15.912,
        mebibytes=319.49,
    )
    DEFAULT = IMAGENET1K_V2


class RegNet_Y_32GF_Weights(WeightsEnum):
    """Weights of `models.regnet_y_32gf`."""

    IMAGENET1K_V1 = original(
        "regnet_y_32gf-4dee3f7a.pth",
        num_params=145_046_770,
        accuracy=(80.878, 95.34),
        gflops=32.28,
        mebibytes=554.076,
        recipe=RECIPES + "large-models",
    )
    IMAGENET1K_V2 = refreshed(
        "regnet_y_32gf-8db6d4b5.pth",
        num_params=145_046_770,
        accuracy=(83.368, 96.498),
        gflops=32.28,
        mebibytes=554.076,
        recipe=NEW_RECIPE,
    )
    IMAGENET1K_SWAG_E2E_V1 = end_to_end(
        "regnet_y_32gf_swag-04fdfa75.pth",
        num_params=145_046_770,
        accuracy=(86.838, 98.362),
        gflops=94.826,
        mebibytes=554.076,
    )
    IMAGENET1K_SWAG_LINEAR_V1 = linear(
        "regnet_y_32gf_lc_swag-e1583746.pth",
        num_params=145_046_770,
        accuracy=(84.622, 97.48),
        gflops=32.28,
        mebibytes=554.076,
    )
    DEFAULT = IMAGENET1K_V2


class RegNet_Y_128GF_Weights(WeightsEnum):
    """Weights of `models.regnet_y_128gf`."""

    IMAGENET1K_SWAG_E2E_V1 = end_to_end(
        "regnet_y_128gf_swag-c8ce3e52.pth",
        num_params=644_812_894,
        accuracy=(88.228, 98.682),
        gflops=374.57,
        mebibytes=2461.564,
    )
    IMAGENET1K_SWAG_LINEAR_V1 = linear(
        "regnet_y_128gf_lc_swag-cbe8ce12.pth",
        num_params=644_812_894,
        accuracy=(86.068, 97.844),
        gflops=127.518,
        mebibytes=2461.564,
    )
    DEFAULT = IMAGENET1K_SWAG_E2E_V1


class RegNet_X_400MF_Weights(WeightsEnum):
    """Weights of `models.regnet_x_400mf`."""

    IMAGENET1K_V1 = original(
        "regnet_x_400mf-adf1edd5.pth",
        num_params=5_495_976,
        accuracy=(72.834, 90.95),
        gflops=0.414,
        mebibytes=21.258,
        recipe=RECIPES + "small-models",
    )
    IMAGENET1K_V2 = refreshed(
        "regnet_x_400mf-62229a5f.pth",
        num_params=5_495_976,
        accuracy=(74.864, 92.322),
        gflops=0.414,
        mebibytes=21.257,
        recipe=NEW_RECIPE + "-with-fixres",
    )
    DEFAULT = IMAGENET1K_V2


class RegNet_X_800MF_Weights(WeightsEnum):
    """Weights of `models.regnet_x_800mf`."""

    IMAGENET1K_V1 = original(
        "regnet_x_800mf-ad17e45c.pth",
        num_params=7_259_656,
        accuracy=(75.212, 92.348),
        gflops=0.8,
        mebibytes=27.945,
        recipe=RECIPES + "small-models",
    )
    IMAGENET1K_V2 = refreshed(
        "regnet_x_800mf-94a99ebd.pth",
        num_params=7_259_656,
        accuracy=(77.522, 93.826),
        gflops=0.8,
        mebibytes=27.945,
        recipe=NEW_RECIPE + "-with-fixres",
    )
    DEFAULT = IMAGENET1K_V2


class RegNet_X_1_6GF_Weights(WeightsEnum):
    """Weights of `models.regnet_x_1_6gf`."""

    IMAGENET1K_V1 = original(
        "regnet_x_1_6gf-e3633e7f.pth",
        num_params=9_190_136,
        accuracy=(77.04, 93.44),
        gflops=1.603,
        mebibytes=35.339,
        recipe=RECIPES + "small-models",
    )
    IMAGENET1K_V2 = refreshed(
        "regnet_x_1_6gf-a12f2b72.pth",
        num_params=9_190_136,
        accuracy=(79.668, 94.922),
        gflops=1.603,
        mebibytes=35.339,
        recipe=NEW_RECIPE + "-with-fixres",
    )
    DEFAULT = IMAGENET1K_V2


class RegNet_X_3_2GF_Weights(WeightsEnum):
    """Weights of `models.regnet_x_3_2gf`."""

    IMAGENET1K_V1 = original(
        "regnet_x_3_2gf-f342aeae.pth",
        num_params=15_296_552,
        accuracy=(78.364, 93.992),
        gflops=3.177,
        mebibytes=58.756,
        recipe=RECIPES + "medium-models",
    )
    IMAGENET1K_V2 = refreshed(
        "regnet_x_3_2gf-7071aa85.pth",
        num_params=15_296_552,
        accuracy=(81.196, 95.43),
        gflops=3.177,
        mebibytes=58.756,
        recipe=NEW_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2


class RegNet_X_8GF_Weights(WeightsEnum):
    """Weights of `models.regnet_x_8gf`."""

    IMAGENET1K_V1 = original(
        "regnet_x_8gf-03ceed89.pth",
        num_params=39_572_648,
        accuracy=(79.344, 94.686),
        gflops=7.995,
        mebibytes=151.456,
        recipe=RECIPES + "medium-models",
    )
    IMAGENET1K_V2 = refreshed(
        "regnet_x_8gf-2b70d774.pth",
        num_params=39_572_648,
        accuracy=(81.682, 95.678),
        gflops=7.995,
        mebibytes=151.456,
        recipe=NEW_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2


class RegNet_X_16GF_Weights(WeightsEnum):
    """Weights of `models.regnet_x_16gf`."""

    IMAGENET1K_V1 = original(
        "regnet_x_16gf-2007eb11.pth",
        num_params=54_278_536,
        accuracy=(80.058, 94.944),
        gflops=15.941,
        mebibytes=207.627,
        recipe=RECIPES + "medium-models",
    )
    IMAGENET1K_V2 = refreshed(
        "regnet_x_16gf-ba3796d7.pth",
        num_params=54_278_536,
        accuracy=(82.716, 96.196),
        gflops=15.941,
        mebibytes=207.627,
        recipe=NEW_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2


class RegNet_X_32GF_Weights(WeightsEnum):
    """Weights of `models.regnet_x_32gf`."""

    IMAGENET1K_V1 = original(
        "regnet_x_32gf-9d47f8d0.pth",
        num_params=107_811_560,
        accuracy=(80.622, 95.248),
        gflops=31.736,
        mebibytes=412.039,
        recipe=RECIPES + "large-models",
    )
    IMAGENET1K_V2 = refreshed(
        "regnet_x_32gf-6eb8fdc6.pth",
        num_params=107_811_560,
        accuracy=(83.014, 96.288),
        gflops=31.736,
        mebibytes=412.039,
        recipe=NEW_RECIPE,
    )
    DEFAULT = IMAGENET1K_V2
