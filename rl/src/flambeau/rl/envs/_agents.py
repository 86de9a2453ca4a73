"""Groups of agents."""

from __future__ import annotations

from enum import Enum


class MarlGroupMapType(Enum):
    """How agents are put into groups, whose data are stacked."""

    ALL_IN_ONE_GROUP = 1
    ONE_GROUP_PER_AGENT = 2

    def get_group_map(self, agent_names: list[str]) -> dict[str, list[str]]:
        """Group -> names of its agents.

        Args:
            agent_names: all agents.

        Example:
            >>> MarlGroupMapType.ALL_IN_ONE_GROUP.get_group_map(["a", "b"])
            {'agents': ['a', 'b']}
        """
        if self is MarlGroupMapType.ALL_IN_ONE_GROUP:
            return {"agents": list(agent_names)}
        return {name: [name] for name in agent_names}


def check_marl_grouping(group_map: dict[str, list[str]], agent_names: list[str]) -> None:
    """Raise unless every agent is in one group, and every group has one.

    Args:
        group_map: group -> names of its agents.
        agent_names: all agents.

    Raises:
        ValueError: an agent is in none or several, is not known, or a group is empty.
    """
    if len(set(agent_names)) != len(agent_names):
        raise ValueError(f"Some agents have the same name: {agent_names}.")
    seen: dict[str, str] = {}
    for group, names in group_map.items():
        if not names:
            raise ValueError(f"The group {group!r} has no agents.")
        for name in names:
            if name not in agent_names:
                raise ValueError(
                    f"The agent {name!r} of the group {group!r} is not among the env's agents {agent_names}."
                )
            if name in seen:
                raise ValueError(f"The agent {name!r} is in the groups {seen[name]!r} and {group!r}.")
            seen[name] = group
    if missing := [name for name in agent_names if name not in seen]:
        raise ValueError(f"Agents in no group: {missing}.")
