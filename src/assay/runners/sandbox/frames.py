"""The wire between the server and a confined child: what both sides must agree on, and nothing else.

Control messages travel on a SEQPACKET socket between server and zygote, one per packet; batches and results on a
STREAM socket between server and child. A batch is REQUEST, then entry point, code and source, then the lengths of
all arguments (u32 each), then the arguments. A result is RESULT, then its value, then its logs.
"""

import struct

CONTROL_RUN = b"R"
CONTROL_INSPECT = b"I"
CONTROL_KILL = b"K"
CONTROL_READY = b"Y"
CONTROL_FAILED = b"X"
CONTROL_ENDED = b"D"
CONTROL_BYTES = 4096

# What to do, memory in bytes, cpu in seconds (0: as much as wall), largest result in bytes, log bytes.
FORK = struct.Struct("<cQdQI")
# The child's wait status.
ENDED = struct.Struct("<ci")
# Batch id, answer each item at once, items, arguments per item, lengths of entry point, code and source.
REQUEST = struct.Struct("<8sBIBBII")
# Batch id, item, status, logs were cut, duration in seconds, lengths of value and logs.
RESULT = struct.Struct("<8sIBBfII")
# Lengths of source and of nothing else: what an inspection asks.
INSPECT = struct.Struct("<I")
# Lengths of the description (JSON) and of the compiled code.
INSPECTED = struct.Struct("<II")

STATUS_RETURNED = 0
STATUS_RAISED = 1
STATUS_MEMORY = 2
STATUS_RESULT = 3

# Shared memory of one zygote: item being run (from 1), bytes logged by it, its start (CLOCK_MONOTONIC), its logs.
PROGRESS = struct.Struct("<IId")
LOG_OFFSET = 64
LOG_ROOM = 1024 * 1024
SHARED_BYTES = LOG_OFFSET + LOG_ROOM

MODULE_NAME = "evaluator"
FILE_NAME = "evaluator.py"
