"""Programs of several languages in a sandbox: with its proxy they are asked about, else refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import agentrt
from agentrt import Agent, PermissionOpened, open_session
from agentrt.sandbox import Sandbox

HERE = Path(__file__).resolve().parent
pytestmark = [pytest.mark.sandbox, pytest.mark.slow]

JAVA = """
public class Get {
    public static void main(String[] given) throws Exception {
        var url = new java.net.URL("http://new.invalid/");
        System.out.println(((java.net.HttpURLConnection) url.openConnection()).getResponseCode());
    }
}
"""
GO = """
package main

import ("fmt"; "net/http")

func main() {
    answer, problem := http.Get("http://new.invalid/")
    if problem != nil { fmt.Println(problem); return }
    fmt.Println(answer.StatusCode)
}
"""
NODE = """
const { request } = require("node:http");
const proxy = new URL(process.env.HTTP_PROXY);
request({ host: proxy.hostname, port: proxy.port, path: "http://new.invalid/" }, (answer) =>
  console.log(answer.statusCode)).end();
"""
PYTHON = """
import urllib.error, urllib.request
try:
    urllib.request.urlopen("http://new.invalid/")
except urllib.error.HTTPError as error:
    print(error.code)
"""
IGNORING = """
import socket
try:
    socket.create_connection(("1.1.1.1", 80), 5)
except OSError as error:
    print("no connection")
"""

CLIENTS = {
    "java": ("java", "Get.java", JAVA, "java Get.java"),
    "go": ("go", "get.go", GO, "HOME=/tmp go run get.go"),
    "node": ("node", "get.js", NODE, "node get.js"),
    "python": ("python3", "get.py", PYTHON, "python3 get.py"),
    "curl": ("curl", "none", "", "curl -s -o /dev/null -w '%{http_code}' http://new.invalid/"),
}


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_client_that_uses_proxies_reaches_the_one_of_the_sandbox(
    name: str, shell_agent: Agent, project: Path
) -> None:
    program, file, source, line = CLIENTS[name]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    (project / file).write_text(source)
    asked = []
    async with open_session(
        shell_agent, cwd=project, sandbox=Sandbox(read=[str(HERE)]), permissions=agentrt.ask
    ) as session:
        async with session.prompt(f"shell {line}") as turn:
            async for event in turn:
                if isinstance(event, PermissionOpened):
                    asked.append(event.title)
                    turn.answer(event, "reject")
    assert "403" in turn.result.text.splitlines()
    assert asked == ["Connect to new.invalid:80"]


async def test_a_program_that_ignores_proxies_gets_no_connection(
    shell_agent: Agent, project: Path
) -> None:
    (project / "get.py").write_text(IGNORING)
    sandbox = Sandbox(read=[str(HERE)], network="all")
    async with open_session(
        shell_agent, cwd=project, sandbox=sandbox, permissions=agentrt.ask
    ) as session:
        assert (await session.run("shell python3 get.py")).text == "no connection\n"
