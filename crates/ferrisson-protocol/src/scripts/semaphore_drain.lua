-- Sets the count of a semaphore that exists to zero, without a time to live.
--
-- KEYS[1]  semaphore: string, available permits
--
-- Returns  the text of the count before, nil if there is none

local count = redis.call('get', KEYS[1])
if count then
    -- Refuses a string that is no count and must not be overwritten.
    redis.call('incrby', KEYS[1], '0')
    redis.call('set', KEYS[1], '0')
end
return count
