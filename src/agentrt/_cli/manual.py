"""The texts of `--help` around the options, one for each command."""

from __future__ import annotations

from typing import Final

USAGE: Final = """\
agentrt [options]              interactive session
       agentrt [options] -p TEXT      one prompt
       agentrt serve [options]        web server
       agentrt attach [URL]           interactive session on a server
       agentrt acp [options]          agent for editors
       agentrt COMMAND [options]      agents, doctor, sandbox, sessions, checkpoints, trust,
                                      audit, nodes, rules, trace, record, replay, conformance,
                                      new, config, completion"""

MAIN: Final = """\
Run a coding agent: interactively, or with one prompt whose answer is written to standard output.

  agentrt                       start an interactive session in this directory
  agentrt --serve               also accept browsers and other clients (see /share)
  agentrt -p "list the files"   send one prompt
  git diff | agentrt -p "explain this"
"""

MAIN_MORE: Final = """\
commands:
  agentrt serve       serve sessions to browsers; prints a link to the page
  agentrt attach      interactive session on a running server
  agentrt acp         the agent command for editors (Zed, JetBrains, Neovim, …)
  agentrt agents      list known agents, and how to install them
  agentrt doctor      start the installed agents and report problems
  agentrt sandbox     run a command in the sandbox of a session
  agentrt sessions    list, search, show, export and delete earlier sessions
  agentrt nodes       list the servers that share a store; drain one
  agentrt checkpoints list, compare and restore saved files
  agentrt trust       show and trust the files of a project that agents act on
  agentrt audit       show the requests of agents, the decisions, and the calls without a request
  agentrt rules       explain the effect of a permission rule
  agentrt trace       show the protocol messages that --trace recorded
  agentrt record      run a command as the agent and record a trace
  agentrt replay      play a trace at its original pace
  agentrt conformance test an agent against its protocol
  agentrt new         create a project: a program, its tests and permission rules
  agentrt config      show the settings in force and their origin
  agentrt completion  print the shell completion script
  (agentrt COMMAND --help has the details)

examples, on the built-in demo agent:
  agentrt --agent demo
  agentrt --agent demo -p "read README.md:1-10"
  agentrt --agent demo -p "create a.txt with hello" --permissions allow-all --sandbox
  agentrt --agent demo -p "run date" --allow "Bash(date)"
  agentrt --agent demo -p "list the files" --output-format json
  agentrt --agent demo -p /slow --timeout 2

permission rules (--allow, --deny; repeatable; the same for every agent):
  Read                   reading, listing and searching files
  "Bash(git status:*)"   commands that start with these words
  "Bash(npm test)"       exactly this command
  "Edit(src/**)"         changes to files in src (Write: whole files)
  "Fetch(*.example.org)" pages of these hosts
  mcp__app__*            tools of an MCP server; * alone matches everything
--deny wins over --allow. A request that a --deny rule might match is asked, or denied if nobody
can be asked.

exit status of -p:
  0  the turn completed           4  no such agent or session
  1  the agent or the turn failed 5  ended by a denied permission
  2  wrong usage                  130, 143  interrupted (SIGINT, SIGTERM)
  3  a time limit or a budget     141  the output was closed
     was reached

files and environment: see `agentrt config --help`
"""

NEW: Final = """\
Create a small project: a program that sends prompts to an agent with a tool, permission rules and a
deadline; its tests, which need no agent; and the rules in a file. Nothing is overwritten.
"""

NEW_MORE: Final = """\
examples:
  agentrt new my-agent
  agentrt new my-agent --agent codex

exit status: 0, 1 if it cannot be written, or 2 if one of its files exists
"""

AGENTS: Final = """\
List the agents that agentrt knows: installed ones with program and version, others with the command
that installs them. Add your own agents in the configuration file.
"""

AGENTS_MORE: Final = """\
examples:
  agentrt agents
  agentrt agents --json

exit status: 0
"""

