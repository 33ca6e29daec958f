"""Tools that test agents, built on the public modules."""
