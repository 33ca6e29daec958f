"""The table of programs: how each program's arguments are judged.

A rule that denies `rm` must know how other programs use their arguments. `PROGRAMS` maps a
program's name to one of the kinds below; a program that is not in it is `UNKNOWN`, and may run
whatever its arguments mention. Whatever the table leaves open counts as "may": an option that a
launcher is not known to have, an abbreviated long option, an argument that only the shell knows.

Options are written as typed, each with a mark for what follows it:

    -x      nothing                     -x:     a value, also attached (-xV, --long=V)
    -x?     a value only if attached    -x$     a line for a shell
    -x!     something that it runs      -x.     nothing, and then it runs nothing
    -#      digits (`nice -5`)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias


def _words(text: str) -> list[str]:
    """Split a text at spaces."""
    return text.split()


SYSTEM: Final = tuple(
    _words(
        """/bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin /opt/homebrew/bin /usr/lib
        /usr/libexec"""
    )
)
"""Folders of the system's programs."""

POSIX_SHELLS: Final = frozenset(_words("ash bash dash ksh mksh rbash sh zsh"))
OTHER_SHELLS: Final = frozenset(
    _words("csh elvish es fish hush nu osh pwsh powershell rc tcsh xonsh yash")
)
SHELLS: Final = POSIX_SHELLS | OTHER_SHELLS


