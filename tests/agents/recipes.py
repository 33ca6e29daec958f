"""How each real agent is started: argv, environment and files below its HOME."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .versions import PACKAGES, Package


@dataclass(frozen=True)
class Place:
    """What a recipe needs to know: where agents are installed and where the model listens."""

    root: Path
    url: str

    def node(self) -> str:
        return str(self.root / "node" / "bin" / "node")

    def module(self, name: str, path: str) -> str:
        return str(self.root / name / "node_modules" / path)

    def script(self, name: str, program: str) -> str:
        return str(self.root / name / "bin" / program)


@dataclass(frozen=True)
class Recipe:
    """One way to start an agent. *files* are relative to its HOME, which is its alone."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


OLDER_CLAUDES: Final = ("2.1.165", "2.1.220", "2.1.270")

_ANTHROPIC: Final[Mapping[str, str]] = {
    "ANTHROPIC_API_KEY": "sk-ant-dummy",
    "ANTHROPIC_MODEL": "claude-sonnet-4-5",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "2",  # the default of ten takes minutes
    "ENABLE_TOOL_SEARCH": "false",  # offer tools at once: a scripted model looks for none
}


def claude(place: Place) -> Recipe:
    # Only the program: its flags are the business of whoever drives it.
    binary = place.root / "claude" / "claude_agent_sdk" / "_bundled" / "claude"
    return Recipe((str(binary),), {**_ANTHROPIC, "ANTHROPIC_BASE_URL": place.url})


def older_claude(version: str) -> Callable[[Place], Recipe]:
    """Claude Code of an earlier version, from npm."""
    name = f"claude-{version}"

    def recipe(place: Place) -> Recipe:
        binary = place.module(name, "@anthropic-ai/claude-code-linux-x64/claude")
        return Recipe((binary,), {**_ANTHROPIC, "ANTHROPIC_BASE_URL": place.url})

    return recipe


def claude_agent_acp(place: Place) -> Recipe:
    package = "@agentclientprotocol/claude-agent-acp"
    entry = place.module("claude-agent-acp", f"{package}/dist/index.js")
    return Recipe((place.node(), entry), {**_ANTHROPIC, "ANTHROPIC_BASE_URL": place.url})


# Without `on-request` and `read-only` codex asks nobody; newer ones refuse `untrusted`.
_CODEX: Final = """\
model = "scripted"
model_provider = "local"
approval_policy = "on-request"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.local]
name = "local"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "LOCAL_KEY"
request_max_retries = 2
stream_max_retries = 2
"""


def codex(place: Place) -> Recipe:
    program = "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
    argv = (place.module("codex", program), "app-server")
    files = {".codex/config.toml": _CODEX.format(url=place.url)}
    return Recipe(argv, {"LOCAL_KEY": "dummy"}, files)


def codex_acp(place: Place) -> Recipe:
    entry = place.module("codex-acp", "@agentclientprotocol/codex-acp/dist/index.js")
    # Without this mode, approvals go to a reviewing model instead of the client.
    env = {"LOCAL_KEY": "dummy", "INITIAL_AGENT_MODE": "read-only"}
    return Recipe((place.node(), entry), env, {".codex/config.toml": _CODEX.format(url=place.url)})


def codex_acp_zed(place: Place) -> Recipe:
    binary = place.module("codex-acp-zed", "@zed-industries/codex-acp-linux-x64/bin/codex-acp")
    env = {"LOCAL_KEY": "dummy", "OPENAI_API_KEY": "dummy"}
    return Recipe((binary,), env, {".codex/config.toml": _CODEX.format(url=place.url)})


def copilot(place: Place) -> Recipe:
    entry = place.module("copilot", ".bin/copilot")
    env = {
        "COPILOT_PROVIDER_BASE_URL": f"{place.url}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": "dummy",
        "COPILOT_MODEL": "scripted",
        "COPILOT_OFFLINE": "true",
    }
    return Recipe((place.node(), entry, "--acp", "--no-auto-update"), env)


def fast_agent(place: Place) -> Recipe:
    program = place.script("fast-agent", "fast-agent-acp")
    env = {"GENERIC_API_KEY": "dummy", "GENERIC_BASE_URL": f"{place.url}/v1"}
    return Recipe((program, "--model", "generic.scripted", "--shell"), env)


def gemini(place: Place) -> Recipe:
    entry = place.module("gemini", "@google/gemini-cli/bundle/gemini.js")
    env = {
        "GEMINI_API_KEY": "dummy",
        "GOOGLE_GEMINI_BASE_URL": place.url,
        "GEMINI_TELEMETRY_ENABLED": "false",
        "GEMINI_CLI_NO_RELAUNCH": "true",
    }
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    argv = (place.node(), entry, "--acp", "-m", "gemini-2.5-flash")
    return Recipe(argv, env, {".gemini/settings.json": json.dumps(settings)})


def kimi(place: Place) -> Recipe:
    config = f"""\
default_model = "local/scripted"
telemetry = false
[providers.local]
type = "openai"
base_url = "{place.url}/v1"
api_key = "dummy"
[models."local/scripted"]
provider = "local"
model = "scripted"
max_context_size = 100000
"""
    env = {"KIMI_DISABLE_TELEMETRY": "1", "KIMI_CODE_NO_AUTO_UPDATE": "1"}
    entry = place.module("kimi", ".bin/kimi")
    return Recipe((entry, "acp"), env, {".kimi-code/config.toml": config})


