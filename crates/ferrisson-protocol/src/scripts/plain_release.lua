-- Frees a plain lock if the owner holds it.
--
-- KEYS[1]  lock: string, owner
-- ARGV[1]  owner
-- ARGV[2]  channel
--
-- Returns  1 freed, 0 not held

if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('del', KEYS[1])
-- The lock is free also if the user may not publish: waiters ask again by themselves.
redis.pcall('publish', ARGV[2], '0')
return 1
