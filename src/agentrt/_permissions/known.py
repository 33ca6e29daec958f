"""What is known of programs and variables, for `programs.py`."""

from __future__ import annotations

import re
from typing import Final

SYSTEM: Final = (
    *("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"),
    *("/opt/homebrew/bin", "/usr/lib", "/usr/libexec"),
)
POSIX_SHELLS: Final = frozenset({"ash", "bash", "dash", "ksh", "mksh", "rbash", "sh", "zsh"})
OTHER_SHELLS: Final = frozenset(
    {"csh", "elvish", "es", "fish", "hush", "nu", "osh", "pwsh", "rc", "tcsh", "xonsh", "yash"}
)
SHELLS: Final = POSIX_SHELLS | OTHER_SHELLS

LAUNCHERS: Final = frozenset(
    {
        *("-", "arch", "builtin", "busybox", "caffeinate", "chpst", "chroot", "chrt", "command"),
        *("coreutils", "cpulimit", "dbus-run-session", "doas", "env", "exec", "fakeroot"),
        *("find", "firejail", "flock", "i386", "ionice", "linux32", "linux64", "ltrace"),
        *("nice", "nocorrect", "noglob", "nohup", "nsenter", "numactl", "pkexec"),
        *("prlimit", "proot", "runcon", "setarch", "setpriv", "setsid"),
        *("softlimit", "sshpass", "start-stop-daemon", "stdbuf", "strace", "sudo"),
        *("systemd-run", "taskset", "time", "timeout", "toybox", "trickle", "unbuffer", "unshare"),
        *("valgrind", "x86_64", "xargs", "xvfb-run"),
    }
)
"""Programs that run the program which their arguments name."""
PLAIN_LAUNCHERS: Final = frozenset(
    {"-", "builtin", "busybox", "command", "doas", "env", "exec", "nice", "nocorrect", "noglob"}
    | {"nohup", "setsid", "sudo", "time", "timeout", "toybox"}
)
"""Those whose first argument that is no option, setting or number is the program."""
SIMPLE: Final = re.compile(r"[A-Za-z0-9_./:,@%+=-]*")

INTERPRETERS: Final = re.compile(
    r"(?:python|pypy|perl|ruby|irb|node|nodejs|deno|bun|tsx|ts-node|php|lua|luajit|tclsh|wish|expect"
    r"|Rscript|R|julia|ghc|runghc|ghci|scala|groovy|jshell|osascript|guile|racket|sbcl|clojure|bb"
    r"|elixir|iex|erl|escript|octave|janet|awk-)[0-9.]*",
    re.IGNORECASE,
)

EVALUATORS: Final = frozenset(
    {
        *(".", "alias", "at", "autoload", "batch", "bind", "bindkey", "complete", "compgen"),
        *("crontab", "dc", "ed", "emacs", "emulate", "enable", "ex", "fc", "functions", "hash"),
        *(
            "gdb",
            "parallel",
            "runuser",
            "script",
            "su",
            "watch",
            "history",
            "lldb",
            "m4",
            "mapfile",
            "nvim",
            "readarray",
            "red",
            "screen",
            "sched",
        ),
        *("shopt", "source", "ssh", "sysopen", "tmux", "trap", "vi", "view", "vim", "zcompile"),
        *("zle", "zmodload", "zpty", "zstyle", "add-zsh-hook", "ftp", "sftp", "socat", "telnet"),
        *("setopt", "set", "unfunction", "compdef", "coproc", "zparseopts", "disable", "rehash"),
    }
)
"""What runs text in a language of its own, or changes what the next commands are."""

HARMLESS: Final = frozenset(
    {
        *(":", "[", "base64", "basename", "break", "bzip2", "cal", "cat", "cd", "chgrp", "chmod"),
        *(
            "chown",
            "cksum",
            "clear",
            "cmp",
            "column",
            "comm",
            "continue",
            "cp",
            "cut",
            "date",
            "dd",
        ),
        *("df", "diff", "dirname", "dirs", "du", "echo", "exit", "expand", "expr", "false", "file"),
        *("fmt", "fold", "free", "getent", "grep", "egrep", "fgrep", "groups", "gunzip", "gzip"),
        *("head", "hexdump", "hostname", "iconv", "id", "install", "join", "jq", "kill", "last"),
        *("ln", "locale", "logname", "ls", "lsof", "md5sum", "mkdir", "mkfifo", "mktemp", "mv"),
        *("nl", "nproc", "od", "paste", "pgrep", "pidof", "popd", "pr", "printenv", "printf"),
        *("ps", "pushd", "pwd", "readlink", "realpath", "return", "rev", "seq", "sha1sum"),
        *("sha256sum", "sha512sum", "shasum", "shift", "shuf", "sleep", "sort", "stat", "strings"),
        *("sum", "sync", "tac", "tail", "tee", "test", "touch", "tr", "tree", "true", "truncate"),
        *(
            "tsort",
            "tty",
            "type",
            "umask",
            "uname",
            "unexpand",
            "uniq",
            "unlink",
            "uptime",
            "users",
        ),
        *(
            "wait",
            "wc",
            "which",
            "whereis",
            "who",
            "whoami",
            "xxd",
            "yes",
            "zcat",
            "zgrep",
            "rmdir",
        ),
    }
)
"""What runs nothing that its arguments say, but for options of `RUNNING_OPTIONS`."""

