"""What an agent asks of its host that it should not have: files outside its folders, programs that
are not what they seem. Whole sessions on real processes; each rule has tests of its own in
`tests/acp/test_host.py` and `test_terminals.py`."""

from __future__ import annotations

import os
import signal
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from msgspec.structs import replace

import agentrt

from .bad_agent import Agent, Message
from .kit import PATIENT, SHORT, Marks, bad_agent, bad_session, notices, works

SECRET = "what is nobody's business"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The session's folder, with a secret beside it."""
    project = tmp_path / "project"
    project.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text(SECRET)
    (tmp_path / "project-evil").mkdir()
    (tmp_path / "project-evil" / "secret").write_text(SECRET)
    return project


def untouched(project: Path) -> bool:
    outside = project.parent
    return all(
        (folder / "secret").read_text() == SECRET and len(list(folder.iterdir())) == 1
        for folder in (outside / "outside", outside / "project-evil")
    )


def asks_for_file(agent: Agent, prompt: Message) -> None:
    """Asks to read and to write it; says what came of both."""
    for path in agent.arg:
        read = agent.request("fs/read_text_file", {"path": path})
        params = {"path": path, "content": "overwritten"}
        written = agent.request("fs/write_text_file", params)
        told = [each.get("error", {}).get("code", 0) for each in (read, written)]
        agent.say(f"{told[0]} {told[1]} {read.get('result', {}).get('content', '')}\n")
    agent.end(prompt)


async def answers(project: Path, *paths: str) -> list[str]:
    async with bad_session(
        misbehave=asks_for_file, arg=list(paths), cwd=project, limits=PATIENT
    ) as session:
        text = (await session.run("misbehave")).text
        await works(session)
    return [line.strip() for line in text.splitlines()]


# --- files


async def test_no_way_of_writing_a_path_leads_out_of_the_session_s_folders(project: Path) -> None:
    (project / "sub").mkdir()
    (project / "link").symlink_to("../outside")
    (project / "file-link").symlink_to("../outside/secret")
    (project / "absolute").symlink_to(project.parent / "outside")
    (project / "sub" / "up").symlink_to("../..")
    (project / "loop").symlink_to("loop")
    root = str(project)
    paths = [
        f"{root}/../outside/secret",
        f"{root}/sub/../../outside/secret",
        f"{root}//../outside//secret",
        f"{root}-evil/secret",
        f"/{root}/../outside/secret",
        f"{root}/link/secret",
        f"{root}/file-link",
        f"{root}/absolute/secret",
        f"{root}/sub/up/outside/secret",
        f"{root}/loop",
        f"{root}/se\0cret",
        f"{root}/{'x' * 4097}",
        f"{root}/{'x/' * 2048}x",
        "../outside/secret",
        "~/.ssh/id_rsa",
        "",
    ]
    assert await answers(project, *paths) == ["-32602 -32602"] * len(paths)
    assert untouched(project)


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/self/mem", "/proc/1/root/etc/passwd", "/dev/null"]
)
async def test_devices_and_views_into_the_kernel_are_outside(project: Path, path: str) -> None:
    assert await answers(project, path) == ["-32602 -32602"]


async def test_even_where_everything_may_be_read_the_kernel_s_views_may_not() -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        for path in ("/proc/self/environ", "/proc/thread-self/environ", "/dev/zero", "/sys/power"):
            agent.say(str(agent.request("fs/read_text_file", {"path": path})["error"]["code"]))
        agent.end(prompt)

    async with bad_session(misbehave=misbehave, cwd="/", limits=PATIENT) as session:
        assert (await session.run("misbehave")).text == "-32602" * 4


async def test_what_is_no_regular_file_is_neither_read_nor_written(project: Path) -> None:
    os.mkfifo(project / "fifo")
    (project / "folder").mkdir()
    names = ("fifo", "folder", ".", "")
    assert await answers(project, *(f"{project}/{name}" for name in names)) == [
        "-32602 -32602"
    ] * len(names)


async def test_a_name_that_only_looks_like_another_is_another_file(project: Path) -> None:
    """Upper case, and the same letter composed and in two parts."""
    (project / "caf\u00e9").write_text("one")
    (project / "cafe\u0301").write_text("two")
    (project / "CAF\u00c9").write_text("three")
    paths = [f"{project}/{name}" for name in ("caf\u00e9", "cafe\u0301", "CAF\u00c9")]
    assert await answers(project, *paths) == ["0 0 one", "0 0 two", "0 0 three"]


