"""An interactive session: its state, its commands, and the display line by line."""
