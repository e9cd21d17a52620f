"""How the author's code is called: arguments in, metrics out; pure."""
