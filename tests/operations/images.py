"""Stand-ins for the images that `deploy/` builds on, made of this machine's own files.

No registry is asked. Each has the programs of the official image that `deploy/` uses, and behaves
like it as far as `deploy/` can tell; the Python one also has the packages that `pip` asks for.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from postgres.server import programs
from runtime.test_docker import Daemon

REPOSITORY = Path(__file__).parents[2]

ACCOUNTS = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\npostgres:x:70:70::/var/lib/postgresql:/bin/sh\n"
    "nobody:x:65534:65534::/:/bin/false\n",
    "group": "root:x:0:\npostgres:x:70:\nnogroup:x:65534:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "login.defs": "UID_MIN 1000\nUID_MAX 60000\nGID_MIN 1000\nGID_MAX 60000\nUSERGROUPS_ENAB yes\n",
    "shells": "/bin/sh\n",
}

BASIC = (
    *("sh", "env", "cat", "chown", "chmod", "id", "ls", "mkdir", "rm", "ln", "sleep", "test"),
    *("useradd", "hostname", "touch", "cp", "mv"),
)

POSTGRES_ENTRYPOINT = """\
#!/bin/sh
# Creates the database as the official image does, then runs the command.
set -e
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  printf %s "$POSTGRES_PASSWORD" >/tmp/password
  initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth=scram-sha-256 --auth-local=trust
  echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
  pg_ctl -w -o "-c listen_addresses=''" start
  createdb -h /var/run/postgresql -U "$POSTGRES_USER" "$POSTGRES_USER"
  pg_ctl -w -m fast stop
fi
exec "$@"
"""


class Root:
    """The files of an image."""

    def __init__(self) -> None:
        self._paths: set[Path] = set()
        self._texts: dict[str, tuple[str, int, int]] = {}
        self._folders: dict[str, int] = {}
        self._links: dict[str, str] = {}
        for name, text in ACCOUNTS.items():
            self.text(f"/etc/{name}", text)
        for name in ("passwd", "group"):
            self.text(f"/etc/{'shadow' if name == 'passwd' else 'gshadow'}", "")
        self.folder("/tmp", mode=0o1777)
        self.folder("/root", "/home", "/var/tmp", "/run", "/etc", "/proc", "/sys", "/dev")
        for name in ("bin", "sbin", "lib", "lib64"):
            if Path(f"/{name}").is_symlink():
                self.link(f"/{name}", os.readlink(f"/{name}"))
        self.programs(*BASIC)

    def text(self, path: str, text: str, mode: int = 0o644, owner: int = 0) -> None:
        self._texts[path] = (text, mode, owner)

    def folder(self, *paths: str, mode: int = 0o755, owner: int = 0) -> None:
        for path in paths:
            self._folders[path] = mode | owner << 16

    def link(self, path: str, target: str) -> None:
        self._links[path] = target

    def programs(self, *names: str) -> None:
        """Programs of the PATH, with the libraries that they load."""
        found = [shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") for name in names]
        missing = [name for name, path in zip(names, found, strict=True) if path is None]
        assert not missing, f"this machine has no {missing}"
        self.files(*(Path(str(path)) for path in found))

    def files(self, *paths: Path) -> None:
        """Files, folders with all that is in them, and the libraries that they load."""
        self._paths |= {
            each for path in paths for below in _below(path) for each in _with_targets(below)
        }
        binaries = [each for path in paths for each in _below(path) if _is_binary(each)]
        for start in range(0, len(binaries), 200):
            ldd = ["ldd", *map(str, binaries[start : start + 200])]
            done = subprocess.run(ldd, capture_output=True, text=True)
            for library in set(re.findall(r"(/\S+) \(0x", done.stdout)):
                self._paths |= {*_with_targets(Path(library))}

    def write(self, tar: Path) -> None:
        made: set[str] = set()
        with tarfile.open(tar, "w") as archive:

            def parents(path: str) -> None:
                for each in reversed(Path(path).parents):
                    if str(each) in made or str(each) == "/":
                        continue
                    made.add(str(each))
                    entry = tarfile.TarInfo(str(each).lstrip("/"))
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(entry)

            for path, mode in sorted(self._folders.items()):
                parents(path)
                if path in made:
                    continue
                made.add(path)
                entry = tarfile.TarInfo(path.lstrip("/"))
                entry.type, entry.mode = tarfile.DIRTYPE, mode & 0xFFFF
                entry.uid = entry.gid = mode >> 16
                archive.addfile(entry)
            for source in sorted(self._paths):
                parents(str(source))
                if str(source) not in made:
                    made.add(str(source))
                    name = str(source).lstrip("/")
                    archive.add(source, name, recursive=False, filter=_kept)
            for path, (text, mode, owner) in self._texts.items():
                parents(path)
                entry = tarfile.TarInfo(path.lstrip("/"))
                entry.size, entry.mode = len(text.encode()), mode
                entry.uid = entry.gid = owner
                archive.addfile(entry, io.BytesIO(text.encode()))
            for path, target in self._links.items():
                parents(path)
                entry = tarfile.TarInfo(path.lstrip("/"))
                entry.type, entry.linkname = tarfile.SYMTYPE, target
                archive.addfile(entry)


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    left_out = {"__pycache__", "site-packages", "dist-packages", "test", "idlelib", "tkinter"}
    if left_out & {*Path(entry.name).parts} and "/lib/python3" in entry.name:
        return None
    if entry.name.endswith((".a", "EXTERNALLY-MANAGED")):
        return None
    entry.mode |= 0o755 if entry.isdir() or entry.mode & 0o100 else 0o444
    return entry


def _with_targets(path: Path) -> Iterator[Path]:
    """The path, and what it leads to where it is a link."""
    while True:
        path = path.parent.resolve() / path.name
        yield path
        if not path.is_symlink():
            return
        path = path.parent / os.readlink(path)


def _below(path: Path) -> Iterable[Path]:
    return [path, *path.rglob("*")] if path.is_dir() else [path]


def _is_binary(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def make_python(root: Root) -> None:
    """The official image has `python` on its PATH, with `venv` and an index of packages."""
    interpreter = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    root.files(interpreter, Path(sysconfig.get_path("stdlib")))
    root.link("/usr/local/bin/python", str(interpreter))


def make_packages(folder: Path) -> None:
    """What the image installs, and what builds it, as `pip` finds it here."""
    pip = [*("python3", "-m", "pip", "--python", sys.executable), "download", "-qq"]
    wanted = [".[all]", "hatchling"]
    options = ["-c", "constraints.txt", "-d", str(folder)]
    env = {**os.environ, "AGENTRT_BUILD_WITHOUT_NODE": "1"}
    subprocess.run([*pip, *options, *wanted], cwd=REPOSITORY, env=env, check=True)
    for own in folder.glob("agentrt-*"):
        own.unlink()  # it is built in the image


def make_postgres(root: Root) -> None:
    found = programs()
    assert found is not None
    root.files(found.folder)
    share = subprocess.run(
        [found("pg_config") if Path(found("pg_config")).exists() else "pg_config", "--sharedir"],
        capture_output=True,
        text=True,
    ).stdout.strip()
    root.files(Path(share or f"/usr/share/postgresql/{found.folder.parent.name}"))
    root.files(found.folder.parent / "lib")
    for each in ("/usr/share/zoneinfo", "/usr/lib/locale/C.utf8", "/usr/share/postgresql-common"):
        if Path(each).exists():
            root.files(Path(each))
    for name in ("postgres", "pg_isready", "initdb", "pg_ctl", "createdb", "psql"):
        root.link(f"/usr/local/bin/{name}", found(name))
    root.folder("/var/lib/postgresql", "/var/lib/postgresql/data", owner=70, mode=0o700)
    root.folder("/var/run/postgresql", "/run/postgresql", owner=70, mode=0o777)
    root.text("/usr/local/bin/docker-entrypoint.sh", POSTGRES_ENTRYPOINT, 0o755)


def load(daemon: Daemon, root: Root, folder: Path, name: str, *changes: str) -> None:
    """Make it an image of the daemon's."""
    tar = folder / "image.tar"
    root.write(tar)
    options = [word for change in changes for word in ("--change", change)]
    daemon.done("import", *options, str(tar), name)
    tar.unlink()


