-- Appends to the audit log; of more entries than are kept, the oldest go. The engine's own time numbers them, so that
-- pages stay in order whatever the offset; the instant that people read is in the entry.
-- arguments: ARGV[1] clock offset, [2] most entries kept; then entries (opaque)
-- returns:   per entry its id in the stream
-- refusals:  none
-- flags: allow-oom
-- uses: keys, clock
local at, answers = struct.pack('>I6', now_ms), {}
for i = 3, #ARGV do answers[i - 2] = redis.call('XADD', P .. 'audit', 'MAXLEN', '=', ARGV[2], '*', 'e', at .. ARGV[i]) end
return answers
