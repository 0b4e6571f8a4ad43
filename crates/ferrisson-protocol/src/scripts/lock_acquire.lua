-- Takes a reentrant lock for an owner that was not abandoned. Safe to repeat.
--
-- KEYS[1]  lock: hash, owner -> holds
-- KEYS[2]  tombstone of the owner
-- ARGV[1]  owner
-- ARGV[2]  lease in ms
--
-- Returns  {1} held by the owner now, {0, ttl} held by another (ttl in ms, -1 without end),
--          {-1} the owner was abandoned

local found = redis.call('exists', KEYS[1], KEYS[2])
if found == 0 then
    redis.call('hset', KEYS[1], ARGV[1], '1')
    local reply = redis.pcall('pexpire', KEYS[1], ARGV[2])
    if reply == 1 then
        return {1}
    end
    -- The user may not set a time to live: no lock is better than one without end.
    redis.call('del', KEYS[1])
    return reply
end

local ttl = redis.call('pttl', KEYS[1])
if found == 2 or ttl == -2 then
    return {-1}
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return {0, ttl}
end
redis.call('pexpire', KEYS[1], ARGV[2])
return {1}
