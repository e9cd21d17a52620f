"""Alembic's entry: the connection, and the lock on it, are the caller's."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=False)
context.run_migrations()
