"""The pins, the recipes and the expectations are about the same agents, under the same names."""

from __future__ import annotations

import pytest

import agentrt

from .expectations import EXPECTATIONS
from .recipes import RECIPES, package_of
from .versions import PACKAGES


@pytest.mark.parametrize("agent", RECIPES)
def test_every_recipe_has_a_package_at_one_exact_version(agent: str) -> None:
    package = package_of(agent)
    assert package.version.replace(".", "").isdigit()
    assert all(extra.rpartition("@")[2].replace(".", "").isdigit() for extra in package.extra)


def test_every_package_has_a_recipe() -> None:
    assert {package_of(agent).name for agent in RECIPES} == set(PACKAGES)


@pytest.mark.parametrize("agent", EXPECTATIONS)
def test_every_agent_with_expectations_is_in_the_catalogue(agent: str) -> None:
    known = {found.agent.name: found.agent for found in agentrt.find_agents()}
    assert known[agent].protocol == PACKAGES[agent].protocol
