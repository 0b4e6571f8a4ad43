-- Frees a reentrant lock if the owner holds it, whatever the number of holds.
--
-- KEYS[1]  lock: hash, owner -> holds
-- ARGV[1]  owner
-- ARGV[2]  channel
--
-- Returns  1 freed, 0 not held

-- With its only field the hash is gone. HDEL works without memory.
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
    return 0
end
-- The lock is free also if the user may not publish: waiters ask again by themselves.
redis.pcall('publish', ARGV[2], '0')
return 1
