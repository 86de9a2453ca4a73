"""Weights of RAFT. C, T, S, K and H are the data sets: Chairs, Things, Sintel, KITTI, HD1K."""

from __future__ import annotations

from functools import partial

from flambeau.core.weights import WeightsEnum, lazy
from flambeau.vision.weights._records import UPSTREAM, published

__all__ = ["Raft_Large_Weights", "Raft_Small_Weights"]

_flow = partial(published, transforms=lazy("flambeau.vision.transforms._presets:OpticalFlow"), min_size=(128, 128))
_authors = partial(_flow, recipe="https://github.com/princeton-vl/RAFT")
_retrained = partial(_flow, recipe=UPSTREAM + "tree/main/references/optical_flow")

_MIXED = "Trained on FlyingChairs and FlyingThings3D, then on a mix of Sintel, KITTI, HD1K and FlyingThings3D"


class Raft_Large_Weights(WeightsEnum):
    """Weights of `models.optical_flow.raft_large`."""

    C_T_V1 = _authors(
        "raft_large_C_T_V1-22a6c225.pth",
        num_params=5_257_536,
        metrics={
            "Sintel-Train-Cleanpass": {"epe": 1.4411},
            "Sintel-Train-Finalpass": {"epe": 2.7894},
            "Kitti-Train": {"per_image_epe": 5.0172, "fl_all": 17.4506},
        },
        gflops=211.007,
        mebibytes=20.129,
        docs="Trained on FlyingChairs, then on FlyingThings3D, by the authors.",
    )
    C_T_V2 = _retrained(
        "raft_large_C_T_V2-1bb1363a.pth",
        num_params=5_257_536,
        metrics={
            "Sintel-Train-Cleanpass": {"epe": 1.3822},
            "Sintel-Train-Finalpass": {"epe": 2.7161},
            "Kitti-Train": {"per_image_epe": 4.5118, "fl_all": 16.0679},
        },
        gflops=211.007,
        mebibytes=20.129,
        docs="Trained on FlyingChairs, then on FlyingThings3D, anew.",
    )
    C_T_SKHT_V1 = _authors(
        "raft_large_C_T_SKHT_V1-0b8c9e55.pth",
        num_params=5_257_536,
        metrics={"Sintel-Test-Cleanpass": {"epe": 1.94}, "Sintel-Test-Finalpass": {"epe": 3.18}},
        gflops=211.007,
        mebibytes=20.129,
        docs=_MIXED + ", by the authors.",
    )
    C_T_SKHT_V2 = _retrained(
        "raft_large_C_T_SKHT_V2-ff5fadd5.pth",
        num_params=5_257_536,
        metrics={"Sintel-Test-Cleanpass": {"epe": 1.819}, "Sintel-Test-Finalpass": {"epe": 3.067}},
        gflops=211.007,
        mebibytes=20.129,
        docs=_MIXED + ", anew.",
    )
    C_T_SKHT_K_V1 = _authors(
        "raft_large_C_T_SKHT_K_V1-4a6a5039.pth",
        num_params=5_257_536,
        metrics={"Kitti-Test": {"fl_all": 5.1}},
        gflops=211.007,
        mebibytes=20.129,
        docs=_MIXED + ", at last on KITTI, by the authors.",
    )
    C_T_SKHT_K_V2 = _retrained(
        "raft_large_C_T_SKHT_K_V2-b5c70766.pth",
        num_params=5_257_536,
        metrics={"Kitti-Test": {"fl_all": 5.19}},
        gflops=211.007,
        mebibytes=20.129,
        docs=_MIXED + ", at last on KITTI, anew.",
    )
    DEFAULT = C_T_SKHT_V2


class Raft_Small_Weights(WeightsEnum):
    """Weights of `models.optical_flow.raft_small`."""

    C_T_V1 = _authors(
        "raft_small_C_T_V1-ad48884c.pth",
        num_params=990_162,
        metrics={
            "Sintel-Train-Cleanpass": {"epe": 2.1231},
            "Sintel-Train-Finalpass": {"epe": 3.279},
            "Kitti-Train": {"per_image_epe": 7.6557, "fl_all": 25.2801},
        },
        gflops=47.655,
        mebibytes=3.821,
        docs="Trained on FlyingChairs, then on FlyingThings3D, by the authors.",
    )
    C_T_V2 = _retrained(
        "raft_small_C_T_V2-01064c6d.pth",
        num_params=990_162,
        metrics={
            "Sintel-Train-Cleanpass": {"epe": 1.9901},
            "Sintel-Train-Finalpass": {"epe": 3.2831},
            "Kitti-Train": {"per_image_epe": 7.5978, "fl_all": 25.2369},
        },
        gflops=47.655,
        mebibytes=3.821,
        docs="Trained on FlyingChairs, then on FlyingThings3D, anew.",
    )
    DEFAULT = C_T_V2
