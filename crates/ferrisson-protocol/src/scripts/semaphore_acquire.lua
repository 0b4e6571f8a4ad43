-- Takes permits for an owner that was not abandoned, all or none. Safe to repeat.
--
-- KEYS[1]  semaphore: string, available permits
-- KEYS[2]  record of the owner: permits that it got, or void
-- ARGV[1]  permits
-- ARGV[2]  life of the record in ms
--
-- Returns  {1, before, taken} granted, {0, before} too few, {-1} the owner was abandoned;
--          before is the text of the count, nil if there is none

local found = redis.call('mget', KEYS[1], KEYS[2])
local record = found[2]
if record == 'void' then
    return {-1}
end
-- MGET shows a key of another type as absent, GET refuses it.
local before = found[1] or redis.call('get', KEYS[1])
if record then
    return {1, before, 0}
end
if (tonumber(before) or 0) < tonumber(ARGV[1]) then
    return {0, before}
end
redis.call('decrby', KEYS[1], ARGV[1])
redis.call('set', KEYS[2], ARGV[1], 'px', ARGV[2])
return {1, before, tonumber(ARGV[1])}