def vibe(place: Place) -> Recipe:
    config = f"""\
active_model = "scripted"
enable_update_checks = false
enable_auto_update = false
enable_telemetry = false
[[providers]]
name = "local"
api_base = "{place.url}/v1"
api_key_env_var = "LOCAL_KEY"
api_style = "openai"
backend = "generic"
[[models]]
name = "scripted"
provider = "local"
alias = "scripted"
"""
    env = {"LOCAL_KEY": "dummy", "MISTRAL_API_KEY": "dummy"}
    argv = (place.script("vibe", "vibe-acp"),)
    return Recipe(argv, env, {".vibe/config.toml": config})


def _local_provider(url: str) -> dict[str, object]:
    """The model server as a provider of OpenCode, and of what is built on it."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Local",
        "options": {"baseURL": f"{url}/v1", "apiKey": "dummy"},
        "models": {
            "scripted": {"name": "Scripted", "limit": {"context": 100_000, "output": 8_000}}
        },
    }
    return {
        "model": "local/scripted",
        "small_model": "local/scripted",
        "autoupdate": False,
        "share": "disabled",
        "permission": {"bash": "ask", "edit": "ask"},
        "provider": {"local": provider},
    }


def opencode(place: Place) -> Recipe:
    env = {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    }
    binary = place.module("opencode", "opencode-linux-x64/bin/opencode")
    files = {".config/opencode/opencode.json": json.dumps(_local_provider(place.url))}
    return Recipe((binary, "acp"), env, files)


def kilo(place: Place) -> Recipe:
    env = {
        "KILO_DISABLE_AUTOUPDATE": "1",
        "KILO_DISABLE_MODELS_FETCH": "1",
        "KILO_DISABLE_LSP_DOWNLOAD": "1",
        "KILO_DISABLE_DEFAULT_PLUGINS": "1",
    }
    binary = place.module("kilo", "@kilocode/cli-linux-x64/bin/kilo")
    files = {".config/kilo/opencode.json": json.dumps(_local_provider(place.url))}
    return Recipe((binary, "acp"), env, files)


def pi(place: Place) -> Recipe:
    provider = {
        "baseUrl": f"{place.url}/v1",
        "api": "openai-completions",
        "apiKey": "dummy",
        "models": [{"id": "scripted", "contextWindow": 100_000, "maxTokens": 8_000}],
    }
    settings = {"defaultProvider": "local", "defaultModel": "scripted", "quietStartup": True}
    files = {
        ".pi/agent/models.json": json.dumps({"providers": {"local": provider}}),
        ".pi/agent/settings.json": json.dumps(settings),
    }
    env = {"PI_ACP_PI_COMMAND": place.module("pi", ".bin/pi"), "PI_OFFLINE": "1"}
    return Recipe((place.node(), place.module("pi", "pi-acp/dist/index.js")), env, files)


def qwen(place: Place) -> Recipe:
    env = {
        "OPENAI_API_KEY": "dummy",
        "OPENAI_BASE_URL": f"{place.url}/v1",
        "OPENAI_MODEL": "scripted",
    }
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        # Offer tools at once: a scripted model looks for none.
        "tools": {"toolSearch": {"enabled": False}},
    }
    entry = place.module("qwen", "@qwen-code/qwen-code/cli-entry.js")
    argv = (place.node(), entry, "--acp", "--auth-type", "openai")
    return Recipe(argv, env, {".qwen/settings.json": json.dumps(settings)})


def example_ts(place: Place) -> Recipe:
    entry = place.module("example-ts", "@agentclientprotocol/sdk/dist/examples/agent.js")
    return Recipe((place.node(), entry))


def example_py(place: Place) -> Recipe:
    folder = place.root / "example-py"
    return Recipe((place.script("example-py", "python"), str(folder / "examples" / "agent.py")))


def echo_py(place: Place) -> Recipe:
    folder = place.root / "example-py"
    python = place.script("example-py", "python")
    return Recipe((python, str(folder / "examples" / "echo_agent.py")))


RECIPES: Final[Mapping[str, Callable[[Place], Recipe]]] = {
    "claude": claude,
    **{f"claude-{version}": older_claude(version) for version in OLDER_CLAUDES},
    "claude-agent-acp": claude_agent_acp,
    "codex": codex,
    "codex-acp": codex_acp,
    "codex-acp-zed": codex_acp_zed,
    "copilot": copilot,
    "fast-agent": fast_agent,
    "gemini": gemini,
    "kimi": kimi,
    "vibe": vibe,
    "opencode": opencode,
    "kilo": kilo,
    "pi": pi,
    "qwen": qwen,
    "example-ts": example_ts,
    "example-py": example_py,
    "echo-py": echo_py,
}


CLAUDES: Final = ("claude", *(f"claude-{version}" for version in OLDER_CLAUDES))
"""Claude Code, the newest and the older ones."""


def package_of(agent: str) -> Package:
    """The package that an agent comes with; one package has two of them."""
    return PACKAGES["example-py" if agent == "echo-py" else agent]
