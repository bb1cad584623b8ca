-- Add jobs. Repeating an id changes nothing; a unique key can lead to an existing job instead.
-- arguments: ARGV[1] clock offset, [2] version of the limits that the jobs were matched against; then per job: id +
--            record as packed by the caller, and its terms. Terms are '', or the action for its unique key (B 0 none;
--            B 1 keep; B 2 replace, I4 revision guard (0: none); B 3 debounce, I6 pause, I6 longest delay from creation
--            (0: unbounded); B 4 throttle, I6 period; B 5 refuse) and the ids of the jobs to wait for. Two parts can
--            precede the action, in this order: B 255 (this job and the next one are added together or not at all);
--            B 254, I2 length, I2 length of a limit key, the limit key ('': the job matches no such limit), I4 cap to
--            set if the key has none, data that callers keep with the cap. A call that needs numbers for its jobs has a
--            request id (numbers.lua) between [1] and [2]: 'N' + number of the call, name; the ids of its jobs contain
--            the number 0
-- returns:   per job its id, if the fast path added it, or {status, id, revision}; status 'queued', 'scheduled',
--            'waiting', 'existing', 'replaced', 'ended' or a refusal
-- refusals:  id_conflict, queue_full, revision_conflict, unique_conflict, unknown_parent, parent_state, unknown_member,
--            unknown_limit (for a cap); limits_changed for all of them: match again
local batch = require 'batch'
local link_dependencies = require 'dependencies.link_dependencies'
local events = require 'events'
local single_enqueue = require 'fast_path.single_enqueue'
local atomic_batch = require 'jobs.atomic_batch'
local ending = require 'jobs.ending'
local insert = require 'jobs.insert'
local keys = require 'keys'
local caps = require 'limits.caps'
local numbers = require 'numbers'
local wake_takers = require 'workers.wake_takers'

local CAME_IN = {queued = true, scheduled = true, waiting = true, replaced = true}

return function(arguments)
  local is_drawn = numbers.put_into_ids()
  local ids, record_keys = {}, {}
  for i = 1, (#arguments - 2) / 2 do
    ids[i] = string.sub(arguments[2 * i + 1], 1, 16)
    record_keys[i] = keys.job(ids[i])
  end
  local marks = redis.call('MGET', keys.limits_version(), keys.followed())
  events.set_epoch(marks[2])
  if (marks[1] or '0') ~= arguments[2] then
    local stale = {}
    for i, id in ipairs(ids) do stale[i] = {'limits_changed', id, 0} end
    return stale
  end
  local some_stored = redis.call('EXISTS', unpack(record_keys)) > 0
  local ended = is_drawn and {} or ending.ended_lately(ids)
  -- The general path always writes, even if it adds no job: a confirmation (WAITAOF) of a repeated call then covers the
  -- first call.
  local first = redis.call('INCRBY', keys.sequence(), #ids) - #ids + 1

  local function entry_of(i) return arguments[2 * i + 1] end

  local function terms_of(i) return arguments[2 * i + 2] end

  local answers, refusal, goes_on = {}, nil, false
  for i = 1, #ids do
    local terms = arguments[2 * i + 2]
    local is_marked = terms ~= '' and atomic_batch.is_with_next(terms)
    if is_marked and not goes_on then
      local last = i + 1
      while atomic_batch.is_with_next(terms_of(last)) do last = last + 1 end
      refusal = atomic_batch.refusal_of(i, last, entry_of, terms_of, ended)
    end
    if refusal then
      answers[i] = {refusal, ids[i], 0}
    else
      local own, cap = terms, nil
      if terms ~= '' then own, cap = atomic_batch.own_terms(terms) end
      if caps.names_no_limit(cap) then
        answers[i] = {'unknown_limit', ids[i], 0}
      else
        answers[i] = insert.insert(ids[i], record_keys[i], arguments[2 * i + 1], own, first + i - 1, some_stored, ended[i])
        if cap and CAME_IN[answers[i][1]] then caps.set(cap) end
      end
    end
    goes_on = is_marked
    if not goes_on then refusal = nil end
  end
  batch.flush()
  wake_takers.wake_all()
  ending.trim_histories()
  link_dependencies.correct_waits(answers)
  return answers
end, single_enqueue.enqueue
