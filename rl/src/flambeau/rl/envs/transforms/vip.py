"""VIP: images of robots as vectors, in which distances say how far a goal is."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from flambeau.rl.data.tensor_specs import Unbounded
from flambeau.rl.envs.transforms._visual_encoders import PretrainedEncoder

__all__ = ["VIPRewardTransform", "VIPTransform"]


class VIPTransform(PretrainedEncoder):
    """Images as vectors of 1024 numbers, of a residual network that was trained to tell how far goals are.

    Args:
        model_name: "resnet50".
        in_keys: of images (..., height, width, 3), bytes; they are removed.
        out_keys: of the vectors; default: "vip_vec", with `stack_images=False` "vip_vec_0" and so on.
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
        Y. J. Ma et al., VIP: Towards Universal Visual Reward and Representation via Value-Implicit Pre-Training,
        arXiv:2210.00030.
    """

    sizes = {"resnet50": 1024}
    # The addresses that torchrl fetches from; no checksums are published.
    urls = {"resnet50": "https://pytorch.s3.amazonaws.com/models/rl/vip/model.pt"}
    checkpoint_key = "vip"
    default_out_key = "vip_vec"

    def _last_layer(self, network: Any) -> nn.Module:
        return nn.Linear(network.fc.in_features, 1024)


class VIPRewardTransform(VIPTransform):
    """Images as VIP's vectors, and rewards by how much nearer a step came to a goal.

    A reset takes an image of the goal at "goal_image", and gives its vector at "goal_embedding". The reward of a step
    from s to s' is |goal - s| - |goal - s'|, of the vectors; it takes the place of the environment's.

    Args:
        args: as for `VIPTransform`; one image, or all of them in one vector.
        kwargs: likewise.

    References:
        Y. J. Ma et al., arXiv:2210.00030, section 4.
    """

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        if tensordict.get("goal_embedding", None) is None and tensordict.get("goal_image", None) is None:
            raise KeyError(
                "VIPRewardTransform takes an image of the goal when it is reset: "
                "env.reset(TensorDict({'goal_image': image}, env.batch_size)); the keys are "
                f"{list(tensordict.keys(True, True))}."
            )
        out = super()._reset(tensordict, tensordict_reset)
        if "goal_image" in tensordict.keys():  # noqa: SIM118  # no dictionary
            out.set("goal_image", tensordict.get("goal_image"))
        return out.set("goal_embedding", self._embed_goal(tensordict))

    def _embed_goal(self, tensordict: Any) -> Tensor:
        """The vector of the goal's image, or the one that is there."""
        image = tensordict.get("goal_image", None)
        if image is None:
            return tensordict.get("goal_embedding")  # type: ignore[no-any-return]
        inner = tensordict.empty().set(self.in_keys[0], image)
        for transform in self.transforms:
            if set(transform.in_keys) <= set(inner.keys(True, True)):  # type: ignore[arg-type]
                inner = transform(inner)
        return inner.get(self.out_keys[0])  # type: ignore[no-any-return]

    def _step(self, tensordict: Any, next_tensordict: Any) -> Any:
        out = super()._step(tensordict, next_tensordict)
        key = self.transforms[-1].out_keys[0]  # type: ignore[index]
        goal, before, after = tensordict.get("goal_embedding"), tensordict.get(key), out.get(key)
        nearer = (goal - before).norm(dim=-1) - (goal - after).norm(dim=-1)
        shape = self.parent.full_reward_spec["reward"].shape
        return out.set("reward", nearer.reshape(shape))

    def forward(self, tensordict: Any) -> Any:
        """Encode the images of data; rewards stay as they are.

        Args:
            tensordict: changed in place.
        """
        return super().forward(tensordict)

    def transform_input_spec(self, input_spec: Any) -> Any:
        """With the image of the goal, which a reset takes.

        Args:
            input_spec: a composite.
        """
        input_spec = super().transform_input_spec(input_spec)
        state = input_spec["full_state_spec"]
        image = self.parent.full_observation_spec[self.in_keys[0]]
        state["goal_image"] = image.clone()
        state["goal_embedding"] = Unbounded((*image.shape[:-3], 1024), device=image.device)
        input_spec["full_state_spec"] = state
        return input_spec
