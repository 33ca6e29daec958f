"""One session: the machine that decides, the task that carries it out, and its handles."""
