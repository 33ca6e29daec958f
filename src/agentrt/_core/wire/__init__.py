"""Conversion between bytes and messages, without I/O: lines, JSON, JSON-RPC, MCP."""
