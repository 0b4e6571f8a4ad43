-- Frees a plain lock if the owner holds it, and bars the owner from getting it later.
--
-- KEYS[1]  lock: string, owner
-- KEYS[2]  tombstone of the owner
-- ARGV[1]  owner
-- ARGV[2]  channel
-- ARGV[3]  life of the tombstone in ms
--
-- Returns  1 freed, 0 not held, an error if the key is no lock (the owner is barred all the same)

-- After this first write, which works without memory, SET does too.
redis.call('del', KEYS[2])
redis.call('set', KEYS[2], '1', 'px', ARGV[3])
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('del', KEYS[1])
redis.pcall('publish', ARGV[2], '0')
return 1
