"""Trees of what followed observations and actions, for searches such as MCTS."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch
from torch import Size, Tensor

from flambeau.data.tensordict import TensorClass, TensorDict, TensorDictBase
from flambeau.rl.data.map._forest_plot import plotted
from flambeau.rl.data.map.tdstorage import TensorDictMap
from flambeau.rl.data.replay_buffers.storages import ListStorage
from flambeau.rl.data.tensor_specs import Composite

__all__ = ["MCTSForest", "Tree"]

Path = tuple[int, ...]
Format = Callable[["Tree"], Any]


def _data_of(tree: Tree) -> Any:
    return tree.node_data.to_dict()


class Tree(TensorClass["nocast"]):  # type: ignore[misc,name-defined]
    """A node, and the trees that begin with the actions that were taken there.

    Args:
        count: how often it was visited, int32.
        wins: what was won there.
        index: places of the node's actions in the forest's map.
        hash: of the observation and action that lead to the node; None for a root.
        node_id: its number, counted through the tree level by level.
        rollout: the steps that lead to the node from the one before it, (time,), as `EnvBase.rollout` gives them; None
            for a root with several actions.
        node_data: the observations at the node.
        subtree: a tree for each action that was taken there, in a stack; None for a leaf.
        specs: of the environment.
    """

    count: Any = None
    wins: Any = None
    index: Any = None
    hash: Any = None
    node_id: Any = None
    rollout: Any = None
    node_data: Any = None
    subtree: Any = None
    _parent: Any = None
    specs: Any = None

    @classmethod
    def make_node(
        cls,
        data: TensorDictBase,
        *,
        device: torch.device | None = None,
        batch_size: Size | None = None,
        specs: Composite | None = None,
    ) -> Tree:
        """A node that nobody has visited.

        Args:
            data: the observations there.
            device: default: that of the data.
            batch_size: default: that of the data.
            specs: of the environment.
        """
        size = data.batch_size if batch_size is None else batch_size
        device = data.device if device is None else device
        return cls(
            count=torch.zeros(size, device=device),
            wins=torch.zeros(size, device=device),
            node_data=data.exclude("action", "next"),
            specs=specs,
            batch_size=size,
            device=device,
        )

    # Specs

    def _spec(self, side: str, name: str) -> Any:
        if self.specs is None:
            raise TypeError("this tree has no specs; make it with specs=env.specs.")
        return self.specs[side, name]

    @property
    def full_observation_spec(self) -> Any:
        """The specs of observations."""
        return self._spec("output_spec", "full_observation_spec")

    @property
    def full_reward_spec(self) -> Any:
        """The specs of rewards."""
        return self._spec("output_spec", "full_reward_spec")

    @property
    def full_done_spec(self) -> Any:
        """The specs of ends."""
        return self._spec("output_spec", "full_done_spec")

    @property
    def full_state_spec(self) -> Any:
        """The specs of states."""
        return self._spec("input_spec", "full_state_spec")

    @property
    def full_action_spec(self) -> Any:
        """The specs of actions."""
        return self._spec("input_spec", "full_action_spec")

    def _keys(self, side: str, name: str, default: str) -> list[Any]:
        return [default] if self.specs is None else list(self.specs[side, name].keys(True, True))

    # The node

    @property
    def visits(self) -> Any:
        """How often it was visited: `count`."""
        return self.count

    @visits.setter
    def visits(self, count: Any) -> None:
        self.count = count

    @property
    def selected_actions(self) -> Tensor | TensorDictBase | None:
        """The actions that were taken at the node, (children, ...); None for a leaf."""
        if self.subtree is None:
            return None
        actions: list[Any] = [child.branching_action for child in self._children()]
        return torch.stack(actions)

    @property
    def prev_action(self) -> Tensor | TensorDictBase | None:
        """The action just before the node; None where no steps lead to it."""
        return self._action(-1)

    @property
    def branching_action(self) -> Tensor | TensorDictBase | None:
        """The action that was taken at the node before this one; None where no steps lead to it."""
        return self._action(0)

    def _action(self, step: int) -> Any:
        if self.rollout is None:
            return None
        return _only(self.rollout[..., step], self._keys("input_spec", "full_action_spec", "action"))

    @property
    def node_observation(self) -> Tensor | TensorDictBase:
        """The observation at the node; a tensordict where there are several."""
        return _only(self.node_data, self._keys("output_spec", "full_observation_spec", "observation"))

    @property
    def node_observations(self) -> TensorDictBase:
        """The observations at the node, in a tensordict."""
        return self.node_data.select(*self._keys("output_spec", "full_observation_spec", "observation"))

    @property
    def parent(self) -> Tree | None:
        """The node before this one, as long as somebody refers to its tree; with the same tensors."""
        found = self._parent
        if found is None:
            return None
        if isinstance(found, list):
            parents: Tree = torch.stack([self._from_tensordict(each()) for each in found])  # type: ignore[assignment]
            return parents
        data = found()
        return None if data is None else self._from_tensordict(data)

    @property
    def num_children(self) -> int:
        """How many actions were taken at the node."""
        return 0 if self.subtree is None else len(self.subtree)

    @property
    def is_terminal(self) -> bool | Tensor:
        """Whether the episode ended at the node; where that is not known, whether nothing follows it."""
        done = None if self.rollout is None else self.rollout[..., -1].get(("next", "done"), None)
        return self.subtree is None if done is None else done.squeeze(-1)

    def fully_expanded(self, env: Any) -> bool:
        """Whether as many actions were taken at the node as an environment allows there."""
        return bool(self.num_children == env.cardinality(self.node_data))

    def _children(self) -> list[Tree]:
        return [] if self.subtree is None else list(self.subtree.unbind(0))

    # The tree

    def _walk(self) -> Iterator[tuple[Path, Tree]]:
        """Nodes level by level, each with the path that leads there."""
        waiting: deque[tuple[Path, Tree]] = deque([((), self)])
        while waiting:
            path, tree = waiting.popleft()
            yield path, tree
            waiting.extend(((*path, at), child) for at, child in enumerate(tree._children()))

    def get_vertex_by_id(self, id: int) -> Tree:
        """A node by its number.

        Raises:
            ValueError: there is none.
        """
        return self._found("node_id", id)

    def get_vertex_by_hash(self, hash: int) -> Tree:
        """A node by its hash.

        Raises:
            ValueError: there is none.
        """
        return self._found("hash", hash)

    def _found(self, name: str, value: int) -> Tree:
        for _, tree in self._walk():
            if getattr(tree, name) == value:
                return tree
        raise ValueError(f"there is no node with {name} {value}; vertices() gives all.")

    def __contains__(self, other: Any) -> bool:
        if not isinstance(other, Tree):
            return False
        return any(tree.hash == other.hash and _same(tree, other) for _, tree in self._walk())

    def vertices(self, *, key_type: Literal["id", "hash", "path"] = "hash") -> dict[Any, Tree]:
        """The nodes, level by level.

        Args:
            key_type: by their numbers, by their hashes, or by the paths that lead to them: a node to which several lead
                is there as often.

        Raises:
            ValueError: it is none of these.
        """
        if key_type == "path":
            return dict(self._walk())
        if key_type not in ("id", "hash"):
            raise ValueError(f"key_type is {key_type!r}, expected 'id', 'hash' or 'path'.")
        found: dict[Any, Tree] = {}
        for _, tree in self._walk():
            found.setdefault(tree.node_id if key_type == "id" else tree.hash, tree)
        return found

    def num_vertices(self, *, count_repeat: bool = False) -> int:
        """How many nodes there are.

        Args:
            count_repeat: count those to which several paths lead as often.
        """
        return len(self.vertices(key_type="path" if count_repeat else "id"))

    def edges(self) -> list[tuple[int, int]]:
        """Numbers of nodes and of those that follow them, level by level."""
        return [(tree.node_id, child.node_id) for _, tree in self._walk() for child in tree._children()]

    def valid_paths(self) -> Iterator[Path]:
        """Paths to the leaves, the shortest first: which child to go on with, from the root on."""
        for path, tree in self._walk():
            if tree.subtree is None:
                yield path

    def max_length(self) -> int:
        """The length of the longest path."""
        return max(map(len, self.valid_paths()), default=0)

    def rollout_from_path(self, path: Path) -> TensorDictBase | None:
        """The steps along a path, (time,); None where there are none.

        Args:
            path: which child to go on with, from this node on.

        Raises:
            IndexError: a node has no such child.
        """
        tree: Tree = self
        parts = [tree.rollout]
        for at, number in enumerate(path):
            if not 0 <= number < tree.num_children:
                raise IndexError(
                    f"path {path}: the node at {path[:at]} has {tree.num_children} children, not {number}."
                )
            tree = tree.subtree[number]
            parts.append(tree.rollout)
        parts = [part for part in parts if part is not None]
        return torch.cat(parts, dim=-1) if parts else None

    def plot(
        self,
        backend: str = "plotly",
        figure: str = "tree",
        info: list[str] | None = None,
        make_labels: Callable[..., Any] | None = None,
    ) -> Any:
        """Draw the tree.

        Args:
            backend: "plotly".
            figure: "tree", or "box" for boxes in boxes.
            info: names of fields that are written beside the nodes; default: the number of visits and the hash.
            make_labels: makes what is written beside a node: make_labels(tree, path).

        Returns:
            The figure.

        Raises:
            ValueError: there is no such backend or figure.
            ImportError: plotly is not installed.
        """
        return plotted(self, backend, figure, info, make_labels)

    def to_string(self, node_format_fn: Format = _data_of) -> str:
        """A line for each node to which steps lead: its path and what is said of it, its children indented below it.

        Args:
            node_format_fn: what is said of a node; default: its observations.
        """
        return "\n".join(_lines(self, (), node_format_fn))


def _lines(tree: Tree, path: Path, said: Format) -> Iterator[str]:
    if tree.rollout is not None:
        yield f"{' ' * max(len(path) - 1, 0)}{path} {said(tree)}"
    for at, child in enumerate(tree._children()):
        yield from _lines(child, (*path, at), said)


def _only(data: TensorDictBase, keys: list[Any]) -> Any:
    """The entry of the one key, or those of several."""
    return data.get(keys[0]) if len(keys) == 1 else data.select(*keys)


def _same(one: Tree, other: Tree) -> bool:
    """Whether two nodes have the same observations."""
    a, b = one.node_data, other.node_data
    if a is None or b is None or set(a.keys(True, True)) != set(b.keys(True, True)):
        return a is b
    return all(torch.equal(a.get(key), b.get(key)) for key in a.keys(True, True))


class MCTSForest:
    """What followed each observation and action that was seen, from which trees are made.

    Args:
        data_map: observation and action -> what follows; default: made of the first rollout.
        node_map: observation -> places in `data_map` of the actions that were taken there; default: likewise.
        max_size: how many pairs of observation and action there may be; default: 1000.
        done_keys: default: "done", "terminated" and "truncated", those that there are.
        reward_keys: default: "reward".
        observation_keys: what makes up a node; default: "observation".
        action_keys: default: "action".
        excluded_keys: what is not kept of rollouts.
        consolidated: whether the values of the maps lie in one piece of memory.

    Example:
        >>> forest = MCTSForest()
        >>> for actions in ([1, 2, 3], [1, 2, 4]):
        ...     seen = torch.tensor([0, *actions]).cumsum(0)
        ...     forest.extend(TensorDict({"observation": seen[:-1], "action": torch.tensor(actions),
        ...                               "next": {"observation": seen[1:]}}, [3]))
        >>> tree = forest.get_tree(TensorDict({"observation": torch.tensor(0)}))
        >>> len(forest), list(tree.valid_paths()), tree.selected_actions.tolist()
        (4, [(0,), (1,)], [3, 4])
    """

    def __init__(
        self,
        *,
        data_map: TensorDictMap | None = None,
        node_map: TensorDictMap | None = None,
        max_size: int | None = None,
        done_keys: list[Any] | None = None,
        reward_keys: list[Any] | None = None,
        observation_keys: list[Any] | None = None,
        action_keys: list[Any] | None = None,
        excluded_keys: list[Any] | None = None,
        consolidated: bool | None = None,
    ) -> None:
        self.data_map, self.node_map = data_map, node_map
        self.max_size = max_size
        self.done_keys, self.reward_keys = done_keys, reward_keys
        self.observation_keys, self.action_keys = observation_keys, action_keys
        self.excluded_keys = excluded_keys
        self.consolidated = consolidated

    # Keys

    @property
    def done_keys(self) -> list[Any]:
        """Keys of ends."""
        return ["done", "truncated", "terminated"] if self._done_keys is None else self._done_keys

    @done_keys.setter
    def done_keys(self, value: Any) -> None:
        self._done_keys = _several(value)

    @property
    def reward_keys(self) -> list[Any]:
        """Keys of rewards."""
        return ["reward"] if self._reward_keys is None else self._reward_keys

    @reward_keys.setter
    def reward_keys(self, value: Any) -> None:
        self._reward_keys = _several(value)

    @property
    def action_keys(self) -> list[Any]:
        """Keys of actions."""
        return ["action"] if self._action_keys is None else self._action_keys

    @action_keys.setter
    def action_keys(self, value: Any) -> None:
        self._action_keys = _several(value)

    @property
    def observation_keys(self) -> list[Any]:
        """Keys of observations, which make up a node."""
        return ["observation"] if self._observation_keys is None else self._observation_keys

    @observation_keys.setter
    def observation_keys(self, value: Any) -> None:
        self._observation_keys = _several(value)

    @property
    def excluded_keys(self) -> list[Any] | None:
        """Keys of what is not kept."""
        return self._excluded_keys

    @excluded_keys.setter
    def excluded_keys(self, value: Any) -> None:
        self._excluded_keys = _several(value)

    def get_keys_from_env(self, env: Any) -> None:
        """Take the keys that were not given from an environment."""
        for name in ("done", "reward", "action", "observation"):
            if getattr(self, f"_{name}_keys") is None:
                setattr(self, f"{name}_keys", list(getattr(env, f"{name}_keys")))

    # Writing

    def extend(self, rollout: TensorDictBase, *, return_node: bool = False) -> Tree | None:
        """Add the steps of a rollout.

        Args:
            rollout: (..., time), with observations, actions, and what followed below "next".
            return_node: return the node that the rollout leads to, with all of its steps.

        Raises:
            KeyError: a key is missing.
        """
        if self.excluded_keys is not None:
            rollout = rollout.exclude(*self.excluded_keys)
        steps = rollout.reshape(-1)
        self._ensure_maps(steps)
        assert self.data_map is not None and self.node_map is not None
        source = steps.select(*self.observation_keys, *self.action_keys)
        self.data_map[source] = steps.select(*self.data_map.out_keys)
        query = self.data_map.query_module
        found = query(source.copy(), extend=False)
        self._add_branches(steps, found.get(query.index_key), found.get(query.hash_key))
        if not return_node:
            return None
        last = steps[-1]
        node = Tree.make_node(last.get("next").select(*self.observation_keys))
        node.rollout, node.hash = steps, int(found.get(query.hash_key)[-1])
        return node

    def add(self, step: TensorDictBase, *, return_node: bool = False) -> Tree | None:
        """Add one step, see `extend`.

        Args:
            step: without a time.
            return_node: return the node that it leads to.
        """
        return self.extend(step.unsqueeze(-1), return_node=return_node)

    def _ensure_maps(self, steps: TensorDictBase) -> None:
        missing = [key for key in (*self.observation_keys, *self.action_keys) if steps.get(key, None) is None]
        if missing or steps.get("next", None) is None:
            raise KeyError(
                f"the rollout has no {missing or 'next'}; it has {list(steps.keys(True, True))}. The forest looks for "
                f"observation_keys={self.observation_keys} and action_keys={self.action_keys}."
            )
        size = 1000 if self.max_size is None else self.max_size
        if self.data_map is None:
            after = [("next", *_as_tuple(key)) for key in steps.get("next").keys(True, True)]
            self.data_map = TensorDictMap.from_tensordict_pair(
                steps,
                steps,
                in_keys=[*self.observation_keys, *self.action_keys],
                out_keys=[*after, *self.action_keys],
                max_size=size,
                consolidated=self.consolidated,
            )
        if self.node_map is None:
            self.node_map = TensorDictMap.from_tensordict_pair(
                steps,
                steps,
                in_keys=self.observation_keys,
                out_keys=["_index", "_hash", "count"],
                max_size=size,
                storage_constructor=ListStorage,
            )

    def _add_branches(self, steps: TensorDictBase, places: Tensor, hashes: Tensor) -> None:
        """Note at each observation which actions were taken there."""
        nodes = self.node_map
        assert nodes is not None
        for at in range(len(steps)):
            node = steps[at : at + 1].select(*self.observation_keys)
            taken = {"_index": places[at : at + 1], "_hash": hashes[at : at + 1]}
            if node in nodes:
                known = nodes[node][0]
                if int(places[at]) in known["_index"].tolist():
                    continue
                taken = {key: torch.cat([known[key], value]) for key, value in taken.items()}
            count = torch.zeros((), dtype=torch.int32, device=places.device)
            nodes[node] = TensorDict({**taken, "count": count}).unsqueeze(0)

    # Reading

    def get_child(self, root: TensorDictBase) -> TensorDictBase:
        """What followed an observation and action.

        Args:
            root: with both.

        Raises:
            KeyError: that is not known.
        """
        if self.data_map is None:
            raise KeyError("the forest is empty.")
        keys = [*self.observation_keys, *self.action_keys]
        found: TensorDictBase = self.data_map[root.select(*keys).reshape(-1)].reshape(root.batch_size)
        return found

    def get_tree(self, root: TensorDictBase, *, max_depth: int | None = None, compact: bool = True) -> Tree:
        """The tree of what followed an observation.

        Args:
            root: the observation; without a batch.
            max_depth: of nodes whose children are there, counted from the root, 0, on; default: of all.
            compact: make a node only where several actions were taken, and where nothing follows.

        Raises:
            KeyError: nothing followed it.
        """
        branches = self._branches(root)
        if branches is None:
            raise KeyError(
                f"nothing is known of the observation {root.select(*self.observation_keys).to_dict()}; add a rollout "
                "that begins there."
            )
        depth = float("inf") if max_depth is None else max_depth
        return _Grower(self, compact).grown(root.select(*self.observation_keys), depth)

    def _branches(self, node: TensorDictBase) -> TensorDictBase | None:
        """The actions that were taken at an observation; None where none were."""
        key = node.select(*self.observation_keys).reshape(-1)[:1]
        if self.node_map is None or key not in self.node_map:
            return None
        return self.node_map[key][0]

    @classmethod
    def valid_paths(cls, tree: Tree) -> Iterator[Path]:
        """Paths to the leaves of a tree, see `Tree.valid_paths`."""
        yield from tree.valid_paths()

    def __len__(self) -> int:
        """How many pairs of observation and action are known."""
        return 0 if self.data_map is None else len(self.data_map)

    def to_string(self, td_root: TensorDictBase, node_format_fn: Format = _data_of) -> str:
        """The tree of an observation as text, see `Tree.to_string`.

        Args:
            td_root: the observation.
            node_format_fn: what is said of a node.
        """
        return self.get_tree(td_root).to_string(node_format_fn)


class _Grower:
    """Makes trees of what a forest knows.

    Args:
        forest: what knows it.
        compact: leave out nodes with one action.
    """

    def __init__(self, forest: MCTSForest, compact: bool) -> None:
        assert forest.data_map is not None
        self.forest, self.compact = forest, compact
        self.data: Any = forest.data_map
        self.numbers: dict[Any, int] = {}

    def grown(self, root: TensorDictBase, depth: float) -> Tree:
        """The tree of an observation."""
        rollout, node, branches = self._followed([], root, set())
        tree = self._node(rollout, node, branches, None)
        self._fill(tree, branches, depth, {self._name(root)} | {self._name(step) for step in _after(rollout)})
        for number, each in enumerate(self._levels(tree)):
            each.node_id = number
        return self._stacked(tree)

    def _name(self, node: TensorDictBase) -> int:
        query = self.forest.node_map.query_module  # type: ignore[union-attr]
        key = node.select(*self.forest.observation_keys).reshape(-1)[:1]
        return int(query(key, extend=False).get(query.hash_key)[0])

    def _followed(
        self, steps: list[Any], node: TensorDictBase, seen: set[int]
    ) -> tuple[list[Any], TensorDictBase, TensorDictBase | None]:
        """Steps up to the next node, that node, and what was done there."""
        first = not steps
        while True:
            branches = self.forest._branches(node)
            if branches is None or branches["_index"].numel() != 1:
                return steps, node, branches
            if not (self.compact or first) or self._name(node) in seen:
                return steps, node, branches
            seen = seen | {self._name(node)}
            steps = [*steps, self._step(node, int(branches["_index"][0]))]
            node = steps[-1].get("next").select(*self.forest.observation_keys)
            first = False

    def _step(self, node: TensorDictBase, place: int) -> TensorDictBase:
        step: TensorDictBase = self.data._read(torch.tensor([place]))[0].copy()
        return step.update(node.select(*self.forest.observation_keys))

    def _node(self, steps: list[Any], node: TensorDictBase, branches: Any, hash: int | None) -> Any:
        tree = _Sketch()
        tree.rollout = torch.stack(steps, -1) if steps else None
        tree.node_data, tree.hash = node, hash
        tree.index = None if branches is None else branches["_index"]
        return tree

    def _fill(self, tree: Any, branches: Any, depth: float, seen: set[int]) -> None:
        if branches is None or depth < 0:
            return
        for place, hash in zip(branches["_index"].tolist(), branches["_hash"].tolist(), strict=True):
            first = self._step(tree.node_data, place)
            node = first.get("next").select(*self.forest.observation_keys)
            steps, after = [first], None
            if self._name(node) not in seen:  # else it leads back to where it came from
                steps, node, after = self._followed(steps, node, seen)
            child = self._node(steps, node, after, hash)
            tree.children.append(child)
            self._fill(child, after, depth - 1, seen | {self._name(each) for each in _after(steps)})

    def _levels(self, tree: Any) -> Iterator[Any]:
        waiting = deque([tree])
        while waiting:
            each = waiting.popleft()
            yield each
            waiting.extend(each.children)

    def _stacked(self, sketch: Any) -> Tree:
        tree = Tree(
            count=torch.zeros((), dtype=torch.int32),
            wins=torch.zeros(()),
            index=sketch.index,
            hash=sketch.hash,
            node_id=sketch.node_id,
            rollout=sketch.rollout,
            node_data=sketch.node_data,
            batch_size=[],
        )
        if sketch.children:
            children = [self._stacked(child) for child in sketch.children]
            for child in children:
                child._parent = weakref.ref(tree._tensordict)
            tree.subtree = Tree.lazy_stack(children, 0)
        return tree


class _Sketch:
    """A node before its children are stacked."""

    rollout: Any
    node_data: Any
    hash: Any
    index: Any
    node_id: int

    def __init__(self) -> None:
        self.children: list[Any] = []


def _after(steps: list[Any]) -> list[Any]:
    return [step.get("next") for step in steps]


def _several(value: Any) -> list[Any] | None:
    if value is None or isinstance(value, list):
        return value
    return [value] if isinstance(value, (str, tuple)) else list(value)


def _as_tuple(key: Any) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)
