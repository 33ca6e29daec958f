"""The agents that agentrt knows by name.

Nothing is ever downloaded: an entry names a program that must be installed, and `install` tells how
to install it. Unless an entry states otherwise, the agent is assumed to follow the protocol, or was
not measured.
"""

from __future__ import annotations

import sys

from msgspec import structs

from .agent import Agent, Quirks, claude


def _npm(package: str) -> str:
    """Return the command that installs a package of npm for all projects."""
    return f"npm install -g {package}"


BUILT_IN: dict[str, Agent] = {
    agent.name: agent
    for agent in (
        structs.replace(
            claude(),
            aliases=("claude-code",),
            install=_npm("@anthropic-ai/claude-code") + ", or pip install claude-agent-sdk",
            docs="https://code.claude.com/docs",
            quirks=Quirks(unasked_modes=("bypassPermissions", "acceptEdits", "auto")),
        ),
        Agent(
            name="claude-agent-acp",
            title="Claude Agent over ACP",
            aliases=("claude-acp",),
            command=("claude-agent-acp",),
            install=_npm("@agentclientprotocol/claude-agent-acp"),
            docs="https://github.com/agentclientprotocol/claude-agent-acp",
            # Its session/new alone is known to take up to 60 s, and the `claude` inside it ends
            # only up to 8 s after the end of its input.
            quirks=Quirks(
                startup_timeout_s=90.0,
                stdin_close_grace_s=8.0,
                fork_at=True,
                unasked_modes=("bypassPermissions", "acceptEdits", "auto"),
                claude_rules=True,
                option_modes={
                    "edit:allow-with-updates": "acceptEdits",
                    "exit-plan-bypass": "bypassPermissions",
                    "exit-plan-auto": "auto",
                    "exit-plan-accept-edits": "acceptEdits",
                    "exit-plan-clear-auto": "auto",
                    "exit-plan-clear-bypass": "bypassPermissions",
                    "exit-plan-clear-accept-edits": "acceptEdits",
                },
                option_scopes={
                    "allow-with-updates": "written to .claude/settings.local.json, for later"
                    " sessions of this folder too",
                    "allow-skill-exact": "written to .claude/settings.local.json, for later"
                    " sessions of this folder too",
                    "allow-skill-prefix": "written to .claude/settings.local.json, for later"
                    " sessions of this folder too",
                    "edit:allow-with-updates": "in this session",
                },
            ),
        ),
        Agent(
            name="codex",
            title="Codex",
            protocol="codex",
            aliases=("codex-cli",),
            command=("codex", "app-server"),
            install=_npm("@openai/codex"),
            docs="https://developers.openai.com/codex",
            note="is started in its mode untrusted, in which it asks before each command and edit",
            tools={"commandExecution": "Bash", "fileChange": "Edit", "networkAccess": "Fetch"},
            quirks=Quirks(
                mode="untrusted",
                unasked_modes=("read-only", "workspace-write", "danger-full-access"),
                kinds_hold=True,
            ),
        ),
        Agent(
            name="codex-acp",
            title="Codex over ACP",
            command=("codex-acp",),
            installed_as="@agentclientprotocol",
            install=_npm("@agentclientprotocol/codex-acp"),
            docs="https://github.com/agentclientprotocol/codex-acp",
            note="asks only in its read-only mode, in which it is started; is started in trusted"
            " folders only",
            quirks=Quirks(
                mode="read-only",
                unasked_modes=("workspace-write", "agent", "agent-full-access"),
                fork_at=True,
                kinds_hold=True,
            ),
        ),
        Agent(
            name="codex-acp-zed",
            title="Codex over ACP (Zed)",
            command=("codex-acp",),
            installed_as="^(?!.*@agentclientprotocol)",
            install=_npm("@zed-industries/codex-acp"),
            docs="https://github.com/zed-industries/codex-acp",
            note="asks only in its read-only mode, in which it is started",
            version_args=(),
            quirks=Quirks(
                eof_exits=False,
                mode="read-only",
                unasked_modes=("auto", "full-access"),
                kinds_hold=True,
            ),
        ),
        Agent(
            name="gemini",
            title="Gemini CLI",
            aliases=("gemini-cli",),
            command=("gemini", "--acp"),
            install=_npm("@google/gemini-cli") + " (0.33 or newer)",
            docs="https://geminicli.com/docs",
            note="does not report the input of its tools: allow rules never apply to its"
            " commands, and deny rules read the title; gets no tools of the program in a"
            " folder that is not trusted",
            quirks=Quirks(
                eof_exits=False,
                late_history=True,
                unasked_modes=("autoEdit", "yolo"),
                command_shown="title",
                kinds_hold=True,
                option_modes={"edit:proceed_always": "autoEdit"},
                option_scopes={
                    "proceed_always": "commands of the same program, in this session",
                    "edit:proceed_always": "all edits, in this session",
                    "proceed_always_tool": "this tool, in this session",
                    "proceed_always_server": "all tools of this server, in this session",
                    "proceed_always_and_save": "written to ~/.gemini, for later sessions too",
                },
            ),
        ),
        Agent(
            name="opencode",
            title="OpenCode",
            command=("opencode", "acp"),
            env={
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                # Its default is to ask for nothing.
                "OPENCODE_PERMISSION": '{"bash":"ask","edit":"ask","webfetch":"ask"}',
            },
            install=_npm("opencode-ai"),
            docs="https://opencode.ai/docs",
            note="asks for commands, edits and pages, whatever its own configuration allows",
            quirks=Quirks(
                kinds_hold=True,
                unasked="runs a line in which its own parser finds no command, such as {rm,x}",
                option_scopes={
                    "always": "commands like this one, in all sessions of this process",
                },
            ),
        ),
        Agent(
            name="qwen",
            title="Qwen Code",
            aliases=("qwen-code",),
            command=("qwen", "--acp"),
            install=_npm("@qwen-code/qwen-code"),
            docs="https://github.com/QwenLM/qwen-code",
            note="gets no tools of the program in a folder that is not trusted",
            tools={
                "run_shell_command": "Bash",
                "monitor": "Bash",
                "edit": "Edit",
                "notebook_edit": "Edit",
                "write_file": "Write",
                "read_file": "Read",
                "list_directory": "Read",
                "glob": "Read",
                "grep_search": "Read",
                "web_fetch": "Fetch",
            },
            quirks=Quirks(
                mode="default",
                unasked_modes=("auto-edit", "auto", "yolo"),
                option_modes={
                    "edit:proceed_always": "auto-edit",
                    "switch_mode:proceed_always": "auto-edit",
                },
                option_scopes={
                    "proceed_always": "calls like this one, in this session",
                    "edit:proceed_always": "all edits, in this session",
                    "proceed_always_tool": "this tool, in this session",
                    "proceed_always_server": "all tools of this server, in this session",
                    "proceed_always_project": "written to .qwen/settings.json, for later sessions"
                    " of this folder too",
                    "proceed_always_user": "written to ~/.qwen/settings.json, for all later"
                    " sessions too",
                },
            ),
        ),
        Agent(
            name="kimi",
            title="Kimi Code",
            aliases=("kimi-code", "kimi-cli"),
            command=("kimi", "acp"),
            install=_npm("@moonshot-ai/kimi-code"),
            docs="https://github.com/MoonshotAI/kimi-cli",
            note="does not report the input of its tools: --allow rules for commands never apply,"
            " and --deny rules see only the first 50 characters (do not install the Python package"
            " kimi-cli 1.52, which only names the new package)",
            quirks=Quirks(
                unasked_modes=("auto", "yolo"),
                command_shown="text",
                kinds_hold=True,
                option_scopes={"approve_always": "all calls of this kind"},
            ),
        ),
        Agent(
            name="vibe",
            title="Mistral Vibe",
            aliases=("mistral-vibe", "vibe-acp"),
            command=("vibe-acp",),
            install="pip install mistral-vibe (Python 3.12 or newer)",
            docs="https://github.com/mistralai/mistral-vibe",
            quirks=Quirks(resend_cancel=True, mode="ask"),
        ),
        Agent(
            name="goose",
            title="goose",
            command=("goose", "acp"),
            install="see its documentation",
            docs="https://block.github.io/goose/",
        ),
        Agent(
            name="copilot",
            title="GitHub Copilot CLI",
            aliases=("github-copilot", "copilot-cli"),
            command=("copilot", "--acp", "--no-auto-update"),
            install=_npm("@github/copilot"),
            docs="https://docs.github.com/copilot",
            quirks=Quirks(resend_cancel=True),
        ),
        Agent(
            name="cursor",
            title="Cursor CLI",
            aliases=("cursor-agent",),
            command=("cursor-agent", "acp"),
            install="see its documentation",
            docs="https://cursor.com/docs/cli/acp",
        ),
        Agent(
            name="fast-agent",
            title="fast-agent",
            aliases=("fast-agent-acp", "fast-agent-mcp"),
            command=("fast-agent-acp",),
            alternatives=(("fast-agent", "acp"),),
            install="pip install fast-agent-mcp (Python 3.12 or newer)",
            docs="https://fast-agent.ai",
            note="runs shell commands without asking, if it is started with --shell",
            version_args=(),
            quirks=Quirks(eof_exits=False, unasked_modes=("*",)),
        ),
        Agent(
            name="pi",
            title="pi",
            aliases=("pi-acp",),
            command=("pi-acp",),
            install=_npm("pi-acp @earendil-works/pi-coding-agent"),
            docs="https://github.com/svkozak/pi-acp",
            note="never asks: no rule and no denial applies to its tools",
            version_args=(),
            quirks=Quirks(unasked_modes=("*",)),
        ),
        Agent(
            name="auggie",
            title="Auggie CLI",
            command=("auggie", "--acp"),
            env={"AUGMENT_DISABLE_AUTO_UPDATE": "1"},
            install=_npm("@augmentcode/auggie"),
            docs="https://github.com/augmentcode/auggie",
        ),
        Agent(
            name="droid",
            title="Factory Droid",
            aliases=("factory-droid",),
            command=("droid", "exec", "--output-format", "acp"),
            env={
                "DROID_DISABLE_AUTO_UPDATE": "true",
                "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false",
            },
            install=_npm("droid"),
            docs="https://factory.ai/product/cli",
        ),
        Agent(
            name="junie",
            title="Junie",
            command=("junie", "--acp=true"),
            install="see its documentation",
            docs="https://junie.jetbrains.com",
        ),
        Agent(
            name="kilo",
            title="Kilo Code",
            aliases=("kilocode",),
            command=("kilo", "acp"),
            install=_npm("@kilocode/cli"),
            docs="https://kilo.ai",
        ),
        Agent(
            name="qoder",
            title="Qoder CLI",
            aliases=("qodercli",),
            command=("qodercli", "--acp"),
            install=_npm("@qoder-ai/qodercli"),
            docs="https://qoder.com/cli",
            quirks=Quirks(stdin_close_grace_s=0.75),
        ),
        Agent(
            name="kiro",
            title="Kiro CLI",
            aliases=("kiro-cli",),
            # `kiro-cli acp` is a launcher whose child outlives it.
            command=("kiro-cli-chat", "acp"),
            alternatives=(("kiro-cli", "acp"),),
            install="see its documentation",
            docs="https://kiro.dev",
        ),
        Agent(
            name="devin",
            title="Devin CLI",
            command=("devin", "acp"),
            install="see its documentation",
            docs="https://docs.devin.ai/cli",
        ),
        Agent(
            name="grok",
            title="Grok Build",
            aliases=("grok-build",),
            command=("grok", "agent", "stdio"),
            install=_npm("@xai-official/grok"),
            docs="https://x.ai/cli",
        ),
        Agent(
            name="cline",
            title="Cline",
            command=("cline", "--acp"),
            install=_npm("cline"),
            docs="https://cline.bot/cli",
        ),
        Agent(
            name="demo",
            title="agentrt's demo agent",
            # -P: modules are not imported from its working folder.
            command=(sys.executable, "-P", "-m", "agentrt.demo"),
            version_args=("-P", "-m", "agentrt.demo", "--version"),
            install="it is a part of agentrt",
            note="has no model; shows what an agent can do",
        ),
    )
}
