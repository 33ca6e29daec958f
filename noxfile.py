"""Every check of the project, each in an environment of its own: `nox`, or `nox -s lint`.

uv makes the environments where it is installed, else virtualenv (which nox brings with it).
"""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.download_python = "never"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["lint", "types", "tests", "docs"]

PYTHONS = ["3.11", "3.12", "3.13"]
CODE = ["src", "tests", "benchmarks", "docs", "examples", "clients", "noxfile.py", "hatch_build.py"]
PROJECT = nox.project.load_toml("pyproject.toml")


def install(session: nox.Session, *packages: str) -> None:
    """Install at the versions of `constraints.txt`."""
    session.install("-c", "constraints.txt", *packages)


def group(name: str) -> list[str]:
    return list(nox.project.dependency_groups(PROJECT, name))


def folder(session: nox.Session) -> Path:
    """A folder for a session's files.

    `create_tmp` would also move TMPDIR into the repository, and the tests' folders with it.
    """
    path = Path(session.virtualenv.location, "files").resolve()
    path.mkdir(exist_ok=True)
    return path


def one_by_one(session: nox.Session, *arguments: str, full: bool = False) -> None:
    """Run tests with those that are slow, not beside each other; `full`: in their long form."""
    env = {"AGENTRT_FULL": "1"} if full else {}
    session.run("python", "-m", "pytest", "-n", "0", "--slow", *arguments, env=env)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The test suite with what is slow; arguments go to pytest."""
    install(session, "-e", ".[test]")
    session.run("python", "-m", "pytest", "--slow", *session.posargs)


@nox.session
def portable(session: nox.Session) -> None:
    """The test suite with the process layer of macOS; arguments go to pytest."""
    install(session, "-e", ".[test]")
    session.env["AGENTRT_PROCESS_LAYER"] = "portable"
    session.run("python", "-m", "pytest", "--slow", *session.posargs)


@nox.session(python="3.11")
def coverage(session: nox.Session) -> None:
    """The test suite under coverage, and what it missed."""
    install(session, "-e", ".[test]", *group("coverage"))
    session.run("coverage", "run", "-m", "pytest", "-n", "0", "--slow", *session.posargs)
    session.run("coverage", "report", "--skip-covered", "--show-missing")


@nox.session
def agents(session: nox.Session) -> None:
    """Real agents on a scripted model server: `nox -s agents -- gemini opencode` (default: all)."""
    install(session, "-e", ".[test]", *group("agents"))
    session.run("python", "tests/agents/install.py", *session.posargs)
    chosen = ["-k", " or ".join(session.posargs)] if session.posargs else []
    report = folder(session) / "agents.xml"
    try:
        one_by_one(session, "tests/agents", f"--junitxml={report}", *chosen)
    finally:  # the table is wanted above all when something failed
        session.run("python", "tests/agents/table.py", "--junit", str(report))


@nox.session
def browser(session: nox.Session) -> None:
    """The page in Chromium, with real agents where they are installed; arguments go to pytest.

    Pictures of what was seen are in the folder that is printed.
    """
    install(session, "-e", ".[test]", *group("browser"))
    shots = folder(session) / "shots"
    session.env["AGENTRT_SHOTS"] = str(shots)
    # Each waits for its browser most of the time.
    session.run("python", "-m", "pytest", "-n", "2", "--slow", "tests/browser", *session.posargs)
    session.log(f"screenshots are in {shots}")


@nox.session
def simulate(session: nox.Session) -> None:
    """Whole sessions, each decided by one seed: `nox -s simulate -- --seeds 20000 --jobs 2`, or
    `--driver acp --seed 17` for one of them."""
    install(session, "-e", ".[test]")
    session.run("python", "-m", "simulation", *session.posargs, env={"PYTHONPATH": "tests"})


@nox.session
def faults(session: nox.Session) -> None:
    """A session's life cancelled at every step and with every call of the system failing, recorded
    agents cut at every byte, and servers that share a store in thousands of worlds."""
    install(session, "-e", ".[test]")
    mutations = "tests/trace/test_mutations.py"
    one_by_one(
        session, "tests/faults", mutations, "tests/owners", "-v", *session.posargs, full=True
    )


@nox.session
def hygiene(session: nox.Session) -> None:
    """500 agents and 240 hosts killed, 1,000 sessions opened and closed, 200 programs on asyncio
    ended: nothing is left."""
    install(session, "-e", ".[test]")
    ends = ("tests/aio/test_exits.py", "tests/aio/test_fastapi.py")
    one_by_one(session, "tests/hygiene", *ends, "-v", "-s", *session.posargs, full=True)


@nox.session
def soak(session: nox.Session) -> None:
    """Many sessions for long, and the slopes: `nox -s soak -- --minutes 60 --sessions 20`."""
    install(session, "-e", ".[test]")
    session.run("python", "tests/hygiene/soak.py", *session.posargs)


@nox.session
def cluster(session: nox.Session) -> None:
    """Servers that share a store, under everything that can happen to them: `nox -s cluster --
    --minutes 30 --clients 200 --gateways 2`, or `--rolling`."""
    install(session, "-e", ".[test]")
    session.run("python", "-m", "cluster", *session.posargs, env={"PYTHONPATH": "tests"})


@nox.session
def endings(session: nox.Session) -> None:
    """Servers that end with prompts in their queues: `nox -s endings -- --store postgres --rounds
    150`."""
    install(session, "-e", ".[test]")
    session.run("python", "-m", "endings", *session.posargs, env={"PYTHONPATH": "tests"})


@nox.session
def fuzz(session: nox.Session) -> None:
    """Coverage-guided fuzzing: `nox -s fuzz -- --seconds 60 acp_driver` (default: all targets)."""
    install(session, "-e", ".[test]", *group("fuzz"))
    session.run("python", "tests/fuzz/run.py", *session.posargs)


@nox.session
def rounds(session: nox.Session) -> None:
    """A client that loses its connection a thousand times: `nox -s rounds -- --seed 7`."""
    install(session, "-e", ".[test]")
    session.run("python", "-m", "web.rounds", *session.posargs, env={"PYTHONPATH": "tests"})


@nox.session
def clients(session: nox.Session) -> None:
    """Clients of other protocols, in Node, with a hundred random sequences each."""
    install(session, "-e", ".[test]")
    session.run("python", "tests/clients/install.py")
    one_by_one(session, "tests/clients", *session.posargs, full=True)


@nox.session
def autobahn(session: nox.Session) -> None:
    """Autobahn's WebSocket cases, where there is a Python 2.7: `-- --python2 PATH`."""
    install(session, "-e", ".[test]")
    session.run("python", "-m", "web.autobahn", *session.posargs, env={"PYTHONPATH": "tests"})


