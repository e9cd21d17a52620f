"""The live flow: accept, settle, sample, execute, record; `pipeline` shows the order."""
