-- Sets or deletes a value if it is exactly as expected.
--
-- KEYS[1]  bucket: string
-- ARGV[1]  1 if a value is expected, 0 if none is
-- ARGV[2]  expected value
-- ARGV[3]  new value; without it the bucket is deleted
--
-- Returns  1 done, 0 it is not as expected

if redis.call('get', KEYS[1]) ~= (ARGV[1] == '1' and ARGV[2]) then
    return 0
end
if ARGV[3] then
    redis.call('set', KEYS[1], ARGV[3])
else
    redis.call('del', KEYS[1])
end
return 1
