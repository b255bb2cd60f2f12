"""What a user gets: ``python tests/distributions/check.py``; exit code 1 when something of it is not right.

Builds wheels and sdists of all distributions and looks into them (`archives`), installs each into an empty environment
and runs its own tests there (`installed`), and goes the way of a new user with a plugin and a file (`first_use`). All
in a directory of its own outside the repository; what is not ours comes from PyPI, in the newest version allowed.
Needs uv, and Node for the plugins whose tests do.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from distribution import built_distributions, copy_sources
from first_use import check_first_use
from installed import check_installed, copy_tests
from programs import CheckFailed, end_all

LONGEST_FIRST = ["advisorchain", "advisorchain-postgres", "advisorchain-redis"]
"""They start first, so that the last one to end is a short one."""


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the directory is removed then, too
    with tempfile.TemporaryDirectory(prefix="distributions-") as directory:
        # For root, PostgreSQL runs as another user, who must be able to enter its environment.
        Path(directory).chmod(0o755)
        return check(Path(directory).resolve())


def check(scratch: Path) -> int:
    """All checks, as many at a time as there are processors; returns how many failed."""
    try:
        sources = copy_sources(scratch)
        distributions = built_distributions(sources, scratch)
        tests = copy_tests(sources, scratch)
    except CheckFailed as exc:
        print(f"FAILED: {exc}")
        return 1
    core = distributions[0]
    named = {distribution.name: distribution for distribution in distributions}
    jobs: dict[str, Callable[[], str | None]] = {
        f"{name}, contents": distribution.check_contents for name, distribution in named.items()
    }
    for name in sorted(named, key=lambda name: name not in LONGEST_FIRST):
        jobs[f"{name}, tests"] = partial(check_installed, named[name], core, tests, scratch)
    jobs["first use"] = lambda: "\n" + check_first_use(core, named["advisorchain-vector"], scratch)

    failures = 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        running = {pool.submit(timed, job): title for title, job in jobs.items()}
        try:
            for future in as_completed(running):
                try:
                    seconds, told = future.result()
                except CheckFailed as exc:
                    failures += 1
                    print(f"FAILED: {running[future]}: {exc}", flush=True)
                else:
                    print(f"{running[future]} ({seconds:.0f} s): {told or 'ok'}", flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end_all()
            raise
    return failures


def timed(job: Callable[[], str | None]) -> tuple[float, str | None]:
    since = time.monotonic()
    told = job()
    return time.monotonic() - since, told


if __name__ == "__main__":
    sys.exit(min(main(), 1))
