"""Signals by severity and reason, their log, and what an evaluator says of when and how badly it raises one."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003_signals"
down_revision = "0002_channels"
branch_labels = None
depends_on = None

SEVERITIES = "('low', 'medium', 'high', 'critical')"
SEARCHED = 1000
AT_ONCE = 500


def upgrade() -> None:
    """Add the columns, fill them from the documents, and make the tables."""
    blob = "BYTEA" if op.get_bind().dialect.name == "postgresql" else "BLOB"
    # Written out, since SQLite takes a constraint only together with its column.
    for column in (
        f"severity_bands {blob}",
        "raise_failures BIGINT DEFAULT '1' NOT NULL",
        "raise_of BIGINT DEFAULT '1' NOT NULL CONSTRAINT ck_evaluators_raise_after "
        "CHECK (raise_failures >= 1 AND raise_failures <= raise_of)",
    ):
        op.execute(f"ALTER TABLE evaluators ADD COLUMN {column}")
    for column in (
        f"severity TEXT DEFAULT 'medium' NOT NULL CONSTRAINT ck_signals_severity CHECK (severity IN {SEVERITIES})",
        "raised_at_ns BIGINT DEFAULT '0' NOT NULL",
        "reasons TEXT DEFAULT '' NOT NULL",
    ):
        op.execute(f"ALTER TABLE signals ADD COLUMN {column}")
    _fill_signals(op.get_bind())
    op.create_index("ix_signals_project_id_raised_at_ns", "signals", ["project_id", "raised_at_ns", "id"])
    op.create_table(
        "signal_log",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("signal_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "number", name="pk_signal_log"),
        sa.ForeignKeyConstraint(["signal_id"], ["signals.id"], name="fk_signal_log_signal_id"),
    )
    op.create_index("ix_signal_log_signal_id", "signal_log", ["signal_id", "number"])
    op.create_table(
        "signal_log_ends",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("pruned_to", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", name="pk_signal_log_ends"),
        sa.CheckConstraint("pruned_to <= last", name="ck_signal_log_ends_pruned_to"),
    )
    op.create_table(
        "failure_windows",
        sa.Column("evaluator_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("evaluator_id", "agent_id", name="pk_failure_windows"),
        sa.ForeignKeyConstraint(["evaluator_id"], ["evaluators.id"], name="fk_failure_windows_evaluator_id"),
    )


def _fill_signals(connection: sa.Connection) -> None:
    after = ""
    while True:
        rows = connection.execute(
            sa.text("SELECT id, document FROM signals WHERE id > :after ORDER BY id LIMIT :most"),
            {"after": after, "most": AT_ONCE},
        ).all()
        if not rows:
            return
        connection.execute(
            sa.text(
                "UPDATE signals SET severity = :severity, raised_at_ns = :raised, reasons = :reasons WHERE id = :id"
            ),
            [{"id": row.id, **_columns(json.loads(bytes(row.document)))} for row in rows],
        )
        after = rows[-1].id


def _columns(signal: dict[str, Any]) -> dict[str, Any]:
    reasons: list[str | None] = [occurrence["reason"] for occurrence in signal["evidence"]]
    searched = dict.fromkeys(reason[:SEARCHED].casefold() for reason in reasons if reason)
    return {
        "severity": signal["severity"],
        "raised": signal["first_seen_ns"],
        "reasons": "\n".join(searched).replace("\0", "\ufffd"),
    }
