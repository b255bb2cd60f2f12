"""How the command line ends when something goes wrong: one line on stderr, and an exit code."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

import typer

from ..errors import AdvisorChainError
from .choice import UsageProblem, described
from .display import clean, one_line
from .termination import exit_code, was_terminated


@contextmanager
def one_line_errors(verbose: bool = False) -> Generator[None]:
    """An error is one line on stderr, and code 1; a wrong command line is code 2, Ctrl-C 130, SIGTERM 143."""
    handler = _LineHandler(verbose)
    logger = logging.getLogger("advisorchain")
    level = logger.level
    logger.addHandler(handler)
    if verbose:
        logger.setLevel(logging.DEBUG)
    try:
        yield
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except UsageProblem as exc:
        raise _failed(str(exc), 2) from exc
    except KeyboardInterrupt:
        raise _failed("terminated" if was_terminated() else "cancelled", exit_code()) from None
    except Exception as exc:
        logger.debug("The command failed", exc_info=exc)
        raise _failed(_described(exc), 1) from exc
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _described(exc: BaseException) -> str:
    while isinstance(exc, BaseExceptionGroup):
        exc = cast("BaseExceptionGroup[BaseException]", exc).exceptions[0]
    return str(exc) if isinstance(exc, AdvisorChainError) and str(exc) else described(exc)


def _failed(text: str, code: int) -> typer.Exit:
    typer.echo(f"error: {one_line(text)}", err=True)
    return typer.Exit(code)


class _LineHandler(logging.Handler):
    """Writes each record as one cleaned line to what is stderr now; a traceback only when asked to be verbose."""

    def __init__(self, verbose: bool) -> None:
        super().__init__(logging.DEBUG if verbose else logging.WARNING)
        self._verbose = verbose
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s" if verbose else "%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record."""
        if self._verbose:
            text = clean(self.format(record))
        else:
            error = record.exc_info[1] if record.exc_info else None
            text = one_line(record.getMessage() + (f": {described(error)}" if error is not None else ""))
            text = f"{record.levelname.lower()}: {text}"
        print(text, file=sys.stderr)
