"""How many checks of one evaluator to claim at once: as many as take about a second."""

FIRST = 16
LARGEST = 256
TARGET_S = 1.0


def next_size(size: int, took_s: float, ran: int) -> int:
    """Return the next batch size from how long the last took.

    Growth is at most fourfold a step; an evaluator that takes the whole target for one item gets one at a time,
    so that a kill loses, and a neighbour waits for, about a second of work.
    """
    if ran == 0 or took_s <= 0:
        return size
    fitting = TARGET_S * ran / took_s
    return max(1, int(min(fitting, size * 4, LARGEST)))
