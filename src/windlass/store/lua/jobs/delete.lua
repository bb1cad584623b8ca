-- Delete jobs and everything stored with them.
-- arguments: ARGV[1] clock offset, [2] '1' to delete leased jobs too, [3] '1' to delete waiting jobs too; then ids
-- returns:   per job 'deleted' or a refusal
-- refusals:  unknown_job, already_ended, wrong_state (it is leased, or waiting)
-- flags: allow-oom
-- uses: keys, batch, record, wakeups, index, ending, events, propagation, wake_takers
local function delete(id)
  local r = load(id)
  if not r then return missing(id) end
  if is_leased(r) and ARGV[2] ~= '1' then return 'wrong_state' end
  if r.state == STATE.waiting and ARGV[3] ~= '1' then return 'wrong_state' end
  leave(r)
  if not is_ended(r) then
    count(queue_key('q', r.queue), 'bytes', -r.bytes)
    tell_awaiting(r)
  end
  drop(r)
  announce(EVENT.deleted, r, '')
  return 'deleted'
end

local answers = {}
for i = 4, #ARGV do table.insert(answers, delete(ARGV[i])) end
flush()
ring_all()
trim_histories()
return answers
