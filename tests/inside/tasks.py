"""The helpers of tasks.

Test servers use the same nurseries as the package, so that an error leaves them as one error and
not as a group with one member.
"""

from __future__ import annotations

from agentrt._base.nesting import bare_errors

__all__ = ["bare_errors"]
