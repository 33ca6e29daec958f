"""Running agents without a person at hand: checkpoints of files, budgets, rate limits."""

from ._core.files.shadow import (
    ChangeKind,
    Checkpoint,
    FileChange,
    FolderCheckpoints,
    Restored,
    TakenFiles,
)
from ._core.files.worktree import Worktree, open_worktree
from ._core.session.budget import Budget, BudgetLimit, BudgetStatus, budget_from
from ._core.session.checkpoints import SessionCheckpoints, checkpoint_before
from ._core.session.rate_limits import WaitForLimits, wait_from

__all__ = [
    # checkpoints
    "SessionCheckpoints",
    "FolderCheckpoints",
    "Checkpoint",
    "FileChange",
    "ChangeKind",
    "Restored",
    "TakenFiles",
    "checkpoint_before",
    # worktrees
    "open_worktree",
    "Worktree",
    # rate limits
    "WaitForLimits",
    "wait_from",
    # budgets
    "Budget",
    "BudgetStatus",
    "BudgetLimit",
    "budget_from",
]
