"""What runs inside the server: each script is one step that nobody else can come between.

Of a branch with the base key B: ``B:turns`` is the list of turn ids, ``B:sizes`` how many messages each has, ``B:seq``
the place of a turn by its id, ``B:ids`` the place of the latest turn by message id; of its turn at place i ``B:m:i``
are the messages and ``B:i:i`` their ids.
"""

from __future__ import annotations

APPEND = """
local everything, branches, base = ARGV[1], ARGV[2], ARGV[3]
local conversation, branch, turn = ARGV[4], ARGV[5], ARGV[6]
local place = tonumber(redis.call('HGET', base .. ':seq', turn))
if not place then
  place = redis.call('RPUSH', base .. ':turns', turn)
  redis.call('RPUSH', base .. ':sizes', 0)
  redis.call('HSET', base .. ':seq', turn, place)
  redis.call('SADD', branches, branch)
  redis.call('SADD', everything, conversation)
end
local size = tonumber(redis.call('LINDEX', base .. ':sizes', place - 1))
for at = 7, #ARGV, 2 do
  if redis.call('SADD', base .. ':i:' .. place, ARGV[at]) == 1 then
    redis.call('RPUSH', base .. ':m:' .. place, ARGV[at + 1])
    size = size + 1
    local latest = tonumber(redis.call('HGET', base .. ':ids', ARGV[at]) or 0)
    if latest < place then
      redis.call('HSET', base .. ':ids', ARGV[at], place)
    end
  end
end
redis.call('LSET', base .. ':sizes', place - 1, size)
return size
"""

LOAD = """
local base, turns, messages = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local stop = redis.call('LLEN', base .. ':turns')
if ARGV[4] == '1' then
  local place = tonumber(redis.call('HGET', base .. ':ids', ARGV[5]))
  if not place then
    return false
  end
  stop = place - 1
end
local start = stop + 1
if turns < 0 and messages < 0 then
  start = 1
else
  while start > 1 and (turns < 0 or stop - start + 1 < turns) do
    if messages >= 0 then
      messages = messages - tonumber(redis.call('LINDEX', base .. ':sizes', start - 2))
      if messages < 0 then
        break
      end
    end
    start = start - 1
  end
end
local found = {}
if start <= stop then
  for index, turn in ipairs(redis.call('LRANGE', base .. ':turns', start - 1, stop - 1)) do
    found[index] = {turn, redis.call('LRANGE', base .. ':m:' .. (start + index - 1), 0, -1)}
  end
end
return found
"""

DELETE = """
local everything, branches, conversation, prefix = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
for _, branch in ipairs(redis.call('SMEMBERS', branches)) do
  local base = prefix .. branch
  for place = 1, redis.call('LLEN', base .. ':turns') do
    redis.call('DEL', base .. ':m:' .. place, base .. ':i:' .. place)
  end
  redis.call('DEL', base .. ':turns', base .. ':sizes', base .. ':seq', base .. ':ids')
end
redis.call('DEL', branches)
redis.call('SREM', everything, conversation)
return 1
"""

SAVE_STATE = """
local stored = redis.call('GET', KEYS[1])
local version = stored and (string.match(stored, '^%d+') or '') or '0'
if version == ARGV[2] then
  return 1
end
if version ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2] .. ' ' .. ARGV[3], 'PX', ARGV[4])
return 1
"""
"""Compare and set: if the version is the given one, store the new one with the value. The first branch is for a save
that is sent again because its answer was lost."""
