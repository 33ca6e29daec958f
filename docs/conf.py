"""How the documentation is built: `nox -s docs`."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed
from pathlib import Path

import agentrt
from agentrt._core import config as _config
from agentrt._core.agents import agent as _agent

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

# These modules import the names for type checkers only; autodoc evaluates the annotations.
_agent.ClaudeOptions = agentrt.claude.ClaudeOptions  # type: ignore[attr-defined]
_config.Sandbox = agentrt.sandbox.Sandbox  # type: ignore[attr-defined]

project = "agentrt"
author = "the agentrt authors"
copyright = "2026, the agentrt authors"
version = release = installed("agentrt")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinxcontrib_trio",
    "protocol_tables",
    "turn_table",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "agentrt"
html_show_sourcelink = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
default_role = "literal"

suppress_warnings = ["misc.highlighting_failure"]  # the lexer of JSX knows only ASCII in text

nitpicky = True
# Names of other projects, and private names of ours that appear in signatures: the inventories of
# the former would have to be fetched while building, and the latter are nobody's business.
nitpick_ignore_regex = [
    (
        r"py:.*",
        r"(collections|contextlib|contextvars|msgspec|os|pathlib|random|ssl|trio|types|typing)(\..*)?",
    ),
    (r"py:.*", r"(agentrt\.)?_.*"),
    (
        r"py:class",
        r"AbstractAsyncContextManager|Block|Config|JsonObject|Prompts?|ReportProgress|ToolFunction"
        r"|HookFunction|When|Telemetries|Tools|McpServer|Redact|TracerProvider|CollectorRegistry"
        r"|OpenStreams|ProtocolName|Args|Service|Trusted|agentrt\.testing\.(seeded\.T|agent_side\.P|memory\.P)",
    ),
    (
        r"py:class",
        r".*\[[~\w.]+",
    ),  # half a generic type: the parser of string annotations cuts there
]
