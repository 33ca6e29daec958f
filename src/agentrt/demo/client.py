"""The `/commands` that use the client's features: its files, terminals, forms and tools.

Each command checks first that the client has announced the feature: a client without it would
answer with an error, which is not worth a demonstration.
"""

from __future__ import annotations

import msgspec
import trio

from .command import DemoCommand
from .files import FileRefused
from .mcp import as_tool_content, connect
from .session import new_id
from .turn import DemoTurn, fenced, text_content
from .wire import DemoRpcError, JsonObject

TERMINAL_RELEASE_TIMEOUT_S = 2.0
"""Seconds for a client to kill and release a terminal of a cancelled turn."""
TERMINAL_OUTPUT_BYTES = 32 * 1024

FORM: JsonObject = {
    "type": "object",
    "title": "About the weather",
    "properties": {
        "place": {"type": "string", "title": "Place", "minLength": 1},
        "days": {"type": "integer", "title": "Days", "minimum": 1, "maximum": 14, "default": 3},
        "unit": {"type": "string", "title": "Unit", "enum": ["celsius", "fahrenheit"]},
        "rain": {"type": "boolean", "title": "With rain", "default": True},
        "shown": {
            "type": "array",
            "title": "Shown",
            "items": {"type": "string", "enum": ["wind", "sun", "pressure"]},
        },
    },
    "required": ["place"],
}


async def read(turn: DemoTurn, argument: str) -> None:
    """Show a file that the client reads."""
    if not turn.session.offers.read_file:
        raise FileRefused("Your client does not offer its files; `read FILE` reads them by myself.")
    path = str(turn.session.folder.resolve(argument or "README.md"))
    title = f"Read {argument} through the client"
    with turn.tool(title, "read", locations=[{"path": path}]) as call:
        call.update(status="in_progress")
        try:
            answer = await turn.ask("fs/read_text_file", {"path": path, "line": 1, "limit": 100})
        except DemoRpcError as error:
            raise FileRefused(f"The client did not give me the file: {error}") from error
        text = fenced(str(answer.get("content", "")))
        call.add(text)
    await turn.say(f"The client gave me:\n\n{text}")


async def write(turn: DemoTurn, argument: str) -> None:
    """Write a file through the client."""
    if not turn.session.offers.write_file:
        raise FileRefused("Your client does not offer to write files.")
    name, _, text = argument.partition(" ")
    if not text:
        raise FileRefused("Name a file and its text: `/write FILE TEXT`.")
    path = str(turn.session.folder.resolve(name))
    diff = {"type": "diff", "path": path, "newText": text + "\n"}
    title = f"Write {name} through the client"
    with turn.tool(title, "edit", content=[diff], locations=[{"path": path}]) as call:
        await turn.permit(call)
        try:
            await turn.ask("fs/write_text_file", {"path": path, "content": text + "\n"})
        except DemoRpcError as error:
            raise FileRefused(f"The client did not write the file: {error}") from error
    await turn.say(f"The client wrote `{name}`.")


async def run(turn: DemoTurn, argument: str) -> None:
    """Run a command in a terminal of the client, after permission."""
    if not turn.session.offers.terminal:
        raise FileRefused("Your client does not offer terminals; `run COMMAND` runs it by myself.")
    if not argument:
        raise FileRefused("Name a command: `/run COMMAND`.")
    await turn.say(await in_terminal(turn, argument))