DOCTOR: Final = """\
Start each installed agent in an empty folder and report its version, capabilities, modes and
models, or why it does not start. No prompt is sent, so no tokens are used.
Without --agent, also shows where sessions are stored.

With --project, starts nothing: lists the files of a folder that could make each agent run programs
or allow actions, and how agentrt prevents that.

With --sandbox, starts nothing: tests if this machine can build sandboxes, with the remedy for each
problem.
"""

SANDBOX: Final = """\
Run a command in the sandbox that an agent would get in this folder, to inspect the sandbox. Hosts
that are not allowed are refused without a question.
"""

SANDBOX_MORE: Final = """\
examples:
  agentrt sandbox
  agentrt sandbox -- ls -la ~
  agentrt sandbox --agent claude --allow-network api.github.com -- curl https://api.github.com

exit status:
  that of the command             2  wrong usage, or no sandbox can be built here
"""

DOCTOR_MORE: Final = """\
examples:
  agentrt doctor
  agentrt doctor --agent demo --agent claude
  agentrt doctor --command "python -m agentrt.demo" --json
  agentrt doctor --project ~/Downloads/something
  agentrt doctor --sandbox

exit status:
  0  everything works             2  wrong usage
  1  an agent or a store does not 4  no such agent
"""

SERVE: Final = """\
Serve sessions to browsers. Prints a one-time link to the page; once it is used, prints the next
one. Ctrl-C or SIGTERM stops the server and its agents.
"""

SERVE_MORE: Final = """\
examples:
  agentrt serve
  agentrt serve --agent demo --port 8000
  agentrt serve --host 0.0.0.0 --port 8000 --allow-host agents.example --token "$TOKEN"

Programs connect to /ws with `Authorization: Bearer TOKEN`. Set the token as AGENTRT_SERVE_TOKEN to
keep it out of process lists.

Tenants, each with its own token, sessions and limits, are defined in the configuration file:

  [serve.tenants.acme]
  token = "..."
  sessions = 20       # open at a time; also: viewers (connections), events (a second), root,
                      # budget ("50usd,200turns")
"""

ATTACH: Final = """\
Join a session of a server (`agentrt serve`, `agentrt --serve`) in this terminal, with the same
screen and keys, next to browsers, editors and other terminals. The session continues when you
leave. A lost connection is reestablished; nothing is lost or sent twice.
"""

ATTACH_MORE: Final = """\
examples:
  agentrt attach                              your running server
  agentrt attach http://127.0.0.1:8000 --session 3f2a
  agentrt attach --agent claude               a new session
  agentrt attach -p "run the tests" --output-format json

The token of your own server is known; for another one, set AGENTRT_SERVE_TOKEN. Without --session
you join the newest open session, or choose if there are several; if there is none, a new one is
opened. Agents, rules and the store are those of the server.

With -p, or a prompt on standard input, one prompt is sent as by `agentrt -p`: the answer goes to
standard output and the exit status is the result of the turn. If the session is busy, the prompt is
queued. Requests that the server's rules leave open are asked here if there is a terminal; otherwise
they wait for other clients of the session. A signal cancels the prompt's turn.

exit status: 0 on leaving, 1 if no server can be reached, 2 wrong usage, 4 no such session; with -p
that of the turn (see agentrt --help)
"""

ACP: Final = """\
Act as an Agent Client Protocol agent for editors and other clients that start one by a command. It
runs any agent, or with --attach uses the sessions of a running server: those continue when the
editor is closed, and are visible in browsers at the same time.
"""

ACP_MORE: Final = """\
examples:
  agentrt acp --agent claude
  agentrt acp --agent demo --store off
  agentrt acp --attach
  agentrt acp --attach http://127.0.0.1:8000 --session ID

The token of your own server is known; for another one, set AGENTRT_SERVE_TOKEN. The end of standard
input ends the program and, without --attach, its agents.

exit status:
  0  standard input ended         4  no such agent or session
  1  failed, for example, the     130, 143  interrupted (SIGINT, SIGTERM)
     server went away             141  standard output was closed
  2  wrong usage
"""

