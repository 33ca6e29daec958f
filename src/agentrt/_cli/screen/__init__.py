"""An interactive session with a prompt that stays at the bottom, below the scrolling text.

prompt_toolkit edits the input and draws the last few lines in its own thread (`terminal.py`); the
Trio side writes the session's output, a frame at a time.
"""
