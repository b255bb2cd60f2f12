"""How time is taken: CPU time, in batches of the two sides that alternate in one process.

CPU time repeats on a machine that others use too, wall time does not. Nothing sleeps outside W6, so on an idle core
they are the same. A ratio is the median over pairs of batches that ran right after each other.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import median

from workloads import SIDES, WORKLOADS, Advised, Side, Workload, check

BATCH_SECONDS = 0.008
"""CPU time of one batch, about: short, so that most batches run without a switch to another process."""

Sample = Callable[[], Awaitable[float]]
"""Takes CPU seconds per unit (request, chunk, import) of one batch."""


@dataclass(frozen=True)
class Measured:
    """What was measured: a ratio (or another number), and the seconds behind it.

    Attributes:
        value: the ratio, or the growth exponent.
        seconds, bare_seconds: of one unit, the median.
        best, bare_best: of one unit, the shortest: what it costs when nobody disturbs.
    """

    value: float
    seconds: float = math.nan
    bare_seconds: float = math.nan
    best: float = math.nan
    bare_best: float = math.nan


async def batch(side: Side, count: int) -> float:
    """CPU seconds per request of ``count`` requests, one after the other."""
    start = time.process_time()
    for _ in range(count):
        await side.request()
    return (time.process_time() - start) / count


async def concurrently(side: Side, count: int) -> float:
    """CPU seconds per request of ``count`` requests at once."""
    start = time.process_time()
    await asyncio.gather(*[side.request() for _ in range(count)])
    return (time.process_time() - start) / count


async def batch_size(side: Side) -> int:
    """How many requests take about `BATCH_SECONDS`; warms up, too."""
    await batch(side, 3)
    count = max(1, min(1000, int(BATCH_SECONDS / 4 / max(await batch(side, 3), 1e-6))))
    return max(1, int(BATCH_SECONDS / max(await batch(side, count), 1e-7)))


async def request_sample(name: str | Side, workload: Workload) -> Sample:
    """A sample of whole requests of one side (by name, or one that is built already), checked once."""
    side = SIDES[name](workload) if isinstance(name, str) else name
    if workload.concurrent > 1:
        await check(side, workload)
        await concurrently(side, workload.concurrent // 10)
        return lambda: concurrently(side, workload.concurrent)
    await check(side, workload)
    count = await batch_size(side)
    return lambda: batch(side, count)


async def chunk_sample(name: str, workload: Workload) -> Sample:
    """A sample of what one more chunk costs: many chunks against one."""
    many = await request_sample(name, workload)
    one = await request_sample(name, replace(workload, chunks=1))

    async def sample() -> float:
        return (await many() - await one()) / (workload.chunks - 1)

    return sample


async def paired(ours: Sample, bare: Sample, pairs: int) -> Measured:
    """Alternate the two sides; the median of the paired ratios."""
    gc.collect()
    bare_times: list[float] = []
    times: list[float] = []
    for _ in range(pairs):
        bare_times.append(await bare())
        times.append(await ours())
    ratio = median(ours_s / bare_s for ours_s, bare_s in zip(times, bare_times, strict=True))
    return Measured(ratio, median(times), median(bare_times), min(times), min(bare_times))


async def extra_price(extra: str, workload: Workload, pairs: int) -> Measured:
    """What the advisors of an `EXTRAS` entry add to a request, as a multiple of the bare loop's request."""
    advised = await request_sample(Advised(workload, extra), workload)
    plain, bare = await request_sample(Advised(workload), workload), await request_sample("bare", workload)
    return await overhead(advised, plain, bare, pairs)


