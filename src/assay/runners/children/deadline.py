"""When an evaluation in a child has used up its time, by the server's clock and by the kernel's count."""

from typing import TypeAlias

from assay.domain.outcome import Limits

BEGIN_S = 20.0
LEAST_LOOK_S = 0.01
PATIENCE = 2
"""An evaluation that wanted the CPU and got less than half of it has so many times the wall time."""
_LOOKS = 32
_LOOKS_AT_CPU = 8
_STARVED = (0.001, 0.5)
# One that used up nearly all its CPU time by its deadline has a little longer to use up the rest, so that what is
# named is the budget that such code is really after.
_NEARLY = 0.9
_A_LITTLE_LONGER = 1.1
_LOOKS_OF_FINISHING = 5

Told: TypeAlias = tuple[float, float]
"""A moment (monotonic), and the CPU time that the child had used then by the kernel's count; both in seconds."""


class Deadline:
    """Decides, from look to look, how long the evaluation that runs in a child has left.

    The child's own counter says when each began, so the deadline is exact for honest code. A child that only claims
    to make progress gains one more deadline: at the latest that long after its last answer it is over.

    Wall time is not the author's fault where the machine is so full that the kernel hardly let the evaluation run, so
    that one has its time once more. What sleeps uses no CPU at all and what runs uses most of it; in between is who
    waited for it (or slept in snatches, who gains little). How much it used is the kernel's word, not the child's.

    By the same word it is over its CPU time. The child's own timer is quicker, but the author's code can stop that;
    and none is set where there is as much CPU time as wall time.

    `since` is when the evaluation began, `before` what the child was told to have used last before that.
    """

    def __init__(self, limits: Limits, *, begun: int, told: Told, now: float) -> None:
        self.look_s = max(min(limits.wall_s / _LOOKS, limits.cpu_s / _LOOKS_AT_CPU), LEAST_LOOK_S)
        self.since = self._answered_at = now
        self.before: Told = told
        self._told: Told = told
        self.is_over_cpu = False
        self._limits = limits
        self._begun = begun
        self._answers = 0
        self._patience = 1.0
        self._longer = max(_A_LITTLE_LONGER, 1.0 + _LOOKS_OF_FINISHING * LEAST_LOOK_S / limits.wall_s)
        self._is_finishing = False
        self._first: Told | None = None

    def left_s(
        self, now: float, *, progress: tuple[int, float], answers: int, told: Told | None, is_running: bool
    ) -> float:
        """Return how long to wait until the next look; nothing when the time is used up.

        `progress` is how many evaluations the child says to have begun, and when the last; `answers` are those that
        came; `is_running` tells whether it has begun to run the author's code at all.
        """
        begun, claimed = progress
        told = told or self._told
        if begun > self._begun:
            self._begun, self._patience, self._is_finishing, self._first = begun, 1.0, False, None
            # The author's code can write any number there, NaN too; one that cannot be true moves nothing.
            if self.since <= claimed <= now:
                self.since = claimed
            self.before = told if told[0] <= self.since else self._told
        self._told = told
        if answers > self._answers:
            self._answers, self._answered_at = answers, now
        if self._first is None and told[0] >= self.since:
            self._first = told
        used_s = told[1] - self.before[1]
        if now >= self._latest(is_running) and self._patience == 1.0:
            if self._is_starved():
                self._patience = PATIENCE
            elif used_s >= _NEARLY * self._limits.cpu_s:
                self._patience, self._is_finishing = self._longer, True
        if (used_s if self._is_finishing else told[1] - (self._first or told)[1]) >= self._limits.cpu_s:
            self.is_over_cpu = True
            return 0.0
        return min(self._latest(is_running) - now, LEAST_LOOK_S if self._is_finishing else self.look_s)

    def _latest(self, is_running: bool) -> float:
        """Return when the time is used up, by all that is known."""
        limit_s = self._patience * self._limits.wall_s if is_running else BEGIN_S
        return min(self.since + limit_s, self._answered_at + 2 * limit_s)

    def _is_starved(self) -> bool:
        """Tell whether the evaluation wanted the CPU and hardly got it, between the first and the last time told."""
        first, last = self._first, self._told
        if first is None or last[0] <= first[0]:
            return False
        least, most = _STARVED
        return least < (last[1] - first[1]) / (last[0] - first[0]) < most
