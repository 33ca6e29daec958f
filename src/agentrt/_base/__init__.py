"""Helpers without knowledge of agents: additions to Trio, HTTP, folders and listings.

Every part of the package may import these modules; they import nothing of it.
"""
