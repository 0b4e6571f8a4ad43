-- Frees a reentrant lock whoever holds it.
--
-- KEYS[1]  lock: hash, owner -> holds
-- ARGV[1]  channel
--
-- Returns  1 freed, 0 it was free

-- HLEN refuses a key of another type, which must not be deleted.
if redis.call('hlen', KEYS[1]) == 0 then
    return 0
end
redis.call('del', KEYS[1])
redis.pcall('publish', ARGV[1], '0')
return 1
