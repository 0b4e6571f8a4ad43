-- Frees a plain lock whoever holds it.
--
-- KEYS[1]  lock: string, owner
-- ARGV[1]  channel
--
-- Returns  1 freed, 0 it was free

-- GET refuses a key of another type, which must not be deleted.
if not redis.call('get', KEYS[1]) then
    return 0
end
redis.call('del', KEYS[1])
redis.pcall('publish', ARGV[1], '0')
return 1
