"""The wire between the server and a confined child: what both sides must agree on, and nothing else.

Control messages travel on a SEQPACKET socket between server and zygote, one per packet; batches and results on a
STREAM socket between server and child. A child that is ready to run code first sends BEGUN. A batch is REQUEST, then
entry point, code and source, then the lengths of all arguments (u32 each), then the arguments. A result is RESULT,
then its value, then its logs; after the last one the batch id stands once more.
"""

import struct

CONTROL_RUN = b"R"
CONTROL_INSPECT = b"I"
CONTROL_KILL = b"K"
CONTROL_CPU = b"C"
CONTROL_READY = b"Y"
CONTROL_ENDED = b"D"
CONTROL_BYTES = 4096

# What to do, number of the child, memory in bytes, cpu in seconds (0: as much as wall), largest result, log bytes,
# niceness.
# With it travel two descriptors: the child's channel, and the memory it reports its progress in.
FORK = struct.Struct("<cIQdQIB")
# Kill the child with this number, or (CONTROL_CPU) tell how much CPU time it has used.
KILL = struct.Struct("<cI")
# Number of the child, and the CPU time it has used, in seconds.
USED = struct.Struct("<cId")
# Number of the child, its wait status (NOT_FORKED when there was none), and by the kernel's count the CPU time it used
# (seconds) and the most memory it held (bytes).
ENDED = struct.Struct("<cIidQ")
NOT_FORKED = -1

BEGUN = b"B"
# Batch id, items, arguments per item, lengths of entry point, code and source (the last three 0: as before).
REQUEST = struct.Struct("<8sIBBII")
# Batch id, item, status, duration in seconds, bytes logged in all, lengths of value and of the logs kept.
RESULT = struct.Struct("<8sIBfIII")
# Length of the source to be inspected.
INSPECT = struct.Struct("<I")
# After BEGUN: lengths of the description (JSON) and of the compiled code.
INSPECTED = struct.Struct("<II")

STATUS_RETURNED = 0
STATUS_RAISED = 1
STATUS_MEMORY = 2
STATUS_RESULT = 3

# Memory of one child: items begun so far in all its batches, bytes logged by the present one, its start
# (CLOCK_MONOTONIC), its logs.
PROGRESS = struct.Struct("<IId")
LOG_OFFSET = 64
LOG_ROOM = 1024 * 1024
SHARED_BYTES = LOG_OFFSET + LOG_ROOM

MODULE_NAME = "evaluator"
FILE_NAME = "evaluator.py"