async def test_the_folder_is_the_one_of_the_opening_however_late_the_first_request(
    project: Path,
) -> None:
    (project / "file").write_text("mine")
    link = project.parent / "link"
    link.symlink_to(project)
    paths = [f"{link}/file", f"{link}/secret", f"{project.parent}/outside/secret"]
    async with bad_session(misbehave=asks_for_file, arg=paths, cwd=link, limits=PATIENT) as session:
        link.unlink()
        link.symlink_to(project.parent / "outside")
        text = (await session.run("misbehave")).text
    assert text.splitlines()[0] == "0 0 mine"
    assert [line.split()[0] != "0" for line in text.splitlines()[1:]] == [True, True]
    assert (project / "file").read_text() == "overwritten"
    assert untouched(project)


async def test_what_programs_run_unasked_is_not_written(project: Path) -> None:
    (project / ".git" / "hooks").mkdir(parents=True)
    names = (".git/hooks/pre-commit", ".GIT/config", ".claude/settings.json", "sub/.git/config")
    told = await answers(project, *(f"{project}/{name}" for name in names))
    assert {line.split()[1] for line in told} == {"-32602"}
    assert os.listdir(project / ".git" / "hooks") == []


async def test_a_range_of_any_size_is_a_range(project: Path) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        for line, limit in ((2**70, 2**70), (0, 2**63), (-1, -1), (1, 1)):
            params = {"path": agent.arg, "line": line, "limit": limit}
            agent.say(repr(agent.request("fs/read_text_file", params)["result"]["content"]))
        os.truncate(agent.arg, 2**40)
        params = {"path": agent.arg, "line": 1, "limit": 1}
        agent.say(str(agent.request("fs/read_text_file", params)["error"]["code"]))
        agent.end(prompt)

    (project / "file").write_text("one\ntwo\n")
    async with bad_session(
        misbehave=misbehave, arg=str(project / "file"), cwd=project, limits=PATIENT
    ) as session:
        text = (await session.run("misbehave")).text
        assert text == r"'''one\ntwo\n''''one\n'-32602"


@pytest.mark.slow
async def test_no_race_of_another_process_leads_outside(project: Path) -> None:
    """A process of the agent swaps folders, links and files all the time, while the agent asks."""

    def misbehave(agent: Agent, prompt: Message) -> None:
        def swap() -> None:
            for target in ("inside", "../outside"):
                os.symlink(target, "next")
                os.replace("next", "link")
            os.rename("folder", "moved")
            os.symlink("../outside", "folder")
            os.unlink("folder")
            os.rename("moved", "folder")
            os.symlink("../outside/secret", "next")
            os.replace("next", "file")
            with open("next", "w") as file:
                file.write("mine")
            os.replace("next", "file")

        swapper = os.fork()
        if not swapper:
            signal.alarm(60)  # should nobody end it
            number = 0
            while True:
                number += 1
                try:
                    swap()
                except OSError:  # the host has made the folder that was away
                    os.rename("folder", f"made-{number}")
                    os.rename("moved", "folder")
        seen = set()
        for _ in range(150):
            for name in ("link/secret", "folder/secret", "file"):
                path = os.path.join(agent.arg, name)
                read = agent.request("fs/read_text_file", {"path": path})
                seen.add(read["result"]["content"] if "result" in read else "refused")
                content = {"path": path, "content": "mine"}
                agent.request("fs/write_text_file", content)
        agent.alive = os.waitpid(swapper, os.WNOHANG) == (0, 0)
        os.kill(swapper, 9)
        agent.say(",".join(sorted(seen)))
        agent.mark("swapping" if agent.alive else "over")
        agent.end(prompt)

    for name in ("inside", "folder"):
        (project / name).mkdir()
        (project / name / "secret").write_text("mine")
    (project / "link").symlink_to("inside")
    (project / "file").write_text("mine")
    marks = Marks()
    async with bad_session(
        misbehave=misbehave,
        arg=str(project),
        cwd=project,
        limits=PATIENT,
        on_stderr=marks,
        bound=60,
    ) as session:
        seen = set((await session.run("misbehave")).text.split(","))
        assert "mine" in seen
        assert seen <= {"mine", "refused", ""}
        assert marks.seen == "swapping\n"
        await works(session)
    assert untouched(project)


async def test_without_files_and_terminals_there_is_nothing_to_ask_for(project: Path) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        for method in ("fs/read_text_file", "fs/write_text_file", "terminal/create"):
            params = {"path": agent.arg, "content": "", "command": "id"}
            agent.say(str(agent.request(method, params)["error"]["code"]))
        agent.say(str(agent.heard[0]["params"]["clientCapabilities"].get("terminal")))
        agent.end(prompt)

    (project / "file").touch()
    agent = bad_agent(misbehave=misbehave, arg=str(project / "file"))
    async with agentrt.open_session(
        agent, cwd=project, files=False, terminals=False, limits=SHORT
    ) as session:
        text = (await session.run("misbehave")).text
        assert text in ("-32601-32601-32601None", "-32601-32601-32601False")


# --- terminals