@nox.session
def lint(session: nox.Session) -> None:
    """Form, likely bugs, Trio's traps, the layers, spelling."""
    install(session, "-e", ".", *group("lint"))
    found = [file for folder in CODE for file in sorted(Path(folder).rglob("*.py"))]
    session.run("ruff", "format", "--check", *CODE)
    session.run("ruff", "check", *CODE)
    # ASYNC9 is off by default; an interface may need an async function without an await (124), and
    # a `timeout` is this library's own subject (109).
    rules = ("--disable=ASYNC9,ASYNC109,ASYNC124", "--startable-in-context-manager=run")
    # It takes half a second a file, and has nothing to say of one that neither waits nor uses Trio.
    files = [str(file) for file in found if re.search("async|await|trio", file.read_text("utf-8"))]
    cores = os.cpu_count() or 1
    with ThreadPoolExecutor(cores) as pool:
        shares = [files[first::cores] for first in range(cores)]
        list(pool.map(lambda share: session.run("flake8-async", *rules, *share), shares))
    session.run("lint-imports", "--no-cache", "--no-logo")
    session.run("codespell")


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict, also for macOS, and pyright on the package and the programs that use it."""
    install(session, "-e", ".[test]", *group("types"))
    checked = ("src/agentrt", "examples", "docs/examples")
    for platform in ("linux", "darwin"):
        session.run("mypy", "--strict", "--platform", platform, *checked)
    session.run("pyright", "--pythonpath", f"{session.bin}/python", *checked)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, every warning an error."""
    install(session, "-e", ".[repl]", *group("docs"))
    session.run("sphinx-build", "-W", "-n", "--keep-going", "-b", "html", "docs", "docs/_build")


