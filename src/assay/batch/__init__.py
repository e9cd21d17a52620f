"""The batch flow: load subjects from a file, execute revisions over them."""
