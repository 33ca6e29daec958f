"""Session setup for an agent with a driver of the program (`agentrt.agents.own`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ..agents import Agent
from ..errors import LocalProtocolError
from ..model.driver import Driver, Opening
from ..session.host import SessionHost
from .offer import (
    Offer,
    ProtocolSetup,
    RequestKeys,
    check_fork,
    check_no_services,
    connection,
    environment,
)

if TYPE_CHECKING:
    from ..session.session import Session


def set_up_own(agent: Agent, opening: Opening, offer: Offer) -> ProtocolSetup:
    """Set up a session for an agent with its own driver.

    `opening.options` are for the driver. Raises `LocalProtocolError` for tools, hooks, extensions
    and services: agentrt has no way to offer them in an unknown protocol.
    """
    make = agent.driver
    if make is None:
        raise LocalProtocolError(
            f"{agent.name} speaks a custom protocol and has no driver: use agentrt.agents.own"
        )
    check_no_services(agent, offer)
    given = {
        "tools": offer.tools or offer.servers,
        "hooks": offer.hooks,
        "extensions": offer.extensions,
    }
    for name, value in given.items():
        if value:
            raise LocalProtocolError(
                f"{agent.name} has a custom driver, which cannot offer {name}: leave out `{name}`"
            )
    check_fork(opening)
    variables = environment(agent, offer.env, project=offer.project)
    new_key = RequestKeys(offer.first_key)

    def make_driver() -> Driver:
        """Return the program's driver for the next process."""
        return make(new_key)

    def program(opening: Opening) -> tuple[Sequence[str], Mapping[str, str]]:
        """Return the command and the environment for the next process."""
        return agent.command, {**variables, **offer.variables()}

    @asynccontextmanager
    async def around_session(host: SessionHost, session: Session) -> AsyncIterator[Opening]:
        """Provide nothing: the requests of an unknown protocol reach only its driver."""
        yield opening

    return ProtocolSetup(
        opening, make_driver, connection(agent, offer, program), around_session, offer
    )
