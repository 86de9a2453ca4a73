"""Trading one asset whose price moves at random, for any batch size."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import TensorDict, TensorDictBase
from flambeau.rl.data.tensor_specs import Binary, Categorical, Composite, Unbounded
from flambeau.rl.envs.common import EnvBase
from flambeau.rl.envs.utils import make_composite_from_td

__all__ = ["FinancialRegimeEnv"]

DAYS_A_YEAR = 252
HOLDING_REWARD = 0.1
HOLD, BUY, SELL = range(3)


class FinancialRegimeEnv(EnvBase):
    """Buying, holding and selling one unit of an asset whose price is a geometric Brownian motion, one day a step.

    A price is `price * exp(drift / 252 + volatility * noise / sqrt(252))` a day later. Buying and selling cost
    `transaction_cost * price`; selling gains the relative change of the price since it was bought; each day that ends
    with the asset held gains a tenth of the price's relative change. Buying what is held, and selling what is not, is
    holding. The environment keeps no state: prices and parameters come with every tensordict, of any batch size.

    ================  ==============  ==================================================================
    key               shape           what
    ================  ==============  ==================================================================
    price_history     (window_size,)  the last prices, the newest last
    current_holdings  (1,)            bool: whether the asset is held
    entry_price       (1,)            what it was bought for; 0 where it is not held
    step_count        ()              days of this episode, int64; the episode is cut off at `max_steps`
    params            -               see `gen_params`
    action            (1,)            0: hold, 1: buy, 2: sell
    reward            (1,)            float32
    ================  ==============  ==================================================================

    Args:
        td_params: what `gen_params` made; default: its defaults.
        seed: of prices; default: any.
        device: of all tensors.
        window_size: of prices; default: that of `td_params`, else 50.

    Example:
        >>> env = FinancialRegimeEnv(seed=0)
        >>> env.rollout(10)["price_history"].shape
        torch.Size([10, 50])
    """

    DEFAULT_WINDOW_SIZE = 50
    DEFAULT_MAX_STEPS = 252
    DEFAULT_INITIAL_PRICE = 100.0
    metadata = {"render_modes": ["human"], "render_fps": 1}
    batch_locked = False
    _batch_locked = False
    rng: torch.Generator

    def __init__(
        self, td_params: TensorDictBase | None = None, seed: int | None = None, device: Any = None,
        window_size: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(device=device, batch_size=Size([]))
        if td_params is None:
            td_params = self.gen_params(window_size=window_size, device=self.device)
        params = td_params.get("params")
        if window_size is not None and (params.get("window_size") != window_size).any():
            raise ValueError(f"window_size is {window_size}, that of td_params {params.get('window_size').tolist()}.")
        self.__dict__["_params"] = params.reshape(-1)[0] if params.batch_size else params
        self._make_specs(params)
        self.__dict__["rng"] = torch.Generator(device=self.device or "cpu")
        self.set_seed(int(torch.empty((), dtype=torch.int64).random_()) if seed is None else seed)

    def _make_specs(self, params: TensorDictBase) -> None:
        device = self.device
        seen = Composite(
            price_history=Unbounded((self._window(params),), dtype=torch.float32, device=device),
            current_holdings=Binary(1, dtype=torch.bool, shape=(1,), device=device),
            entry_price=Unbounded((1,), dtype=torch.float32, device=device),
            step_count=Unbounded((), dtype=torch.int64, device=device),
            params=make_composite_from_td(self.__dict__["_params"], unsqueeze_null_shapes=False),
        )
        self.full_observation_spec = seen
        self.full_state_spec = seen.clone()
        self.action_spec = Categorical(3, (1,), dtype=torch.int64, device=device)
        self.reward_spec = Unbounded((1,), dtype=torch.float32, device=device)
        end = Categorical(2, (1,), dtype=torch.bool, device=device)
        self.full_done_spec = Composite(done=end, terminated=end.clone(), truncated=end.clone())

    @staticmethod
    def gen_params(
        window_size: int | None = None,
        initial_price: float = DEFAULT_INITIAL_PRICE,
        volatility: float = 0.2,
        drift: float = 0.05,
        transaction_cost: float = 0.001,
        max_steps: int = DEFAULT_MAX_STEPS,
        batch_size: Any = None,
        device: Any = None,
    ) -> TensorDictBase:
        """Parameters of the market, to reset an environment with.

        Args:
            window_size: how many prices are seen; default: 50.
            initial_price: the one before the first that is seen.
            volatility: standard deviation of the logarithm of the price's change, a year.
            drift: mean of it, a year.
            transaction_cost: of buying and selling, a share of the price.
            max_steps: days of an episode.
            batch_size: of the environment.
            device: of the parameters.

        Returns:
            A tensordict with them at "params".
        """
        params = {
            "window_size": FinancialRegimeEnv.DEFAULT_WINDOW_SIZE if window_size is None else window_size,
            "initial_price": float(initial_price), "volatility": float(volatility), "drift": float(drift),
            "transaction_cost": float(transaction_cost), "max_steps": max_steps,
        }  # fmt: skip
        made = TensorDict({"params": TensorDict(params, [])}, [], device=device)
        return made.expand(Size(batch_size)).contiguous() if batch_size else made

    @staticmethod
    def _window(params: TensorDictBase) -> int:
        sizes = params.get("window_size")
        if (sizes != sizes.reshape(-1)[0]).any():
            raise ValueError(f"Environments of one batch see as many prices each; got {sizes.tolist()}.")
        return int(sizes.reshape(-1)[0])

    def _set_seed(self, seed: int | None) -> None:
        if seed is None:
            self.rng.seed()
        else:
            self.rng.manual_seed(seed)

    def _noise(self, *shape: int) -> Tensor:
        noise: Tensor = torch.randn(*shape, generator=self.rng, device=self.device)
        return noise / math.sqrt(DAYS_A_YEAR)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        size = Size([]) if tensordict is None else tensordict.batch_size
        params = None if tensordict is None else tensordict.get("params", None)
        if params is None:
            params = self.__dict__["_params"]
            params = params.expand(size).clone() if size else params.clone()
        noise = self._noise(*size, self._window(params))
        prices = params["initial_price"][..., None] * (params["volatility"][..., None] * noise).cumsum(-1).exp()
        return TensorDict(
            {
                "price_history": prices,
                "current_holdings": torch.zeros(*size, 1, dtype=torch.bool, device=self.device),
                "entry_price": torch.zeros(*size, 1, device=self.device),
                "step_count": torch.zeros(size, dtype=torch.int64, device=self.device),
                "params": params,
            },
            size,
            device=self.device,
        )

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        params, action, prices = (tensordict.get(key) for key in ("params", "action", "price_history"))
        held, entry = tensordict["current_holdings"], tensordict["entry_price"]
        size = tensordict.batch_size
        price, cost = prices[..., -1:], params["transaction_cost"][..., None]
        buys, sells = (action == BUY) & ~held, (action == SELL) & held
        growth = params["drift"][..., None] / DAYS_A_YEAR + params["volatility"][..., None] * self._noise(*size, 1)
        later = price * growth.exp()
        holds = (held | buys) & ~sells
        # What is not held has no entry price; its gain is not used.
        gain = torch.where(sells, (price - entry) / torch.where(sells, entry, 1), 0)
        reward = gain - (buys | sells) * cost * price + holds * HOLDING_REWARD * (later - price) / price
        count = tensordict["step_count"] + 1
        cut = (count >= params["max_steps"]).unsqueeze(-1)
        return TensorDict(
            {
                "price_history": torch.cat([prices[..., 1:], later], -1),
                "current_holdings": holds,
                "entry_price": torch.where(buys, price, torch.where(holds, entry, 0)),
                "step_count": count,
                "params": params,
                "reward": reward,
                "done": cut,
                "terminated": torch.zeros_like(cut),
                "truncated": cut.clone(),
            },
            size,
            device=self.device,
        )
