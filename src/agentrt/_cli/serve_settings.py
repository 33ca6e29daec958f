"""The settings of a server: its access rules, and the configuration of its sessions."""

from __future__ import annotations

from msgspec import structs

from .._serve.security import Security
from ..config import Config
from .exit_status import UsageError
from .setup import Setup


def make_security(setup: Setup) -> Security:
    """Return the access rules of the settings.

    Raises `UsageError`.
    """
    settings = setup.config.serve
    tables = [(each, each.tenant(name)) for name, each in settings.tenants.items()]
    tenants = [(token, tenant) for each, tenant in tables for token in _each(each.token)]
    viewers = [(token, tenant) for each, tenant in tables for token in _each(each.viewer_token)]
    given = [token for token, _ in (*tenants, *viewers)]
    if len(set(given)) < len(given):
        raise UsageError("two tenants have the same token (serve.tenants)")
    try:
        return Security(
            token=settings.token,
            viewer_token=settings.viewer_token,
            metrics_token=settings.metrics_token,
            tenants=dict(tenants),
            tenant_viewers=dict(viewers),
            url=settings.url,
            allow_hosts=settings.allow_host,
            allow_origins=settings.allow_origin,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def _each(tokens: str | tuple[str, ...]) -> tuple[str, ...]:
    return (tokens,) if isinstance(tokens, str) else tokens


def pages_config(setup: Setup) -> Config:
    """Return the settings for sessions of pages.

    An agent that was given by its command is available to them.
    """
    agents = {**setup.config.agents, setup.agent.name: setup.agent}
    return structs.replace(setup.attended.config, agents=agents)