SESSIONS: Final = """\
List, search, show, export and delete earlier sessions: those that agentrt has stored, of any agent.
Reading works while a server or an interactive session uses the store. With --agent NAME, or with
--store off for all installed agents, the sessions that the agents themselves have stored.
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
  1  failed                       4  no such agent or session
  2  wrong usage, or another process writes the store
"""

CHECKPOINTS: Final = """\
List, compare and restore the files of a folder as they were before and after turns of agents. They
are saved with --checkpoints, or `checkpoints = true` in the configuration, and stored outside the
folder; the project's own git repository is not used.
"""

CHECKPOINTS_MORE: Final = """\
Ignored files, files larger than `limits.checkpoint_file_bytes`, contents of nested repositories and
empty folders are not saved, and a restore does not touch them. A restore saves the current files
first and prints the number with which it can be undone.

examples:
  agentrt -p "create a.txt with hello" --agent demo --allow "Edit(*.txt)" --checkpoints
  agentrt checkpoints
  agentrt checkpoints diff 1
  agentrt checkpoints restore 1

exit status: 0, 1 if it failed, 2 wrong usage
"""

AUDIT: Final = """\
Print an audit log: each prompt, request and decision, tool call and turn of the sessions that were
started with --audit FILE, or with `audit = "FILE"` under [unattended] in the configuration.
"""

AUDIT_MORE: Final = """\
With --json, prints the records as they are in the file: one JSON object per line.

examples:
  agentrt --agent demo -p "run date" --allow "Bash(date)" --audit audit.jsonl
  agentrt audit --file audit.jsonl

exit status: 0, 1 if the file cannot be read, 2 wrong usage
"""

TRUST: Final = """\
Decide about the files of a project that agents act on without asking: hooks, MCP servers, lists of
allowed commands, addresses. A decision applies to one folder, one agent and exactly these contents.
It is stored by agentrt, never in the configuration of an agent.
"""

TRUST_MORE: Final = """\
Sessions ask about a folder without a decision (--trust=ask). Files that have changed since they
were trusted are asked about again.

examples:
  agentrt trust
  agentrt trust show ~/Downloads/something
  agentrt trust add --agent claude
  agentrt trust remove

exit status: 0, 1 if it failed or was not confirmed, 2 wrong usage, 4 no such agent
"""

CONFORMANCE: Final = """\
Test an agent against its protocol: unusual versions, unknown and malformed messages, cancels at
every moment, every answer to a permission request, the end of its input. Each check runs in its own
process and an empty folder, and names the part of the specification that requires it.
"""

CONFORMANCE_MORE: Final = """\
examples:
  agentrt conformance demo
  agentrt conformance demo --only cancel-text --traces traces
  agentrt conformance demo --output-format json > report.json
  agentrt conformance gemini --permission "Use your shell: touch agentrt-checked.txt"
  agentrt conformance codex --only turn --only cancel-text
  agentrt conformance -- node dist/agent.js --acp

A check that needs an action of the model is inconclusive if there was none; that is not a pass.
With a real model, a run uses a few prompts.

exit status:
  0  the agent meets every requirement ("must") of the specification
  1  it does not, or it does not start
  2  wrong usage
  4  no such agent
"""

CONFIG: Final = """\
Show the settings in force in a folder, the origin of each, and the ignored ones with the reason.
"""