@dataclass(frozen=True)
class Data:
    """Reads or writes data, and runs only the values of the options in `runs`."""

    runs: str = ""
    cluster_first: bool = False
    """True if its first argument is a cluster of options, also without a dash (`tar cf`)."""

    @cached_property
    def long(self) -> tuple[str, ...]:
        """The long options in `runs`."""
        return tuple(each for each in self.runs.split() if each.startswith("--"))

    @cached_property
    def short(self) -> str:
        """The letters of the short options in `runs`."""
        return "".join(each[1] for each in self.runs.split() if re.fullmatch("-[A-Za-z]", each))

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Options of several letters after one dash, and arguments that are not options."""
        found = [each for each in self.runs.split() if not each.startswith("--")]
        return tuple(each for each in found if not re.fullmatch("-[A-Za-z]", each))


@dataclass(frozen=True)
class ArgumentRunner(Data):
    """A program that runs more than is known here: like `Data`, but it may also run anything
    that its arguments mention."""

    reads: bool = False
    """True if its input is code, too."""


@dataclass(frozen=True)
class Launcher:
    """Runs the program that its arguments name, after its own options."""

    options: str = ""
    skips: int = 0
    """Number of arguments between the options and the program, such as the seconds of `timeout`."""
    adds: bool = False
    """True if it adds arguments from its input (`xargs`)."""

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """The options, each with the character that marks its value."""
        found: dict[str, str] = {}
        for each in self.options.split():
            kind = each[-1] if each[-1] in ":?$!." else ""
            found[each.removesuffix(kind)] = kind
        return found


@dataclass(frozen=True)
class CodeRunner:
    """Runs text in its own language, or changes later commands: with arguments or input it may do
    anything."""


@dataclass(frozen=True)
class Interpreter:
    """Runs a script of the project, or code from its arguments or its input."""


@dataclass(frozen=True)
class VariableBuiltin:
    """A builtin that takes names of variables, and may compute an index in one.

    `after`: only the word after this option is such a name.
    """

    after: str = ""


@dataclass(frozen=True)
class Special:
    """A program judged by its own function."""

    how: str


Kind: TypeAlias = (
    "Data | ArgumentRunner | Launcher | CodeRunner | Interpreter | VariableBuiltin | Special"
)

UNKNOWN: Final = ArgumentRunner()
NO_OPTIONS: Final = Launcher("--help. --version.")
_PLAIN: Final = Data()
_GCC: Final = Data("-B -wrapper -fplugin -specs --specs @")
_SQL: Final = ArgumentRunner("-f --file -init -cmd --init-command --command-file .", reads=True)
_FD: Final = Data("-x -X --exec --exec-batch")
_PAGER: Final = Data("--pager")
_CODE: Final = CodeRunner()
_NAMES: Final = VariableBuiltin()


def _each(names: str, kind: Kind) -> dict[str, Kind]:
    """Map many names to one kind."""
    return dict.fromkeys(names.split(), kind)


PROGRAMS: Final[Mapping[str, Kind]] = {
    # ---- programs that read and write data
    **_each(
        """: basename base64 break bzip2 cal cat cd chgrp chmod chown cksum clear cmp column comm
        continue cp cut dd df diff dirname dirs du echo egrep exit expand expr false fgrep file fmt
        fold free getent grep groups gunzip gzip head hexdump hostname iconv id join jq kill last
        ln locale logname ls lsof md5sum mkdir mkfifo mktemp mv nl nproc od paste pgrep pidof popd
        pr printenv ps pushd pwd readlink realpath return rev rmdir seq sha1sum sha256sum sha512sum
        shasum shift shuf sleep stat strings sum sync tac tail tee touch tr tree true truncate
        tsort tty type umask uname unexpand uniq unlink uptime users wc whereis which who whoami
        xxd xz yes zcat zgrep zstd black isort mypy prettier pyright ruff tsc""",
        _PLAIN,
    ),
    "ack": _PAGER,
    "ag": _PAGER,
    "bat": _PAGER,
    "bsdtar": Data("--use-compress-program"),
    "cpio": Data("--rsh-command"),
    "ctags": Data("--options"),
    "curl": Data("-K --config"),
    "date": _PLAIN,
    "fd": _FD,
    "fdfind": _FD,
    "gpg": Data("--photo-viewer --agent-program --keyserver-options --options"),
    "install": Data("--strip-program"),
    "less": Data("+ -k --lesskey-src --lesskey-file --lesskey-content"),
    "man": Data("-P -H -C --pager --html --config-file --preprocessor"),
    "more": Data("+"),
    "nano": Data("-s --speller --rcfile"),
    "openssl": Data("engine -engine -provider"),
    "pytest": Data("-p -c --config-file -o --override-ini"),
    "rg": Data("--pre --hostname-bin"),
    "rsync": Data("-e --rsh --rsync-path"),
    "scp": Data("-S -o -F -J"),
    "sort": Data("--compress-program"),
    "split": Data("--filter"),
    "tar": Data(
        "-I -F --use-compress-program --to-command --checkpoint-action --info-script"
        " --new-volume-script --rsh-command --rmt-command --index-file",
        cluster_first=True,
    ),
    "tcpdump": Data("-z"),
    "wget": Data("--use-askpass --config -e --execute"),
    "zip": Data("-TT --unzip-command"),
    **_each("cc c++ clang clang++ g++ gcc", _GCC),
    # ---- programs that may run what their arguments mention, and certainly the values of these
    # options
    "apt": ArgumentRunner("-o -c --option --config-file"),
    "apt-get": ArgumentRunner("-o -c --option --config-file"),
    "cargo": ArgumentRunner("--config"),
    "cmake": ArgumentRunner("-P -E"),
    "go": ArgumentRunner("-exec -toolexec -vettool --exec --toolexec --vettool"),
    "gmake": ArgumentRunner("-E --eval"),
    "logrotate": _CODE,
    "mail": ArgumentRunner("-S"),
    "make": ArgumentRunner("-E --eval"),
    "mysql": _SQL,
    "ncat": ArgumentRunner("-e -c --exec --sh-exec --lua-exec"),
    "nc": ArgumentRunner("-e -c"),
    "nmap": ArgumentRunner("--script --datadir"),
    "npm": ArgumentRunner("-c --call --script-shell script-shell --node-options --globalconfig"),
    "npx": ArgumentRunner("-c --call --script-shell --node-options"),
    "pnpm": ArgumentRunner("-c --call --script-shell script-shell"),
    "psql": _SQL,
    "sqlite3": _SQL,
    "yarn": ArgumentRunner("--use-yarnrc"),
    # ---- programs that run the program that their arguments name
    "-": NO_OPTIONS,
    "arch": NO_OPTIONS,
    "builtin": NO_OPTIONS,
    "busybox": Launcher("--list. --list-full. --help."),
    "caffeinate": Launcher("-d -i -m -s -u -t: -w:"),
    "chroot": Launcher("--groups: --userspec: --skip-chdir --help. --version.", skips=1),
    "chrt": Launcher("-a -b -d -f -i -m. -o -r -v -R -T: -P: -D: --fifo --rr --idle", skips=1),
    "command": Launcher("-p -v. -V."),
    "coreutils": Launcher("--coreutils-prog! --coreutils-prog-shebang!"),
    "dbus-run-session": NO_OPTIONS,
    "doas": Launcher("-n -s -L. -u: -C!"),
    "env": Launcher(
        "- -i -0 -v -u: -C: -a: -P: -S! --ignore-environment --null --debug --unset: --chdir:"
        " --argv0: --split-string! --block-signal? --default-signal? --ignore-signal?"
        " --list-signal-handling --help. --version."
    ),
    "exec": Launcher("-c -l -a:"),
    "fakeroot": NO_OPTIONS,
    "faketime": Launcher("", skips=1),
    "flock": Launcher(
        "-s -x -e -n -u -o -F -w: -E: -c$ --command$ --shared --exclusive --nonblock --nb --unlock"
        " --close --no-fork --timeout: --wait: --conflict-exit-code: --verbose --help. --version.",
        skips=1,
    ),
    "ionice": Launcher("-t -c: -n: -p. --class: --classdata: --ignore --help. --version."),
    "linux32": NO_OPTIONS,
    "linux64": NO_OPTIONS,
    "i386": NO_OPTIONS,
    "x86_64": NO_OPTIONS,
    "nice": Launcher("-n: -# --adjustment: --help. --version."),
    "nocorrect": NO_OPTIONS,
    "noglob": NO_OPTIONS,
    "nohup": NO_OPTIONS,
    "pkexec": Launcher("--user: --keep-cwd"),
    "setarch": Launcher("-R -v --addr-no-randomize --verbose", skips=1),
    "setsid": Launcher("-c -f -w --ctty --fork --wait --help. --version."),
    "softlimit": Launcher("-a: -c: -d: -f: -l: -m: -o: -p: -r: -s: -t:"),
    "stdbuf": Launcher("-i: -o: -e: --input: --output: --error: --help. --version."),
    "strace": Launcher(
        "-f -c -C -d -F -h. -i -k -q -r -t -T -v -V. -w -x -y -z -Z"
        " -a: -b: -e: -E: -I: -o: -O: -p: -P: -s: -S: -u: -X:"
    ),
    "sudo": Launcher(
        "-A -b -B -E -H -i -k -K. -l. -n -N -P -s -S -v. -V. -C: -D: -g: -h: -p: -r: -R: -t: -T:"
        " -u: -U: -e! --askpass --background --bell --edit! --preserve-env? --set-home --login"
        " --non-interactive --shell --stdin --chdir: --group: --host: --prompt: --user: --help."
        " --version. --validate. --list."
    ),
    "taskset": Launcher("-a -c -p. --all-tasks --cpu-list --pid. --help. --version.", skips=1),
    "time": Launcher("-p -v -a -q -l -f: -o: --format: --output: --append --verbose --portability"),
    "timeout": Launcher(
        "-v -f -p -k: -s: --kill-after: --signal: --foreground --preserve-status --verbose --help."
        " --version.",
        skips=1,
    ),
    "toybox": Launcher("--long. --help. --version."),
    "unbuffer": Launcher("-p"),
    "xargs": Launcher(
        "-0 -o -p -r -t -x -a: -d: -e? -E: -i? -I: -l? -L: -n: -P: -s: --null --open-tty --exit"
        " --interactive --no-run-if-empty --verbose --show-limits --arg-file: --delimiter: --eof?"
        " --replace? --max-lines? --max-args: --max-procs: --max-chars: --process-slot-var: --help."
        " --version.",
        adds=True,
    ),
    "xvfb-run": Launcher("-a --auto-servernum"),
    **_each(
        """bwrap capsh cgexec chpst cpulimit daemonize firejail gosu ltrace nsenter numactl perf
        prlimit proot proxychains rlwrap runcon setpriv sshpass start-stop-daemon su-exec
        systemd-run tini torsocks trickle unshare valgrind""",
        _CODE,
    ),
    # ---- shells, and builtins that change later commands
    **_each(" ".join(SHELLS), Special("shell")),
    "eval": Special("eval"),
    "find": Special("find"),
    "git": Special("git"),
    **_each("awk gawk mawk nawk original-awk", Special("awk")),
    **_each("sed gsed", Special("sed")),
    **_each("declare export local readonly typeset", Special("setter")),
    **_each("read unset let getopts integer float print", _NAMES),
    "printf": VariableBuiltin("-v"),
    "wait": VariableBuiltin("-p"),
    "test": VariableBuiltin("-v"),
    "[": VariableBuiltin("-v"),
    # ---- programs with their own languages
    **_each(
        """. add-zsh-hook alias at autoload batch bc bind bindkey compdef compgen complete coproc
        crontab dc disable ed emacs emulate enable entr ex expect fc ftp functions gdb hash history
        lldb m4 mapfile nvim parallel readarray red rehash runuser sched screen script sem set
        setopt sftp shopt socat source ssh su sudoedit sysopen tcc telnet tmux trap unfunction vi
        view vim watch xterm zcompile zle zmodload zparseopts zpty zstyle""",
        _CODE,
    ),
}

_INTERPRETERS: Final = re.compile(
    r"(?:python|pypy|perl|ruby|irb|node|nodejs|deno|bun|tsx|ts-node|php|lua|luajit|tclsh|wish|expect"
    r"|Rscript|R|julia|ghc|runghc|ghci|scala|groovy|jshell|osascript|guile|racket|sbcl|clojure|bb"
    r"|elixir|iex|erl|escript|octave|janet|awk-)[0-9.]*",
    re.IGNORECASE,
)
_INTERPRETER: Final = Interpreter()


def kind_of(name: str) -> Kind:
    """Return how a program is judged."""
    if (found := PROGRAMS.get(name)) is not None:
        return found
    return _INTERPRETER if _INTERPRETERS.fullmatch(name) else UNKNOWN


COPIERS: Final = frozenset(_words("cat cp curl dd install ln mv tee wget"))
"""Programs that may give a program another name, or write a new one."""

READ_ONLY: Final = frozenset(
    _words(
        """: [ basename bat cat cd cksum cmp column comm cut df diff dirname du echo egrep env expr
        false fgrep file find fold free getent grep groups head hexdump id jq last less locale ls
        lsof man md5sum more nl od paste pgrep printenv printf ps pwd readlink realpath rev rg
        sha1sum sha256sum sha512sum shasum stat strings sum tac tail test true type uname uniq
        users wc which who whoami xxd"""
    )
)
"""Programs that write no file that their arguments name."""

SIMPLE: Final = re.compile(r"[A-Za-z0-9_./:,@%+=~^-]*|\\[0abfnrtv]|\{\}")
"""A value that no shell would read as more than a word."""
SHELL_CHARACTERS: Final = re.compile(r"[;&|<>`$\\(){}'\"!\n]")
STANDARD_INPUT: Final = re.compile(
    r"(?:-[A-Za-z]|--[a-z-]+=)?(?:-|/dev/(?:stdin|fd/[0-9]+)|/proc/self/fd/[0-9]+)"
)
RUNNING_OPTIONS: Final = re.compile(
    r"--(?:compress-prog|pre|hostname-bin|use-compress|filter|exec|upload-pack|receive-pack"
    r"|open-files-in-pager|ext-diff|textconv|strategy|template|config|gpg|hook|pager|plugin|engine"
    r"|eval|shell|script-shell|rsh|command|askpass)\b"
)
"""Options by which programs that are not in the table may run something."""

GIT_OPTIONS: Final = Launcher(
    "-p -P -C: -c: --paginate --no-pager --bare --no-replace-objects --no-lazy-fetch"
    " --no-optional-locks --no-advice --literal-pathspecs --glob-pathspecs --noglob-pathspecs"
    " --icase-pathspecs --git-dir! --work-tree! --namespace: --config-env! --exec-path!"
    " --html-path. --man-path. --info-path. --version. --help. -h. -v. --super-prefix!"
)
_GIT_DIFF: Final = Data("--ext-diff --textconv")
GIT: Final[Mapping[str, Data]] = {
    **dict.fromkeys(
        _words(
            """add am apply branch bundle check-ignore check-ref-format checkout clean commit config
        count-objects describe for-each-ref fsck gc ls-files ls-tree merge-base mv name-rev notes
        prune reflog remote reset restore rev-list rev-parse rm show-ref shortlog sparse-checkout
        stash status switch symbolic-ref tag update-index update-ref var verify-commit verify-tag
        version whatchanged worktree write-tree"""
        ),
        _GIT_DIFF,
    ),
    "archive": Data("--exec --remote"),
    "bisect": Data("run"),
    "blame": _GIT_DIFF,
    "cat-file": Data("--textconv --filters"),
    "cherry-pick": Data("--strategy -s"),
    "clone": Data("-u -c --upload-pack --template --config"),
    "diff": _GIT_DIFF,
    "fetch": Data("--upload-pack"),
    "grep": Data("-O --open-files-in-pager --textconv --ext-grep"),
    "init": Data("--template"),
    "log": _GIT_DIFF,
    "ls-remote": Data("--upload-pack --exec"),
    "merge": Data("-s --strategy"),
    "pull": Data("-s --upload-pack --strategy"),
    "push": Data("--receive-pack --exec"),
    "rebase": Data("-x -i -s --exec --interactive --strategy"),
    "revert": Data("--strategy"),
    "show": _GIT_DIFF,
    "submodule": Data("foreach"),
}
"""Uses of git that do not run their arguments. All others may be an alias, or run something."""
GIT_SAFE_SETTINGS: Final = re.compile(
    r"(?:advice|color|column|log|user)\.[\w.-]+|core\.(?:quotepath|autocrlf|eol|ignorecase|filemode)"
    r"|init\.defaultbranch|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote)|fetch\.prune"
    r"|merge\.(?:ff|conflictstyle)|rebase\.autostash|commit\.gpgsign=false|diff\.(?:renames|context)"
    r"|safe\.directory|status\.[a-z]+|http\.(?:version|lowspeedlimit|postbuffer)",
    re.IGNORECASE,
)
"""Settings by which git runs nothing."""
GIT_SETTING_NAME: Final = re.compile(r"[A-Za-z][\w-]*\.[\w.-]+")

HARMLESS_PREFIXES: Final = frozenset({"--text", "--no-textconv", "--no-ext-diff"})
"""Options of several programs that begin like an option which runs something."""

RISKY_VARIABLES: Final = re.compile(
    r"PATH|LD_.*|DYLD_.*|BASH.*|ENV|PROMPT_COMMAND|PS[0-4]|IFS|SHELL|SHELLOPTS|ZDOTDIR|fpath|FPATH"
    r"|path|aliases|functions|commands|CDPATH|.*PAGER|.*EDITOR|VISUAL|BROWSER|GIT_.*|SSH_.*|.*_COMMAND"
    r"|.*_CMD|.*OPTS|.*OPTIONS|PERL5.*|PERLLIB|PYTHON.*|RUBY.*|NODE_.*|LESS.*|MAN.*|MAKE.*|CC|CXX"
    r"|.*WRAPPER.*|.*_SHELL|.*RUNNER.*|NULLCMD|READNULLCMD|HOME|XDG_.*|EXINIT|VIMINIT|TAR_.*|npm_.*",
)
"""Variables that determine where programs are, or which of them run."""

SED_SAFE: Final = re.compile(
    r"(?:[0-9,$]+|/[^/\\\n]*/)?\s*(?:[pdq=]|s(?P<d>[/|#,:@])(?:(?!(?P=d))[^\n\\]|\\[^\n])*(?P=d)"
    r"(?:(?!(?P=d))[^\n\\]|\\[^\n])*(?P=d)[gpiI0-9]*)"
)
