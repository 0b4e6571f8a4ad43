-- Sets the number of holds of a reentrant lock if the owner holds it.
--
-- KEYS[1]  lock: hash, owner -> holds
-- ARGV[1]  owner
-- ARGV[2]  holds
--
-- Returns  1 set, 0 not held

if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return 0
end
-- No owner has an empty name: this changes nothing, but after a first write that works without
-- memory HSET does too.
redis.call('hdel', KEYS[1], '')
redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
return 1
