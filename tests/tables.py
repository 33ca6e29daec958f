"""A table of cases as one test: thousands of small tests would take longer to count than to run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., None])

SHOWN = 20
"""Failing cases that are named."""


def for_each(names: str | Sequence[str], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a synchronous test for every case of a table, with the arguments that
    `pytest.mark.parametrize` would give it. All cases run; one error names those that fail, and the
    first failure is its cause. The cases share the test's fixtures.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    cases = [(value,) if len(names) == 1 else tuple(value) for value in values]
    assert cases, "the table is empty"

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(*arguments: Any, **fixtures: Any) -> None:
            failures: list[tuple[object, Exception]] = []
            for case in cases:
                try:
                    test(*arguments, **fixtures, **dict(zip(names, case, strict=True)))
                except Exception as error:  # every case is tried
                    failures.append((case, error))
            if failures:
                named = "".join(f"\n  {', '.join(map(repr, case))}" for case, _ in failures[:SHOWN])
                message = f"{len(failures)} of {len(cases)} cases fail:{named}"
                raise AssertionError(message) from failures[0][1]

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run  # type: ignore[return-value]

    return decorate