CONFIG_MORE: Final = """\
files (later ones win):
  ~/.config/agentrt/config.toml   the user's (under $XDG_CONFIG_HOME, or the file AGENTRT_CONFIG)
  .agentrt.toml                   the project's, in the folder or above. It may deny and lower
                                  limits; anything else only if the folder is listed under
                                  `trusted` in the user's file

environment (the command line wins over it):
  AGENTRT_AGENT                   the agent
  AGENTRT_PERMISSIONS             ask, deny or allow-all
  AGENTRT_LIMITS_TURN_TIMEOUT_S, …  limits, by their names
  AGENTRT_SERVE_PORT, …           the server's settings
  AGENTRT_TRACE                   record protocol messages to this file, as --trace
  AGENTRT_LOG_LEVEL, …_FORMAT     logging to standard error, as --log-level, --log-format
  NO_COLOR                        no colours

settings:
  agent = "gemini"                # the default agent
  trusted = ["~/src/mine"]        # the user's file only
  trust = "ask"                   # the user's file only: other folders
  [agents.mine]                   # your own agent, or changes to a known one
  command = "mine --acp"
  env = { MINE_KEY = "…" }
  [limits]                        # seconds and bytes; "none" removes a limit
  turn_timeout_s = 600
  [permissions]
  mode = "ask"
  allow = ["Read"]
  deny = ["Bash(rm:*)"]
  [unattended]
  checkpoints = true              # save the files around each turn
  budget = "5usd,20turns"         # for all turns of a command or a server
  wait_for_limits = "6h"          # wait for the end of rate limits
  worktree = true                 # new sessions of `agentrt` in a separate working tree
  worktree_copy = [".env"]        # ignored files to copy into it
  worktree_setup = ["npm", "ci"]  # a command that prepares it
  audit = "~/audit.jsonl"         # append requests, decisions and actions to this file
  [sandbox]                       # a project may narrow it
  mode = "workspace"              # offline, open-network, off
  network = ["api.github.com"]
  write = ["~/.cache/pip"]
  needs = "landlock"              # accept less protection where bubblewrap does not work
  [serve]
  port = 8080

examples:
  agentrt config
  agentrt config --cwd ~/src/mine --json
"""

NODES: Final = """\
List the servers that share a PostgreSQL store (agentrt serve --node NAME), with their leases,
sessions and running turns, or drain one.
"""

NODES_MORE: Final = """\
examples:
  agentrt nodes --store postgresql://
  agentrt nodes drain w1 --store postgresql://
"""

RULES: Final = """\
Explain the effect of a permission rule on a shell command or a tool call, and name the agents for
which it can never apply.
"""

RULES_MORE: Final = """\
examples:
  agentrt rules check "Bash(rm:*)" "make clean && rm -rf build"
  agentrt rules check "Edit(src/**)" "Edit(src/../setup.py)"
  agentrt rules check "mcp__app__*" '{"tool": "mcp__app__deploy", "input": {}}' --json

exit status: 0 if the rule matches or might match, 1 if it does not, 2 if it is not a rule
"""

TRACE: Final = """\
Show a trace: the protocol messages between agentrt and an agent, each request with its answer and
duration, and anything unusual. Any command that runs an agent writes one with --trace FILE or
AGENTRT_TRACE; secrets are redacted.
"""

TRACE_MORE: Final = """\
examples:
  agentrt -p "list the files" --agent demo --trace t.trace
  agentrt trace show t.trace
  agentrt trace show t.trace --odd
  agentrt trace show t.trace --follow --session ID

exit status: 0, or 2 if the file is not a trace
"""

RECORD: Final = """\
Run a command as the agent, as with --command, and record a trace. Options of the session go before
`record`.
"""

RECORD_MORE: Final = """\
examples:
  agentrt record t.trace -- gemini --acp
  agentrt -p "list the files" record t.trace -- python -m agentrt.demo
  agentrt --protocol claude record t.trace -- claude
"""

REPLAY: Final = """\
Play a trace at its original pace: as `agentrt trace show`, or with --page as a read-only session on
the page.
"""

REPLAY_MORE: Final = """\
examples:
  agentrt replay t.trace
  agentrt replay t.trace --speed 10
  agentrt replay t.trace --page

exit status:
  0  the trace was shown          2  not a trace, or no such session in it
  1  the page cannot be served, or this version handles the trace differently (--page)
"""

COMPLETION: Final = """\
Print the shell completion script for commands, options and agent names. Needs argcomplete, which is
part of agentrt[repl].
"""

COMPLETION_MORE: Final = """\
to try it:
  eval "$(agentrt completion bash)"
  autoload -Uz compinit && compinit && eval "$(agentrt completion zsh)"
  agentrt completion fish | source

to install it, put that line into ~/.bashrc or ~/.zshrc; for fish:
  agentrt completion fish > ~/.config/fish/completions/agentrt.fish
"""
