"""What PgQueuer's objects are called in a shared PostgreSQL, whatever its own environment variables say."""

from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import Channel

# Its log only counts what passed through, so a crash may empty it; the queue itself is as durable as any table.
SETTINGS = DBSettings(
    prefix="",
    db_schema=None,
    channel=Channel("ch_pgqueuer"),
    function="fn_pgqueuer_changed",
    statistics_table="pgqueuer_statistics",
    queue_status_type="pgqueuer_status",
    queue_table="pgqueuer",
    queue_table_log="pgqueuer_log",
    trigger="tg_pgqueuer_changed",
    schedules_table="pgqueuer_schedules",
    durability=Durability.balanced,
)
