"""The conversation with a prompt that stays at the bottom: everything else scrolls by above it.

prompt_toolkit edits what is typed and draws the last few lines, in a thread of its own
(`terminal.py`); what happens in the session is written by Trio's side, a frame at a time.
"""
