"""What `--help` says beside the options: one text for each command."""

from __future__ import annotations

from typing import Final

USAGE: Final = """\
agentrt [options]              a conversation
       agentrt [options] -p TEXT      one prompt
       agentrt serve [options]        the same for browsers
       agentrt attach [URL]           the same on a server that runs
       agentrt acp [options]          the same for editors
       agentrt COMMAND [options]      agents, doctor, sessions, nodes, trace, config, completion"""

MAIN: Final = """\
Talk to a coding agent: in a conversation, or with one prompt whose answer goes to standard output.

  agentrt                       a conversation in this folder
  agentrt --serve               the same, and others are let into it (/share)
  agentrt -p "list the files"   one prompt
  git diff | agentrt -p "explain this"
"""

MAIN_MORE: Final = """\
commands:
  agentrt serve       serves sessions to browsers, and prints a link to the page
  agentrt attach      the same conversation on a session of a server that runs
  agentrt acp         is the agent that an editor starts (Zed, JetBrains, Neovim, …)
  agentrt agents      the agents that are known, which are installed, how to get the rest
  agentrt doctor      starts the installed agents and says what works
  agentrt sessions    earlier sessions: lists, searches, shows, exports, deletes them
  agentrt nodes       the servers that share a store: lists them, takes one out
  agentrt rules       what a permission rule would do, and why
  agentrt trace       what went over the wire, in a file that --trace wrote
  agentrt record      a conversation with any command, and a trace of it
  agentrt replay      a trace at the pace at which it happened
  agentrt conformance checks what an agent does with what a client may send it
  agentrt config      the settings in force, and where each was made
  agentrt completion  completion of all this for a shell
  (agentrt COMMAND --help says more)

examples, on the built-in demo agent:
  agentrt --agent demo
  agentrt --agent demo -p "read README.md:1-10"
  agentrt --agent demo -p "create a.txt with hello" --permissions allow-all
  agentrt --agent demo -p "run date" --allow "Bash(date)"
  agentrt --agent demo -p "list the files" --output-format json
  agentrt --agent demo -p /slow --timeout 2

permission rules (--allow, --deny, repeatable; the same words for every agent):
  Read                   files read, listed or searched
  "Bash(git status:*)"   commands that begin with these words
  "Bash(npm test)"       this command
  "Edit(src/**)"         changes of files in src (Write: files written as a whole)
  "Fetch(*.example.org)" pages of these hosts
  mcp__app__*            tools of an MCP server; * alone is everything
What is denied is denied. What a --deny rule may be about is asked, or denied where nobody can be.

exit status of -p:
  0  the turn was completed       4  no such agent or session
  1  the agent or the turn failed 5  it ended because a permission was denied
  2  wrong usage                  130, 143  interrupted (SIGINT, SIGTERM)
  3  a time limit was reached     141  nobody reads the output any more

files and environment: see `agentrt config --help`
"""

AGENTS: Final = """\
Lists the agents that agentrt knows: those that are installed with their program and version, and
how to get the others. Agents of your own go into the configuration file.
"""

AGENTS_MORE: Final = """\
examples:
  agentrt agents
  agentrt agents --json

exit status: 0, whatever is installed
"""

DOCTOR: Final = """\
Starts each installed agent in an empty folder, shakes hands with it, and says what works: version,
what it can do, its modes and models, or why it does not start. No prompt is sent, nothing is spent.
Without an agent said, also where sessions are kept, and by which SQLite.
"""

DOCTOR_MORE: Final = """\
examples:
  agentrt doctor
  agentrt doctor --agent demo --agent claude
  agentrt doctor --command "python -m agentrt.demo" --json

exit status:
  0  all of them work             2  wrong usage
  1  one of them, or a store,     4  no such agent
     does not
"""

SERVE: Final = """\
Serves sessions to browsers: prints a link to the page, which the first browser that opens it is let
in by; and then another link. Ctrl-C or SIGTERM ends it: every page is closed, every agent is ended.
"""

