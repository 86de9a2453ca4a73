"""R3M: images of robots as vectors."""

from __future__ import annotations

from flambeau.rl.envs.transforms._visual_encoders import PretrainedEncoder

__all__ = ["R3MTransform"]


class R3MTransform(PretrainedEncoder):
    """Images as vectors of a residual network that was trained on videos of people's hands.

    Args:
        model_name: "resnet18" or "resnet34" for vectors of 512 numbers, "resnet50" for 2048.
        in_keys: of images (..., height, width, 3), bytes; they are removed.
        out_keys: of the vectors; default: "r3m_vec", with `stack_images=False` "r3m_vec_0" and so on.
        size: of the images that the network gets: one number, or both.
        stack_images: one vector for all images, one part behind the other.
        download: True: with the published weights, which are fetched; False: with random ones. Otherwise the name of
            weights of the network itself, such as "IMAGENET1K_V1".
        download_path: folder for the published weights; default: the cache.
        tensor_pixels_keys: where to keep the images as they came, one for each.
        requires_grad: train the network; otherwise it is frozen.

    Raises:
        NotImplementedError: there are no weights of such a network.
        ValueError: there are too many or too few `out_keys`.
        MissingPluginError: flambeau-vision, which has the networks, is not installed.

    References:
        S. Nair et al., R3M: A Universal Visual Representation for Robot Manipulation, arXiv:2203.12601.
    """

    sizes = {"resnet18": 512, "resnet34": 512, "resnet50": 2048}
    # The addresses that torchrl fetches from; no checksums are published.
    urls = {
        f"resnet{depth}": f"https://pytorch.s3.amazonaws.com/models/rl/r3m/r3m_{depth}.pt" for depth in (18, 34, 50)
    }
    checkpoint_key = "r3m"
    default_out_key = "r3m_vec"
