"""Counters of the live flow, as Prometheus metrics of one server."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Meters:
    """The counters, in a registry of their own so that two servers in one process do not share them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.spans = Counter("assay_spans_accepted", "Spans accepted.", registry=self.registry)
        self.traces = Counter("assay_traces_changed", "Traces that accepted spans changed.", registry=self.registry)
        self.checks = Counter("assay_checks_recorded", "Checks recorded.", ["status"], registry=self.registry)
        self.signals = Counter("assay_signals_raised", "Signals raised or reopened.", registry=self.registry)
        self.retries = Counter("assay_checks_retried", "Checks we could not run and try again.", registry=self.registry)
        self.notifications = Counter(
            "assay_notifications", "Attempts to tell a channel.", ["outcome"], registry=self.registry
        )
        self.paused = Gauge(
            "assay_evaluators_paused", "Revisions that are paused because they keep crashing.", registry=self.registry
        )
        self.backlog = Gauge("assay_queue_depth", "Queue entries waiting or running.", registry=self.registry)
        self.latency = Histogram(
            "assay_check_seconds",
            "Time of one evaluation, as its author's code took it.",
            registry=self.registry,
            buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 8, 30),
        )
