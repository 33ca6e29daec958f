"""A FastAPI application in which each user has their own agents.

    APP_USERS='{"secret-of-ann": "ann"}' uvicorn --app-dir examples fastapi_login:app

Users sign in with `Authorization: Bearer TOKEN`. A user sees only their own sessions; for others,
a session of theirs does not exist.
"""

import contextlib
import hmac
import json
import os
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel

import agentrt
from agentrt import aio

AGENT = os.environ.get("EXAMPLE_AGENT", "demo")
USERS: dict[str, str] = json.loads(os.environ["APP_USERS"])
owners: dict[str, str] = {}


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with aio.open_runtime(permissions=agentrt.ask) as runtime:
        app.state.runtime = runtime
        yield


app = FastAPI(lifespan=lifespan)


def signed_in(
    credentials: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())],
) -> str:
    """Return the name of the user with this token."""
    given = credentials.credentials.encode()
    for token, name in USERS.items():
        if hmac.compare_digest(token.encode(), given):
            return name
    raise HTTPException(401, "unknown token")


User = Annotated[str, Depends(signed_in)]


def own_session(id: str, user: User) -> agentrt.Session:
    """Return a session of this user."""
    if owners.get(id) != user:
        raise HTTPException(404, "no such session")
    session: agentrt.Session = app.state.runtime.get(id)
    return session


Own = Annotated[agentrt.Session, Depends(own_session)]


class Prompt(BaseModel):
    text: str


class Answer(BaseModel):
    allow: bool


@app.post("/sessions")
async def create(user: User) -> dict[str, str]:
    session = await app.state.runtime.create(AGENT, cwd=".")
    owners[session.id] = user
    return {"session": session.id}


@app.get("/sessions")
async def own(user: User) -> list[str]:
    return [id for id, owner in owners.items() if owner == user]


@app.post("/sessions/{id}/prompts")
async def prompt(session: Own, body: Prompt) -> dict[str, str]:
    """Send a prompt, and return the answer when the turn has ended."""
    result = await session.run(body.text, check=False)
    return {"outcome": result.outcome, "text": result.text}


@app.get("/sessions/{id}/requests")
async def requests(session: Own) -> dict[str, str]:
    """Return the open permission requests: their ids and titles."""
    return {id: request.title for id, request in session.pending_permissions.items()}


@app.post("/sessions/{id}/requests/{request}")
async def answer(session: Own, request: str, body: Answer) -> None:
    if request not in session.pending_permissions:
        raise HTTPException(404, "no such request")
    session.answer(request, "allow_once" if body.allow else "reject_once")
