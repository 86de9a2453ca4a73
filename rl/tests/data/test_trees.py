"""Trees of what followed observations: nodes where rollouts part, and the steps between them."""

from __future__ import annotations

import pytest
import torch

from flambeau.data.tensordict import TensorDict
from flambeau.rl.data import MCTSForest, Tree


def rollout(*actions, start=0):
    """Steps from an observation; what is seen is the digits of all actions so far."""
    seen = [start]
    for action in actions:
        seen.append(10 * seen[-1] + action)
    observations = torch.tensor(seen)
    return TensorDict(
        {
            "observation": observations[:-1],
            "action": torch.tensor(actions),
            "next": {"observation": observations[1:], "reward": observations[1:, None] / 2},
        },
        [len(actions)],
    )


def root(observation=0):
    return TensorDict({"observation": torch.tensor(observation)})


@pytest.fixture
def forest():
    made = MCTSForest()
    for actions in ((1, 2, 3, 4), (1, 2, 5), (1, 2, 3, 6)):
        made.extend(rollout(*actions))
    return made


def test_nodes_are_where_rollouts_part_and_where_they_end(forest):
    tree = forest.get_tree(root())
    assert len(forest) == 6
    assert int(tree.node_observation) == 12
    assert tree.rollout["action"].tolist() == [1, 2]
    assert tree.selected_actions.tolist() == [3, 5]
    assert sorted(tree.valid_paths()) == [(0, 0), (0, 1), (1,)]
    assert tree.edges() == [(0, 1), (0, 2), (1, 3), (1, 4)]
    assert tree.max_length() == 2
    assert int(tree.subtree[0].parent.node_observation) == 12


def test_the_rollouts_can_be_put_together_again(forest):
    for compact in (True, False):
        tree = forest.get_tree(root(), compact=compact)
        found = {tuple(tree.rollout_from_path(path)["action"].tolist()) for path in tree.valid_paths()}
        assert found == {(1, 2, 3, 4), (1, 2, 5), (1, 2, 3, 6)}
        whole = tree.rollout_from_path(next(iter(tree.valid_paths())))
        assert (whole["next", "observation"][:-1] == whole["observation"][1:]).all()


def test_a_root_with_several_actions_has_no_steps_of_its_own():
    forest = MCTSForest()
    forest.extend(rollout(1, 2))
    forest.extend(rollout(3))
    tree = forest.get_tree(root())
    assert tree.rollout is None
    assert tree.to_string() == "(0,) {'observation': tensor(12)}\n(1,) {'observation': tensor(3)}"


def test_a_way_that_leads_back_ends_where_it_came_from():
    forest = MCTSForest()
    forest.extend(
        TensorDict(
            {
                "observation": torch.tensor([0, 1, 1]),
                "action": torch.tensor([5, 6, 7]),
                "next": {"observation": torch.tensor([1, 0, 2])},
            },
            [3],
        )
    )
    tree = forest.get_tree(root())
    assert tree.selected_actions.tolist() == [6, 7]
    assert [int(child.node_observation) for child in tree.subtree] == [0, 2]
    assert tree.max_length() == 1


def test_what_is_not_known_is_told():
    forest = MCTSForest()
    with pytest.raises(KeyError, match="nothing is known"):
        forest.get_tree(root())
    with pytest.raises(KeyError, match="action"):
        forest.extend(rollout(1).exclude("action"))
    forest.extend(rollout(1))
    with pytest.raises(KeyError, match="77"):
        forest.get_tree(root(77))
    tree = forest.get_tree(root())
    with pytest.raises(IndexError, match="0 children"):
        tree.rollout_from_path((0,))
    with pytest.raises(ValueError, match="key_type"):
        tree.vertices(key_type="name")
    with pytest.raises(ValueError, match="no node"):
        tree.get_vertex_by_id(5)


def test_nodes_are_found_by_number_hash_and_path(forest):
    tree = forest.get_tree(root())
    for number, vertex in tree.vertices(key_type="id").items():
        assert tree.get_vertex_by_id(number).node_id == vertex.node_id == number
        if vertex.hash is not None:
            assert tree.get_vertex_by_hash(vertex.hash).node_id == number
        assert vertex in tree
    assert set(tree.vertices(key_type="path")) == {(), (0,), (1,), (0, 0), (0, 1)}
    assert Tree.make_node(root(99)) not in tree


def test_a_tree_is_drawn_with_a_point_or_a_box_for_each_node(forest):
    pytest.importorskip("plotly")
    tree = forest.get_tree(root())
    points = tree.plot().data[1]
    assert list(points.text) == ["0", "1", "2", "3", "4"]
    assert list(points.y) == [0, -1, -1, -2, -2]
    boxes = tree.plot(figure="box", make_labels=lambda node, path: node.node_id).data[0]
    assert list(boxes.parents) == ["", "()", "()", "(0,)", "(0,)"]
    with pytest.raises(ValueError, match="ring"):
        tree.plot(figure="ring")