@nox.session
def page(session: nox.Session) -> None:
    """The page's types, size and modules. It needs Node 20 or newer."""
    session.run("npm", "ci", "--no-audit", "--no-fund", external=True)
    install(session, "-e", ".[test]")
    session.run("python", "-m", "pytest", "--slow", "tests/page", *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Wheels from a fresh clone, with Node and without, and the page that they serve."""
    session.install("pip")
    session.run("python", "tests/page/try_wheel.py")


@nox.session
def release(session: nox.Session) -> None:
    """The files of a release, checked as users install them: `nox -s release -- --out dist`."""
    install(session, *group("release"))
    session.run("python", "packaging/check_release.py", *session.posargs)


def floors() -> list[str]:
    """The oldest version that `pyproject.toml` permits of each dependency."""
    project = PROJECT["project"]
    extras = [each for name, each in project["optional-dependencies"].items() if name != "test"]
    wanted = [*project["dependencies"], *(each for extra in extras for each in extra)]
    pinned = [re.sub(r"\[.*\]", "", each).replace(">=", "==") for each in wanted if ">=" in each]
    return sorted(set(pinned))


@nox.session(python="3.11", name="floors")
def oldest(session: nox.Session) -> None:
    """The tests with the oldest version of each dependency; arguments go to pytest."""
    session.install("pip")
    pins = folder(session) / "floors.txt"
    pins.write_text("\n".join(floors()) + "\n")
    session.run("python", "-m", "pip", "install", "-q", "-c", str(pins), "-e", ".[test]")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def page_speed(session: nox.Session) -> None:
    """The page in Chromium on a slow CPU: typing, scrolling and memory."""
    install(session, "-e", ".[test]", *group("browser"))
    session.run("python", "benchmarks/page_speed.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Speed against the limit and the peers: `nox -s bench -- --rounds 5 --quick --page`."""
    install(session, "-e", ".")
    session.run("python", "benchmarks/run.py", *session.posargs)


@nox.session
def costs(session: nox.Session) -> None:
    """Counts of events, calls, steps and allocations per turn, update and permission request."""
    install(session, "-e", ".[test]")
    session.run("python", "benchmarks/costs.py")


@nox.session
def crowd(session: nox.Session) -> None:
    """What two hundred viewers cost the agent they watch, and how soon each sees its words, beside
    a plain broadcast: `nox -s crowd -- --rounds 5 --quick`."""
    install(session, "-e", ".")
    session.run("python", "benchmarks/crowd.py", *session.posargs)
    session.run("python", "benchmarks/lag.py", *session.posargs)
    session.run("python", "benchmarks/frames.py")
    session.run("python", "benchmarks/long.py")


@nox.session
def store(session: nox.Session) -> None:
    """What it costs to keep sessions in a store, and that it holds up nobody:
    `nox -s store -- --rounds 5 --quick --works turns,flood`."""
    install(session, "-e", ".")
    session.run("python", "benchmarks/store.py", *session.posargs)


@nox.session
def telemetry(session: nox.Session) -> None:
    """What spans and metrics cost: `nox -s telemetry -- --rounds 5 --quick`."""
    install(session, "-e", ".[test]")
    session.run("python", "benchmarks/telemetry.py", *session.posargs)


@nox.session
def tracing(session: nox.Session) -> None:
    """What a trace costs: `nox -s tracing -- --rounds 5 --quick`."""
    install(session, "-e", ".")
    session.run("python", "benchmarks/tracing.py", *session.posargs)


@nox.session
def guarded(session: nox.Session) -> None:
    """What a sandbox costs, against its targets: `nox -s guarded -- --rounds 5 --quick`."""
    install(session, "-e", ".[test]")
    session.run("python", "benchmarks/guarded.py", *session.posargs)


@nox.session
def beside(session: nox.Session) -> None:
    """What a session notices of a hostile agent in another: `nox -s beside -- --seconds 5`."""
    install(session, "-e", ".[test]")
    session.run("python", "benchmarks/beside.py", *session.posargs)


@nox.session
def pauses(session: nox.Session) -> None:
    """Garbage collections, steps and readers with much structured output, and the cost of long
    sessions: `nox -s pauses -- --rounds 3 --only many,long`."""
    install(session, "-e", ".")
    session.run("python", "benchmarks/pauses.py", *session.posargs)


@nox.session
def constraints(session: nox.Session) -> None:
    """Write `constraints.txt` anew, with the newest versions of everything, and the hashes of the
    dependencies and extras for `pip install --require-hashes`."""
    session.install("uv")
    named = ("--no-annotate", "--quiet", "--custom-compile-command", "nox -s constraints")
    groups = [f"--group={name}" for name in PROJECT["dependency-groups"]]
    session.run(
        *("uv", "pip", "compile", "--universal", "--python-version=3.11", "--upgrade"),
        *("--all-extras", *groups, *named, "--output-file=constraints.txt", "pyproject.toml"),
    )
    session.run(
        *("uv", "pip", "compile", "--universal", "--python-version=3.11", "--generate-hashes"),
        *("--extra=all", "--constraints=constraints.txt", *named),
        *("--output-file=deploy/requirements.txt", "pyproject.toml"),
    )
