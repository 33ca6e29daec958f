"""Build a release, and check it as users install it.

    python packaging/check_release.py --out dist

It builds the sdist and the wheel twice and compares them byte for byte, fills a local index, and
installs from that index without a network: the wheel alone, with each extra, on every Python that
is found, and the sdist on a machine without Node. In each environment it runs a prompt, and in two
it gets the page. It also installs the dependencies by their hashes, and writes a CycloneDX SBOM
next to the wheel. It needs git, and the packages of the group `release`.
"""

from __future__ import annotations

import argparse
import filecmp
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from metadata import LINK, SOURCE_URL
from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parents[1]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())
PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check")
PYTHONS: Final = ("3.11", "3.12", "3.13")
IMPORTS: Final = {
    "repl": "prompt_toolkit, rich, argcomplete, segno",
    "otel": "opentelemetry.trace; agentrt.telemetry.OpenTelemetry()",
    "metrics": "prometheus_client; agentrt.telemetry.Metrics()",
    "mcp": "mcp.server",
    "postgres": "psycopg, agentrt.store",
    "all": "prompt_toolkit, opentelemetry, prometheus_client, mcp, apsw, psycopg",
}
"""A statement for each extra with modules: the rest of `import agentrt, …`."""


def run(*command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run a command and return its output. Raises `CalledProcessError`."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=None if env is None else {**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def build(folder: Path, commit: str) -> Path:
    """Build a commit from a fresh clone; returns the folder of the two files."""
    clone, out = folder / "clone", folder / "dist"
    run("git", "clone", "--quiet", ROOT, clone)
    run("git", "checkout", "--quiet", commit, cwd=clone)
    epoch = run("git", "log", "-1", "--format=%ct", cwd=clone).strip()
    env = {"SOURCE_DATE_EPOCH": epoch}
    run(sys.executable, "-m", "build", "--outdir", out, clone, env=env)
    return out


def same(first: Path, second: Path) -> None:
    """Compare two builds byte for byte."""
    names = sorted(each.name for each in first.iterdir())
    assert names == sorted(each.name for each in second.iterdir())
    _, different, unread = filecmp.cmpfiles(first, second, names, shallow=False)
    assert different + unread == [], "two builds differ"
    print(f"built twice, the same bytes: {', '.join(names)}")


def check_description(wheel: Path) -> None:
    """Check that a reader of the package index can follow each link of the description."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        text = archive.read(name).decode()
    relative = [link[2] for link in LINK.finditer(text)]
    if os.environ.get(SOURCE_URL):
        assert relative == [], relative
        assert "\nProject-URL: Source" in text
        print("the description has absolute links")
    else:
        print(f"{SOURCE_URL} is not set: {len(relative)} links of the description are relative")


def fill_index(index: Path, wheel: Path) -> None:
    """Download the dependencies of all extras, and of a build, for this Python."""
    wanted = [f"agentrt[all] @ {wheel.as_uri()}", *PROJECT["build-system"]["requires"]]
    run(*PIP, "download", "-q", "-c", ROOT / "constraints.txt", "-d", index, *wanted)


def environment(folder: Path, python: str = sys.executable) -> Path:
    """Make an empty environment; returns its Python."""
    if python == sys.executable:
        venv.create(folder)
    else:
        run(python, "-m", "venv", "--without-pip", folder)
    return folder / "bin" / "python"


def install(python: Path, *arguments: str | Path, env: Mapping[str, str] | None = None) -> None:
    """Install into an environment that has no pip."""
    run(*PIP, "--python", python, "install", "-q", *arguments, env=env)


def works(python: Path, folder: Path) -> None:
    """Run one prompt on the demo agent, with a home of its own."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    env = {"HOME": str(home), "PYTHONWARNINGS": "error"}
    command = (python, "-m", "agentrt", "--agent", "demo", "-p", "what can you do?")
    assert "demo agent" in run(*command, cwd=home, env=env)


def get(link: str) -> tuple[bytes, bytes]:
    """Open a link of `agentrt serve`; returns its HTML and its script."""
    at = urlsplit(link)

    def ask(path: str, cookie: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(at.netloc, timeout=60)
        connection.request("GET", path, headers={"Cookie": cookie})
        return connection.getresponse()

    answer = ask(f"{at.path}?{at.query}", "")
    cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
    page, script = ask("/", cookie), ask("/page/app.js", cookie)
    assert (page.status, script.status) == (200, 200)
    return page.read(), script.read()


def serves(python: Path, folder: Path) -> None:
    """Start `agentrt serve`, and get its page by the link that it prints."""
    command = [python, "-m", "agentrt", "serve", "--agent", "demo", "--store", "off"]
    env = {**os.environ, "HOME": str(folder)}
    with subprocess.Popen(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            link = next(
                found.group()
                for line in process.stdout
                if (found := re.search(r"http://\S+", line))
            )
            page, script = get(link)
            assert b"<!doctype html>" in page.lower()
            assert script
        finally:
            process.terminate()


def run_ok(python: str) -> bool:
    """Return True if this Python starts."""
    done = subprocess.run([python, "-c", ""], stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def pythons() -> Iterator[tuple[str, str]]:
    """Yield the version and the path of each supported Python that is found."""
    pyenv = Path.home() / ".pyenv" / "versions"
    for version in PYTHONS:
        found = [str(each / "bin" / "python") for each in sorted(pyenv.glob(f"{version}.*"))]
        found.append(shutil.which(f"python{version}") or "")  # pyenv's may be there without one
        working = [each for each in found if each and run_ok(each)]
        if working:
            yield version, working[0]
        else:
            print(f"Python {version}: not found, not checked")


def without_node(folder: Path) -> str:
    """A PATH of a machine that has no Node."""
    folder.mkdir()
    for name in ("sh", "env", "uname"):
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return str(folder)


def check_offline(folder: Path, dist: Path, wheel: Path) -> None:
    """Install from the local index, in every way that a user may."""
    index = folder / "index"
    fill_index(index, wheel)
    offline = ("--no-index", "--find-links", index, "--find-links", dist)
    for extra in ("", *PROJECT["project"]["optional-dependencies"]):
        if extra == "test":
            continue
        python = environment(folder / f"extra-{extra}")
        install(python, *offline, "--only-binary", "agentrt", f"agentrt[{extra}]")
        if extra in IMPORTS:
            run(python, "-c", f"import agentrt, {IMPORTS[extra]}")
        works(python, folder / f"extra-{extra}")
        print(f"installed offline: agentrt[{extra}]" if extra else "installed offline: agentrt")
    serves(folder / "extra-" / "bin" / "python", folder / "extra-" / "home")
    print("the page is served")
    python = environment(folder / "sdist")
    nowhere = {
        "PATH": without_node(folder / "bin"),
        "npm_config_registry": "http://127.0.0.1:9",
        "npm_config_cache": str(folder / "no-cache"),
    }
    install(python, *offline, "--no-binary", "agentrt", "agentrt", env=nowhere)
    works(python, folder / "sdist")
    serves(python, folder / "sdist" / "home")
    print("installed offline from the sdist, without Node; the page is served")


def check_pythons(folder: Path, wheel: Path) -> None:
    """Install the wheel with all extras on each Python."""
    for version, path in pythons():
        python = environment(folder / f"python-{version}", path)
        install(python, "-c", ROOT / "constraints.txt", f"agentrt[all] @ {wheel.as_uri()}")
        works(python, folder / f"python-{version}")
        print(f"Python {version}: installed with all extras")


def check_hashes(folder: Path, wheel: Path) -> Path:
    """Install the dependencies by their hashes, then the wheel; returns that Python."""
    python = environment(folder / "hashes")
    install(python, "--require-hashes", "--no-deps", "-r", ROOT / "deploy" / "requirements.txt")
    install(python, "--no-deps", wheel)
    run(*PIP, "--python", python, "check")
    works(python, folder / "hashes")
    print("installed by hashes (deploy/requirements.txt)")
    return python


def write_sbom(python: Path, out: Path) -> None:
    """Describe the environment of the wheel with all extras, in CycloneDX."""
    command = ("environment", "--pyproject", ROOT / "pyproject.toml", "--of", "JSON")
    options = ("--output-reproducible", "--output-file", out, python)
    run(sys.executable, "-m", "cyclonedx_py", *command, *options)
    names = {each["name"] for each in json.loads(out.read_text())["components"]}
    required = map(Requirement, PROJECT["project"]["dependencies"])
    direct = {each.name for each in required if each.marker is None or each.marker.evaluate()}
    assert direct <= names, direct - names
    print(f"SBOM: {len(names)} components in {out.name}")


def main() -> None:
    """Build, check, and copy the files."""
    parser = argparse.ArgumentParser(description="Build and check a release.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the files")
    out: Path = parser.parse_args().out.resolve()
    with tempfile.TemporaryDirectory(prefix="agentrt-release-") as name:
        folder = Path(name)
        (folder / "again").mkdir()
        commit = run("git", "rev-parse", "HEAD", cwd=ROOT).strip()
        dist = build(folder, commit)
        same(dist, build(folder / "again", commit))
        (wheel,) = dist.glob("*.whl")
        check_description(wheel)
        check_offline(folder, dist, wheel)
        check_pythons(folder, wheel)
        python = check_hashes(folder, wheel)
        out.mkdir(parents=True, exist_ok=True)
        for each in dist.iterdir():
            shutil.copy(each, out)
        write_sbom(python, out / f"{wheel.name.partition('-py3')[0]}.cdx.json")


if __name__ == "__main__":
    main()
