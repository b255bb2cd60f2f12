"""What is asked of the database. Every function is one step: whole or not at all."""

from __future__ import annotations

from typing import Any, NamedTuple

from psycopg import AsyncConnection, AsyncCursor

from .keys import key, unescaped

Connection = AsyncConnection[tuple[Any, ...]]
Row = tuple[str, str]
"""A message: its key, and its JSON."""

# Without before= everything up to the last turn; with it, up to the turn before the latest that holds the message
# (no place: there is none). A turn has at least one message: of so many messages, at most so many turns can be.
_LOAD = """
SELECT till.place, fitting.turn, fitting.long_turn, bodies.bodies
FROM (
  SELECT line.id AS line, CASE WHEN %(before)s::text IS NULL THEN line.turns + 1 ELSE (
    SELECT max(place) FROM {schema}.memory_messages WHERE line = line.id AND id = %(before)s::text
  ) END AS place
  FROM {schema}.memory_lines line WHERE conversation = %(conversation)s AND branch = %(branch)s
) till
LEFT JOIN LATERAL (
  SELECT place, turn, long_turn, sum(size) OVER (ORDER BY place DESC) AS total FROM (
    SELECT * FROM {schema}.memory_turns WHERE line = till.line AND place < till.place
    ORDER BY place DESC LIMIT least(%(turns)s::bigint, %(messages)s::bigint)
  ) latest
) fitting ON %(messages)s::bigint IS NULL OR fitting.total <= %(messages)s::bigint
LEFT JOIN LATERAL (
  SELECT string_agg(body, ',' ORDER BY position) AS bodies FROM {schema}.memory_messages
  WHERE line = till.line AND place = fitting.place
) bodies ON true
ORDER BY fitting.place
"""

# Makes the line, or locks it (an update that changes nothing does): from here on nobody else appends to it.
_LOCK = """
INSERT INTO {schema}.memory_lines AS line (conversation, branch, long_conversation) VALUES (%s, %s, %s)
ON CONFLICT (conversation, branch) DO UPDATE SET turns = line.turns RETURNING id, turns
"""

_KNOWN = """
SELECT place, size, ARRAY(
  SELECT id FROM {schema}.memory_messages message
  WHERE message.line = turn.line AND message.place = turn.place AND id = ANY(%s)
)
FROM {schema}.memory_turns turn WHERE line = %s AND turn = %s
"""

_ADD = """
WITH turn AS (
  INSERT INTO {schema}.memory_turns (line, place, turn, long_turn, size)
  VALUES (%(line)s, %(place)s, %(turn)s, %(long_turn)s, %(size)s)
  ON CONFLICT (line, place) DO UPDATE SET size = EXCLUDED.size
), line AS (
  UPDATE {schema}.memory_lines SET turns = %(place)s WHERE id = %(line)s AND turns < %(place)s
)
INSERT INTO {schema}.memory_messages (line, place, position, id, body)
SELECT %(line)s, %(place)s, %(known)s + number, id, body
FROM unnest(%(ids)s::text[], %(bodies)s::text[]) WITH ORDINALITY AS given (id, body, number)
"""

_LOCK_ALL = """
SELECT id FROM {schema}.memory_lines WHERE conversation = %s ORDER BY id FOR UPDATE
"""

_DELETE = """
WITH messages AS (DELETE FROM {schema}.memory_messages WHERE line = ANY(%(lines)s)),
turns AS (DELETE FROM {schema}.memory_turns WHERE line = ANY(%(lines)s))
DELETE FROM {schema}.memory_lines WHERE id = ANY(%(lines)s)
"""

_CONVERSATIONS = "SELECT DISTINCT coalesce(long_conversation, conversation) FROM {schema}.memory_lines"


class LoadedTurn(NamedTuple):
    """A turn as it comes from the database: ``bodies`` is the JSON of its messages, with commas between."""

    id: str
    bodies: str


class Statements:
    """The statements for the tables of one schema, whose name is checked."""

    def __init__(self, schema: str) -> None:
        texts = (_LOAD, _LOCK, _KNOWN, _ADD, _LOCK_ALL, _DELETE, _CONVERSATIONS)
        # psycopg takes bytes for a statement that is not a literal of the program
        self._load, self._lock, self._known, self._add, self._lock_all, self._delete, self._conversations = (
            text.replace("{schema}", f'"{schema}"').encode() for text in texts
        )

    async def load(
        self,
        db: Connection,
        conversation: str,
        branch: str,
        last_turns: int | None,
        last_messages: int | None,
        before: str | None,
    ) -> list[LoadedTurn] | None:
        """The latest turns; None when there is no message of the id ``before``."""
        given = {
            "conversation": key(conversation)[0],
            "branch": key(branch)[0],
            "turns": last_turns,
            "messages": last_messages,
            "before": None if before is None else key(before)[0],
        }
        rows = await _rows(db, self._load, given)
        if before is not None and (not rows or rows[0][0] is None):
            return None
        return [LoadedTurn(unescaped(long or turn), bodies) for _, turn, long, bodies in rows if turn is not None]

    async def append(self, db: Connection, conversation: str, branch: str, turn: str, rows: list[Row]) -> None:
        """Add the messages that the turn does not have yet."""
        conversation, long_conversation = key(conversation)
        turn, long_turn = key(turn)
        new: dict[str, str] = {}
        for name, body in rows:
            new.setdefault(key(name)[0], body)  # a message that is there twice counts where it is first
        async with db.transaction():
            ((line, turns),) = await _rows(db, self._lock, (conversation, key(branch)[0], long_conversation))
            found = await _rows(db, self._known, (list(new), line, turn))
            place, known = turns + 1, 0
            if found:
                place, known, ids = found[0]
                for name in ids:
                    del new[name]
            if new:
                given = {"line": line, "place": place, "turn": turn, "long_turn": long_turn, "known": known}
                given |= {"size": known + len(new), "ids": list(new), "bodies": list(new.values())}
                await db.execute(self._add, given)

    async def delete(self, db: Connection, conversation: str) -> None:
        """Delete all branches of a conversation."""
        async with db.transaction():
            rows = await _rows(db, self._lock_all, (key(conversation)[0],))
            await db.execute(self._delete, {"lines": [row[0] for row in rows]})

    async def conversations(self, db: Connection) -> list[str]:
        """The ids of all conversations, in no order."""
        return [unescaped(row[0]) for row in await _rows(db, self._conversations, ())]


async def _rows(db: Connection, statement: bytes, given: Any) -> list[tuple[Any, ...]]:
    cursor: AsyncCursor[tuple[Any, ...]] = await db.execute(statement, given)
    return await cursor.fetchall()
