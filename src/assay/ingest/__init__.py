"""Bytes from the wire in, spans and traces out; pure."""
