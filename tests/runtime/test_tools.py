"""In-process tools: schemas of signatures, calls, outcomes."""

from __future__ import annotations

import base64
import enum
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agentrt.errors import ToolError
from agentrt.events import Image, JsonObject, Text
from agentrt.hosting import ToolOutcome, call_tool
from agentrt.tools import Tool, ToolContext, tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Shape(msgspec.Struct):
    points: list[Point]
    colour: Colour = Colour.RED


def text_of(outcome: ToolOutcome) -> str:
    [block] = outcome.content
    assert isinstance(block, Text)
    return block.text


# --- what a signature becomes


def test_a_bare_decorator_takes_name_and_description_from_the_function() -> None:
    @tool
    async def record_result(summary: str) -> str:
        """Persist the final outcome.

        With care.
        """
        return summary

    assert record_result.name == "record_result"
    assert record_result.description == "Persist the final outcome.\n\nWith care."
    assert record_result.timeout is None
    assert record_result.input_schema == {
        "type": "object",
        "properties": {"summary": {"type": "string"}},
        "required": ["summary"],
        "additionalProperties": False,
    }


def test_the_decorator_takes_a_name_a_description_a_timeout_and_hints() -> None:
    @tool(name="look", description="Looks.", timeout=3, annotations={"readOnlyHint": True})
    async def function() -> None: ...

    assert (function.name, function.description, function.timeout) == ("look", "Looks.", 3)
    assert function.info.annotations == {"readOnlyHint": True}


def test_the_decorated_function_can_be_called_directly() -> None:
    @tool
    def double(number: int) -> int:
        return 2 * number

    assert double.function is not None
    assert double.function(2) == 4


def test_constraints_descriptions_and_defaults_are_in_the_schema() -> None:
    @tool
    async def plan(
        days: Annotated[int, msgspec.Meta(ge=1, le=14, description="How many days.")] = 3,
        mode: Literal["fast", "safe"] = "fast",
        note: str | None = None,
        tags: list[str] = ["a"],  # noqa: B006 - that it is never passed on is what is tested
    ) -> None: ...

    assert plan.input_schema["properties"] == {
        "days": {
            "type": "integer",
            "minimum": 1,
            "maximum": 14,
            "description": "How many days.",
            "default": 3,
        },
        "mode": {"enum": ["fast", "safe"], "default": "fast"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}, "default": ["a"]},
    }
    assert plan.input_schema["required"] == []


def test_nested_types_are_defined_inside_the_schema() -> None:
    @tool
    async def draw(shape: Shape) -> None: ...

    schema = draw.input_schema
    assert schema["type"] == "object"
    assert schema["properties"] == {"shape": {"$ref": "#/$defs/Shape"}}
    assert set(schema["$defs"]) == {"Shape", "Point", "Colour"}
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({"shape": {"points": [{"x": 1}], "colour": "blue"}}, schema)


def test_a_default_that_is_no_json_is_left_to_the_function() -> None:
    marker = object()

    @tool
    def function(value: Any = marker) -> bool:
        return value is marker

    assert function.input_schema["properties"] == {"value": {}}


@pytest.mark.parametrize(
    "function",
    [
        lambda *args: None,
        lambda **kwargs: None,
        lambda a, /: None,
    ],
)
def test_parameters_that_have_no_name_are_refused(function: Callable[..., None]) -> None:
    with pytest.raises(TypeError, match="by name"):
        tool(name="f")(function)


def test_a_type_that_json_cannot_carry_is_refused() -> None:
    def function(lock: threading.Event) -> None: ...

    with pytest.raises(TypeError):
        tool(function)


def test_a_hint_that_nobody_knows_is_refused() -> None:
    def function(x: Unheard) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TypeError, match="Unheard"):
        tool(function)


@pytest.mark.parametrize("name", ["", "two words", "a/b", "x" * 129, "é"])
def test_a_name_that_models_cannot_say_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a tool's name"):
        tool(name=name)(lambda: None)


# --- what arguments become


@tool
async def everything(
    a: int,
    b: float = 0.5,
    c: str | None = None,
    d: bool = False,
    e: Colour = Colour.RED,
    f: list[Point] = [],  # noqa: B006
    g: Shape | None = None,
    h: dict[str, int] | None = None,
    i: date | None = None,
    j: Path = Path("."),
    k: int = None,  # type: ignore[assignment]  # noqa: RUF013 - people write this
) -> dict[str, Any]:
    given = dict(locals())
    assert isinstance(e, Colour)
    assert isinstance(j, Path)
    assert all(isinstance(point, Point) for point in f)
    return given


DEFAULTS: JsonObject = {
    "b": 0.5,
    "c": None,
    "d": False,
    "e": "red",
    "f": [],
    "g": None,
    "h": None,
    "i": None,
    "j": ".",
    "k": None,
}

numbers = st.integers(-(2**31), 2**31)
points = st.fixed_dictionaries({"x": numbers, "y": numbers})
colours = st.sampled_from(["red", "blue"])


