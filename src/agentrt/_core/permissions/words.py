"""The names that rules use for agents' actions, and the agents' own names for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TOOL_CLASSES: Final = {
    "Bash": "a shell command",
    "Edit": "a change of files, `Write` included",
    "Write": "a file written as a whole",
    "Read": "files read, listed or searched",
    "Fetch": "a page of the web",
    "Network": "a connection from the sandbox",
    "Program": "a start of a program for which the sandbox asks",
}
"""Names in rules that mean the same for every agent."""

CLAUDE_TOOLS: Final = {
    "Bash": "Bash",
    "Edit": "Edit",
    "MultiEdit": "Edit",
    "NotebookEdit": "Edit",
    "Write": "Write",
    "Read": "Read",
    "NotebookRead": "Read",
    "Glob": "Read",
    "Grep": "Read",
    "LS": "Read",
    "WebFetch": "Fetch",
    "Fetch": "Fetch",
}
"""Claude Code's own names; some other agents use them too."""

_ANY_AGENTS: Final = {
    **{name.casefold(): meant for name, meant in CLAUDE_TOOLS.items()},
    **dict.fromkeys(
        """run_shell_command exec_command shell_command shell execute terminal run_terminal_cmd
        run_command execute_command local_shell powershell cmd sh zsh exec monitor
        write_stdin run_in_terminal""".split(),  # noqa: SIM905
        "Bash",
    ),
    **dict.fromkeys(
        """replace edit_file str_replace str_replace_editor apply_patch patch multi_edit
        strreplacefile search_replace insert apply_diff delete_file move_file rename_file
        delete move notebook_edit str_replace_based_edit_tool""".split(),  # noqa: SIM905
        "Edit",
    ),
    **dict.fromkeys(
        ("write_file", "writefile", "create", "create_file", "write_text_file", "write_to_file"),
        "Write",
    ),
    **dict.fromkeys(
        """read_file readfile view read_many_files read_text_file list list_directory list_dir
        ls search_file_content grep_search search readmediafile view_image cat open_file
        find_files""".split(),  # noqa: SIM905
        "Read",
    ),
    **dict.fromkeys(("web_fetch", "fetchurl", "fetch_url", "url_fetch", "http"), "Fetch"),
}
"""Names that some agent uses for such a tool. An unknown agent's tool of that name may be meant: a
rule that denies assumes so, a rule that allows does not."""

PROGRAMS: Final = frozenset(
    """apt apt-get aws az brew bundle cargo chgrp chmod chown cmake composer conda cp crontab
    csh curl dash dd deno df dnf docker docker-compose dotnet dpkg egrep fgrep fish gcc gcloud gem
    gh git gradle gunzip gzip helm iptables java javac jq kubectl ln lsof mkdir mkfs mv mvn
    mysql nc ncat nginx nohup npm npx nvm openssl perl php pip pip3 pipx pkill pnpm podman poetry
    psql python python3 rg rm rmdir rsync ruby rustc scp sed sftp shred sqlite3 ssh sudo systemctl
    tar terraform tmux unzip uv uvx vim wget xargs yarn yum""".split()  # noqa: SIM905
)
"""Programs that nobody takes for a tool of an agent."""

PLANNING_TOOLS: Final = frozenset(
    """task agent todowrite todoread taskcreate taskupdate tasklist taskget taskoutput taskstop
    bashoutput killshell killbash askuserquestion enterplanmode exitplanmode toolsearch skill
    slashcommand structuredoutput listmcpresourcestool sendusermessage todo_write update_plan
    exit_plan_mode ask_user_question tool_search update_topic request_permissions""".split()  # noqa: SIM905
)
"""Tools of agents that plan, ask and delegate, in lower case: each further call of theirs is judged
separately."""

KINDS: Final = {
    "execute": ("Bash",),
    "edit": ("Edit", "Write"),
    "delete": ("Edit",),
    "move": ("Edit",),
    "read": ("Read",),
    "search": ("Read",),
    "fetch": ("Fetch",),
}
"""Names that an ACP kind may stand for; the agent chooses the kind."""


def meant_by(tool: str, tools: Mapping[str, str]) -> set[str]:
    """Return the names in rules for an agent's tool, including its own; `tools` maps its names."""
    found = {tool} if tool else set[str]()
    if meant := tools.get(tool) or CLAUDE_TOOLS.get(tool):
        found |= {meant, "Edit"} if meant == "Write" else {meant}
    return found


def perhaps_meant_by(tool: str, kind: str) -> set[str]:
    """Return the names in rules that a tool's name or kind may stand for."""
    found = set(KINDS.get(kind, ()))
    if meant := _ANY_AGENTS.get(tool.casefold()):
        found |= {meant, "Edit"} if meant == "Write" else {meant}
    return found


def meaning(name: str) -> str | None:
    """Return the name in rules for a tool name that some agent uses."""
    return _ANY_AGENTS.get(name.casefold())


def is_doubtful(name: str) -> bool:
    """True for a name that looks like a program's, and that no agent is known to give to a tool."""
    plain = name.islower() and not {"_", "*", "."}.intersection(name)
    others = {*PLANNING_TOOLS, "websearch", "codesearch", "lsp", "think", "memory", "plan"}
    return plain and meaning(name) is None and name not in others


def right_word(name: str) -> str | None:
    """Return the correct name for one in the wrong case, or for a synonym."""
    meant = meaning(name)
    wrong_case = meant is not None and name.casefold() == meant.casefold() and name != meant
    return meant if wrong_case or (name.islower() and "_" not in name) else None
