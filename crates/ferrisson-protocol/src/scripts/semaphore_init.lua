-- Sets the count of a semaphore that does not exist.
--
-- KEYS[1]  semaphore: string, available permits
-- ARGV[1]  permits
-- ARGV[2]  channel
--
-- Returns  1 set, 0 it exists

if not redis.call('set', KEYS[1], ARGV[1], 'nx') then
    return 0
end
if ARGV[1] ~= '0' then
    redis.pcall('publish', ARGV[2], ARGV[1])
end
return 1
