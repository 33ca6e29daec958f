"""The entry for the ACP registry is as the registry's `CONTRIBUTING.md` wants it, and names what
there is."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

import agentrt
from in_process import help_on
from runtime.fakes import echo
from web.hub_kit import stage_with, viewer_of

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "packaging" / "acp-registry"
ENTRY = json.loads((FOLDER / "agent.json").read_text())


TEXT = {"type": "string", "minLength": 1}
URL = {"type": "string", "format": "uri", "pattern": "^https://"}
SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["id", "name", "version", "description", "distribution"],
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
        **dict.fromkeys(("name", "description", "license"), TEXT),
        "version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+"},
        **dict.fromkeys(("repository", "website", "license_url"), URL),
        "authors": {"type": "array", "items": TEXT},
        "distribution": {
            "type": "object",
            "properties": {
                "uvx": {
                    "type": "object",
                    "required": ["package"],
                    "properties": {
                        "package": TEXT,
                        "args": {"type": "array", "items": {"type": "string"}},
                        "env": {"type": "object", "additionalProperties": {"type": "string"}},
                    },
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
            "minProperties": 1,
        },
    },
    "additionalProperties": False,
}
"""What the registry's `agent.schema.json` says of what is used here, and no more: a misspelt field
would be ignored there. It wants none of the addresses, and no `icon`, which its build sets."""


def test_the_entry_is_one_by_the_registry_s_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(ENTRY, SCHEMA, jsonschema.Draft7Validator)
    assert ENTRY["license_url"] == f"https://spdx.org/licenses/{ENTRY['license']}.html"


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "Agentrt"},
        {"version": "1"},
        {"license_url": "LICENSE"},
        {"distribution": {}},
        {"distribution": {"uvx": {"args": ["acp"]}}},
        {"licence": "MIT"},
    ],
)
def test_the_schema_takes_no_other(wrong: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(ENTRY | wrong, SCHEMA, jsonschema.Draft7Validator)


def test_the_entry_names_this_package_and_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert ENTRY["id"] == ENTRY["name"] == project["name"]
    assert re.fullmatch(r"[a-z][a-z0-9-]*", ENTRY["id"])
    assert ENTRY["version"] == project["version"] == agentrt.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", ENTRY["version"])
    assert ENTRY["license"] == project["license"]
    assert ENTRY["description"]
    assert ENTRY["distribution"].keys() == {"uvx"}
    assert ENTRY["distribution"]["uvx"]["package"] == f"{project['name']}=={project['version']}"
    assert project["name"] in project["scripts"], "uvx runs the program of the package's name"


def test_what_the_entry_starts_is_a_command_of_the_program() -> None:
    assert help_on(ENTRY["distribution"]["uvx"]["args"]).startswith("usage: agentrt acp ")


def test_the_icon_is_small_square_and_of_one_colour() -> None:
    icon = ElementTree.parse(FOLDER / "icon.svg").getroot()
    assert (icon.get("width"), icon.get("height")) == ("16", "16")
    colours = {
        each.get(name) for each in icon.iter() for name in ("fill", "stroke") if each.get(name)
    }
    assert colours <= {"currentColor", "none"}


async def test_the_program_offers_a_way_to_authenticate_that_the_registry_takes() -> None:
    async with stage_with(echo) as stage:
        editor = viewer_of(stage.hub, "/acp")
        editor.receive('{"jsonrpc": "2.0", "id": 1, "method": "initialize"}')
        answer = json.loads(await editor.next_frame())
    [method] = answer["result"]["authMethods"]
    assert method["type"] in ("agent", "terminal")
