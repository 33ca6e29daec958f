"""Agents: their definition (`agent.py`), the known ones (`catalogue.py`), and finding them on this
machine (`find.py`).
"""

from .agent import Agent as Agent
from .agent import AgentInfo as AgentInfo
from .agent import ProtocolName as ProtocolName
from .agent import Quirks as Quirks
from .agent import acp as acp
from .agent import claude as claude
from .agent import own as own
from .catalogue import BUILT_IN as BUILT_IN
from .find import FoundAgent as FoundAgent
from .find import agent_version as agent_version
from .find import find_agents as find_agents
from .find import name_of as name_of
from .find import resolve_agent as resolve_agent
from .find import resolve_stored_agent as resolve_stored_agent
