"""Each hostile agent is tried in both versions of ACP, unless version 2 has nothing of the kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from .kit import VERSION

FILES: Final = "the agent of version 2 has no files and terminals of its client"
ANSWER: Final = "the answer to a prompt does not end its turn (see `test_insertions.py`)"
ONLY_1: Final = {
    "test_f8_answers_and_a_flood_may_cross_in_full_pipes": FILES,
    "test_requests_of_agents": FILES,
    "test_id_echoed_as_string": ANSWER,
    "test_error_is_a_string_or_null": ANSWER,
    "test_result_and_error_both": ANSWER,
    "test_result_empty_or_null_or_unknown_stop_reason": ANSWER,
    "test_response_twice_and_unknown_id": ANSWER,
    "test_an_answer_without_its_newline_counts_if_it_is_the_last_word": ANSWER,
    "test_protocol_version_2_in_answer_to_1": "it is about the answer to version 1",
    "test_insertions": "version 1 has no insertion",
}
"""Tests and files that one version has, with the reason."""
QUICK_2: Final = 6
"""One test in so many is quick in version 2, too."""


@pytest.fixture(autouse=True)
def acp_version(request: pytest.FixtureRequest) -> Iterator[None]:
    token = VERSION.set(getattr(request, "param", 1))
    yield
    VERSION.reset(token)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    file = metafunc.module.__name__.rpartition(".")[2]
    quick = sum(map(ord, metafunc.function.__name__)) % QUICK_2 == 0
    second = pytest.param(2, id="acp2", marks=[] if quick else [pytest.mark.slow])
    first = pytest.param(1, id="acp1")
    if file == "test_insertions":
        chosen = [pytest.param(2, id="acp2")]
    elif {file, metafunc.function.__name__} & ONLY_1.keys():
        chosen = [first]
    else:
        chosen = [first, second]
    metafunc.parametrize("acp_version", chosen, indirect=True)