SERVE_MORE: Final = """\
examples:
  agentrt serve
  agentrt serve --agent demo --port 8000
  agentrt serve --host 0.0.0.0 --port 8000 --allow-host agents.example --token "$TOKEN"

A program without a browser connects to /ws with `Authorization: Bearer TOKEN`. To keep the token
from those who list processes, say it as AGENTRT_SERVE_TOKEN.

Several tenants, each with a token, sessions and limits of its own, are in the configuration file:

  [serve.tenants.acme]
  token = "..."
  sessions = 20       # open at a time; also: viewers (connections), events (a second), root
"""

ATTACH: Final = """\
The conversation in this terminal on a session of a server (`agentrt serve`, `agentrt --serve`):
the same screen and keys, beside browsers, editors and other terminals. Leaving leaves the session
as it is; when the connection is cut, it is taken up again, and nothing is lost or sent twice.
"""

ATTACH_MORE: Final = """\
examples:
  agentrt attach                              the server of yours that runs
  agentrt attach http://127.0.0.1:8000 --session 3f2a
  agentrt attach --agent claude               a new session of it
  agentrt attach -p "run the tests" --output-format json

The token is the one that the server has written down for you alone, or AGENTRT_SERVE_TOKEN. Without
--session it is the newest session that is open, and where there are several, they are offered;
without any it is a new one. Agents, rules and the store are the server's.

With -p, or a prompt on standard input, it is one prompt, as `agentrt -p` runs one: the answer on
standard output, and an exit status that says how the turn ended. It goes to the session above; one
that is busy takes it behind what waits. What the server's rules leave open is asked where there is
a terminal, and waits for the others in the session where there is none. A signal cancels its turn.

exit status: 0 when it is left, 1 no server, 2 wrong usage, 4 no such session; with -p that of the
turn (see agentrt --help)
"""

ACP: Final = """\
Is an agent for editors and other clients that start one by a command and speak the Agent Client
Protocol with it. Behind it is any agent, or with --attach the sessions of a server that runs: there
they go on when the editor is closed, and are seen in browsers at the same time.
"""

ACP_MORE: Final = """\
examples:
  agentrt acp --agent claude
  agentrt acp --agent demo --store off
  agentrt acp --attach
  agentrt acp --attach http://127.0.0.1:8000 --session ID

A server of this user's is known with its token; for another one the token is said as
AGENTRT_SERVE_TOKEN. The end of standard input ends it, and without --attach its agents.

exit status:
  0  standard input has ended     4  no such agent or session
  1  the server is gone, say      130, 143  interrupted (SIGINT, SIGTERM)
  2  wrong usage                  141  nobody reads standard output
"""

SESSIONS: Final = """\
Earlier sessions: those that agentrt has stored, whatever their agent. Reading works beside a server
or a conversation that writes the same store. With --agent NAME, or --store off for all installed
agents: those that agents keep themselves.
"""

SESSIONS_MORE: Final = """\
examples:
  agentrt sessions --all
  agentrt sessions search door hinge
  agentrt sessions show ID
  agentrt sessions export ID --format json > session.json
  agentrt sessions delete ID
  agentrt sessions list --agent demo

exit status:
  0  done                         3  a store is damaged (`agentrt sessions repair`)
  1  it failed                    4  no such agent or session
  2  wrong usage, or another process writes the store
"""

CONFORMANCE: Final = """\
Checks what an agent does with what a client may send it: odd versions, unknown and broken messages,
cancels at every moment, permission requests answered in every way, the end of its input. Each check
has a process of its own in an empty folder, and says where the specification asks for it.
"""

CONFORMANCE_MORE: Final = """\
examples:
  agentrt conformance demo
  agentrt conformance demo --only cancel-text --traces traces
  agentrt conformance demo --output-format json > report.json
  agentrt conformance gemini --permission "Use your shell: touch agentrt-checked.txt"
  agentrt conformance codex --only turn --only cancel-text
  agentrt conformance -- node dist/agent.js --acp

A check that needs the model to do something says so if it did not: `not provoked` is no pass. Runs
of an agent that has a model cost some prompts.

exit status:
  0  nothing that the specification demands (a must) is broken
  1  something is, or the agent does not start
  2  wrong usage
  4  no such agent
"""

CONFIG: Final = """\
Shows the settings in force in a folder, where each was made, and what was ignored and why.
"""