COPIERS: Final = frozenset({"cat", "cp", "dd", "install", "ln", "mv", "tee"})
"""What may give a program another name."""

RUNNING_OPTIONS: Final = re.compile(
    r"--(?:compress-prog|pre|hostname-bin|use-compress|filter|exec|upload-pack|receive-pack"
    r"|open-files-in-pager|ext-diff|textconv|strategy|template|config|gpg|hook)"
)
SUBSCRIPTS: Final = frozenset(
    {"[", "declare", "export", "getopts", "let", "local", "print", "printf", "read", "readonly"}
    | {"test", "typeset", "unset", "wait", "integer", "float"}
)
"""Builtins that may compute an index, and with it whatever stands in one."""
SETTERS: Final = frozenset({"declare", "export", "local", "readonly", "typeset", "env"})

GIT: Final = frozenset(
    {
        *(
            "add",
            "blame",
            "branch",
            "cat-file",
            "check-ignore",
            "checkout",
            "cherry-pick",
            "commit",
        ),
        *("describe", "diff", "fetch", "for-each-ref", "init", "log", "ls-files", "ls-tree"),
        *("merge", "merge-base", "mv", "pull", "push", "reflog", "remote", "reset", "restore"),
        *("rev-list", "rev-parse", "revert", "shortlog", "show", "show-ref", "stash", "status"),
        *("switch", "symbolic-ref", "tag", "version"),
    }
)
"""What git does without running what its arguments say."""
GIT_SETTINGS: Final = re.compile(
    r"alias|hook|pager|editor|command|cmd|helper|program|filter|diff\.|merge\.|fsmonitor|include|proxy"
    r"|\.(?:process|smudge|clean|textconv|driver|path|pack)|ssh|gpg|sequence|trustctime|worktree",
    re.IGNORECASE,
)
"""Settings of git that make it run something."""

RISKY_VARIABLES: Final = re.compile(
    r"PATH|LD_.*|DYLD_.*|BASH.*|ENV|PROMPT_COMMAND|PS[0-4]|IFS|SHELL|SHELLOPTS|ZDOTDIR|fpath|FPATH"
    r"|path|aliases|functions|commands|CDPATH|.*PAGER|.*EDITOR|VISUAL|BROWSER|GIT_.*|SSH_.*|.*_COMMAND"
    r"|.*_CMD|.*OPTS|.*OPTIONS|PERL5.*|PERLLIB|PYTHON.*|RUBY.*|NODE_.*|LESS.*|MAN.*|MAKE.*|CC|CXX"
    r"|.*WRAPPER.*|.*_SHELL|.*RUNNER.*|NULLCMD|READNULLCMD|HOME|XDG_.*|EXINIT|VIMINIT|TAR_.*|npm_.*",
)
"""What says where programs are, or which of them run."""

LEADING: Final = re.compile(
    r"-.*|[A-Za-z_][A-Za-z0-9_]*=.*|[0-9.]+[smhd]?|0x[0-9a-fA-F]+|\{\}", re.DOTALL
)
"""What stands between a launcher and the program that it runs."""

AWKS: Final = frozenset({"awk", "gawk", "mawk", "nawk", "original-awk"})
SED_SAFE: Final = re.compile(
    r"(?:[0-9,$]+|/[^/\\\n]*/)?\s*(?:[pdq=]|s(?P<d>[/|#,:@])(?:(?!(?P=d))[^\n\\]|\\[^\n])*(?P=d)"
    r"(?:(?!(?P=d))[^\n\\]|\\[^\n])*(?P=d)[gpiI0-9]*)"
)
