"""The entry for the ACP registry is as the registry's `CONTRIBUTING.md` wants it, and names what
there is."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

from agentrt._terminal.arguments import make_parser
from agentrt._version import __version__
from agentrt._web.acp import LOGIN

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "packaging" / "acp-registry"
ENTRY = json.loads((FOLDER / "agent.json").read_text())


def test_the_entry_names_this_package_and_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert ENTRY["id"] == ENTRY["name"] == project["name"]
    assert re.fullmatch(r"[a-z][a-z0-9-]*", ENTRY["id"])
    assert ENTRY["version"] == project["version"] == __version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", ENTRY["version"])
    assert ENTRY["license"] == project["license"]
    assert ENTRY["description"]
    assert ENTRY["distribution"].keys() == {"uvx"}
    assert ENTRY["distribution"]["uvx"]["package"] == f"{project['name']}=={project['version']}"
    assert project["name"] in project["scripts"], "uvx runs the program of the package's name"


def test_what_the_entry_starts_is_a_command_of_the_program() -> None:
    options = make_parser().parse_args(ENTRY["distribution"]["uvx"]["args"])
    assert options.subcommand == "acp"


def test_the_icon_is_small_square_and_of_one_colour() -> None:
    icon = ElementTree.parse(FOLDER / "icon.svg").getroot()
    assert (icon.get("width"), icon.get("height")) == ("16", "16")
    colours = {
        each.get(name) for each in icon.iter() for name in ("fill", "stroke") if each.get(name)
    }
    assert colours <= {"currentColor", "none"}


def test_the_program_offers_a_way_to_authenticate_that_the_registry_takes() -> None:
    assert LOGIN["type"] in ("agent", "terminal")
