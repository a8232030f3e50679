"""What processes used: CPU seconds and peak memory from /proc, counters from /metrics."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used in all its threads; 0 if it is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    return used_ticks(text) / _TICKS


def used_ticks(stat: str) -> int:
    """User and system ticks in a line of /proc/PID/stat; the name may have any character."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def peak_mb(pid: int) -> float:
    """Largest resident memory in MiB since the last ``forget_peak``; 0 if the process is gone."""
    return _status_mb(pid, "VmHWM")


def rss_mb(pid: int) -> float:
    """Resident memory in MiB now; 0 if the process is gone."""
    return _status_mb(pid, "VmRSS")


def _status_mb(pid: int, key: str) -> float:
    try:
        text = (_PROC / str(pid) / "status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    found = [line.split() for line in text.splitlines() if line.startswith(f"{key}:")]
    return int(found[0][1]) / 1024 if found else 0.0


def forget_peak(pid: int) -> None:
    """Let the peak start from what is used now, where the system allows it."""
    with contextlib.suppress(OSError):
        (_PROC / str(pid) / "clear_refs").write_text("5", encoding="utf-8")


def machine_s() -> float:
    """CPU seconds that the whole machine has been busy; 0 where that cannot be told."""
    try:
        first, *_ = (_PROC / "stat").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return busy_ticks(first) / _TICKS


def busy_ticks(line: str) -> int:
    """Ticks in the first line of /proc/stat in which a CPU neither idled nor waited for a disk."""
    user, nice, system, _idle, _wait, *others = map(int, line.split()[1:9])
    return user + nice + system + sum(others)


class Usage:
    """CPU seconds and peak memory of named processes from its making on."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = dict(pids)
        for pid in self._pids.values():
            forget_peak(pid)
        self._began, self._machine = time.monotonic(), machine_s()
        self._begin = {name: cpu_s(pid) for name, pid in self._pids.items()}

    def others(self) -> float:
        """CPUs that were taken by what is not named here: 0.5 is half a CPU all the time.

        The kernel's own work for the named processes counts as theirs only in part, so that a few
        per cent are always left.
        """
        busy = machine_s() - self._machine - sum(self.cpu_s().values())
        return round(max(0.0, busy) / max(1e-3, time.monotonic() - self._began), 2)

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds since then."""
        now = {name: cpu_s(pid) for name, pid in self._pids.items()}
        return {name: round(now[name] - self._begin[name], 2) for name in now}

    def peak_mb(self) -> dict[str, int]:
        """Peak memory since then, in MiB."""
        return {name: round(peak_mb(pid)) for name, pid in self._pids.items()}


def settle(
    pids: Mapping[str, int], *, share: float = 0.03, window_s: float = 0.5, deadline_s: float = 60.0
) -> bool:
    """Wait until these processes use less than ``share`` of a CPU together; False if they do not.

    So one measurement does not pay for what the one before left to do.
    """
    return calm(
        lambda: sum(map(cpu_s, pids.values())),
        share * window_s,
        window_s,
        time.monotonic,
        deadline_s,
    )


def quiet(
    pids: Mapping[str, int], patience_s: float, *, share: float = 0.15, window_s: float = 1.0
) -> bool:
    """Wait until all but these processes use less than ``share`` of a CPU; False if they do not."""

    def others() -> float:
        return machine_s() - sum(map(cpu_s, pids.values()))

    return calm(others, share * window_s, window_s, time.monotonic, patience_s)


def calm(
    used: Callable[[], float],
    allowed: float,
    window_s: float,
    clock: Callable[[], float],
    deadline_s: float,
    pause: Callable[[float], None] = time.sleep,
) -> bool:
    """Whether within the deadline a window comes in which ``used`` grows by ``allowed`` at most."""
    end = clock() + deadline_s
    before = used()
    while clock() < end:
        pause(window_s)
        now = used()
        if now - before <= allowed:
            return True
        before = now
    return False


def counter(metrics: str, name: str, **labels: str) -> float:
    """The sum of a metric's samples with these labels in Prometheus text; 0 if there is none."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    total = 0.0
    for line in metrics.splitlines():
        series, _, value = line.rpartition(" ")
        if series.partition("{")[0] == name and all(label in series for label in wanted):
            total += float(value)
    return total
