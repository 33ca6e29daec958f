"""The codes of notices and of errors that agentrt itself makes, with their meaning.

A code is part of the public interface: programs compare it, people read the message. The reference
is made from these tables, and a test compares them with the codes that the source uses. Errors of
an agent or its provider keep their own codes.
"""

from __future__ import annotations

from typing import Final

NOTICES: Final[dict[str, str]] = {
    "agent_does_not_ask": (
        "The agent cannot be made to ask before it acts, so rules and policies see only what "
        "it reports."
    ),
    "agent_ended": (
        "The agent was ended because a cancel was repeated while the first one was still open."
    ),
    "agent_notice": "A message from the agent for its user.",
    "agent_restarted": (
        "The agent's process was started again; `resumed` is true if it continues its own "
        "conversation."
    ),
    "agent_unreachable": "The agent closed its output but did not exit, and is being ended.",
    "agent_warning": "A warning from Codex.",
    "api_retry": "The agent's model could not be reached and is being tried again.",
    "auth": "Progress or failure of a login.",
    "auth_required": "The agent is not logged in.",
    "bad_line": "A line from Claude Code could not be read and was skipped.",
    "cancel_ignored": (
        "The agent did not end its turn within `limits.cancel_grace_s` and is being replaced."
    ),
    "cancel_stuck": (
        "The agent answered an uncancelled prompt with `cancelled` and is being replaced; "
        "send the prompt again."
    ),
    "compact_failed": "The agent could not summarise the conversation.",
    "compacted": "The agent summarised the conversation so far to save context.",
    "compacting": "The agent is summarising the conversation.",
    "config_warning": "Codex found a problem in its configuration.",
    "connected_again": "A terminal is connected to its server again.",
    "connection_cut": "A terminal has lost its server and is reconnecting.",
    "conversation_reset": "The agent cleared its conversation.",
    "deprecated": "Codex uses something that it will drop.",
    "duplicate_response": (
        "The agent answered a request a second time; the second answer was dropped."
    ),
    "early_update": "Too many updates arrived before the session was open; this one was dropped.",
    "elicitation_complete": "A form that the agent opened on a web page was completed.",
    "error_without_id": "The agent reported an error that belongs to no request.",
    "folder_not_trusted": (
        "The folder is not trusted, so the agent was started without the project's own settings."
    ),
    "foreign_response": "The agent answered a request that was never made; the answer was dropped.",
    "foreign_session": "The agent sent an update for another session; it was dropped.",
    "handler_failed": (
        "A handler of the program raised an exception; the agent got an error or a rejection."
    ),
    "history_unread": "Codex could not read the earlier turns of a resumed conversation.",
    "hook_failed": "A hook configured in the agent failed.",
    "hung": "The agent was silent for `limits.busy_silence_timeout_s`, and its process was ended.",
    "id_type": "The agent echoed a request's id as another type; it was accepted.",
    "informational": "Information from Claude Code without a more specific code.",
    "input_not_changed": (
        "A policy changed a tool's input, but the agent cannot take a changed input, so the "
        "call was rejected."
    ),
    "invalid_request": (
        "A request of the agent had invalid parameters and was answered with an error."
    ),
    "late": "An update for a tool call of a turn that is over was dropped.",
    "late_response": "An answer arrived after its request was given up.",
    "line_too_long": "A line of the agent was longer than `limits.message_bytes` and was skipped.",
    "local_command": "Output of a command that the agent carried out itself, without its model.",
    "malformed": "A line of the agent is not valid JSON, or not a valid message, and was skipped.",
    "mcp_failed": "An MCP server did not start (Codex).",
    "mcp_server_failed": "An MCP server did not start (Claude Code).",
    "mcp_unsupported": "The agent cannot reach an MCP server over that transport.",
    "memory_shorter": (
        "A loaded agent remembers fewer prompts than the session has; send it the history."
    ),
    "mirror_error": "Claude Code could not mirror the session.",
    "mode_does_not_ask": (
        "In the new mode the agent does not ask, so rules and policies see only its reports."
    ),
    "model_fallback": "Another model answers in place of the chosen one.",
    "model_unknown": "The agent does not offer the requested model.",
    "not_done": "The server did not carry out a command of this terminal.",
    "not_steered": "The agent did not take the text into its running turn.",
    "not_stored": "An event could not be stored, and was replaced by this notice.",
    "not_taken_back": "A prompt was not taken back, because it runs already.",
    "not_waited_for": (
        "The session ends although background work still runs, because"
        " `limits.drain_timeout_s` has passed."
    ),
    "notification": "A notification of Claude Code for its user.",
    "notification_dropped": "A notification of the agent could not be handled and was dropped.",
    "permission_denied": "The agent denied a call by its own rules.",
    "plugin_failed": "A plugin of Claude Code could not be installed or loaded.",
    "prompt_dropped": (
        "A queued prompt could not be sent and was dropped; `entry` is its id in the queue."
    ),
    "prompt_refused": "The server did not accept a prompt of this terminal.",
    "prompt_suggestion": "A prompt that the agent suggests next.",
    "ran_unasked": (
        "A tool call ran without a permission request although a rule denies it or may deny it."
    ),
    "rate_limit": "A rate limit of the provider is close or reached.",
    "refusal": "The model refused, and no other model answers in its place.",
    "repaired": "Invalid UTF-8 or half a character pair was replaced by U+FFFD.",
    "roots_unsupported": "The agent takes no folders besides its working folder.",
    "sandboxed": "The agent runs in a sandbox; its data names the mechanism and the network.",
    "service_denied": "A file or terminal request of the agent was rejected.",
    "session_gone": "The server no longer has the session.",
    "session_writes_lost": "Claude Code could not store its own transcript.",
    "setting_refused": "The agent refused a change of a setting.",
    "shutting_down": "Claude Code's worker is shutting down.",
    "stale": "The end of a turn that is already over arrived and was dropped.",
    "stood_still": (
        "The machine slept or the process was stopped; time limits were extended by that time."
    ),
    "stop_reason": "The agent ended its turn with an unknown reason, or none.",
    "suspended": (
        "The agent was idle for `limits.suspend_after_s`, and its process was ended; the next "
        "prompt "
        "starts it again."
    ),
    "taken_back": "A prompt of this terminal was taken back.",
    "tool_progress": "Progress reported by a tool of the program.",
    "tools_fixed": (
        "The agent's tools cannot change while its process runs; new ones apply after a restart."
    ),
    "tools_not_fetched": "The agent never asked for the program's tools, so it cannot call them.",
    "tools_not_trusted": "The agent gets the program's tools only in a trusted folder.",
    "unexpected_history": "The agent repeated an earlier conversation in a new session.",
    "unknown_notification": "The agent sent a notification that agentrt does not know.",
    "unknown_request": "The agent sent a request that it was not offered; it got an error.",
    "unknown_update": "The agent sent an update of an unknown kind; it was skipped.",
    "unsupported": "The agent's protocol lacks something that was asked for.",
    "unusable_update": "An update of the agent could not be applied and was skipped.",
    "variable_left_out": (
        "An environment variable that the agent wanted to set in a terminal was left out."
    ),
    "version": "The agent's version is older than the oldest supported one.",
    "waiting": "Leaving the session waits for background work, at most `limits.drain_timeout_s`.",
    "wrong_fields": "A message had fields of the wrong type; these were left out.",
}
"""The meaning of each `Notice.code`."""

ERRORS: Final[dict[str, str]] = {
    "agent_died": (
        "The agent's process ended during the turn; `data` has its exit status and the "
        "end of its stderr."
    ),
    "agent_failed": "The agent could not be started or resumed.",
    "auth_required": "The agent is not logged in.",
    "closed": "The agent ended before it answered the request.",
    "hook_blocked": "A hook rejected the prompt.",
    "interrupted": "The server or program that ran the agent ended during the turn.",
    "no_result": "The agent became idle without a result for the prompt.",
    "protocol": "The agent broke its protocol.",
    "ran_unasked": (
        'A tool call ran although a rule denies it, and `on_violation="cancel"` ended the turn.'
    ),
    "session_not_found": "The agent does not have the session.",
    "store_unavailable": "The prompt could not be stored.",
    "structured_output_missing": "The turn ended without the JSON that its schema requires.",
    "timed_out": "A limit of the turn was reached; `data.limit` names it.",
    "unknown_turn": "The turn to fork at is unknown.",
    "unsupported": "The agent or its protocol has no such request.",
    "version": "The agent's version is not supported.",
    "wrong_dialect": "The agent speaks another dialect of the protocol.",
}
"""The meaning of each `ErrorInfo.code` that agentrt makes."""
