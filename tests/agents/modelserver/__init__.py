"""A scripted model server for real agents: four model APIs on loopback, one script for all.

`scripts` says what is answered, `asks` and `tools` what a request boils down to, the four dialect
modules how an answer looks in each API, and `server` serves them. `python -m modelserver` runs it.
"""