def tag(name: str) -> str:
    """The version of an image that the files in `deploy/` name, such as `postgres:17.6`."""
    files = (REPOSITORY / "deploy" / each for each in ("Dockerfile", "compose.yml"))
    text = "\n".join(file.read_text() for file in files)
    (found,) = set(re.findall(rf"^ *(?:FROM|image:) ({name}:\S+)", text, re.MULTILINE))
    return str(found)


def load_all(daemon: Daemon, folder: Path) -> None:
    """Every image that a file in `deploy/` names."""
    python = Root()
    make_python(python)
    packages = folder / "packages"
    make_packages(packages)
    load(daemon, python, folder, "python-alone")
    stage = folder / "python"
    stage.mkdir()
    shutil.move(packages, stage / "packages")
    (stage / "Dockerfile").write_text(
        "FROM python-alone\nCOPY packages /packages\n"
        "ENV PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin PIP_NO_INDEX=1"
        " PIP_FIND_LINKS=/packages AGENTRT_BUILD_WITHOUT_NODE=1\n"
    )
    daemon.done("build", "-q", "-t", tag("python"), str(stage))
    postgres = Root()
    make_postgres(postgres)
    load(
        daemon,
        postgres,
        folder,
        tag("postgres"),
        "USER postgres",
        "ENV PATH=/usr/local/bin:/usr/bin:/bin PGDATA=/var/lib/postgresql/data LC_ALL=C.UTF-8",
        "VOLUME /var/lib/postgresql/data",
        'ENTRYPOINT ["docker-entrypoint.sh"]',
        'CMD ["postgres", "-c", "listen_addresses=*"]',
    )
    haproxy = Root()
    haproxy.programs("haproxy")
    load(
        daemon,
        haproxy,
        folder,
        tag("haproxy"),
        "ENV PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/bin",
        'CMD ["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]',
    )


def load_machine(daemon: Daemon, folder: Path) -> None:
    """A machine that runs systemd and HAProxy, with agentrt installed in /opt/agentrt: `agentrt`
    must be an image already."""
    root = Root()
    make_python(root)
    root.programs("haproxy", "systemctl", "journalctl", "mount", "umount", "systemd-tmpfiles")
    for each in ("/lib/systemd", "/etc/systemd/system.conf"):
        if Path(each).exists():
            root.files(Path(each).resolve())
    root.text("/etc/machine-id", "")
    load(daemon, root, folder, "machine-alone")
    stage = folder / "machine"
    stage.mkdir()
    (stage / "Dockerfile").write_text(
        "FROM machine-alone\n"
        "ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin container=docker\n"
        "COPY --from=agentrt /opt/agentrt /opt/agentrt\n"
        "RUN ln -s /opt/agentrt/bin/agentrt /usr/local/bin/agentrt"
        " && rm -rf /lib/systemd/system/*.wants/* && mkdir -p /etc/agentrt /etc/systemd/system\n"
        # Credentials are mounted, which services must see.
        "CMD mount --make-rshared / && exec /lib/systemd/systemd\n"
    )
    daemon.done("build", "-q", "-t", "machine", str(stage))
