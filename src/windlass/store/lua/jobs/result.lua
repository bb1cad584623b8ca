-- Return the state of a job and its kept result. Can register a wakeup for the end of a job that has not ended.
-- arguments: ARGV[1] clock offset, [2] id, [3] '1' to consume the result (read once), [4] wakeup list ('': do not
--            wait), [5] '1' to remove the wakeup list, because its owner no longer waits
-- returns:   {state, result with its codec or nil, last unsuccessful attempt or nil}
-- refusals:  unknown_job, already_ended (as a string)
-- flags: allow-oom
-- uses: keys, batch, record, ending
local id, consumes, bell = ARGV[2], ARGV[3] == '1', ARGV[4]
local r = load(id)
if not r then return missing(id) end
if not is_ended(r) then
  if ARGV[5] == '1' then
    redis.call('SREM', P .. 'e:' .. id, bell)
  elseif bell ~= '' then
    redis.call('SADD', P .. 'e:' .. id, bell)
    mark(r, 'awaited')
    save(r)
    flush()
  end
  return {r.state, false, false}
end
local result = has(r, 'has_outcome') and redis.call('GET', P .. 'o:' .. id)
local attempt = r.state ~= STATE.finished and has(r, 'has_attempts') and redis.call('LINDEX', P .. 'a:' .. id, -1)
if result and consumes then
  remove(P .. 'o:' .. id)
  unmark(r, 'has_outcome')
  save(r)
  flush()
end
return {r.state, result, attempt}
