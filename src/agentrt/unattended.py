"""Running agents unattended: trust in projects, checkpoints of files, budgets, rate limits."""

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
