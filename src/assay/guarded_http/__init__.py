"""POSTs to endpoints that other people choose: guarded addresses, a time for all of it, bounded answers."""
