"""What permission rules are about: how a shell line is read (`shell.py`, `quoting.py`), what a
program does with its arguments (`programs.py`, `known.py`), what a request says (`seen.py`,
`paths.py`), in which words (`words.py`), and the rules themselves (`rules.py`)."""
