"""What an error of PostgreSQL means, and what to do about it; and data source names that tell no secret."""

from __future__ import annotations

from typing import Any

from psycopg import Error
from psycopg.conninfo import conninfo_to_dict

from advisorchain import ConfigurationError

_ADVICE = {
    "08": "Check that the server runs and that dsn= is right, and try again.",
    "28": "Check the user and password in dsn=.",
    "3D": "Check the name of the database in dsn=, or create the database.",
    "25006": "The server is read-only: give dsn= a primary server, for example with target_session_attrs=read-write.",
    "42501": "Give the user of dsn= the right to create the tables, or to use them, or give another schema=.",
    "53100": "The server's disk is full: free some space and try again.",
    "53300": "The server has no connection left: lower max_connections=, or raise the server's own limit.",
    "57014": "The server ended the statement, which took too long: try again, or raise timeout=.",
    "57P": "The server is starting or stopping: try again.",
}
_TEXTS = {
    "password": _ADVICE["28"],
    "pg_hba.conf": "The server takes no such client: check user, database and sslmode in dsn=, or its pg_hba.conf.",
    'database "': _ADVICE["3D"],
    "too many": _ADVICE["53300"],
    "remaining connection slots": _ADVICE["53300"],
    "starting up": _ADVICE["57P"],
    "shutting down": _ADVICE["57P"],
}
"""Errors of connecting come without a code."""


def explained(error: Exception, secrets: tuple[str, ...]) -> str:
    """One sentence or two: what happened, and what to do."""
    text = " ".join(str(error).partition("\nMultiple connection attempts")[0].split()) or type(error).__name__
    for secret in secrets:
        text = text.replace(secret, "***")
    code = getattr(error, "sqlstate", None)
    if code is not None:
        advice = next((advice for start, advice in _ADVICE.items() if code.startswith(start)), "")
    elif isinstance(error, Error):
        advice = next((advice for part, advice in _TEXTS.items() if part in text), _ADVICE["08"])
    else:
        advice = ""
    end = "" if text.endswith("?") else "."  # libpq asks whether the server runs
    return f"{text.rstrip('.')}{end} {advice}".rstrip()


def is_lost(error: Exception) -> bool:
    """Whether the connection is gone, or the tables are: a new one may do better."""
    code = getattr(error, "sqlstate", None)
    return isinstance(error, Error) and (code is None or code.startswith(("08", "57P")) or code in ("42P01", "3F000"))


def checked_dsn(dsn: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What a data source name says, and the secrets in it.

    Raises:
        ConfigurationError: it is none. The text does not repeat it: it may hold a password.
    """
    if not isinstance(dsn, str) or not dsn.strip():
        raise ConfigurationError(
            "PostgresStore(dsn) takes a URL like postgresql://user:password@localhost:5432/database."
        )
    try:
        said = conninfo_to_dict(dsn)
    except Error:
        said = {}
    said = {name: value for name, value in said.items() if value is not None}
    if not said or not _is_whole(dsn, said):
        raise ConfigurationError(
            "PostgresStore: dsn= is no URL like postgresql://user:password@localhost:5432/database and no string like "
            "'host=localhost dbname=database'. In a URL, @ : / ? % and the like in the password are written with %, "
            "for example %40 for @."
        )
    known = {said.get(name) for name in ("user", "dbname", "host")}
    secrets = (str(said.get("password") or ""), str(said.get("sslpassword") or ""))
    return said, tuple(secret for secret in secrets if secret and secret not in known)


def _is_whole(dsn: str, said: dict[str, Any]) -> bool:
    """Whether no piece of an unquoted password has become a host, a port or a database."""
    for port in str(said.get("port", "5432")).split(","):
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            return False
    for host in str(said.get("host", "")).split(","):
        if not host.startswith(("/", "@")) and any(mark in host for mark in "@/ \t\n"):
            return False
    is_url = dsn.startswith(("postgresql://", "postgres://"))
    return not (is_url and "@" in str(said.get("dbname", "")) and "password" not in said)
