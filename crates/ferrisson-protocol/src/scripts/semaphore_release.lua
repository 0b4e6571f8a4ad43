-- Gives back what an owner got, by its record or, if that may have expired, by number.
--
-- KEYS[1]  semaphore: string, available permits
-- KEYS[2]  record of the owner: permits that it got, or void
-- ARGV[1]  channel
-- ARGV[2]  life of a record in ms
-- ARGV[3]  permits to give back in any case; without it the record decides
--
-- Returns  1 given back, 0 no record

local record = redis.call('get', KEYS[2])
local granted = record ~= 'void' and record
local permits = ARGV[3] or granted
if not permits then
    return 0
end
-- After this first write, which works without memory, INCRBY does too. The record goes last: if
-- INCRBY fails it is still there.
redis.call('pexpire', KEYS[2], ARGV[2])
local count = redis.call('incrby', KEYS[1], permits)
if granted then
    redis.call('del', KEYS[2])
end
if count > 0 then
    -- Java wakes as many waiters as the number says, and wants a decimal that fits a long.
    redis.pcall('publish', ARGV[1], string.format('%.0f', math.min(count, 2 ^ 53)))
end
return 1
