"""A batch beyond one machine: Daft spreads the parts of files over workers, each of which has an engine of its own."""

UNTRACKED = {"DO_NOT_TRACK": "true", "RAY_USAGE_STATS_ENABLED": "0"}
"""Environment to set before Daft and Ray are imported: otherwise both tell their makers of each use."""