async def in_terminal(turn: DemoTurn, command: str) -> str:
    """Run a command line in a terminal of the client. Returns its result in Markdown."""
    cwd = str(turn.session.folder.cwd)
    raw = {"command": command, "cwd": cwd}
    with turn.tool(f"Run {command}", "execute", rawInput=raw) as call:
        await turn.permit(call)
        start = {"command": "/bin/sh", "args": ["-c", command], "cwd": cwd}
        try:
            made = await turn.ask(
                "terminal/create", {**start, "outputByteLimit": TERMINAL_OUTPUT_BYTES}
            )
            terminal = {"terminalId": str(made.get("terminalId"))}
            try:
                call.update(content=[{"type": "terminal", **terminal}])
                ended = await turn.ask("terminal/wait_for_exit", terminal)
                output = str((await turn.ask("terminal/output", terminal)).get("output", ""))
            except trio.Cancelled:
                with trio.move_on_after(TERMINAL_RELEASE_TIMEOUT_S, shield=True):
                    await _leave(turn, "terminal/kill", terminal)
                raise
            finally:
                with trio.move_on_after(TERMINAL_RELEASE_TIMEOUT_S, shield=True):
                    await _leave(turn, "terminal/release", terminal)
        except DemoRpcError as error:
            raise FileRefused(f"The client did not run it: {error}") from error
        status = "completed" if ended.get("exitCode") == 0 else "failed"
        # A later client has no such terminal, so it gets the terminal's contents.
        call.lasting = {"content": [text_content(fenced(output, "console"))]}
        call.update(status=status, rawOutput={"output": output, **ended})
    how = ended.get("exitCode")
    return f"It ended with {f'status {how}' if how is not None else ended.get('signal')}."


async def _leave(turn: DemoTurn, method: str, terminal: JsonObject) -> None:
    """Kill or release a terminal of the client; a failure means that it does not exist any more."""
    try:
        await turn.ask(method, terminal)
    except DemoRpcError:
        pass  # the client has cleaned up itself


async def form(turn: DemoTurn, argument: str) -> None:
    """Ask the user a question, with a form or a page."""
    offers = turn.session.offers
    by_url = argument == "url"
    if not (offers.url if by_url else offers.form):
        raise FileRefused("Your client does not offer that kind of question.")
    elicitation = f"elicitation_{new_id()}"
    if by_url:
        url = f"https://example.com/demo?elicitation={elicitation}"
        asked: JsonObject = {"mode": "url", "url": url, "elicitationId": elicitation}
        message = "May I open this page? It is only an example."
    else:
        asked = {"mode": "form", "requestedSchema": FORM}
        message = "Which weather would you like to see? (I cannot really know it.)"
    try:
        answer = await turn.ask("elicitation/create", {"message": message, **asked})
    except DemoRpcError as error:
        raise FileRefused(f"The client did not ask: {error}") from error
    if by_url:
        done = {"elicitationId": elicitation}
        turn.session.connection.notify("elicitation/complete", done)
    content = msgspec.json.format(msgspec.json.encode(answer.get("content") or {})).decode()
    await turn.say(f"The answer is “{answer.get('action')}”:\n\n{fenced(content, 'json')}")


async def tool(turn: DemoTurn, argument: str) -> None:
    """Call a tool of the client's MCP servers, or list them."""
    if not turn.session.servers:
        raise FileRefused("Your client listed no MCP server on standard streams for this session.")
    name, _, text = argument.partition(" ")
    try:
        arguments = msgspec.json.decode(text or "{}", type=JsonObject)
    except msgspec.DecodeError as error:
        raise FileRefused(f"The arguments are not a JSON object: {error}") from error
    found: list[str] = []
    for server in turn.session.servers:
        async with connect(server, turn.session.folder.cwd) as client:
            if name in (tool.name for tool in client.tools):
                fields = {"name": f"mcp__{server.name}__{name}", "rawInput": arguments}
                with turn.tool(f"{server.name}: {name}", "other", **fields) as call:
                    await turn.permit(call)
                    result = await client.call(name, arguments)
                    status = "failed" if result.get("isError") else "completed"
                    content = as_tool_content(result)
                    call.update(status=status, content=content, rawOutput=result)
                await turn.say(f"The tool `{name}` {status}.")
                return
            found += [
                f"- `{tool.name}` ({server.name}): {tool.description}" for tool in client.tools
            ]
    if name:
        raise FileRefused(f"There is no tool `{name}`. There are:\n\n" + "\n".join(found))
    await turn.say("Tools of your client:\n\n" + "\n".join(found))


COMMANDS = (
    DemoCommand("read", "reads a file through the client", read, "FILE"),
    DemoCommand("write", "writes a file through the client", write, "FILE TEXT"),
    DemoCommand("run", "runs a command in a terminal of the client", run, "COMMAND"),
    DemoCommand("form", "asks with a form, or by a web page", form, "url, or nothing"),
    DemoCommand("tool", "lists or calls tools of the client's MCP servers", tool, "NAME {json}"),
)
