"""Project files that cause programs to run, or control the permissions of an agent.

One list serves three purposes: agents may not write these files through agentrt, an agent in an
untrusted folder is started so that it ignores the ones it would act on, and `agentrt doctor
--project` shows the ones in a folder.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from msgspec import Struct


class ProjectFile(Struct, frozen=True):
    """A project file or folder that a program acts on without asking."""

    path: str
    """Path relative to a folder of the project.

    `*` stands for any characters within one part. A folder stands for all of its contents.
    """
    effect: str
    """The effect of the file, as a sentence without its subject: "starts its MCP servers"."""
    agents: tuple[str, ...] = ()
    """The agents of the catalogue that act on it. Empty: other programs, such as git."""
    protected: bool = True
    """False if agents may write it because that is part of ordinary work."""


def _files(effect: str, paths: str, *agents: str, protected: bool = True) -> Iterator[ProjectFile]:
    for path in paths.split():
        yield ProjectFile(path, effect, agents, protected)


_MCP: Final = "starts the MCP servers that it names"
_SETTINGS: Final = (
    "runs its hooks and helper programs, starts its MCP servers, allows tools, sets environment"
    " variables and the address that the model's key is sent to"
)
_PARTS: Final = "adds commands, hooks, tools, agents or skills, which may run programs"
_VARIABLES: Final = (
    "sets environment variables, such as the address that the model's key is sent to"
)
_ALLOWS: Final = "allows commands without asking"
_HOOKS: Final = "runs its hooks"
_EDITOR: Final = "lets the editor run tasks, debuggers, language servers or MCP servers"
_TOOL: Final = "lets a development tool run programs"
_SHELL: Final = "is run by each new shell or login"

_CLAUDE: Final = ("claude", "claude-agent-acp")
_CODEX: Final = ("codex", "codex-acp", "codex-acp-zed")

PROJECT_FILES: Final[tuple[ProjectFile, ...]] = (
    # --- agents with measured behaviour
    *_files(_MCP, ".mcp.json", *_CLAUDE, "qwen", "copilot", "kimi", "goose", "cline",
            "grok", "qoder"),
    *_files(
        _SETTINGS,
        ".claude/settings.json .claude/settings.local.json",
        *_CLAUDE,
        "copilot",
        "grok",
    ),
    *_files(_PARTS, ".claude/commands .claude/skills", *_CLAUDE, "auggie", "grok", "kilo"),
    *_files(_PARTS, ".claude/agents .claude/plugins .claude/workflows", *_CLAUDE, "grok"),
    *_files(_PARTS, ".claude/hooks .claude/tools .claude-plugin", *_CLAUDE),
    *_files(_SETTINGS, ".codex/config.toml .codex/config.json", *_CODEX),
    *_files(_ALLOWS, ".codex/rules", *_CODEX),
    *_files(_HOOKS, ".codex/hooks.json .codex/hooks", *_CODEX),
    *_files(_VARIABLES, ".codex/.env", *_CODEX),
    *_files(
        _PARTS,
        ".codex/agents .codex/mcp.json .codex/plugins .codex/prompts .codex/skills .codex/tools"
        " .codex-plugin",
        *_CODEX,
    ),
    *_files(_SETTINGS, ".gemini/settings.json", "gemini"),
    *_files(_VARIABLES, ".gemini/.env", "gemini"),
    *_files(_ALLOWS, ".gemini/policies", "gemini"),
    *_files(
        _PARTS,
        ".gemini/agents .gemini/commands .gemini/extensions .gemini/hooks .gemini/skills"
        " .gemini/sandbox.Dockerfile .gemini/sandbox.bashrc .gemini/sandbox*.sb",
        "gemini",
    ),
    *_files(_SETTINGS, ".qwen/settings.json", "qwen"),
    *_files(_VARIABLES, ".qwen/.env", "qwen"),
    *_files(_VARIABLES, ".env", "qwen", "gemini", protected=False),
    *_files(
        _PARTS,
        ".qwen/agents .qwen/commands .qwen/extensions .qwen/hooks .qwen/policies .qwen/skills"
        " .qwen/sandbox.Dockerfile .qwen/sandbox.bashrc .qwen/sandbox*.sb .lsp.json",
        "qwen",
    ),
    *_files(_SETTINGS, "opencode.json opencode.jsonc", "opencode", "kilo"),
    *_files(
        _PARTS,
        ".opencode/agent .opencode/agents .opencode/bun.lock .opencode/command .opencode/commands"
        " .opencode/mode .opencode/modes .opencode/node_modules .opencode/opencode.json"
        " .opencode/opencode.jsonc .opencode/package.json .opencode/plugin .opencode/plugins"
        " .opencode/skill .opencode/skills .opencode/tool .opencode/tools",
        "opencode",
    ),
    *_files(_HOOKS, ".github/hooks", "copilot"),
    *_files(_MCP, ".github/mcp.json", "copilot"),
    *_files(
        _SETTINGS, ".github/copilot/settings.json .github/copilot/settings.local.json", "copilot"
    ),
    *_files(
        _PARTS,
        ".copilot .github/agents .github/extensions .github/lsp.json .github/plugin"
        " .github/skills",
        "copilot",
    ),
    *_files(_MCP, ".kimi-code/mcp.json .kimi/mcp.json", "kimi"),
    *_files(
        _SETTINGS,
        ".kimi-code/config.toml .kimi-code/config.json .kimi-code/local.toml .kimi/config.toml"
        " .kimi/config.json",
        "kimi",
    ),
    *_files(_VARIABLES, ".kimi-code/.env .kimi/.env", "kimi"),
    *_files(
        _PARTS,
        ".kimi-code/agents .kimi-code/commands .kimi-code/hooks .kimi-code/plugins"
        " .kimi-code/skills .kimi-code/tools .kimi/agents .kimi/hooks .kimi/plugins .kimi/skills"
        " .kimi/tools",
        "kimi",
    ),
    *_files(_SETTINGS, ".vibe/config.toml .vibe/config.json", "vibe"),
    *_files(_HOOKS, ".vibe/hooks.toml .vibe/hooks", "vibe"),
    *_files(_VARIABLES, ".vibe/.env", "vibe"),
    *_files(
        _PARTS,
        ".vibe/agents .vibe/mcp.json .vibe/plugins .vibe/prompts .vibe/skills .vibe/tools",
        "vibe",
    ),
    # --- of several agents. `strace` showed the files that new sessions of auggie 0.36,
    # droid 0.215, grok 1.0.41, kilo, pi-acp 0.0.34 and qoder 1.1.52 read.
    *_files(_PARTS, ".agents/hooks .agents/plugins .agents/tools",
            "vibe", "codex", "droid", "grok"),
    *_files(_PARTS, ".agents/skills",
            "vibe", "codex", "auggie", "droid", "grok", "kilo", "pi"),
    *_files(_PARTS, ".agents/commands .agents/workflows", "auggie", "droid", "grok"),
    *_files(_PARTS, ".agent/hooks .agent/skills .agent/commands", "droid"),
    # --- other agents, from their documentation, and those of above from strace, too
    *_files(_PARTS, ".cursor/hooks.json .cursor/mcp.json .cursor/commands .cursor/skills"
            " .cursor/workflows", "cursor", "grok"),
    *_files(_PARTS, ".cursor/cli.json .cursor/environment.json .cursor/hooks .cursor/agents"
            " .cursor/plugins .cursor/sandbox.json .cursor/worktrees.json", "cursor"),
    *_files(_PARTS, ".kiro/agents .kiro/hooks .kiro/settings .kiro/skills .amazonq", "kiro"),
    *_files(_PARTS, ".cline .clinerules/hooks .clinerules/workflows", "cline"),
    *_files(_PARTS, ".kilo .kilocode .kilocodemodes kilo.json kilo.jsonc", "kilo"),
    *_files(_PARTS, ".augment/settings.json .augment/settings.local.json .augment/commands"
            " .augment/agents .augment/hooks .augment/plugins .augment/mcp.json .augment/skills",
            "auggie"),
    *_files(_PARTS, ".factory/settings.json .factory/settings.local.json .factory/mcp.json"
            " .factory/hooks .factory/hooks.json .factory/commands .factory/droids"
            " .factory/plugins .factory/skills", "droid"),
    *_files(_PARTS, ".goose .config/goose", "goose"),
    *_files(_PARTS, ".qoder/settings.json .qoder/settings.local.json .qoder/hooks .qoder/commands"
            " .qoder/agents .qoder/skills .qoder/mcp.json", "qoder"),
    *_files(_VARIABLES, ".qoder/.env", "qoder"),
    *_files(_PARTS, ".junie/mcp .junie/mcp.json .junie/hooks .junie/commands .junie/skills",
            "junie"),
    *_files(_PARTS, ".grok", "grok"),
    *_files(_PARTS, ".devin/config.json .devin/config.local.json .devin/hooks .devin/hooks.json"
            " .devin/mcp.json .devin/skills", "devin"),
    *_files(_PARTS, "fast-agent.yaml fast-agent.config.yaml fast-agent.secrets.yaml"
            " fastagent.config.yaml fastagent.secrets.yaml .fast-agent", "fast-agent"),
    *_files(_PARTS, ".pi", "pi"),
    *_files(_PARTS, ".agentrt.toml .config/agentrt"),
    *_files(_PARTS, ".aider.conf.yml .aider.conf.yaml .amp/settings.json .amp/plugins"
            " .continue/config.json .continue/config.yaml .continue/config.ts"
            " .continue/mcpServers .crush.json crush.json .openhands/setup.sh"
            " .openhands/pre-commit.sh .openhands/hooks.json .roo .roomodes .trae/mcp.json"
            " .windsurf .config/opencode .config/github-copilot"),
    # --- git and programs that run on a commit
    *_files("makes git run its hooks, filters and aliases", ".git .gitconfig .config/git .hg .jj"),
    *_files("is run by git on a commit, a merge or a push",
            ".husky .huskyrc* .githooks .git-hooks .pre-commit-config.yaml .pre-commit-config.yml"
            " .pre-commit-hooks.yaml lefthook.yml lefthook.yaml lefthook.toml lefthook.json"
            " .lefthook.yml .lefthook.yaml .lefthook.toml .lefthook.json lefthook-local.*"
            " .lefthook-local.* .lefthook .lefthook-local .overcommit.yml .git-hooks.toml"
            " .lintstagedrc* lint-staged.config.* .hooks"),
    # --- editors
    *_files(_EDITOR, ".vscode/settings.json .vscode/tasks.json .vscode/launch.json .vscode/mcp.json"
            " .vscode/extensions *.code-workspace .zed .idea .fleet .run .vs .sublime-project"
            " *.sublime-project .nvim.lua .nvimrc .exrc .vimrc .lvimrc .dir-locals.el"
            " .dir-locals-2.el .helix .nova .eclipse .kakrc .theia"),
    # --- containers and development environments
    *_files("runs its commands when a container or a workspace is opened",
            ".devcontainer .devcontainer.json .gitpod.yml .gitpod.Dockerfile .gitpod .ona"
            " .replit .idx .codesandbox .stackblitzrc .daytona"),
    *_files(_TOOL, ".envrc mise.toml .mise.toml mise.local.toml .mise.local.toml mise.*.toml"
            " .mise .config/mise .rtx.toml .npmrc .yarnrc .yarnrc.yml .yarn/plugins"
            " .yarn/releases .pnpmfile.cjs .pnpmfile.mjs pnpmfile.js bunfig.toml .cargo"
            " .bazelrc .bundle/config .gemrc .irbrc .pryrc .pythonrc.py .pypirc pip.conf"
            " .config/pip sitecustomize.py usercustomize.py .gdbinit .lldbinit .mvn/jvm.config"
            " .mvn/maven.config .mvn/extensions.xml .mvn/wrapper .condarc .Rprofile .ackrc"
            " .ripgreprc .curlrc .wgetrc .netrc .screenrc .tmux.conf .ghci .octaverc .psqlrc"
            " .sqliterc .my.cnf .config/nvim .config/gh"),
    # --- a home folder used as a project
    *_files(_SHELL, ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile"
            " .kshrc .cshrc .tcshrc .login .zshrc .zshenv .zprofile .zlogin .zlogout .oh-my-zsh"
            " .config/fish .config/nushell .config/autostart .config/systemd"
            " .config/environment.d .local/bin .local/share/systemd .pam_environment .xinitrc"
            " .xprofile .xsession .xsessionrc .ssh .gnupg Library/LaunchAgents"),
)  # fmt: skip
"""All files that are known to cause programs to run, or to let an agent do so."""


def files_of(agent: str) -> tuple[ProjectFile, ...]:
    """Return the files that an agent of the catalogue acts on."""
    return tuple(file for file in PROJECT_FILES if agent in file.agents)


AGENT_FILES: Final = tuple(file for file in PROJECT_FILES if file.agents)
"""The files that any agent acts on."""


def protected_file(parts: Sequence[str]) -> str | None:
    """Return the entry of `PROJECT_FILES` that contains the path, if agents may not write it.

    `parts` are the names in the path, starting from any folder. Names that some file system treats
    as equal (upper case, composed letters, invisible characters, a trailing dot) count as equal.
    Returns None if there is no such entry.
    """
    names = [_plain(part) for part in parts]
    for begin, name in enumerate(names):
        for pattern in (*_BY_NAME.get(name, ()), *_BY_PATTERN):
            there = names[begin : begin + len(pattern)]
            if len(there) == len(pattern) and all(map(fnmatchcase, there, pattern)):
                return "/".join(pattern)
    return None


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    """Normalize a file name as the most lenient file systems compare it."""
    name = unicodedata.normalize("NFKC", name).casefold()
    name = "".join(each for each in name if unicodedata.category(each) not in ("Cf", "Cc"))
    stem = name.partition(":")[0] or name  # NTFS streams
    return unicodedata.normalize("NFKC", stem.rstrip(". ") or stem)


def _patterns(files: Iterable[ProjectFile]) -> Iterator[tuple[str, ...]]:
    for file in files:
        if file.protected:
            yield tuple(file.path.casefold().split("/"))


_BY_NAME: Final[dict[str, list[tuple[str, ...]]]] = {}
_BY_PATTERN: Final[list[tuple[str, ...]]] = []
for _pattern in _patterns(PROJECT_FILES):
    if "*" in _pattern[0]:
        _BY_PATTERN.append(_pattern)
    else:
        _BY_NAME.setdefault(_pattern[0], []).append(_pattern)
