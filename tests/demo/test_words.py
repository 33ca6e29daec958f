"""Plain words to what they ask for."""

from __future__ import annotations

import pytest

from agentrt.demo.words import (
    Create,
    Help,
    Job,
    List,
    Read,
    Replace,
    Run,
    Search,
    Unclear,
    understand,
)


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("What can you do?", Help()),
        ("hello", Help()),
        ("who are you?", Help()),
        ("list", List()),
        ("ls src/", List("src/")),
        ("what files are here?", List()),
        ("List the files in src.", List("src")),
        ("read README.md", Read("README.md")),
        ("Could you please show me src/a.py:10-20", Read("src/a.py", 10, 20)),
        ("show README.md lines 3 to 9", Read("README.md", 3, 9)),
        ("show README.md line 3", Read("README.md", 3, 3)),
        ("cat `a file`", Unclear(("a file",))),
        ("search TODO", Search("TODO")),
        ('find "def main" in src', Search("def main", "src")),
        ("where is open_session defined?", Search("open_session")),
        ("edit a.txt replace foo by bar", Replace("a.txt", "foo", "bar")),
        ("edit a.txt: replace \"a b\" with 'c d'", Replace("a.txt", "a b", "c d")),
        ("replace foo with bar baz in x/y.py", Replace("x/y.py", "foo", "bar baz")),
        ("in a.txt, change 1 to 2", Replace("a.txt", "1", "2")),
        ("create notes.txt with hello world", Create("notes.txt", "hello world")),
        ("create a file n.md: # Hi\nthere", Create("n.md", "# Hi\nthere")),
        ("run ls -la", Run("ls -la")),
        ("$ make test", Run("make test")),
        ("run the command `pytest -q`", Run("pytest -q")),
        ("Why does test_io fail?", Unclear(("test_io",))),
        ("Rename openFile in main.py, please", Unclear(("main.py", "openFile"))),
        ("write a poem", Unclear(())),
        ("", Unclear(())),
    ],
)
def test_a_sentence_is_understood(text: str, job: Job) -> None:
    understood = understand(text)
    if isinstance(job, Unclear):
        assert isinstance(understood, Unclear)
        assert sorted(understood.words) == sorted(job.words)
    else:
        assert understood == job
