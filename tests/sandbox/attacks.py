"""Attempts to leave a sandbox, each a row: its name, `done` or `blocked`, and a detail.

`test_escapes.py` runs it inside. It really tries, so it refuses to run where the marker file of the
test's private home is readable, that is, outside. The targets are in the variable TARGETS.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

TARGETS: dict[str, Any] = json.loads(os.environ["TARGETS"])
HOME, TOKEN = TARGETS["home"], TARGETS["token"]
X86 = os.uname().machine == "x86_64"
libc = ctypes.CDLL(None, use_errno=True)
rows: list[tuple[str, Callable[[], object]]] = []

with suppress(OSError), open(TARGETS["marker"]):
    raise SystemExit("this program must run inside a sandbox")


def row(name: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    def add(attempt: Callable[[], object]) -> Callable[[], object]:
        rows.append((name, attempt))
        return attempt

    return add


def sh(line: str) -> bool:
    done = subprocess.run(["sh", "-c", line], capture_output=True, timeout=20, check=False)
    return done.returncode == 0


def write(path: str, mode: str = "w") -> bool:
    with open(path, mode) as file:
        file.write("x")
    return True


def has_token(path: str) -> bool:
    return TOKEN in Path(path).read_text()


def connect(host: str, port: int, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> bool:
    with socket.socket(socket.AF_INET, kind, protocol) as each:
        each.settimeout(3)
        each.connect((host, port))
        if kind == socket.SOCK_DGRAM:
            each.send(b"x")
    return True


def connect_unix(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as each:
        each.settimeout(3)
        each.connect(path)
    return True


def proxied(target: str) -> bool:
    with socket.create_connection(("127.0.0.1", 3128), 5) as each:
        each.sendall(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
        return b" 200 " in each.recv(200).split(b"\r\n")[0]


def socks(host: str, port: int) -> bool:
    with socket.create_connection(("127.0.0.1", 3128), 5) as each:
        each.sendall(b"\x05\x01\x00")
        each.recv(2)
        name = host.encode()
        each.sendall(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + port.to_bytes(2, "big"))
        return each.recv(10)[1:2] == b"\x00"


def syscall(number: int, *arguments: object) -> bool:
    return bool(libc.syscall(number, *arguments) >= 0)


def plain(name: str, attempt: Callable[[], object]) -> None:
    rows.append((name, attempt))


# --- controls: these must be possible
plain("control: write in the session's folder", lambda: write("ok.txt"))
plain("control: write a temporary file", lambda: write(f"{tempfile.gettempdir()}/ok-inside"))
plain("control: git status", lambda: sh("git status --short"))
plain("control: git commit", lambda: sh("git add ok.txt && git commit -qm inside"))

# --- files
plain("append to ~/.bashrc", lambda: write(f"{HOME}/.bashrc", "a") and has_token(f"{HOME}/.bashrc"))
plain("write /etc/passwd", lambda: write("/etc/passwd", "a"))
plain("write /usr/local/bin", lambda: write("/usr/local/bin/x-escape"))


@row("write next to the folder")
def _() -> bool:
    write("../escape.txt")
    return os.path.exists("../neighbour")  # else it went into the private home


plain("read ~/.ssh/id_rsa", lambda: has_token(f"{HOME}/.ssh/id_rsa"))
plain("read ~/.aws/credentials", lambda: has_token(f"{HOME}/.aws/credentials"))
plain("read ~/.netrc", lambda: has_token(f"{HOME}/.netrc"))
plain("read a neighbour project", lambda: has_token(f"{HOME}/neighbour/secret"))
plain("read another program's file in /tmp", lambda: has_token(TARGETS["tmpfile"]))
plain("read /etc/shadow", lambda: bool(Path("/etc/shadow").read_bytes()))


@row("read what other users of the machine cannot")
def _() -> bool:
    for path in TARGETS["closed"]:
        with suppress(OSError):
            if os.listdir(path) if os.path.isdir(path) else Path(path).read_bytes():
                return True
    return False


@row("read ~/.ssh through a link in the folder")
def _() -> bool:
    os.symlink(f"{HOME}/.ssh", "link")
    return has_token("link/id_rsa")


@row("write /etc through a link in the folder")
def _() -> bool:
    os.symlink("/etc", "link2")
    return write("link2/escape")


@row("make a hard link of /etc/passwd")
def _() -> bool:
    os.link("/etc/passwd", "hard")
    return True


plain("write through a hard link that was there", lambda: write("planted", "a"))
plain(
    "change the mode of a file outside", lambda: os.chmod(f"{HOME}/neighbour/secret", 0o644) is None
)
plain("read a hidden file", lambda: has_token("hidden.txt"))
plain("read a hidden folder", lambda: has_token("secrets/key"))

# --- git and settings
plain("write .git/hooks/pre-commit", lambda: write(".git/hooks/pre-commit"))
plain("write .git/config", lambda: write(".git/config", "a"))


@row("rename .git and put another there")
def _() -> bool:
    os.rename(".git", ".git-old")
    os.mkdir(".git")
    return True


@row("rename .git/hooks")
def _() -> bool:
    os.rename(".git/hooks", ".git/h2")
    return True


@row("unlink .git/config and write it anew")
def _() -> bool:
    os.unlink(".git/config")
    return write(".git/config")


plain("lead git to another configuration", lambda: write(".git/commondir"))
plain("the same in a linked working tree", lambda: write(".git/worktrees/linked/commondir"))
plain("write the configuration of a submodule", lambda: write(".git/modules/a/b/config", "a"))
plain("write the hooks of a submodule", lambda: write(".git/modules/a/b/hooks/post-checkout"))
plain("create hooks where there are none", lambda: write("sub/.git/hooks/post-checkout"))


@row("replace the file that leads git to a configuration")
def _() -> bool:
    os.unlink(".git/commondir")
    return write(".git/commondir")


@row("git runs a program of the agent's configuration")
def _() -> bool:
    shutil.copytree(".git", "other", symlinks=True)
    return sh("echo ../other > .git/commondir")


plain("git config core.fsmonitor", lambda: sh("git config core.fsmonitor 'touch x'"))
plain("write the hooks of a nested repository", lambda: write("sub/.git/hooks/pre-commit"))
plain("write .mcp.json that was there", lambda: write(".mcp.json"))
plain("write .claude/settings.json that was there", lambda: write(".claude/settings.json"))
plain("create .envrc that was not there", lambda: write(".envrc"))
plain("write the agent's settings in its state", lambda: write(f"{HOME}/.claude/settings.json"))

# --- network
plain("TCP to this machine", lambda: connect("127.0.0.1", TARGETS["port"]))
plain("TCP to this machine's address", lambda: connect(TARGETS["address"], TARGETS["port"]))
plain("TCP to the world", lambda: connect("1.1.1.1", 443))
plain("UDP to the world", lambda: connect("8.8.8.8", 53, socket.SOCK_DGRAM))
plain("MPTCP to this machine", lambda: connect("127.0.0.1", TARGETS["port"], protocol=262))


@row("TCP to this machine by fast open")
def _() -> bool:
    with socket.socket() as each:
        each.settimeout(3)
        sent = each.sendto(b"x", 0x20000000, ("127.0.0.1", TARGETS["port"]))
        return sent > 0 and bool(each.getpeername())


@row("listen on a port of this machine's address")
def _() -> bool:
    with socket.create_server((TARGETS["address"], 0)):
        return True


plain("resolve a name by DNS", lambda: bool(socket.getaddrinfo("example.com", 443)))
plain("cloud metadata", lambda: connect("169.254.169.254", 80))
plain("proxy: a host that is not allowed", lambda: proxied("blocked.example:443"))
plain("proxy: localhost", lambda: proxied(f"localhost:{TARGETS['port']}"))
plain("proxy: 127.0.0.1", lambda: proxied(f"127.0.0.1:{TARGETS['port']}"))
plain("proxy: this machine's address", lambda: proxied(f"{TARGETS['address']}:{TARGETS['port']}"))
plain("proxy: metadata as a number", lambda: proxied("2852039166:80"))
plain("SOCKS: a host that is not allowed", lambda: socks("blocked.example", 443))
plain("SOCKS: localhost", lambda: socks("localhost", TARGETS["port"]))
plain("Unix socket in /run", lambda: connect_unix(TARGETS["runsock"]))
plain("Unix socket in /tmp", lambda: connect_unix(TARGETS["tmpsock"]))
plain("Unix socket next to the folder", lambda: connect_unix(TARGETS["varsock"]))
plain("abstract Unix socket", lambda: connect_unix("\0" + TARGETS["abstract"]))

# --- processes
plain("signal the host", lambda: os.kill(TARGETS["host"], 0) is None)


@row("resource limits of the host")
def _() -> bool:
    import resource  # the present limits are set again, so that nothing changes

    present = resource.prlimit(TARGETS["host"], resource.RLIMIT_CORE)
    return resource.prlimit(TARGETS["host"], resource.RLIMIT_CORE, present) == present


plain("priority of the host", lambda: os.setpriority(os.PRIO_PROCESS, TARGETS["host"], 0) is None)


@row("see the host in /proc")
def _() -> bool:
    return TARGETS["needle"].encode() in Path(f"/proc/{TARGETS['host']}/cmdline").read_bytes()


@row("read the host's environment")
def _() -> bool:
    return bool(Path(f"/proc/{TARGETS['host']}/environ").read_bytes())


@row("see other processes")
def _() -> bool:
    found = False
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found |= TARGETS["needle"].encode() in each.read_bytes()
    return found


@row("ptrace a child")
def _() -> bool:
    child = subprocess.Popen(["sleep", "2"])
    try:
        return bool(libc.ptrace(16, child.pid, 0, 0) == 0)
    finally:
        child.kill()
        child.wait()


plain("leave by /proc/1/root", lambda: has_token(f"/proc/1/root{HOME}/neighbour/secret"))


@row("gain rights by taking over pid 1")
def _() -> bool:
    status = dict(line.split(":\t", 1) for line in Path("/proc/1/status").read_text().splitlines())
    return status["Seccomp"] != "2" or int(status["CapPrm"], 16) != 0


@row("rights of setuid programs")
def _() -> bool:
    return "NoNewPrivs:\t1" not in Path("/proc/self/status").read_text()


plain("unshare a user namespace", lambda: sh("unshare -Ur true"))


@row("clone a user namespace")
def _() -> bool:
    code = "import ctypes,os,sys;r=ctypes.CDLL(None).syscall(*map(int,sys.argv[1:]));os._exit(r<0)"
    numbers = ("56" if X86 else "220", str(0x10000000 | 17), "0", "0", "0", "0")
    done = subprocess.run([sys.executable, "-c", code, *numbers], check=False, timeout=20)
    return done.returncode == 0


INNER = "bwrap --ro-bind / / --dev /dev --proc /proc --unshare-user --unshare-pid true"
UNCOVER = "umount .git/hooks || umount hidden.txt || mount -o remount,rw,bind / || umount -l /proc"
plain("build a sandbox inside", lambda: sh(INNER))
plain("uncover files in namespaces of its own", lambda: sh(f"unshare -Urm sh -c '{UNCOVER}'"))
plain("enter the namespaces of pid 1", lambda: sh("nsenter -t 1 -U true"))
plain("mount", lambda: sh("mount -t tmpfs none /tmp"))
plain("remount / writable", lambda: sh("mount -o remount,rw,bind /"))
plain("unmount the cover of the home folder", lambda: sh(f"umount {HOME}"))
plain("change the root folder", lambda: sh("chroot / true"))

# --- the kernel
plain("write /proc/sys", lambda: write("/proc/sys/kernel/hostname"))
plain("open core_pattern", lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY) >= 0)
plain("write /sys", lambda: write("/sys/kernel/mm/ksm/run"))


@row("devices of the machine")
def _() -> bool:
    return any(os.path.exists(f"/dev/{each}") for each in ("mem", "kmsg", "vda", "sda", "kvm"))


@row("make a device")
def _() -> bool:
    os.mknod("device", 0o60600, os.makedev(254, 0))
    return True


plain("io_uring", lambda: syscall(425, 8, ctypes.create_string_buffer(120)))
plain("keyctl", lambda: syscall(250 if X86 else 219, 0, -3, 1))
plain("bpf", lambda: syscall(321 if X86 else 280, 0, ctypes.create_string_buffer(128), 128))
plain("userfaultfd", lambda: syscall(323 if X86 else 282, 1))


@row("open_by_handle_at")
def _() -> bool:
    opened = syscall(304 if X86 else 265, -100, 0, 0)
    return opened or ctypes.get_errno() == 14  # EFAULT: the call itself is possible


plain("TIOCSTI", lambda: bool(libc.ioctl(0, 0x5412, ctypes.c_char_p(b"x")) == 0))
plain("vsock socket", lambda: bool(socket.socket(40, socket.SOCK_STREAM)))
plain("packet socket", lambda: bool(socket.socket(17, socket.SOCK_RAW)))
plain("AF_ALG socket", lambda: bool(socket.socket(38, socket.SOCK_SEQPACKET)))


@row("reach the handover socket")
def _() -> bool:
    found = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")[:-1]]
    return any("memfd" in each for each in found)


# --- resources
@row("64 MiB in /tmp")
def _() -> bool:
    path = Path("/tmp/big")
    try:
        return path.write_bytes(b"\0" * (64 << 20)) > 0
    finally:
        path.unlink()


@row("300 processes")
def _() -> bool:
    started = []
    try:
        for _ in range(300):
            started.append(subprocess.Popen(["sleep", "5"]))
        return len(started) == 300
    finally:
        for each in started:
            each.kill()
            each.wait()


def main() -> None:
    assert shutil.which("git")
    for name, attempt in rows:
        try:
            done, detail = bool(attempt()), ""
        except BaseException as error:
            done, detail = False, f"{type(error).__name__}: {error}"
        print(f"{name}\t{'done' if done else 'blocked'}\t{detail[:100]!r}", flush=True)


if __name__ == "__main__":
    main()
