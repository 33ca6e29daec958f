"""Opening sessions: a single one, one for a program's prompts, or many in one process."""
