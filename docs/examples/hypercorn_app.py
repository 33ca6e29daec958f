"""Sessions in your own ASGI server: `hypercorn -k trio hypercorn_app:app`."""

import os
from functools import partial

import agentrt
from agentrt.asgi import Application

app = Application(
    partial(agentrt.open_runtime, permissions=agentrt.ask),
    security=agentrt.web.Security(token=os.environ["AGENTRT_TOKEN"]),
    url=os.environ.get("AGENTRT_URL", "http://127.0.0.1:8000/"),
    agent="demo",
)
