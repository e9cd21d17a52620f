"""Assay runs the checks people write over what their LLM applications did."""
