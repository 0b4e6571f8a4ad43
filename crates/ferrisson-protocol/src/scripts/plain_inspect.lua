-- Tells who holds a plain lock.
--
-- KEYS[1]  lock: string, owner
--
-- Returns  {owner, ttl}: nil if it is free; ttl in ms, -1 without end

return {redis.call('get', KEYS[1]), redis.call('pttl', KEYS[1])}