CONFIG_MORE: Final = """\
files, the later wins:
  ~/.config/agentrt/config.toml   the user's (under $XDG_CONFIG_HOME, or what AGENTRT_CONFIG names)
  .agentrt.toml                   the project's, in the folder or above. It may forbid and lower
                                  limits; the rest only if the user's file has the folder under
                                  `trusted`

environment, before the command line:
  AGENTRT_AGENT                   the agent
  AGENTRT_PERMISSIONS             ask, deny or allow-all
  AGENTRT_LIMITS_HARD, …          limits, by their names
  AGENTRT_SERVE_PORT, …           the server's settings
  AGENTRT_TRACE                   the file for what goes over the wire, as --trace
  AGENTRT_LOG_LEVEL, …_FORMAT     what is logged on standard error, as --log-level, --log-format
  NO_COLOR                        no colours

settings:
  agent = "gemini"                # the default agent
  trusted = ["~/src/mine"]        # the user's file only
  [agents.mine]                   # an agent of your own, or changes to a known one
  command = "mine --acp"
  env = { MINE_KEY = "…" }
  [limits]                        # seconds and bytes; "none" takes a limit away
  hard = 600
  [permissions]
  mode = "ask"
  allow = ["Read"]
  deny = ["Bash(rm:*)"]
  [serve]
  port = 8080

examples:
  agentrt config
  agentrt config --cwd ~/src/mine --json
"""

NODES: Final = """\
The servers that share a store in PostgreSQL (agentrt serve --node NAME), as the store knows them:
who is alive, how long its lease lasts, the sessions that it has and the turns that run there.
"""

NODES_MORE: Final = """\
examples:
  agentrt nodes --store postgresql://
  agentrt nodes drain w1 --store postgresql://
"""

RULES: Final = """\
Says what a permission rule would do about a shell command or a tool call, why, and for which agents
it can never apply.
"""

RULES_MORE: Final = """\
examples:
  agentrt rules check "Bash(rm:*)" "make clean && rm -rf build"
  agentrt rules check "Edit(src/**)" "Edit(src/../setup.py)"
  agentrt rules check "mcp__app__*" '{"tool": "mcp__app__deploy", "input": {}}' --json

exit status: 0 if it allows, denies or may deny it, 1 if it is not about it, 2 if it is no rule
"""

TRACE: Final = """\
Shows a trace: what went over the wire between agentrt and an agent, each request with its answer
and how long it took, and what is not as it should be. --trace FILE, or AGENTRT_TRACE, has any
command that runs an agent write one; secrets are taken out of it.
"""

TRACE_MORE: Final = """\
examples:
  agentrt -p "list the files" --agent demo --trace t.trace
  agentrt trace show t.trace
  agentrt trace show t.trace --odd
  agentrt trace show t.trace --follow --session ID

exit status: 0, or 2 if it is no trace
"""

RECORD: Final = """\
A conversation with an agent that is given by its command, as with --command, and a trace of it.
All options of a conversation stand before `record`.
"""

RECORD_MORE: Final = """\
examples:
  agentrt record t.trace -- gemini --acp
  agentrt -p "list the files" record t.trace -- python -m agentrt.demo
  agentrt --protocol claude record t.trace -- claude
"""

REPLAY: Final = """\
Shows a trace as `agentrt trace show` does, at the pace at which it happened; or, with --page, its
session on the page, where nobody can do more than look on.
"""

REPLAY_MORE: Final = """\
examples:
  agentrt replay t.trace
  agentrt replay t.trace --speed 10
  agentrt replay t.trace --page

exit status:
  0  it was shown                 2  it is no trace, or has no such session
  1  the page cannot be served, or agentrt would say something else today (--page)
"""

COMPLETION: Final = """\
Prints what makes a shell complete agentrt's commands, options and agents. It needs argcomplete,
which comes with agentrt[repl].
"""

COMPLETION_MORE: Final = """\
to try it:
  eval "$(agentrt completion bash)"
  autoload -Uz compinit && compinit && eval "$(agentrt completion zsh)"
  agentrt completion fish | source

to keep it: the same line in ~/.bashrc or ~/.zshrc;
  agentrt completion fish > ~/.config/fish/completions/agentrt.fish
"""
