"""What Assay is about, in pure data and functions: no I/O, nothing asynchronous."""
