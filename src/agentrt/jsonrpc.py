"""JSON-RPC 2.0 as newline-delimited JSON, without I/O: for agents, hosts and dialects.

Decode what the peer sent with `Lines`, `decode` and `parse`; encode with the functions whose names
end in `_line`; match answers with your requests by `OutstandingCalls`.

`decode` repairs lines that real agents write and JSON does not allow; `decode_strictly` refuses
such lines, which is faster. `lenient` converts a decoded value to a struct and leaves out the parts
that do not fit, so that one wrong field does not cost the whole message. `parse` distinguishes
requests, notifications and answers.

A `Lines` object bounds the length of a line: longer ones are skipped, and their sizes reported.

`OutstandingCalls` gives each request an id and a purpose, and returns the purpose when the answer
arrives. An answer to an unknown id, or a second one, is reported and not taken for another
request's.
"""

from ._core.wire.json import decode, decode_strictly, encode_json, encode_line, lenient
from ._core.wire.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Id,
    JsonRpcError,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    OutstandingCalls,
    error_line,
    notification_line,
    parse,
    request_line,
    result_line,
)
from ._core.wire.lines import Lines, LongLine

__all__ = [
    # messages
    "JsonRpcRequest",
    "JsonRpcNotification",
    "JsonRpcResponse",
    "JsonRpcError",
    "Id",
    # decoding
    "Lines",
    "LongLine",
    "decode",
    "decode_strictly",
    "lenient",
    "parse",
    # encoding
    "request_line",
    "notification_line",
    "result_line",
    "error_line",
    "encode_json",
    "encode_line",
    # matching answers with requests
    "OutstandingCalls",
    # error codes
    "PARSE_ERROR",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "INVALID_PARAMS",
    "INTERNAL_ERROR",
]
