"""Running agents unattended: trust in projects, checkpoints of files, budgets, rate limits.

An unattended agent needs limits that do not depend on a person:

- *Trust*: agents act on files of the project that they work in, such as hooks and MCP servers.
  `scan_project` finds these files, and `TrustRecords` has the user's decisions about them. See also
  `agentrt.trust`.
- *Checkpoints*: with `checkpoints=True`, a session saves the files of its folder before and after
  each turn; `Session.checkpoints` compares and restores them. `FolderCheckpoints` does so without a
  session.
- *Worktrees*: `open_worktree` gives an agent a separate working tree of the repository, and brings
  its changes back if they are wanted.
- *Budgets*: `agentrt.budget` and `fail_on_budget` limit the money, tokens, turns and time of all
  turns that are started in a block.
- *Rate limits*: with `WaitForLimits`, a turn waits for the end of a rate limit instead of failing.

`budget_from` and `wait_from` parse the texts that the command line and the settings use.
"""

from ._core.agents.project_scan import ProjectScan, ScannedFile, changed_files, scan_project
from ._core.agents.projects import TrustMode
from ._core.agents.trust_records import TrustRecord, TrustRecords
from ._core.files.shadow import (
    ChangeKind,
    Checkpoint,
    FileChange,
    FolderCheckpoints,
    FolderPatch,
    Restored,
    TakenFiles,
)
from ._core.files.worktree import BroughtBack, Worktree, open_worktree
from ._core.model.driver import WorktreeOptions
from ._core.session.budget import (
    Budget,
    BudgetLimit,
    BudgetStatus,
    budget_from,
    fail_on_budget,
)
from ._core.session.checkpoints import SessionCheckpoints, checkpoint_before
from ._core.session.rate_limits import WaitForLimits, wait_from

__all__ = [
    # trust in the files of projects
    "TrustMode",
    "TrustRecord",
    "TrustRecords",
    "ProjectScan",
    "ScannedFile",
    "scan_project",
    "changed_files",
    # checkpoints
    "SessionCheckpoints",
    "FolderCheckpoints",
    "FolderPatch",
    "Checkpoint",
    "FileChange",
    "ChangeKind",
    "Restored",
    "TakenFiles",
    "checkpoint_before",
    # worktrees
    "open_worktree",
    "Worktree",
    "WorktreeOptions",
    "BroughtBack",
    # rate limits
    "WaitForLimits",
    "wait_from",
    # budgets
    "Budget",
    "BudgetStatus",
    "BudgetLimit",
    "budget_from",
    "fail_on_budget",
]
