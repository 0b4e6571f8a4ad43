-- Adds permits, or takes some away if the number is negative.
--
-- KEYS[1]  semaphore: string, available permits
-- KEYS[2]  a key that never exists
-- ARGV[1]  permits
-- ARGV[2]  1 to keep a time to live of the semaphore, 0 to drop it
-- ARGV[3]  channel
--
-- Returns  the text of the new count

-- After this first write, which works without memory, INCRBY does too.
redis.call('del', KEYS[2])
redis.call('incrby', KEYS[1], ARGV[1])
if ARGV[2] == '0' then
    redis.call('persist', KEYS[1])
end
-- The reply of INCRBY is a float in Lua and inexact from 2^53 on.
local count = redis.call('get', KEYS[1])
if tonumber(count) > 0 then
    redis.pcall('publish', ARGV[3], count)
end
return count
