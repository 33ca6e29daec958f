"""Bytes to messages and back, without I/O: lines, JSON, JSON-RPC, MCP."""
