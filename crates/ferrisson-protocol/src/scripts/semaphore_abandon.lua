-- Gives back what an owner got, by its record, and bars the owner from getting anything later.
--
-- KEYS[1]  semaphore: string, available permits
-- KEYS[2]  record of the owner: permits that it got, or void
-- ARGV[1]  channel
-- ARGV[2]  life of a record in ms
--
-- Returns  1 given back, 0 no record

local record = redis.call('get', KEYS[2])
local granted = record ~= 'void' and record
-- After this first write, which works without memory, INCRBY and SET do too.
redis.call('pexpire', KEYS[2], ARGV[2])
local count = granted and redis.call('incrby', KEYS[1], granted) or 0
redis.call('set', KEYS[2], 'void', 'px', ARGV[2])
if count > 0 then
    -- Java wakes as many waiters as the number says, and wants a decimal that fits a long.
    redis.pcall('publish', ARGV[1], string.format('%.0f', math.min(count, 2 ^ 53)))
end
return granted and 1 or 0
