"""The first tables: traces, evaluators, checks, signals, keys, and the work queue."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ROW_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _document(name: str = "document") -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary(), nullable=False)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean(), nullable=False)


def upgrade() -> None:
    """Make everything."""
    _traces()
    _evaluators()
    _checks()
    _keys()
    if op.get_bind().dialect.name == "postgresql":
        _queue_of_pgqueuer()
    else:
        _queue()


def _traces() -> None:
    op.create_table(
        "agents",
        _text("id"),
        _text("project_id"),
        _text("name"),
        _text("framework", nullable=True),
        _number("first_seen_ns"),
        _number("last_seen_ns"),
        sa.PrimaryKeyConstraint("id", name="pk_agents"),
    )
    op.create_index("ix_agents_project_id", "agents", ["project_id"])
    op.create_table(
        "traces",
        sa.Column("key", ROW_KEY, autoincrement=True, nullable=False),
        _text("project_id"),
        _text("trace_id"),
        _number("revision"),
        _number("checked_revision"),
        _text("agent_id", nullable=True),
        _text("name", nullable=True),
        _number("span_count"),
        _number("created_at_ns"),
        _number("updated_at_ns"),
        _number("pending_since_ns"),
        sa.PrimaryKeyConstraint("key", name="pk_traces"),
        sa.UniqueConstraint("project_id", "trace_id", name="uq_traces_project_id_trace_id"),
        sa.CheckConstraint("checked_revision <= revision", name="ck_traces_checked_revision"),
    )
    op.create_index("ix_traces_project_id_created_at_ns", "traces", ["project_id", "created_at_ns", "key"])
    op.create_index("ix_traces_agent_id_created_at_ns", "traces", ["agent_id", "created_at_ns", "key"])
    op.create_table(
        "spans",
        sa.Column("trace_key", ROW_KEY, autoincrement=False, nullable=False),
        _text("span_id"),
        _document(),
        sa.PrimaryKeyConstraint("trace_key", "span_id", name="pk_spans"),
        sa.ForeignKeyConstraint(["trace_key"], ["traces.key"], name="fk_spans_trace_key"),
    )


def _evaluators() -> None:
    op.create_table(
        "evaluators",
        _text("id"),
        _text("project_id"),
        _text("name"),
        _flag("enabled"),
        _text("severity"),
        sa.Column("sample_rate", sa.Float(), nullable=False),
        _text("scope_mode"),
        _document("agent_ids"),
        _number("created_at_ns"),
        _number("updated_at_ns"),
        _number("revision_number"),
        _flag("deleted"),
        sa.PrimaryKeyConstraint("id", name="pk_evaluators"),
        sa.CheckConstraint("severity IN ('low', 'medium', 'high', 'critical')", name="ck_evaluators_severity"),
        sa.CheckConstraint("scope_mode IN ('all', 'selected')", name="ck_evaluators_scope_mode"),
        sa.CheckConstraint("sample_rate >= 0 AND sample_rate <= 1", name="ck_evaluators_sample_rate"),
    )
    op.create_index("ix_evaluators_project_id", "evaluators", ["project_id"])
    op.create_table(
        "revisions",
        _text("id"),
        _text("evaluator_id"),
        _number("number"),
        _number("created_at_ns"),
        _document(),
        sa.PrimaryKeyConstraint("id", name="pk_revisions"),
        sa.ForeignKeyConstraint(["evaluator_id"], ["evaluators.id"], name="fk_revisions_evaluator_id"),
        sa.UniqueConstraint("evaluator_id", "number", name="uq_revisions_evaluator_id_number"),
        sa.CheckConstraint("number >= 1", name="ck_revisions_number"),
    )


def _checks() -> None:
    op.create_table(
        "checks",
        _text("id"),
        _text("project_id"),
        _text("evaluator_id"),
        _text("revision_id"),
        _text("trace_id", nullable=True),
        _number("trace_revision"),
        _text("agent_id", nullable=True),
        _text("status"),
        _number("recorded_at_ns"),
        _document(),
        sa.PrimaryKeyConstraint("id", name="pk_checks"),
        sa.ForeignKeyConstraint(["evaluator_id"], ["evaluators.id"], name="fk_checks_evaluator_id"),
        sa.ForeignKeyConstraint(["revision_id"], ["revisions.id"], name="fk_checks_revision_id"),
        sa.UniqueConstraint(
            "revision_id", "trace_id", "trace_revision", name="uq_checks_revision_id_trace_id_trace_revision"
        ),
        sa.CheckConstraint("status IN ('scored', 'skipped', 'errored')", name="ck_checks_status"),
    )
    op.create_index("ix_checks_project_id_recorded_at_ns", "checks", ["project_id", "recorded_at_ns", "id"])
    op.create_index("ix_checks_evaluator_id_recorded_at_ns", "checks", ["evaluator_id", "recorded_at_ns", "id"])
    op.create_index("ix_checks_trace_id", "checks", ["trace_id"])
    op.create_table(
        "signals",
        _text("id"),
        _text("project_id"),
        _text("evaluator_id"),
        _text("agent_id"),
        _text("status"),
        _number("last_seen_ns"),
        _document(),
        sa.PrimaryKeyConstraint("id", name="pk_signals"),
        sa.ForeignKeyConstraint(["evaluator_id"], ["evaluators.id"], name="fk_signals_evaluator_id"),
        sa.UniqueConstraint("evaluator_id", "agent_id", name="uq_signals_evaluator_id_agent_id"),
        sa.CheckConstraint("status IN ('open', 'acknowledged', 'resolved', 'archived')", name="ck_signals_status"),
    )
    op.create_index("ix_signals_project_id_last_seen_ns", "signals", ["project_id", "last_seen_ns", "id"])


def _keys() -> None:
    op.create_table(
        "keys",
        _text("id"),
        _text("project_id"),
        _text("role"),
        _text("digest"),
        _text("prefix"),
        _number("created_at_ns"),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
        sa.UniqueConstraint("digest", name="uq_keys_digest"),
        sa.CheckConstraint("role IN ('ingest', 'member', 'admin')", name="ck_keys_role"),
    )


def _queue() -> None:
    op.create_table(
        "queue",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        _text("lane"),
        _document("payload"),
        _number("ready_at_ns"),
        _number("attempt"),
        sa.PrimaryKeyConstraint("id", name="pk_queue"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_queue_lane_ready_at_ns", "queue", ["lane", "ready_at_ns", "id"])


def _queue_of_pgqueuer() -> None:
    # Loaded only where it is needed: it takes its time.
    from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment

    from assay.store.queue_schema import SETTINGS

    op.get_bind().exec_driver_sql(QueryBuilderEnvironment(SETTINGS).build_install_query())