@pytest.mark.slow
@given(
    st.fixed_dictionaries(
        {"a": numbers},
        optional={
            "b": st.floats(allow_nan=False, allow_infinity=False),
            "c": st.none() | st.text(),
            "d": st.booleans(),
            "e": colours,
            "f": st.lists(points, max_size=3),
            "g": st.none() | st.fixed_dictionaries({"points": st.lists(points), "colour": colours}),
            "h": st.none() | st.dictionaries(st.text(), numbers),
            "i": st.none() | st.dates().map(str),
            "j": st.text(alphabet="abc/", min_size=1).map(lambda path: str(Path(path))),
            "k": st.none() | numbers,
        },
    )
)
def test_what_the_schema_allows_arrives_as_it_was_sent(arguments: JsonObject) -> None:
    jsonschema.validate(arguments, everything.input_schema)
    outcome = trio.run(call_tool, everything, arguments)
    assert outcome.structured == {**DEFAULTS, **arguments}, outcome


@given(
    st.dictionaries(
        st.sampled_from([*DEFAULTS, "a", "z"]),
        st.none() | st.booleans() | numbers | st.text(max_size=5) | st.lists(numbers, max_size=2),
    )
)
def test_whatever_is_sent_is_a_result_or_a_message_to_the_model(arguments: JsonObject) -> None:
    outcome = trio.run(call_tool, everything, arguments)
    if outcome.is_error:
        assert text_of(outcome).startswith("Invalid arguments: ")


async def test_numbers_and_truths_may_come_as_strings() -> None:
    outcome = await call_tool(everything, {"a": "3", "b": "0.25", "d": "true", "k": "7"})
    assert outcome.structured == {**DEFAULTS, "a": 3, "b": 0.25, "d": True, "k": 7}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Object missing required field `a`"),
        ({"a": "x"}, "Expected `int`, got `str` - at `$.a`"),
        ({"a": 1, "z": 1}, "Object contains unknown field `z`"),
        ({"a": 1, "e": "green"}, "Invalid enum value 'green' - at `$.e`"),
        ({"a": 1, "f": [{"x": "q"}]}, "Expected `int`, got `str` - at `$.f[0].x`"),
        ({"a": 1, "j": 3}, "Expected a path, as a string - at `$.j`"),
    ],
)
async def test_arguments_that_do_not_fit_are_reported_to_the_model(
    arguments: JsonObject, message: str
) -> None:
    reported: list[Exception] = []
    outcome = await call_tool(
        everything, arguments, on_error=lambda tool, error: reported.append(error)
    )
    assert outcome.is_error
    assert text_of(outcome) == f"Invalid arguments: {message}"
    assert not reported


async def test_a_tool_with_a_ready_schema_gets_the_arguments_as_they_came() -> None:
    async def fill(arguments: JsonObject, context: ToolContext) -> str:
        return f"{arguments} {context.tool_call}"

    form = Tool("form", "Fills a form.", {"type": "object"}, fill)
    outcome = await call_tool(form, {"any": ["thing"]}, ToolContext(tool_call="c1"))
    assert text_of(outcome) == "{'any': ['thing']} c1"


# --- what comes back


async def outcome_returning(value: object) -> ToolOutcome:
    @tool
    async def give() -> object:
        return value

    return await call_tool(give, {})


async def test_nothing_is_no_content() -> None:
    assert await outcome_returning(None) == ToolOutcome([])


async def test_a_string_is_text() -> None:
    assert await outcome_returning("hi") == ToolOutcome([Text("hi")])


@pytest.mark.parametrize("value", [{"x": 1, "y": 2}, Point(1, 2)])
async def test_an_object_is_structured_content_and_its_text(value: object) -> None:
    assert await outcome_returning(value) == ToolOutcome(
        [Text('{"x":1,"y":2}')], structured={"x": 1, "y": 2}
    )


@pytest.mark.parametrize(
    ("value", "text"), [([1, 2], "[1,2]"), (3, "3"), (True, "true"), (["a"], '["a"]')]
)
async def test_other_json_is_text_only(value: object, text: str) -> None:
    assert await outcome_returning(value) == ToolOutcome([Text(text)])


async def test_content_blocks_are_content() -> None:
    image = Image(base64.b64encode(b"\x89PNG").decode(), "image/png")
    assert await outcome_returning(image) == ToolOutcome([image])
    assert await outcome_returning(["see:", image]) == ToolOutcome([Text("see:"), image])


async def test_an_outcome_is_itself() -> None:
    outcome = ToolOutcome.error("no")
    assert await outcome_returning(outcome) is outcome


@pytest.mark.parametrize("value", [b"\x89PNG", object(), {"x": threading.Event()}])
async def test_what_is_no_json_is_an_error(value: object) -> None:
    outcome = await outcome_returning(value)
    assert outcome.is_error
    assert text_of(outcome).startswith("TypeError: ")


