-- Sends a code, in one step: at most five to a phone in ten minutes, the code's hash with its time
-- to live, and the message for whoever delivers it.
-- KEYS: the phone's count, the code, the list of messages. ARGV: seconds, hash, message.
local sent = redis.call('INCR', KEYS[1])
if sent == 1 then redis.call('EXPIRE', KEYS[1], 600) end
if sent > 5 then return 0 end
redis.call('HSET', KEYS[2], 'hash', ARGV[2], 'tries', 0)
redis.call('EXPIRE', KEYS[2], ARGV[1])
redis.call('RPUSH', KEYS[3], ARGV[3])
return 1
