"""What the scripted CLI does in the background; scenarios of `fakecli.py`."""

from __future__ import annotations

import time

from fakewire import Cli


def _shell(cli: Cli) -> None:
    """A turn that starts a shell in the background and rests."""
    prompt = cli.prompt()
    cli.use("c1", command="make", run_in_background=True)
    task = {"task_id": "b1", "task_type": "local_bash", "description": "make"}
    cli.system("background_tasks_changed", tasks=[task])
    cli.system("task_started", **task, tool_use_id="c1", is_backgrounded=True)
    cli.used("c1", "Command running in background with ID: b1.")
    cli.say("Shell started.")
    cli.done(prompt)


def _ended(cli: Cli, status: str = "completed") -> None:
    time.sleep(0.3)
    cli.system("task_updated", task_id="b1", patch={"status": status})
    cli.system("task_notification", task_id="b1", status=status)
    cli.system("background_tasks_changed", tasks=[])


def late_shell(cli: Cli) -> None:
    """A background shell ends while Claude rests; Claude goes on a while later."""
    _shell(cli)
    _ended(cli)
    time.sleep(0.1)
    cli.state("running")
    time.sleep(1.0)  # silence, but not rest
    cli.notified("Shell finished.")
    cli.wait(lambda m: False)


def shell_nobody_cares_for(cli: Cli) -> None:
    """A background shell ends while Claude rests, and Claude has nothing to say about it."""
    _shell(cli)
    _ended(cli)
    cli.wait(lambda m: False)


def endless_shell(cli: Cli) -> None:
    """A background shell that never ends."""
    _shell(cli)
    cli.wait(lambda m: False)
