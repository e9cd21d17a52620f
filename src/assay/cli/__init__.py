"""The `assay` command, one file per noun."""
