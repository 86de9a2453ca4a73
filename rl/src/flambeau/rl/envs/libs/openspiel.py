"""Games of OpenSpiel."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import NonTensorData, TensorDict
from flambeau.rl.data.tensor_specs import Categorical, Composite, NonTensor, OneHot, Unbounded
from flambeau.rl.envs._agents import MarlGroupMapType
from flambeau.rl.envs.common import _EnvWrapper
from flambeau.rl.envs.libs._backends import Available, backend
from flambeau.rl.envs.libs._groups import by_prefix, group_map_of, stacked_data, stacked_specs

__all__ = ["OpenSpielEnv", "OpenSpielWrapper"]

INSTALL = "pip install 'flambeau-rl[openspiel]'"


def _games() -> list[str]:
    import pyspiel

    return list(pyspiel.registered_names())


class OpenSpielWrapper(_EnvWrapper):
    """A state of a game of OpenSpiel, which was made already.

    Players are "player_0" and so on. Those who are not to move have actions as well, which count for nothing;
    "current_player" says who is, and is negative where all move at once, or the game is over. Of a group are (group,
    "observation"), the observation tensor or else the information state tensor, (group, "reward") and (group,
    "action"). Chance moves by itself.

    Args:
        env: a state, of `game.new_initial_state()`.
        group_map: players by group, or a `MarlGroupMapType`; default: all in one group "agents".
        categorical_actions: actions are numbers, not one-hot vectors.
        return_state: give the state, serialized, at "state", from which `reset` continues.
        chance_sampler: from pairs of outcomes and probabilities to an outcome; default: drawn by these.
        kwargs: as for environments.

    Raises:
        TypeError: `env` is no state.
        ValueError: the game has neither tensors of observations nor of information states.

    References:
        M. Lanctot et al., OpenSpiel: A Framework for Reinforcement Learning in Games, arXiv:1908.09453.
    """

    git_url = "https://github.com/google-deepmind/open_spiel"
    libname = "pyspiel"
    available_envs = Available("pyspiel", _games)

    def __init__(
        self, env: Any = None, *, group_map: Any = MarlGroupMapType.ALL_IN_ONE_GROUP, categorical_actions: bool = False,
        return_state: bool = False, chance_sampler: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        if env is not None:
            kwargs["env"] = env
        state = self.__dict__
        state["group_map"], state["categorical_actions"] = group_map, categorical_actions
        state["return_state"], state["chance_sampler"] = return_state, chance_sampler
        state["_random"] = random.Random()
        super().__init__(**kwargs)

    @property
    def lib(self) -> Any:
        """The library."""
        return backend("pyspiel", type(self).__name__, INSTALL)

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        env = kwargs.get("env")
        if not hasattr(env, "get_game"):
            raise TypeError(f"{type(self).__name__} takes a state of a game of OpenSpiel; got {type(env).__name__}.")

    def _build_env(self, env: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no argument {next(iter(kwargs))!r}.")
        game = self.__dict__["game"] = env.get_game()
        facts = game.get_type()
        if facts.provides_observation_tensor:
            self.__dict__["_shape"] = tuple(game.observation_tensor_shape())
        elif facts.provides_information_state_tensor:
            self.__dict__["_shape"] = tuple(game.information_state_tensor_shape())
        else:
            raise ValueError(f"{type(self).__name__}: the game {facts.short_name!r} has no tensors of observations.")
        self.__dict__["_observes"] = facts.provides_observation_tensor
        return env

    def _make_specs(self, env: Any) -> None:
        names = [f"player_{at}" for at in range(self.game.num_players())]
        self.__dict__["agent_names"] = names
        groups = self.__dict__["group_map"] = group_map_of(self.group_map, names, by_prefix)
        count = self.game.num_distinct_actions()
        kind = Categorical if self.categorical_actions else OneHot
        one = {
            "observation": Unbounded(self._shape, device=self.device),
            "reward": Unbounded((1,), device=self.device),
            "action": kind(count, device=self.device, dtype=torch.int64),
        }
        for key, spec in one.items():
            each = {name: Composite({key: spec.clone()}) for name in names}
            setattr(self, f"full_{key}_spec", stacked_specs(groups, each, Size([])))
        seen = self.full_observation_spec.clone()
        if self.return_state:
            seen["state"] = NonTensor((), example_data=env.serialize(), device=self.device)
        seen["current_player"] = Unbounded((), dtype=torch.int, device=self.device)
        self.full_observation_spec = seen
        end = Categorical(2, (1,), dtype=torch.bool, device=self.device)
        self.full_done_spec = Composite(done=end, terminated=end.clone(), device=self.device)
        self._leave_to_chance()
        self._allow()

    def _set_seed(self, seed: int | None) -> None:
        self.__dict__["_random"] = random.Random(seed)

    def _leave_to_chance(self) -> None:
        """Move for chance, as long as it is to."""
        state = self._env
        while state.is_chance_node():
            outcomes = state.chance_outcomes()
            if self.chance_sampler is not None:
                outcome = self.chance_sampler(outcomes)
            else:
                actions, weights = zip(*outcomes, strict=True)
                (outcome,) = self._random.choices(actions, weights)
            state.apply_action(int(outcome))

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        given = None if tensordict is None or not self.return_state else tensordict.get("state", None)
        begun = tensordict is not None and tensordict.get("_reset", None) is not None
        if given is not None and not begun:
            self.__dict__["_env"] = self.game.deserialize_state(getattr(given, "data", given))
        else:
            self.__dict__["_env"] = self.game.new_initial_state()
        self._leave_to_chance()
        return self._given(None)

    def _given(self, rewards: Any) -> Any:
        self._allow()
        state, entries = self._env, {}
        over = state.is_terminal()
        for at, name in enumerate(self.agent_names):
            read = state.observation_tensor if self._observes else state.information_state_tensor
            seen = torch.tensor(read(at), dtype=torch.float32, device=self.device).reshape(self._shape)
            entries[name] = {"observation": seen}
            if rewards is not None:
                entries[name]["reward"] = torch.tensor([rewards[at]], dtype=torch.float32, device=self.device)
        data = TensorDict(stacked_data(self.group_map, entries, Size([])), [], device=self.device)
        if self.return_state:
            data.set("state", NonTensorData(state.serialize()))
        data["current_player"] = torch.tensor(state.current_player(), dtype=torch.int, device=self.device)
        data["done"] = torch.tensor([over], device=self.device)
        data["terminated"] = data["done"].clone()
        return data

    def _read(self, action: Tensor) -> int:
        return int(action if self.categorical_actions else action.long().argmax(-1))

    def _step(self, tensordict: Any) -> Any:
        actions: dict[str, int] = {}
        for group, names in self.group_map.items():
            parts = tensordict.get((group, "action")).unbind(0)
            actions.update({name: self._read(part) for name, part in zip(names, parts, strict=True)})
        state = self._env
        if state.is_simultaneous_node():
            chosen = [actions[name] for name in self.agent_names]
            self._check_legal([(at, action) for at, action in enumerate(chosen)])
            state.apply_actions(chosen)
        elif not state.is_terminal():
            player = state.current_player()
            action = actions[self.agent_names[player]]
            self._check_legal([(player, action)])
            state.apply_action(action)
        rewards = state.rewards()
        self._leave_to_chance()
        return self._given(rewards)

    def _check_legal(self, chosen: list[tuple[int, int]]) -> None:
        for player, action in chosen:
            legal = self._env.legal_actions(player)
            if legal and action not in legal:
                raise RuntimeError(
                    f"{type(self).__name__}: {self.agent_names[player]} may not take action {action}; those that it "
                    f"may are {legal}. the mask of the action's spec says so, too."
                )

    # Legal actions

    def _allow(self) -> None:
        """Say in the specs which actions are legal; those who are not to move have the action 0 alone."""
        state, count = self._env, self.game.num_distinct_actions()
        over = state.is_terminal()
        for group, names in self.group_map.items():
            mask = torch.zeros(len(names), count, dtype=torch.bool, device=self.device)
            for at, name in enumerate(names):
                legal = [] if over else state.legal_actions(self.agent_names.index(name))
                mask[at, legal or [0]] = True
            self.full_action_spec[group, "action"].update_mask(mask)

    def all_actions(self, tensordict: Any = None) -> Any:
        """The legal actions of the player who is to move, along a new first dimension; the others have the same.

        Args:
            tensordict: where the game is; default: where it is now.
        """
        if tensordict is not None:
            self.reset(tensordict.exclude("_reset"))
        legal = torch.tensor(self._env.legal_actions(), device=self.device)
        if not self.categorical_actions:
            legal = torch.nn.functional.one_hot(legal, self.game.num_distinct_actions())
        found = {
            group: TensorDict(
                {"action": legal.unsqueeze(1).expand(len(legal), len(names), *legal.shape[1:]).clone()},
                [len(legal), len(names)],
            )
            for group, names in self.group_map.items()
        }
        return TensorDict(found, [len(legal)], device=self.device)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(game={self.game}, device={self.device})"


class OpenSpielEnv(OpenSpielWrapper):
    """A game of OpenSpiel by its name, with its parameters.

    Args:
        game_string: such as "tic_tac_toe", or "connect_four(rows=4)".
        group_map: as for `OpenSpielWrapper`, as what follows.
        categorical_actions: likewise.
        return_state: likewise.
        kwargs: likewise.

    Raises:
        ImportError: OpenSpiel is not installed.
    """

    def __init__(
        self, game_string: str, *, group_map: Any = MarlGroupMapType.ALL_IN_ONE_GROUP,
        categorical_actions: bool = False, return_state: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        library = backend("pyspiel", type(self).__name__, INSTALL)
        self.__dict__["game_string"] = game_string
        super().__init__(
            env=library.load_game(game_string).new_initial_state(),
            group_map=group_map,
            categorical_actions=categorical_actions,
            return_state=return_state,
            **kwargs,
        )
