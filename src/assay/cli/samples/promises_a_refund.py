"""Fails when the desk promises money that its own policy lookup did not allow."""

import re

PROMISE = re.compile(r"\b(refunded|refund is on its way|we will refund)\b", re.IGNORECASE)


def evaluate(inputs, outputs, trace):
    allowed = any(
        "refundable" in str(span["attributes"]["ag"]["data"]["outputs"])
        for span in trace["spans"].values()
        if span["name"] == "search_policies"
    )
    promised = bool(PROMISE.search(str(outputs)))
    root = next(iter(trace["spans"].values()))
    unit = root["attributes"]["ag"]["metrics"]["unit"]
    return {
        "success": allowed or not promised,
        "promised": promised,
        "tokens": unit["tokens"].get("total", 0),
        "seconds": unit["duration"]["total"],
        "reason": "promised a refund without a policy that allows one" if promised and not allowed else "fine",
    }
