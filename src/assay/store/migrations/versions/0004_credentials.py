"""What an external evaluator's endpoint knows us by, sealed."""

import sqlalchemy as sa
from alembic import op

revision = "0004_credentials"
down_revision = "0003_signals"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, empty."""
    op.add_column("evaluators", sa.Column("credentials", sa.LargeBinary(), nullable=True))
