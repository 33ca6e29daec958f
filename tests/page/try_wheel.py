"""Build a wheel from a fresh clone, install it into an empty environment, and get its page.

    python tests/page/try_wheel.py

Wheels with the machine's Node, with that of PyPI, and where neither can be had. It needs git,
pip, and what the build fetches.
"""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
PIP = (sys.executable, "-m", "pip")
BUNDLE = "agentrt/_serve/page/built/app.js.gz"


def run(*command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def without_node(folder: Path) -> str:
    """A PATH of a machine that has no Node."""
    folder.mkdir()
    for name in ("git", "env", "sh", "uname", "python3"):
        found = run("sh", "-c", f"command -v {name} || true").strip()
        if found:
            (folder / name).symlink_to(found)
    return str(folder)


def wheel(folder: Path, name: str, env: Mapping[str, str]) -> Path:
    """A wheel of what is committed."""
    clone = folder / name / "clone"
    run("git", "clone", "--quiet", ROOT, clone)
    run(*PIP, "wheel", "-q", "--no-deps", "-w", folder / name, clone, env=env)
    (made,) = (folder / name).glob("*.whl")
    return made


def read(made: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(made) as file:
        return {name: file.read(name) for name in file.namelist()}


class Browser:
    """Gets pages by their link, as a browser does, from this machine only."""

    def __init__(self, link: str) -> None:
        self._at = urlsplit(link)
        self._cookie = ""
        answer = self._get(f"{self._at.path}?{self._at.query}")
        self._cookie = (answer.getheader("set-cookie") or "").partition(";")[0]

    def _get(self, path: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self._at.netloc, timeout=30)
        connection.request("GET", path, headers={"Cookie": self._cookie})
        return connection.getresponse()

    def files(self) -> dict[str, bytes]:
        """The page, what it names, what that imports, and so on."""
        found: dict[str, bytes] = {}
        wanted = ["/"]
        while wanted:
            path = wanted.pop()
            answer = self._get(path)
            assert answer.status == 200, f"{path}: {answer.status}"
            policy = answer.getheader("content-security-policy") or ""
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            found[path] = body = answer.read()
            text = body.decode()
            named = re.findall(r'(?:href|src)="(page/[^"]+)"', text) if path == "/" else []
            named = [f"/{name}" for name in named]
            if path.endswith(".js"):
                named += re.findall(r'(?:import|export)[^;"]*from ?"(\./[^"]+)";', text)
                named += re.findall(r'import\("(\./[^"]+)"\)', text)
            for name in named:
                at = name.replace("./", "/page/") if name.startswith("./") else name
                if at not in found and at not in wanted:
                    wanted.append(at)
        return found


def serve(folder: Path, made: Path) -> dict[str, bytes]:
    """The files of the page that the wheel serves, installed into an environment of its own."""
    environment = folder / "environment"
    venv.create(environment)
    python = environment / "bin/python"
    run(*PIP, "--python", python, "install", "-q", "-c", ROOT / "constraints.txt", made)
    command = [python, "-m", "agentrt", "serve", "--agent", "demo"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if link := re.search(r"http://\S+", line):
                    return Browser(link.group()).files()
            raise RuntimeError("the server printed no link")
        finally:
            process.terminate()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="agentrt-wheel-") as name:
        folder = Path(name)
        made = wheel(folder, "node", {})
        files = serve(folder, made)
        assert {"/page/app.js", "/page/page.css"} <= set(files)
        contents = read(made)
        assert not any(name.endswith((".ts", ".tsx")) for name in contents)
        notices = contents["agentrt/_serve/page/built/LICENSES.txt"].decode()
        for name in ("markdown-it", "linkify-it", "highlight.js", "@xterm/headless", "preact"):
            assert re.search(rf"^{re.escape(name)} [0-9]", notices, re.MULTILINE), name

        bare = without_node(folder / "bin")
        contents = read(wheel(folder, "from-pypi", {"PATH": bare}))
        assert contents[BUNDLE] == read(made)[BUNDLE], "another Node makes another bundle"
        print("without Node: the same, by the one of PyPI")

        nowhere = {"npm_config_registry": "http://127.0.0.1:9", "npm_config_cache": f"{folder}/no"}
        assert BUNDLE not in read(wheel(folder, "nowhere", nowhere))
        assert BUNDLE not in read(wheel(folder, "skipped", {"AGENTRT_BUILD_WITHOUT_NODE": "1"}))
        print("where nothing can be had: a wheel without")


if __name__ == "__main__":
    main()