def runs(agent: Agent, prompt: Message) -> None:
    """Runs each command; says how it ended and what it wrote, or why it did not begin."""
    for params in agent.arg:
        created = agent.request("terminal/create", params)
        if "error" in created:
            agent.say(f"refused: {created['error']['message']}\n")
            continue
        id = {"terminalId": created["result"]["terminalId"]}
        status = agent.request("terminal/wait_for_exit", id)["result"]
        output = agent.request("terminal/output", id)["result"]
        agent.request("terminal/release", id)
        agent.say(
            f"{status['exitCode']} {len(output['output'])} {output['output'][:200].strip()}\n"
        )
    agent.end(prompt)


async def outputs(project: Path, *commands: Message) -> list[str]:
    async with bad_session(
        misbehave=runs, arg=list(commands), cwd=project, limits=PATIENT, bound=60
    ) as session:
        text = (await session.run("misbehave")).text
        await works(session)
    return text.splitlines()


async def test_arguments_are_arguments_whatever_a_shell_would_make_of_them(project: Path) -> None:
    words = ["$(id)", "`id`", ";", "id", "&&", "id", "|", "id", ">", "x", "*", "$HOME", "'", '"']
    [line] = await outputs(project, {"command": "echo", "args": words})
    assert line.split(" ", 2)[2] == " ".join(words)
    assert os.listdir(project) == []


async def test_a_program_starts_nowhere_but_in_the_session_s_folders(project: Path) -> None:
    (project / "link").symlink_to("../outside")
    folders = [
        "/",
        f"{project}/..",
        f"{project}-evil",
        f"{project}/link",
        "relative",
        f"{project}/no",
    ]
    told = await outputs(project, *({"command": "pwd", "cwd": folder} for folder in folders))
    assert all(line.startswith("refused: ") for line in told)


INJECTIONS = {
    "LD_PRELOAD": "./evil.so",
    "LD_LIBRARY_PATH": ".",
    "PATH": ".",
    "HOME": ".",
    "BASH_ENV": "./evil.sh",
    "ENV": "./evil.sh",
    "PS4": "$(id)",
    "NODE_OPTIONS": "--require ./evil.js",
    "PYTHONSTARTUP": "./evil.py",
    "PYTHONPATH": ".",
    "PERL5OPT": "-Mevil",
    "RUBYOPT": "-revil",
    "GIT_SSH_COMMAND": "./evil",
    "GIT_CONFIG_COUNT": "1",
    "GIT_EXTERNAL_DIFF": "./evil",
    "PAGER": "./evil",
    "EDITOR": "./evil",
    "VIMINIT": ":!./evil",
    "LUA_INIT": "@evil",
    "HOSTALIASES": "./evil",
    "HTTPS_PROXY": "http://evil",
    "AGENTRT_GUARD": "nobody",
}


@pytest.mark.slow
async def test_no_variable_makes_a_command_mean_something_else(project: Path) -> None:
    commands = [
        {"command": "printenv", "args": [name], "env": [{"name": name, "value": value}]}
        for name, value in INJECTIONS.items()
    ]
    async with bad_session(
        misbehave=runs, arg=commands, cwd=project, limits=PATIENT, bound=60
    ) as session:
        lines = (await session.run("misbehave")).text.splitlines()
        assert len(lines) == len(INJECTIONS), "every command runs"
        told = [line.split(" ", 2)[2] for line in lines]
        assert not set(INJECTIONS.values()) & set(told)
        assert (await notices(session)).count("variable_left_out") == len(INJECTIONS)
        await works(session)


async def test_a_shell_that_an_agent_names_out_of_habit_costs_it_no_command(project: Path) -> None:
    env = [{"name": "SHELL", "value": "/bin/bash"}, {"name": "HOME", "value": "./evil"}]
    [line] = await outputs(project, {"command": "echo $SHELL $HOME", "env": env})
    assert line.split()[2] == "/bin/bash"
    assert line.split()[3:] == [os.environ["HOME"]]


async def test_harmless_variables_reach_the_program(project: Path) -> None:
    env = [{"name": "CI", "value": "1"}, {"name": "PAGER", "value": "cat"}]
    [line] = await outputs(project, {"command": "echo $CI $PAGER", "env": env})
    assert line == "0 6 1 cat"


@pytest.mark.slow
async def test_a_flood_keeps_its_end_and_costs_no_more_memory(project: Path) -> None:
    """A tenth of a gibibyte here; `tests/acp/test_terminals.py` looks at the memory."""
    flood = "head -c 100000000 /dev/zero | tr '\\0' x; echo end"
    [line] = await outputs(project, {"command": flood})
    assert line.split()[:2] == ["0", str(1 << 20)]


