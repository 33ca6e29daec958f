"""A session: the state machine, the task that carries out its decisions, and the public handles."""
