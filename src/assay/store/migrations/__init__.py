"""Alembic's migrations, run by the server itself when it starts."""
