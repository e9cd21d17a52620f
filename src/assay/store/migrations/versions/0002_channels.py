"""Channels, what they are owed, and the log of what they were told."""

import sqlalchemy as sa
from alembic import op

revision = "0002_channels"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the three tables."""
    op.create_table(
        "channels",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("failing_since_ns", sa.BigInteger(), nullable=True),
        sa.Column("failing_cause", sa.Text(), nullable=True),
        sa.Column("created_at_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_channels"),
    )
    op.create_index("ix_channels_project_id", "channels", ["project_id"])
    op.create_table(
        "notifications",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("channel_id", sa.Text(), nullable=False),
        sa.Column("is_closed", sa.Boolean(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notifications"),
        sa.ForeignKeyConstraint(["channel_id"], ["channels.id"], name="fk_notifications_channel_id"),
    )
    op.create_index("ix_notifications_channel_id", "notifications", ["channel_id"])
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("channel_id", sa.Text(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
        sa.ForeignKeyConstraint(["channel_id"], ["channels.id"], name="fk_deliveries_channel_id"),
    )
    op.create_index("ix_deliveries_channel_id_at_ns", "deliveries", ["channel_id", "at_ns", "id"])
