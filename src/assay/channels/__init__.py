"""Channels: how people are told of signals, one file a kind."""
