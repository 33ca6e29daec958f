"""Plain words to what they ask for."""

from __future__ import annotations

from agentrt.demo.words import (
    CreateRequest,
    HelpRequest,
    Job,
    ListRequest,
    ReadRequest,
    ReplaceRequest,
    RunRequest,
    SearchRequest,
    UnclearRequest,
    understand,
)
from tables import for_each


@for_each(
    ("text", "job"),
    [
        ("What can you do?", HelpRequest()),
        ("hello", HelpRequest()),
        ("who are you?", HelpRequest()),
        ("list", ListRequest()),
        ("ls src/", ListRequest("src/")),
        ("what files are here?", ListRequest()),
        ("List the files in src.", ListRequest("src")),
        ("read README.md", ReadRequest("README.md")),
        ("Could you please show me src/a.py:10-20", ReadRequest("src/a.py", 10, 20)),
        ("show README.md lines 3 to 9", ReadRequest("README.md", 3, 9)),
        ("show README.md line 3", ReadRequest("README.md", 3, 3)),
        ("cat `a file`", UnclearRequest(("a file",))),
        ("search TODO", SearchRequest("TODO")),
        ('find "def main" in src', SearchRequest("def main", "src")),
        ("where is open_session defined?", SearchRequest("open_session")),
        ("edit a.txt replace foo by bar", ReplaceRequest("a.txt", "foo", "bar")),
        ("edit a.txt: replace \"a b\" with 'c d'", ReplaceRequest("a.txt", "a b", "c d")),
        ("replace foo with bar baz in x/y.py", ReplaceRequest("x/y.py", "foo", "bar baz")),
        ("in a.txt, change 1 to 2", ReplaceRequest("a.txt", "1", "2")),
        ("create notes.txt with hello world", CreateRequest("notes.txt", "hello world")),
        ("create a file n.md: # Hi\nthere", CreateRequest("n.md", "# Hi\nthere")),
        ("run ls -la", RunRequest("ls -la")),
        ("$ make test", RunRequest("make test")),
        ("run the command `pytest -q`", RunRequest("pytest -q")),
        ("Why does test_io fail?", UnclearRequest(("test_io",))),
        ("Rename openFile in main.py, please", UnclearRequest(("main.py", "openFile"))),
        ("write a poem", UnclearRequest(())),
        ("", UnclearRequest(())),
    ],
)
def test_a_sentence_is_understood(text: str, job: Job) -> None:
    understood = understand(text)
    if isinstance(job, UnclearRequest):
        assert isinstance(understood, UnclearRequest)
        assert sorted(understood.words) == sorted(job.words)
    else:
        assert understood == job
