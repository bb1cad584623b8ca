-- Pause takes from a queue, or from one lane or name of it. Running jobs continue.
-- arguments: ARGV[1] clock offset, [2] queue, [3] what: '' the queue, 'l' + lane, 'n' + name, [4] reason
-- returns:   1 when it was not paused before; a new reason replaces the old one
-- refusals:  names_need_lanes
-- flags: allow-oom
-- uses: keys, clock, config
local queue, what = ARGV[2], ARGV[3]
if string.sub(what, 1, 1) == 'n' and config_of(queue).name_lanes ~= 1 then return 'names_need_lanes' end
local key = queue_key('q', queue)
local content = struct.pack('>I6', now_ms) .. ARGV[4]
redis.call('HINCRBY', key, 'bytes', 0)
redis.call('SADD', P .. 'queues', queue)
if what == '' then return redis.call('HSET', key, 'paused', content) end
local added = redis.call('HSET', queue_key('pauses', queue), what, content)
redis.call('HSET', key, 'pauses', redis.call('HLEN', queue_key('pauses', queue)))
return added