async def overhead(ours: Sample, without: Sample, bare: Sample, pairs: int) -> Measured:
    """Alternate three sides; the median of what ours costs more than the same without, in units of the bare one.

    A batch of ours stands between two without, so that a machine that becomes slower or faster does not count.
    """
    gc.collect()
    times = [(await bare(), await without(), await ours(), await without()) for _ in range(pairs)]
    differences = [ours_s - (before + after) / 2 for _, before, ours_s, after in times]
    bare_times = [bare_s for bare_s, _, _, _ in times]
    ratio = median(difference / bare_s for difference, bare_s in zip(differences, bare_times, strict=True))
    best = min(ours_s for _, _, ours_s, _ in times) - min(min(before, after) for _, before, _, after in times)
    return Measured(ratio, median(differences), median(bare_times), best, min(bare_times))


async def growth(workload: Workload, few: int, many: int) -> Measured:
    """The exponent with which the cost of a turn grows with its rounds: 1 is linear, 2 quadratic."""
    short = SIDES["advisorchain"](replace(workload, rounds=few))
    long = SIDES["advisorchain"](replace(workload, rounds=many))
    await short.request()
    gc.collect()
    pairs = [(await batch(short, many // few), await batch(long, 1)) for _ in range(5)]
    low, high = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
    return Measured(math.log(high / low) / math.log(many / few))


class Quiet:
    """Waits for quiet moments, ``seconds`` in all; where the system does not tell how busy it is, it never waits."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def wait(self) -> None:
        """Return when four fifths of the machine are idle, or when all the time is used up."""
        while self.left > 0 and (busy := self._busy()) is not None and busy > 0.2:
            pass

    def _busy(self, seconds: float = 0.2) -> float | None:
        """The busy part of all cores while this process sleeps."""
        try:
            before = _ticks()
        except (OSError, ValueError):
            return None
        time.sleep(seconds)
        self.left -= seconds
        idle, total = (after - earlier for after, earlier in zip(_ticks(), before, strict=True))
        return 1 - idle / max(total, 1)


def _ticks() -> tuple[int, int]:
    """The idle and all the clock ticks of the machine so far."""
    ticks = [int(number) for number in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


@lru_cache(maxsize=1)
def quick_imports() -> dict[str, str]:
    """An environment in which imports find bytecode: without it, they would measure the compiler."""
    cache = Path(tempfile.gettempdir()) / f"advisorchain-benchmark-{os.getuid() if hasattr(os, 'getuid') else 0}"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPYCACHEPREFIX": str(cache)}


IMPORTS = {
    "bare": "import asyncio, pydantic; from pydantic import BaseModel, TypeAdapter",
    "advisorchain": "import advisorchain",
}


def import_seconds(name: str) -> float:
    """CPU seconds of an import in a fresh interpreter."""
    code = f"import time; start = time.process_time(); {IMPORTS[name]}; print(time.process_time() - start)"
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, env=quick_imports(), check=True, capture_output=True, text=True).stdout)


async def import_sample(name: str) -> Sample:
    """A sample of imports; the first one writes the bytecode and does not count."""
    import_seconds(name)

    async def sample() -> float:
        return import_seconds(name)

    return sample


def peak_megabytes(name: str) -> float | None:
    """By how many MB W6 raises the memory of a fresh process at its peak; None where the system cannot tell."""
    command = [sys.executable, __file__, name]
    printed = subprocess.run(command, env=quick_imports(), check=True, capture_output=True, text=True).stdout.strip()
    return float(printed) if printed else None


def _print_peak(name: str) -> None:
    status = Path("/proc/self/status")
    if not status.exists():
        return

    def kilobytes(field: str) -> int:
        return int(next(line for line in status.read_text().splitlines() if line.startswith(field)).split()[1])

    workload = WORKLOADS["W6"]
    side = SIDES[name](workload)

    async def run() -> int:
        await concurrently(side, 5)
        gc.collect()
        before = kilobytes("VmRSS:")
        await concurrently(side, workload.concurrent)
        return kilobytes("VmHWM:") - before  # ru_maxrss would include the parent's

    print(asyncio.run(run()) * 1024 / 1e6)


if __name__ == "__main__":
    _print_peak(sys.argv[1])