@pytest.mark.slow
async def test_of_a_flood_of_requests_so_many_are_served_and_each_is_answered_once(
    project: Path,
) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        created = agent.request("terminal/create", {"command": "sleep", "args": ["60"]})
        terminal = created["result"]
        for _ in range(60):
            agent.begin_request("terminal/wait_for_exit", terminal)
        refused = [agent.receive() for _ in range(10)]
        agent.begin_request("terminal/kill", terminal)  # nor is there a place for this one
        refused.append(agent.receive())
        first = agent.begin_request("terminal/release", terminal)
        refused.append(agent.receive())
        assert first == refused[-1]["id"]
        told = {message["error"]["message"] for message in refused}
        agent.say(f"{len({message['id'] for message in refused})} refused: {' '.join(told)}")
        agent.end(prompt)

    limits = replace(PATIENT, open_requests=50)
    async with bad_session(misbehave=misbehave, cwd=project, limits=limits, bound=60) as session:
        text = (await session.run("misbehave")).text
        assert text == "12 refused: 50 requests are open: wait for their answers"
        await works(session)


@pytest.mark.slow
async def test_a_thousand_writes_may_wait_at_a_cancel(project: Path) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        for number in range(1000):
            path = os.path.join(os.getcwd(), f"{number}")
            agent.begin_request("fs/write_text_file", {"path": path, "content": "x"})
        agent.mark("asked")
        agent.wait_for("session/cancel")
        agent.end(prompt, "cancelled")

    marks = Marks()
    async with bad_session(
        misbehave=misbehave, cwd=project, limits=PATIENT, on_stderr=marks, bound=60
    ) as session:
        async with session.prompt("misbehave") as turn:
            await marks.wait("asked")
            turn.cancel()
        assert turn.result.outcome == "cancelled"
        assert "handler_failed" not in await notices(session)
        await works(session)
    assert len(os.listdir(project)) < 1000


@pytest.mark.slow
async def test_files_are_not_read_for_an_agent_that_does_not_take_the_answers(
    project: Path,
) -> None:
    """Forty megabytes are asked for at once, with an outbox of one: nothing is lost, and the agent
    is not given up on, because it reads in the end."""

    def misbehave(agent: Agent, prompt: Message) -> None:
        path = os.path.join(os.getcwd(), "large")
        with open(path, "w") as file:
            file.write("x" * 2_000_000)
        asked = {agent.begin_request("fs/read_text_file", {"path": path}) for _ in range(20)}
        time.sleep(0.3)
        answers = [agent.receive() for _ in asked]
        sizes = {len(answer["result"]["content"]) for answer in answers}
        agent.say(f"{asked == {answer['id'] for answer in answers}} {sizes}")
        agent.end(prompt)

    limits = replace(PATIENT, agent_outbox_bytes=1_000_000)
    async with bad_session(misbehave=misbehave, cwd=project, limits=limits, bound=60) as session:
        assert (await session.run("misbehave")).text == "True {2000000}"
        await works(session)


@pytest.mark.slow
async def test_there_are_only_so_many_terminals(project: Path) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        codes = []
        for _ in range(40):
            created = agent.request("terminal/create", {"command": "sleep", "args": ["60"]})
            codes.append("error" in created)
        agent.say(f"{codes.count(False)} {codes.count(True)}")
        agent.end(prompt)

    async with bad_session(misbehave=misbehave, cwd=project, limits=SHORT, bound=60) as session:
        assert (await session.run("misbehave")).text == "32 8"
        await works(session)


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
async def test_terminals_begun_without_end_do_not_keep_a_session_from_ending(
    project: Path, fails: bool
) -> None:
    def misbehave(agent: Agent, prompt: Message) -> None:
        agent.request("terminal/create", {"command": "sleep", "args": ["60"]})
        agent.mark("begins")
        while True:
            agent.request("terminal/create", {"command": "sleep", "args": ["60"]})

    marks = Marks()
    with pytest.raises(ZeroDivisionError) if fails else nullcontext():
        async with bad_session(misbehave=misbehave, cwd=project, on_stderr=marks) as session:
            session.submit("misbehave")
            await marks.wait("begins")
            if fails:
                raise ZeroDivisionError


async def test_another_session_s_terminal_is_none_of_its_business(project: Path) -> None:
    def begins(agent: Agent, prompt: Message) -> None:
        created = agent.request("terminal/create", {"command": "sleep", "args": ["60"]})
        agent.say(created["result"]["terminalId"])
        agent.end(prompt)

    def meddles(agent: Agent, prompt: Message) -> None:
        for what in ("kill", "output", "release", "wait_for_exit"):
            answer = agent.request(f"terminal/{what}", {"terminalId": "terminal-1"})
            agent.say(str(answer["error"]["code"]))
        agent.end(prompt)

    async with (
        bad_session(misbehave=begins, cwd=project) as one,
        bad_session(misbehave=meddles, cwd=project) as two,
    ):
        assert (await one.run("misbehave")).text == "terminal-1"
        assert (await two.run("misbehave")).text == "-32002" * 4
