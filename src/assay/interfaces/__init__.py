"""How an author's code is called and what it may return: arguments in, metrics out."""
