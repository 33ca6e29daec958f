"""The work the demo agent does on a folder, asked for in plain words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentrt.demo.media import SUNSET

from .conftest import Demo
from .peer import EVERYTHING, Peer, choose

pytestmark = pytest.mark.slow  # each starts the demo, and that a program


async def ready(peer: Peer, option: str = "allow_once") -> None:
    await peer.initialize(EVERYTHING)
    await peer.open()
    peer.answers["session/request_permission"] = choose(option)


async def test_it_says_what_it_can_do_and_that_it_has_no_model(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        assert await peer.prompt("What can you do?") == "end_turn"
    assert "I have no model" in peer.text
    assert "`search TEXT`" in peer.text


async def test_a_folder_is_listed(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("list the files here")
        assert peer.text.index("`src/`") < peer.text.index("`README.md`")
        await peer.prompt("list src")
        assert "`main.py`" in peer.text
    [call] = peer.calls()
    assert (call["kind"], call["status"]) == ("read", "completed")


async def test_a_file_is_read_whole_or_in_part(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("read src/main.py")
        assert "def main():" in peer.text
        assert "```py" in peer.text
        await peer.prompt("read src/main.py:2")
        assert "return 'needle'" in peer.text
        assert "def main" not in peer.text
        assert peer.calls()[0]["locations"][0]["line"] == 2
        await peer.prompt("read src/main.py:99")
        assert "only 2 lines" in peer.text


async def test_a_picture_is_shown_as_one(demo: Demo, folder: Path) -> None:
    (folder / "sunset.png").write_bytes(SUNSET)
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("show sunset.png")
    shown = [chunk["content"]["type"] for chunk in peer.of("agent_message_chunk")]
    assert shown[-1] == "image"


async def test_text_is_found_in_files_and_in_their_names(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("search needle")
        assert "`README.md:3` `It has a needle in it.`" in peer.text
        assert "`src/main.py:2`" in peer.text
        assert len(peer.calls()[0]["locations"]) == 2
        await peer.prompt("find main.py")
        assert "`src/main.py` (its name)" in peer.text
        await peer.prompt("search needle in src")
        assert "README" not in peer.text
        await peer.prompt("search nowhere-at-all")
        assert "does not occur" in peer.text


async def test_an_edit_is_shown_as_a_diff_asked_for_and_made(demo: Demo, folder: Path) -> None:
    file = folder / "src" / "main.py"
    file.chmod(0o755)
    before = file.read_text()
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("edit src/main.py replace needle by thread")
    after = "def main():\n    return 'thread'\n"
    [request] = peer.requests
    [diff] = request["params"]["toolCall"]["content"]
    assert diff == {"type": "diff", "path": str(file), "oldText": before, "newText": after}
    assert file.read_text() == after
    assert file.stat().st_mode & 0o777 == 0o755
    assert peer.calls()[0]["status"] == "completed"
    assert [entry.name for entry in file.parent.iterdir()] == ["main.py"]


async def test_a_rejected_edit_changes_nothing(demo: Demo, folder: Path) -> None:
    async with demo() as peer:
        await ready(peer, "reject_once")
        assert await peer.prompt("replace needle by thread in README.md") == "end_turn"
    assert "needle" in (folder / "README.md").read_text()
    assert peer.calls()[0]["status"] == "failed"
    assert "did not allow" in peer.text


async def test_an_edit_of_a_file_that_changed_meanwhile_is_not_made(
    demo: Demo, folder: Path
) -> None:
    file = folder / "README.md"

    def change_and_allow(params: dict[str, object]) -> dict[str, object]:
        file.write_text("somebody else's needle")
        return choose("allow_once")(params)

    async with demo() as peer:
        await ready(peer)
        peer.answers["session/request_permission"] = change_and_allow
        await peer.prompt("replace needle by thread in README.md")
    assert file.read_text() == "somebody else's needle"
    assert "in the meantime" in peer.text


async def test_a_file_is_created_but_never_replaced(demo: Demo, folder: Path) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("create notes/today.txt with one line")
        assert (folder / "notes" / "today.txt").read_text() == "one line\n"
        assert [f.name for f in (folder / "notes").iterdir()] == ["today.txt"]
        await peer.prompt("create README.md with nothing of it")
        assert "exists already" in peer.text
        assert peer.requests == []
    assert "A project" in (folder / "README.md").read_text()


async def test_a_command_is_run_with_permission_and_its_output_shown(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("run echo out; echo err >&2; exit 3")
        [call] = peer.calls()
        assert (call["kind"], call["status"]) == ("execute", "failed")
        assert call["rawOutput"] == {"exitCode": 3, "output": "out\nerr\n"}
        assert "status 3" in peer.text
        await peer.prompt("run kill -9 $$")
        assert "signal 9" in peer.text
        await peer.prompt("run true")
        assert "said nothing" in peer.text
        assert len(peer.requests) == 1


async def test_output_is_shown_while_the_command_still_runs(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompting("run echo first; sleep 0.1; echo second; sleep 60")
        await peer.until(lambda: [c for c in peer.calls() if "second" in str(c.get("content", ""))])
        await peer.cancel()


async def test_what_a_command_leaves_behind_does_not_keep_the_turn_open(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        assert await peer.prompt("run sleep 300 & echo started") == "end_turn"
    assert "started" in peer.text


@pytest.mark.slow
async def test_much_output_is_cut_at_its_beginning(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.prompt("run seq 100000")
    output = peer.calls()[0]["rawOutput"]["output"]
    assert output.startswith("… the beginning is not shown …\n")
    assert output.endswith("99999\n100000\n")
    assert len(output) < 40_000


async def test_in_plan_mode_nothing_is_done_or_asked(demo: Demo, folder: Path) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.call("session/set_mode", sessionId=peer.session_id, modeId="plan")
        for prompt in (
            "replace needle by x in README.md",
            "create a.txt with x",
            "run touch b.txt",
        ):
            assert await peer.prompt(prompt) == "end_turn"
            assert peer.requests == []
            assert "only plan" in peer.text
    assert sorted(os.listdir(folder)) == ["README.md", "src"]


async def test_in_auto_mode_nobody_is_asked(demo: Demo, folder: Path) -> None:
    async with demo() as peer:
        await ready(peer)
        await peer.call("session/set_mode", sessionId=peer.session_id, modeId="auto")
        await peer.prompt("create a.txt with x")
        assert peer.requests == []
    assert (folder / "a.txt").read_text() == "x\n"


async def test_paths_stay_inside_the_folder(demo: Demo, folder: Path) -> None:
    secret = folder.parent / "secret.txt"
    secret.write_text("secret")
    (folder / "out.txt").symlink_to(secret)
    (folder / "way-out").symlink_to(folder.parent)
    prompts = (
        "read ../secret.txt",
        "read /etc/passwd",
        "read way-out/secret.txt",
        "read out.txt",
        "list ..",
        "search secret in ..",
        "edit ../secret.txt replace a by b",
        "edit out.txt replace secret by b",
        "create ../new.txt with x",
        "create way-out/new.txt with x",
    )
    async with demo() as peer:
        await ready(peer)
        for prompt in prompts:
            assert await peer.prompt(prompt) == "end_turn"
            assert "outside the folder" in peer.text, prompt
    assert secret.read_text() == "secret"
    assert not (folder.parent / "new.txt").exists()


async def test_a_further_folder_may_be_opened(demo: Demo, folder: Path) -> None:
    (folder / "src" / "main.py").write_text("further")
    async with demo() as peer:
        await peer.initialize()
        await peer.open(cwd=str(folder / "src"), additionalDirectories=[str(folder)])
        await peer.prompt("read ../README.md")
    assert "needle" in peer.text


@pytest.mark.slow
async def test_what_cannot_be_done_is_said(demo: Demo, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "large.txt").write_bytes(b"x" * (1024 * 1024 + 1))
    (folder / "binary.dat").write_bytes(b"\xff\xfe")
    prompts = (
        ("read nothing.txt", "no file"),
        ("read src", "is a folder"),
        ("list README.md", "is a file"),
        ("list nothing", "no folder"),
        ("read pipe", "not an ordinary file"),
        ("read large.txt", "larger than"),
        ("read binary.dat", "not UTF-8"),
        ("edit README.md replace not-there by x", "does not occur"),
        ("create README.md/x with y", "I cannot write"),
    )
    async with demo() as peer:
        await ready(peer)
        for prompt, said in prompts:
            assert await peer.prompt(prompt) == "end_turn"
            assert said in peer.text, prompt


async def test_names_that_are_no_unicode_are_shown_all_the_same(demo: Demo, folder: Path) -> None:
    (folder / os.fsdecode(b"b\xffd.txt")).write_text("a needle")
    async with demo() as peer:
        await ready(peer)
        for prompt in ("list", "search needle"):
            assert await peer.prompt(prompt) == "end_turn"
            assert "b\ufffdd.txt" in peer.text


async def test_anything_else_gets_an_honest_answer_and_a_look_for_its_words(demo: Demo) -> None:
    async with demo() as peer:
        await ready(peer)
        assert await peer.prompt("Why does main.py fail?") == "end_turn"
        assert "I have no model" in peer.text
        assert "`src/main.py` (its name)" in peer.text
        assert "`run COMMAND`" in peer.text
