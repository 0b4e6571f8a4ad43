-- Extends the leases of plain locks that their owners still hold.
--
-- KEYS     locks: string, owner
-- ARGV     for each lock its owner and the lease in ms
--
-- Returns  for each lock 1 renewed, 0 not held, or the text of an error

local replies = {}
for i, key in ipairs(KEYS) do
    local reply = redis.pcall('get', key)
    if reply == ARGV[2 * i - 1] then
        reply = redis.pcall('pexpire', key, ARGV[2 * i])
    elseif type(reply) ~= 'table' then
        reply = 0
    end
    -- One bad key must not fail the others, and a list cannot hold an error.
    replies[i] = type(reply) == 'table' and reply.err or reply
end
return replies
