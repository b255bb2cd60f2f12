"""A profile as JSON: the user gets the JSON text, the application gets the object."""

from __future__ import annotations

from pydantic import BaseModel

from advisorchain import ToolError, tool


class Profile(BaseModel):
    """A user's public data."""

    name: str
    team: str
    languages: list[str]


PROFILES = {
    "ada": Profile(
        name="Ada Lovelace", team="Engines", languages=["English", "French"]
    ),
    "wen": Profile(name="李文", team="Reisen", languages=["中文", "Deutsch"]),
}


@tool(return_direct=True, read_only=True)
def get_profile(login: str) -> Profile:
    """Get a user's profile by login."""
    if login not in PROFILES:
        raise ToolError(f"There is no user {login!r}.")
    return PROFILES[login]
