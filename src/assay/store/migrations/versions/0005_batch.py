"""Test sets, runs, and where a check comes from."""

import sqlalchemy as sa
from alembic import op

revision = "0005_batch"
down_revision = "0004_credentials"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables of batch; checks there are already are live ones."""
    # Written out, since SQLite takes a constraint only together with its column.
    op.execute(
        "ALTER TABLE checks ADD COLUMN origin TEXT DEFAULT 'live' NOT NULL CONSTRAINT ck_checks_origin "
        "CHECK (origin IN ('live', 'backfill'))"
    )
    _make_testsets()
    _make_runs()


def _make_testsets() -> None:
    op.create_table(
        "testsets",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("revision_id", sa.Text(), nullable=False),
        sa.Column("revision_number", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ns", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_testsets"),
        sa.UniqueConstraint("project_id", "name", name="uq_testsets_project_id_name"),
    )
    op.create_index("ix_testsets_project_id_created_at_ns", "testsets", ["project_id", "created_at_ns", "id"])
    op.create_table(
        "testset_revisions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("testset_id", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("columns", sa.LargeBinary(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("created_at_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_testset_revisions"),
        sa.ForeignKeyConstraint(["testset_id"], ["testsets.id"], name="fk_testset_revisions_testset_id"),
        sa.UniqueConstraint("testset_id", "number", name="uq_testset_revisions_testset_id_number"),
        sa.UniqueConstraint("testset_id", "digest", name="uq_testset_revisions_testset_id_digest"),
    )
    op.create_table(
        "testset_contents",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("touched_at_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "digest", name="pk_testset_contents"),
    )
    op.create_table(
        "testset_blocks",
        sa.Column("revision_id", sa.Text(), nullable=False),
        sa.Column("first_row", sa.BigInteger(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("revision_id", "first_row", name="pk_testset_blocks"),
        sa.ForeignKeyConstraint(["revision_id"], ["testset_revisions.id"], name="fk_testset_blocks_revision_id"),
        sa.ForeignKeyConstraint(
            ["project_id", "digest"],
            ["testset_contents.project_id", "testset_contents.digest"],
            name="fk_testset_blocks_project_id_digest",
        ),
    )
    op.create_index("ix_testset_blocks_digest", "testset_blocks", ["digest"])


def _make_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("testset_id", sa.Text(), nullable=True),
        sa.Column("testset_revision_id", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("is_backfill", sa.Boolean(), nullable=False),
        sa.Column("created_at_ns", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_ns", sa.BigInteger(), nullable=True),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("progress", sa.LargeBinary(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.ForeignKeyConstraint(["testset_revision_id"], ["testset_revisions.id"], name="fk_runs_testset_revision_id"),
        sa.CheckConstraint("state IN ('running', 'paused', 'cancelled', 'finished', 'failed')", name="ck_runs_state"),
    )
    op.create_index("ix_runs_project_id_created_at_ns", "runs", ["project_id", "created_at_ns", "id"])
    op.create_index("ix_runs_testset_id", "runs", ["testset_id"])
    op.create_table(
        "run_blocks",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("first_row", sa.BigInteger(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("errored", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "first_row", name="pk_run_blocks"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_blocks_run_id"),
        sa.CheckConstraint("row_count >= 1", name="ck_run_blocks_row_count"),
    )
    op.create_table(
        "run_outputs",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("row", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "row", name="pk_run_outputs"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_outputs_run_id"),
    )
    op.create_table(
        "run_links",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("row", sa.BigInteger(), nullable=False),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "run_id", "row", name="pk_run_links"),
    )
