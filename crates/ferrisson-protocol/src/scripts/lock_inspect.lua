-- Tells who holds a reentrant lock.
--
-- KEYS[1]  lock: hash, owner -> holds
--
-- Returns  {{owner, holds, ...}, ttl}: no owner if it is free; ttl in ms, -1 without end

return {redis.call('hgetall', KEYS[1]), redis.call('pttl', KEYS[1])}
