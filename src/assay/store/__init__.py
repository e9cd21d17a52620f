"""SQL: tables, migrations, one file per aggregate, and the two queues."""