async def test_half_an_emoji_in_a_result_is_repaired() -> None:
    assert text_of(await outcome_returning({"name": "\ud83d"})) == '{"name":"\ufffd"}'


async def test_an_exception_reaches_the_model_without_a_traceback_and_is_reported() -> None:
    reported: list[tuple[str, Exception]] = []

    @tool
    async def fail() -> None:
        raise KeyError("job 7")

    outcome = await call_tool(
        fail, {}, on_error=lambda tool, error: reported.append((tool.name, error))
    )
    assert outcome == ToolOutcome.error("KeyError: 'job 7'")
    [(name, error)] = reported
    assert name == "fail"
    assert isinstance(error, KeyError)


async def test_a_group_of_exceptions_is_reported_by_its_parts() -> None:
    @tool
    async def fail() -> None:
        raise ExceptionGroup("both", [ValueError("one"), ExceptionGroup("", [KeyError(2)])])

    assert await call_tool(fail, {}) == ToolOutcome.error("ValueError: one; KeyError: 2")


async def test_a_tool_error_is_an_answer_and_no_defect() -> None:
    reported: list[Exception] = []

    @tool
    async def refuse() -> None:
        raise ToolError("there is no such job")

    outcome = await call_tool(refuse, {}, on_error=lambda tool, error: reported.append(error))
    assert outcome == ToolOutcome.error("there is no such job")
    assert not reported


async def test_what_is_no_exception_goes_upwards() -> None:
    @tool
    async def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await call_tool(interrupt, {})


# --- time, threads, context


@pytest.mark.parametrize(("own", "default"), [(3, None), (3, 100), (None, 3)])
async def test_a_tool_that_takes_too_long_is_reported_to_the_model(
    own: float | None, default: float | None, autojump_clock: object
) -> None:
    @tool(timeout=own)
    async def sleep() -> None:
        await trio.sleep_forever()

    outcome = await call_tool(sleep, {}, default_timeout=default)
    assert outcome == ToolOutcome.error("sleep timed out after 3 s")
    assert trio.current_time() == pytest.approx(3, abs=0.01)


async def test_a_tool_can_be_cancelled_by_its_scope() -> None:
    context = ToolContext()

    @tool
    async def sleep() -> None:
        context.cancel_scope.cancel()
        await trio.sleep_forever()

    assert await call_tool(sleep, {}, context) == ToolOutcome.error("sleep was cancelled")


async def test_a_call_cancelled_before_it_began_does_nothing() -> None:
    ran: list[None] = []

    @tool
    async def act() -> None:
        ran.append(None)

    context = ToolContext()
    context.cancel_scope.cancel()
    assert (await call_tool(act, {}, context)).is_error
    assert not ran


async def test_cancelling_the_caller_cancels_the_tool_and_goes_upwards() -> None:
    events: list[str] = []
    with trio.CancelScope() as caller:

        @tool
        async def sleep() -> None:
            caller.cancel()
            try:
                await trio.sleep_forever()
            finally:
                events.append("tool cleaned up")

        await call_tool(sleep, {}, context := ToolContext())
        events.append("never reached")
    assert events == ["tool cleaned up"]
    assert context.cancel_scope.cancel_called


async def test_the_context_goes_to_a_first_parameter_that_asks_for_it() -> None:
    progress_made: list[tuple[float, float | None, str | None]] = []

    @tool
    async def work(context: ToolContext, steps: int) -> str | None:
        context.report_progress(1, steps, "one")
        return context.tool_call

    def report(progress: float, total: float | None, message: str | None) -> None:
        progress_made.append((progress, total, message))

    assert list(work.input_schema["properties"]) == ["steps"]
    outcome = await call_tool(work, {"steps": 3}, ToolContext(tool_call="c1", report=report))
    assert text_of(outcome) == "c1"
    assert progress_made == [(1, 3, "one")]


async def test_a_sync_tool_runs_in_a_thread_with_the_callers_context_variables() -> None:
    name: ContextVar[str] = ContextVar("name")
    name.set("turn 7")
    progress_made: list[float] = []

    @tool
    def where(context: ToolContext) -> str:
        context.report_progress(0.5)
        return f"{threading.current_thread() is threading.main_thread()} {name.get()}"

    def report(progress: float, total: float | None, message: str | None) -> None:
        assert trio.lowlevel.in_trio_run()
        progress_made.append(progress)

    outcome = await call_tool(where, {}, ToolContext(report=report))
    assert text_of(outcome) == "False turn 7"
    assert progress_made == [0.5]


async def test_a_sync_tool_that_is_cancelled_is_abandoned() -> None:
    entered, released = threading.Event(), threading.Event()

    @tool
    def work() -> None:
        entered.set()
        released.wait(5)

    context = ToolContext()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                await trio.to_thread.run_sync(entered.wait)
                context.cancel_scope.cancel()

            nursery.start_soon(cancel)
            assert await call_tool(work, {}, context) == ToolOutcome.error("work was cancelled")
    assert not released.is_set()
    released.set()
