"""What the live flow writes into queue entries, and the lanes it uses."""

import msgspec

SETTLE_LANE = "settle:"
CHECK_LANE = "check:"


class TraceDue(msgspec.Struct, frozen=True, array_like=True):
    """A trace that changed: look at it when it has been quiet for a while."""

    project_id: str
    trace_id: str
    revision: int


class CheckDue(msgspec.Struct, frozen=True, array_like=True):
    """A check that is owed: this evaluator's revision over this revision of a trace."""

    project_id: str
    evaluator_id: str
    evaluator_revision_id: str
    trace_id: str
    trace_revision: int


encode = msgspec.msgpack.Encoder().encode
decode_trace_due = msgspec.msgpack.Decoder(TraceDue).decode
decode_check_due = msgspec.msgpack.Decoder(CheckDue).decode
