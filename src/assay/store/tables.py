"""The tables, as SQLAlchemy Core; the migrations make them, and a test holds that both agree."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Dialect,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)

from assay.domain.text import storable

NAMING = {
    "pk": "pk_%(table_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
}
LARGEST_INTEGER = 2**63 - 1


class PlainText(TypeDecorator[str]):
    """Text that every database can hold."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Replace what cannot be stored."""
        return None if value is None else storable(value)


class Nanoseconds(TypeDecorator[int]):
    """A time in nanoseconds since the epoch, held within 64 bits."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        """Bring a number no clock can show back into range."""
        return None if value is None else max(-LARGEST_INTEGER, min(LARGEST_INTEGER, value))


# SQLite numbers rows by itself only where the type is spelled INTEGER.
RowKey = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData(naming_convention=NAMING)
# PostgreSQL has PgQueuer's own tables in its place.
sqlite_metadata = MetaData(naming_convention=NAMING)


def _id(name: str = "id") -> Column[Any]:
    return Column(name, PlainText, primary_key=True)


def _text(name: str, *extra: Any, nullable: bool = False) -> Column[Any]:
    return Column(name, PlainText, *extra, nullable=nullable)


def _time(name: str) -> Column[Any]:
    return Column(name, Nanoseconds, nullable=False)


def _one_of(name: str, values: tuple[str, ...]) -> CheckConstraint:
    allowed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{name} IN ({allowed})", name=name)


agents = Table(
    "agents",
    metadata,
    _id(),
    _text("project_id"),
    _text("name"),
    _text("framework", nullable=True),
    _time("first_seen_ns"),
    _time("last_seen_ns"),
    Index("ix_agents_project_id", "project_id"),
)

# `key` numbers traces by arrival, so that their spans lie together on disk whatever the senders' ids are.
traces = Table(
    "traces",
    metadata,
    Column("key", RowKey, primary_key=True, autoincrement=True),
    _text("project_id"),
    _text("trace_id"),
    Column("revision", BigInteger, nullable=False),
    Column("checked_revision", BigInteger, nullable=False),
    _text("agent_id", nullable=True),
    _text("name", nullable=True),
    Column("span_count", BigInteger, nullable=False),
    _time("created_at_ns"),
    _time("updated_at_ns"),
    _time("pending_since_ns"),
    UniqueConstraint("project_id", "trace_id"),
    CheckConstraint("checked_revision <= revision", name="checked_revision"),
    Index("ix_traces_project_id_created_at_ns", "project_id", "created_at_ns", "key"),
    Index("ix_traces_agent_id_created_at_ns", "agent_id", "created_at_ns", "key"),
)

spans = Table(
    "spans",
    metadata,
    Column("trace_key", RowKey, ForeignKey("traces.key"), primary_key=True, autoincrement=False),
    _id("span_id"),
    Column("document", LargeBinary, nullable=False),
)

evaluators = Table(
    "evaluators",
    metadata,
    _id(),
    _text("project_id"),
    _text("name"),
    Column("enabled", Boolean, nullable=False),
    _text("severity"),
    Column("sample_rate", Float, nullable=False),
    _text("scope_mode"),
    Column("agent_ids", LargeBinary, nullable=False),
    _time("created_at_ns"),
    _time("updated_at_ns"),
    Column("revision_number", BigInteger, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("severity_bands", LargeBinary, nullable=True),
    Column("raise_failures", BigInteger, nullable=False, server_default="1"),
    Column("raise_of", BigInteger, nullable=False, server_default="1"),
    Column("credentials", LargeBinary, nullable=True),
    _one_of("severity", ("low", "medium", "high", "critical")),
    _one_of("scope_mode", ("all", "selected")),
    CheckConstraint("sample_rate >= 0 AND sample_rate <= 1", name="sample_rate"),
    CheckConstraint("raise_failures >= 1 AND raise_failures <= raise_of", name="raise_after"),
    Index("ix_evaluators_project_id", "project_id"),
)

revisions = Table(
    "revisions",
    metadata,
    _id(),
    _text("evaluator_id", ForeignKey("evaluators.id")),
    Column("number", BigInteger, nullable=False),
    _time("created_at_ns"),
    Column("document", LargeBinary, nullable=False),
    UniqueConstraint("evaluator_id", "number"),
    CheckConstraint("number >= 1", name="number"),
)

checks = Table(
    "checks",
    metadata,
    _id(),
    _text("project_id"),
    _text("evaluator_id", ForeignKey("evaluators.id")),
    _text("revision_id", ForeignKey("revisions.id")),
    _text("trace_id", nullable=True),
    Column("trace_revision", BigInteger, nullable=False),
    _text("agent_id", nullable=True),
    _text("status"),
    Column("origin", PlainText, nullable=False, server_default="live"),
    _time("recorded_at_ns"),
    Column("document", LargeBinary, nullable=False),
    UniqueConstraint("revision_id", "trace_id", "trace_revision"),
    _one_of("origin", ("live", "backfill")),
    _one_of("status", ("scored", "skipped", "errored")),
    Index("ix_checks_project_id_recorded_at_ns", "project_id", "recorded_at_ns", "id"),
    Index("ix_checks_evaluator_id_recorded_at_ns", "evaluator_id", "recorded_at_ns", "id"),
    Index("ix_checks_trace_id", "trace_id"),
)

# `agent_id` is empty, not NULL, for traces without an agent: NULLs would not be unique. `reasons` are those of the
# evidence, folded to one case, to be searched.
signals = Table(
    "signals",
    metadata,
    _id(),
    _text("project_id"),
    _text("evaluator_id", ForeignKey("evaluators.id")),
    _text("agent_id"),
    _text("status"),
    Column("severity", PlainText, nullable=False, server_default="medium"),
    _time("last_seen_ns"),
    Column("raised_at_ns", Nanoseconds, nullable=False, server_default="0"),
    Column("reasons", PlainText, nullable=False, server_default=text("''")),
    Column("document", LargeBinary, nullable=False),
    UniqueConstraint("evaluator_id", "agent_id"),
    _one_of("status", ("open", "acknowledged", "resolved", "archived")),
    _one_of("severity", ("low", "medium", "high", "critical")),
    Index("ix_signals_project_id_last_seen_ns", "project_id", "last_seen_ns", "id"),
    Index("ix_signals_project_id_raised_at_ns", "project_id", "raised_at_ns", "id"),
)

# What was done to signals, numbered by project without a gap in the order of the commits.
signal_log = Table(
    "signal_log",
    metadata,
    _id("project_id"),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    _text("signal_id", ForeignKey("signals.id")),
    _text("kind"),
    Column("document", LargeBinary, nullable=False),
    Index("ix_signal_log_signal_id", "signal_id", "number"),
)

# `last` is the number of a project's last entry; folds are gone up to `pruned_to`.
signal_log_ends = Table(
    "signal_log_ends",
    metadata,
    _id("project_id"),
    Column("last", BigInteger, nullable=False),
    Column("pruned_to", BigInteger, nullable=False),
    CheckConstraint("pruned_to <= last", name="pruned_to"),
)

# `agent_id` is empty for traces without an agent.
failure_windows = Table(
    "failure_windows",
    metadata,
    Column("evaluator_id", PlainText, ForeignKey("evaluators.id"), primary_key=True),
    _id("agent_id"),
    Column("document", LargeBinary, nullable=False),
)

channels = Table(
    "channels",
    metadata,
    _id(),
    _text("project_id"),
    Column("document", LargeBinary, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("failing_since_ns", Nanoseconds, nullable=True),
    _text("failing_cause", nullable=True),
    _time("created_at_ns"),
    Index("ix_channels_project_id", "project_id"),
)

# What channels have yet to be told; what they were told is in `deliveries`.
notifications = Table(
    "notifications",
    metadata,
    _id(),
    _text("channel_id", ForeignKey("channels.id")),
    Column("is_closed", Boolean, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Index("ix_notifications_channel_id", "channel_id"),
)

deliveries = Table(
    "deliveries",
    metadata,
    _id(),
    _text("channel_id", ForeignKey("channels.id")),
    _time("at_ns"),
    Column("document", LargeBinary, nullable=False),
    Index("ix_deliveries_channel_id_at_ns", "channel_id", "at_ns", "id"),
)

testsets = Table(
    "testsets",
    metadata,
    _id(),
    _text("project_id"),
    _text("name"),
    _text("revision_id"),
    Column("revision_number", BigInteger, nullable=False),
    _time("created_at_ns"),
    _time("updated_at_ns"),
    UniqueConstraint("project_id", "name"),
    Index("ix_testsets_project_id_created_at_ns", "project_id", "created_at_ns", "id"),
)

testset_revisions = Table(
    "testset_revisions",
    metadata,
    _id(),
    _text("testset_id", ForeignKey("testsets.id")),
    Column("number", BigInteger, nullable=False),
    _text("digest"),
    Column("columns", LargeBinary, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    _time("created_at_ns"),
    UniqueConstraint("testset_id", "number"),
    UniqueConstraint("testset_id", "digest"),
)

# Some hundred rows together, under the SHA-256 of their content: revisions share what they have in common.
testset_contents = Table(
    "testset_contents",
    metadata,
    _id("project_id"),
    _id("digest"),
    Column("document", LargeBinary, nullable=False),
    _time("touched_at_ns"),
)

testset_blocks = Table(
    "testset_blocks",
    metadata,
    Column("revision_id", PlainText, ForeignKey("testset_revisions.id"), primary_key=True),
    Column("first_row", BigInteger, primary_key=True, autoincrement=False),
    Column("row_count", BigInteger, nullable=False),
    _text("project_id"),
    _text("digest"),
    ForeignKeyConstraint(
        ["project_id", "digest"],
        ["testset_contents.project_id", "testset_contents.digest"],
        name="fk_testset_blocks_project_id_digest",
    ),
    Index("ix_testset_blocks_digest", "digest"),
)

runs = Table(
    "runs",
    metadata,
    _id(),
    _text("project_id"),
    _text("testset_id", nullable=True),
    _text("testset_revision_id", ForeignKey("testset_revisions.id"), nullable=True),
    _text("state"),
    _text("cause", nullable=True),
    Column("is_backfill", Boolean, nullable=False),
    _time("created_at_ns"),
    Column("ended_at_ns", Nanoseconds, nullable=True),
    Column("document", LargeBinary, nullable=False),
    Column("progress", LargeBinary, nullable=False),
    Column("version", BigInteger, nullable=False),
    _one_of("state", ("running", "paused", "cancelled", "finished", "failed")),
    Index("ix_runs_project_id_created_at_ns", "project_id", "created_at_ns", "id"),
    Index("ix_runs_testset_id", "testset_id"),
)

# Results of some rows that follow one another, written together and once.
run_blocks = Table(
    "run_blocks",
    metadata,
    Column("run_id", PlainText, ForeignKey("runs.id"), primary_key=True),
    Column("first_row", BigInteger, primary_key=True, autoincrement=False),
    Column("row_count", BigInteger, nullable=False),
    Column("errored", BigInteger, nullable=False),
    Column("document", LargeBinary, nullable=False),
    CheckConstraint("row_count >= 1", name="row_count"),
)

# What the application answered for rows that its test set has no answer for.
run_outputs = Table(
    "run_outputs",
    metadata,
    Column("run_id", PlainText, ForeignKey("runs.id"), primary_key=True),
    Column("row", BigInteger, primary_key=True, autoincrement=False),
    Column("document", LargeBinary, nullable=False),
    _time("at_ns"),
)

# Which trace says that it was made for which row of a run; no foreign key, since the senders of traces say anything.
run_links = Table(
    "run_links",
    metadata,
    _id("project_id"),
    _id("run_id"),
    Column("row", BigInteger, primary_key=True, autoincrement=False),
    _text("trace_id"),
)

keys = Table(
    "keys",
    metadata,
    _id(),
    _text("project_id"),
    _text("role"),
    _text("digest"),
    _text("prefix"),
    _time("created_at_ns"),
    UniqueConstraint("digest"),
    _one_of("role", ("ingest", "member", "admin")),
)

# `ready_at_ns` is when an entry may be claimed: its due time, or the end of the lease it is held under.
queue = Table(
    "queue",
    sqlite_metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    _text("lane"),
    Column("payload", LargeBinary, nullable=False),
    _time("ready_at_ns"),
    Column("attempt", BigInteger, nullable=False),
    Index("ix_queue_lane_ready_at_ns", "lane", "ready_at_ns", "id"),
    sqlite_autoincrement=True,
)
