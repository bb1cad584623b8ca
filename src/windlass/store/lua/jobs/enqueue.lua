-- Add jobs. Repeating an id changes nothing; a unique key can lead to an existing job instead.
-- arguments: version of the limits that the jobs were matched against; then per job: id + record as packed by the
--            caller, and its terms. Terms are '', or the action for its unique key (B 0 none; B 1 keep; B 2 replace, I4
--            revision guard (0: none); B 3 debounce, I6 pause, I6 longest delay from creation (0: unbounded); B 4
--            throttle, I6 period; B 5 refuse) and the ids of the jobs to wait for. Two parts can precede the action, in
--            this order: B 255 (this job and the next one are added together or not at all); B 254, I2 length, I2
--            length of a limit key, the limit key ('': the job matches no such limit), I4 cap to set if the key has
--            none, data that callers keep with the cap. A call that needs numbers for its jobs has a request id
--            (numbers.lua) before the version: 'N' + number of the call, name; the ids of its jobs contain the number 0
-- returns:   per job its id, if the fast path added it, or {status, id, revision}; status 'queued', 'scheduled',
--            'waiting', 'existing', 'replaced', 'ended' or a refusal
-- refusals:  id_conflict, queue_full, revision_conflict, unique_conflict, unknown_parent, parent_state, unknown_member,
--            flow_exists, unknown_limit (for a cap); limits_changed for all of them: match again
local fast_enqueue = require 'fast_path.enqueue'
local commit = require 'commit'
local link_dependencies = require 'dependencies.link_dependencies'
local events = require 'events'
local atomic_batch = require 'jobs.atomic_batch'
local ended_ids = require 'jobs.ended_ids'
local insert = require 'jobs.insert'
local keys = require 'keys'
local caps = require 'limits.caps'
local numbers = require 'numbers'

local IS_ADDED = {queued = true, scheduled = true, waiting = true, replaced = true}

-- Return the jobs as their caller sends them, and their terms.
local function read_items(arguments, first)
  local entries, all_terms = {}, {}
  for i = first, #arguments, 2 do
    entries[#entries + 1] = arguments[i]
    all_terms[#all_terms + 1] = arguments[i + 1]
  end
  return entries, all_terms
end

-- Put reserved numbers into the ids. Returns whether the numbers are new: then none of the jobs can have ended,
-- whatever ids other callers use.
local function assign_numbers(entries, request_key, request)
  local first, is_new = numbers.reserve_once(request_key, request, #entries)
  for i = 1, #entries do
    entries[i] = numbers.numbered_id(entries[i], first + i - 1) .. string.sub(entries[i], 17)
  end
  return is_new
end

local function read_ids(entries)
  local ids, job_keys = {}, {}
  for i = 1, #entries do
    ids[i] = string.sub(entries[i], 1, 16)
    job_keys[i] = keys.job(ids[i])
  end
  return ids, job_keys
end

local function refuse_all(ids, refusal)
  local answers = {}
  for i, id in ipairs(ids) do answers[i] = {refusal, id, 0} end
  return answers
end

local function add(id, job_key, entry, terms, sequence, is_stored, has_ended)
  local own, cap = terms, nil
  if terms ~= '' then own, cap = atomic_batch.own_terms(terms) end
  if caps.names_no_limit(cap) then return {'unknown_limit', id, 0} end
  local answer = insert.insert(id, job_key, entry, own, sequence, is_stored, has_ended)
  if cap and IS_ADDED[answer[1]] then caps.set(cap) end
  return answer
end

local function add_all(ids, job_keys, entries, all_terms, first_sequence, ended)
  local answers, refusal, is_in_group = {}, nil, false
  local is_some_stored = redis.call('EXISTS', unpack(job_keys)) > 0
  for i = 1, #ids do
    local is_with_next = all_terms[i] ~= '' and atomic_batch.is_with_next(all_terms[i])
    if is_with_next and not is_in_group then
      local last = i + 1
      while atomic_batch.is_with_next(all_terms[last]) do last = last + 1 end
      refusal = atomic_batch.refusal_of(i, last, entries, all_terms, ended)
    end
    answers[i] = refusal and {refusal, ids[i], 0}
      or add(ids[i], job_keys[i], entries[i], all_terms[i], first_sequence + i - 1, is_some_stored, ended[i])
    is_in_group = is_with_next
    if not is_in_group then refusal = nil end
  end
  return answers
end

local function enqueue(arguments, first, name, third)
  local request_key, request = numbers.read_request(first, name)
  local version = request_key and third or first
  local entries, all_terms = read_items(arguments, request_key and 5 or 3)
  local marks = redis.call('MGET', keys.limits_version(), keys.followed())
  -- Jobs that were matched against old limits get no numbers, because they will be sent again.
  if (marks[1] or '0') ~= version then return refuse_all(read_ids(entries), 'limits_changed') end
  events.set_epoch(marks[2])
  local has_new_numbers = request_key and assign_numbers(entries, request_key, request)
  local ids, job_keys = read_ids(entries)
  local ended = has_new_numbers and {} or ended_ids.find(ids)
  -- The general path always writes, even if it adds no job: a confirmation (WAITAOF) of a repeated call then covers the
  -- first call.
  local first_sequence = redis.call('INCRBY', keys.sequence(), #ids) - #ids + 1
  local answers = add_all(ids, job_keys, entries, all_terms, first_sequence, ended)
  commit.run()
  link_dependencies.correct_waits(answers)
  return answers
end

return enqueue, fast_enqueue.enqueue
