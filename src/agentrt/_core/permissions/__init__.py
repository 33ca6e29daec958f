"""Permissions: policies (`policies.py`) and rules (`rules.py`).

Rules depend on the parsing of shell lines (`shell.py`, `quoting.py`), the arguments of programs
(`programs.py`, `table.py`), the contents of requests (`request_facts.py`, `paths.py`) and the names
in rules (`words.py`).
"""
