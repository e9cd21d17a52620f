"""What the demo shows: counters and signals, read from the running server."""

from dataclasses import dataclass, field
from typing import Any

import httpx2
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One reading of the server."""

    traces: int = 0
    scored: int = 0
    skipped: int = 0
    errored: int = 0
    signals: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def line(self) -> str:
        """Return the counters in one line, for a terminal that cannot redraw."""
        return (
            f"traces in {self.traces} | scored {self.scored} | skipped {self.skipped} | errored {self.errored} | "
            f"signals {len(self.signals)}"
        )


def read_board(client: httpx2.Client) -> Board:
    """Ask the server for its counters (since it started) and its signals."""
    counts: dict[str, int] = {}
    for family in text_string_to_metric_families(client.get("/metrics").raise_for_status().text):
        for sample in family.samples:
            if sample.name.endswith("_total"):
                counts[sample.labels.get("status", sample.name)] = int(sample.value)
    return Board(
        traces=counts.get("assay_traces_changed_total", 0),
        scored=counts.get("scored", 0),
        skipped=counts.get("skipped", 0),
        errored=counts.get("errored", 0),
        signals=client.get("/api/v1/signals", params={"limit": 5}).raise_for_status().json()["signals"],
    )


def draw(board: Board, *, url: str, names: dict[str, str]) -> Group:
    """Draw the counters and the signals."""
    counters = Table.grid(padding=(0, 3))
    counters.add_row("traces in", "scored", "skipped", "errored", "signals")
    counters.add_row(
        f"[bold]{board.traces}[/]",
        f"[bold green]{board.scored}[/]",
        f"[bold]{board.skipped}[/]",
        f"[bold yellow]{board.errored}[/]",
        f"[bold red]{len(board.signals)}[/]",
    )
    signals = Table("severity", "evaluator", "times", "status", "last reason", expand=True)
    for signal in board.signals:
        signals.add_row(
            signal["severity"],
            names.get(signal["evaluatorId"], signal["evaluatorId"]),
            str(signal["count"]),
            signal["status"],
            Text(_reason(signal["evidence"])),
        )
    return Group(
        Panel(counters, title=f"Assay at {url}", subtitle="since this start; signals in all"),
        signals,
        Text("Errored: some traces lack what an evaluator reads. Ctrl-C stops; a second start keeps the data.", "dim"),
    )


def _reason(evidence: list[dict[str, Any]]) -> str:
    """Say why the last check failed: in its author's words, else by its metrics."""
    if not evidence:
        return ""
    return evidence[0]["reason"] or ", ".join(f"{name}={value}" for name, value in evidence[0]["metrics"].items())


def where_to_look(*, url: str, key: str, log: str) -> Text:
    """Return commands to copy."""
    header = '--header "x-api-key: $ASSAY_KEY"'
    return Text.assemble(
        ("Where to look next\n", "bold"),
        f"  export ASSAY_KEY={key}\n",
        f"  curl {header} {url}/api/v1/signals\n",
        f"  curl {header} {url}/api/v1/traces\n",
        f"  curl {header} {url}/api/v1/custom-evaluators      # then …/<id>/events for its checks\n",
        f"  export OTEL_EXPORTER_OTLP_ENDPOINT={url} OTEL_EXPORTER_OTLP_HEADERS=x-api-key=$ASSAY_KEY\n",
        f"  the API, to try: {url}/docs      the server's log: {log}\n",
    )
