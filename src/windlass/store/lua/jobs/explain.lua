-- Return the facts that decide the state of a job, read in one step. The caller turns them into sentences.
-- arguments: ARGV[1] clock offset, [2] id, [3] most ids per list, [4] most workers to read
-- returns:   {now, record without payload beyond 1 KiB, last unsuccessful attempt or '', {fact, ...}}; a fact is one of
--            {'pause', what ('' the queue, 'l' + lane, 'n' + name), since (6 bytes) + reason},
--            {'limit', limit key, definition, running, next token at (0: none), {holder's id, ...}, own cap (0: none)},
--            {'place', jobs ahead, 1 when the queue is fair, lanes, blocked lanes, weight of its lane},
--            {'takers', waiting, of those that want it, leased jobs of the queue, {filter that does not match, ...}},
--            {'workers', all, {{worker, silent at, heartbeat interval in ms, description, jobs held}, ...}},
--            {'strangers', {push worker that does not know its name, ...}},
--            {'holder', lease_ms of the queue, its worker as above or nothing},
--            {'parent', id, state (0: it is gone)},
--            {'members', not ended, {{id, state (0: gone)}, ...}, deleted before their end, {id, ...}},
--            {'step', kind of a pending step on its dependencies (dependencies.lua)},
--            {'kept', instant of its removal (0: not known), 1 when other jobs need its outcome}
-- refusals:  unknown_job, already_ended
-- flags: no-writes
-- uses: keys, clock, record, dependencies, config, fair, lanes, ending, queue_position, candidates
local id, most, most_workers = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local facts = {}
local function tell(...) facts[#facts + 1] = {...} end

local function tell_pauses(r)
  for _, pause in ipairs(pauses_on(r)) do tell('pause', unpack(pause)) end
end

local function tell_audience(r)
  tell('takers', unpack(waiting_takers(r, most)))
  tell('workers', redis.call('ZCARD', P .. 'workers'), registered_workers(most_workers))
  tell('strangers', strangers_to(r, most_workers))
end

local function tell_place(r)
  for _, limit in ipairs(full_limits(r.queue, lane_of(r), most)) do tell('limit', unpack(limit)) end
  tell('place', jobs_ahead(r), is_fair(r.queue) and 1 or 0, count_lanes(r.queue),
    redis.call('HLEN', queue_key('parked_at', r.queue)),
    tonumber(redis.call('HGET', queue_key('weights', r.queue), r.lane) or 1))
end

local function tell_steps(owner_id, ...)
  for _, kind in ipairs({...}) do
    if is_unsettled(owner_id, kind) then tell('step', kind) end
  end
end

local function tell_parent(r)
  if not has(r, 'held') then return end
  local parent = load(links_of(r).parent)
  tell('parent', links_of(r).parent, parent and parent.state or 0)
  tell_steps(links_of(r).parent, 'r.', 'el', 'ek', 'ea', 'eo')
end

local function tell_members(r)
  local key, first = members_key(r.id), {}
  for _, member_id in ipairs(redis.call('ZRANGEBYSCORE', key, STATE.scheduled, '(' .. STATE.finished, 'LIMIT', 0, most)) do
    local member = load(member_id)
    first[#first + 1] = {member_id, member and member.state or 0}
  end
  tell('members', pending_members(r.id), first, count_members(r.id, DELETED, DELETED),
    redis.call('ZRANGEBYSCORE', key, DELETED, DELETED, 'LIMIT', 0, most))
  tell_steps(r.id, 'r.', 'f0', 'f1', 'w.')
end

local function tell_holder(r)
  tell('holder', config_of(r.queue).lease_ms, r.worker ~= NOBODY and describe_worker(r.worker) or {})
end

local function tell_end(r)
  tell('kept', tonumber(redis.call('ZSCORE', P .. 'retention', r.id) or 0), is_needed(r) and 1 or 0)
  tell_steps(r.id, 'el', 'ek', 'ea')
end

local r = load(id)
if not r then return missing(id) end
if is_leased(r) then tell_holder(r) end
if r.state == STATE.waiting then
  tell_parent(r)
  tell_members(r)
elseif is_ended(r) then
  tell_end(r)
elseif r.state <= STATE.queued or has(r, 'retakeable') then
  tell_pauses(r)
  tell_audience(r)
  if r.state ~= STATE.scheduled then tell_place(r) end
end
local attempt = has(r, 'has_attempts') and redis.call('LINDEX', P .. 'a:' .. id, -1)
return {now_ms, r.raw, attempt or '', facts}
