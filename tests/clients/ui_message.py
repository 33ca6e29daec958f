"""What the AI SDK makes of chunks, in so far as agentrt sends them: a message of parts.

It is strict where the SDK is (a delta without its start, an output without its tool), and where the
SDK would show nonsense: two parts for one tool, an open part behind the end.
"""

from __future__ import annotations

from typing import Any

Part = dict[str, Any]


class Reader:
    """Reads the stream of one request into a message, which may be one that goes on."""

    def __init__(self, parts: list[Part] | None = None) -> None:
        self.id = ""
        self.metadata: dict[str, Any] = {}
        self.parts: list[Part] = [dict(part) for part in parts or ()]
        self.finished: str | None = None
        self.error: str | None = None
        self._growing: dict[str, Part] = {}

    def take(self, chunk: dict[str, Any]) -> None:
        assert self.finished is None, f"{chunk} behind the end"
        kind = chunk["type"]
        if kind == "start":
            self.id = chunk["messageId"]
            self.metadata |= chunk["messageMetadata"]
        elif kind == "start-step":
            self.parts.append({"type": "step-start"})
        elif kind in ("text-start", "reasoning-start"):
            assert chunk["id"] not in self._growing
            about = {"providerMetadata": chunk["providerMetadata"]}
            if kind == "reasoning-start":
                about["id"] = chunk["id"]
            part = {"type": kind.removesuffix("-start"), "text": "", "state": "streaming", **about}
            self.parts.append(part)
            self._growing[chunk["id"]] = part
        elif kind in ("text-delta", "reasoning-delta"):
            self._growing[chunk["id"]]["text"] += chunk["delta"]
        elif kind in ("text-end", "reasoning-end"):
            self._growing.pop(chunk["id"])["state"] = "done"
        elif kind in ("file", "source-url"):
            self.parts.append(chunk)
        elif kind.startswith("data-"):
            known = [p for p in self.parts if (p["type"], p.get("id")) == (kind, chunk["id"])]
            if known:
                known[0]["data"] = chunk["data"]
            else:
                self.parts.append(chunk)
        elif kind == "error":
            self.error = chunk["errorText"]
        elif kind == "finish":
            assert not self._growing, "a text was left open"
            self.finished = chunk["finishReason"]
            self.metadata |= chunk["messageMetadata"]  # what comes without it, the SDK shows late
        elif kind != "abort":
            self._tool(kind, chunk)

    def _tool(self, kind: str, chunk: dict[str, Any]) -> None:
        if kind == "tool-approval-response":
            (part,) = (
                p for p in self.parts if p.get("approval", {}).get("id") == chunk["approvalId"]
            )
            reason = {"reason": chunk["reason"]} if "reason" in chunk else {}
            part["approval"] = {**part["approval"], "approved": chunk["approved"], **reason}
            part["state"] = "approval-responded"
            return
        known = [p for p in self.parts if p.get("toolCallId") == chunk["toolCallId"]]
        assert len(known) <= 1, "two parts for one tool"
        if kind == "tool-input-available":
            if known:
                at = max(
                    (i for i, p in enumerate(self.parts) if p["type"] == "step-start"), default=-1
                )
                assert self.parts.index(known[0]) > at, "the SDK would make another part of it"
                assert known[0]["state"] == "input-available"
            part = (
                known[0] if known else {"type": "dynamic-tool", "toolCallId": chunk["toolCallId"]}
            )
            part |= {key: chunk[key] for key in ("toolName", "input", "providerExecuted")}
            part["state"] = "input-available"
            part["callProviderMetadata"] = chunk["providerMetadata"]
            if "title" in chunk:
                part["title"] = chunk["title"]
            if not known:
                self.parts.append(part)
            return
        (part,) = known
        assert not part["state"].startswith("output-"), f"{chunk} behind {part['state']}"
        if kind == "tool-approval-request":
            part["state"] = "approval-requested"
            part["approval"] = {"id": chunk["approvalId"]}
            for key, name in (
                ("approvalDescriptor", "descriptor"),
                ("reason", "requestReason"),
                ("isAutomatic", "isAutomatic"),
            ):
                if key in chunk:
                    part["approval"][name] = chunk[key]
        elif kind == "tool-output-available":
            part |= {"state": "output-available", "output": chunk["output"]}
        elif kind == "tool-output-error":
            part |= {"state": "output-error", "errorText": chunk["errorText"]}
        elif kind == "tool-output-denied":
            part["state"] = "output-denied"
        else:
            raise AssertionError(f"an unknown chunk: {chunk}")

    @property
    def tools(self) -> dict[str, Part]:
        return {part["toolCallId"]: part for part in self.parts if "toolCallId" in part}

    def goes_on(self) -> bool:
        """Whether the SDK sends the message by itself: the two helpers that it has for that,
        `lastAssistantMessageIsCompleteWithApprovalResponses` and `…WithToolCalls`."""
        steps = [i for i, part in enumerate(self.parts) if part["type"] == "step-start"]
        tools = [p for p in self.parts[steps[-1] if steps else 0 :] if "toolCallId" in p]
        over = ("output-available", "output-error", "output-denied", "approval-responded")
        answered = any(p["state"] == "approval-responded" for p in tools)
        own = [p for p in tools if not p["providerExecuted"]]
        return (answered and all(p["state"] in over for p in tools)) or (
            bool(own) and all(p["state"] in over[:2] for p in own)
        )
