-- uses: keys, record, dependencies, unique, schedules, pending_callbacks, job_log
-- Parts that an export reads of each kind of entry, and the weight of reading them.
local EXPORTED_WEIGHT = 4194304 -- bytes of one answer, approximately
local MEMBER_WEIGHT = 1024 -- of reading one member
local MEMBERS_PER_PAGE = 500

-- Return a page of the jobs that a job waits for: {id + queue, ...}, the next cursor ('': none), members read.
local function awaited_page(id, cursor)
  local page = redis.call('ZSCAN', members_key(id), cursor, 'COUNT', MEMBERS_PER_PAGE)
  local found = {}
  for i = 1, #page[2], 2 do
    local member = load(page[2][i])
    if not (member and is_child_of(member, id)) then
      found[#found + 1] = page[2][i] .. (member and member.queue or '')
    end
  end
  return found, page[1] ~= '0' and page[1] or '', #page[2] / 2
end

local EXPORT = {}

function EXPORT.j(id)
  local raw = redis.call('GET', job_key(id))
  if not raw then return nil, 1 end
  local r = decode(id, raw)
  local attempts = has(r, 'has_attempts') and redis.call('LRANGE', P .. 'a:' .. id, 0, -1) or {}
  local logs = has(r, 'has_logs') and redis.call('LRANGE', log_key(id), 0, -1) or {}
  local result = has(r, 'has_outcome') and redis.call('GET', P .. 'o:' .. id) or ''
  local is_shared = r.unique ~= '' and redis.call('ZCARD', unique_key(r)) > 1
  local parent = parent_of(r)
  local awaited, cursor, seen = {}, '', 0
  if has(r, 'has_members') then awaited, cursor, seen = awaited_page(id, '0') end
  local weight = #raw + #result + seen * MEMBER_WEIGHT
  for _, attempt in ipairs(attempts) do weight = weight + #attempt end
  for _, entry in ipairs(logs) do weight = weight + #entry end
  return {
    raw, attempts, logs, result, redis.call('ZSCORE', P .. 'retention', id) or '', is_shared and 1 or 0,
    parent and parent.queue or '', cursor, awaited,
  }, weight
end

function EXPORT.b(debt)
  local fields = redis.call('HGETALL', debt_key(debt))
  if #fields == 0 then return nil, 1 end
  local weight = 0
  for _, field in ipairs(fields) do weight = weight + #field end
  local score = redis.call('ZSCORE', P .. 'owed', debt)
  if score then return {'owed', score, fields}, weight end
  return {'given_up', redis.call('ZSCORE', P .. 'given_up', debt) or '0', fields}, weight
end

function EXPORT.s(name)
  local fields = redis.call('HGETALL', schedule_key(name))
  if #fields == 0 then return nil, 1 end
  return {fields, redis.call('LRANGE', schedule_jobs_key(name), 0, -1)}, 4096
end

function EXPORT.q(queue)
  local fields = redis.call('HGETALL', queue_key('q', queue))
  if #fields == 0 then return nil, 1 end
  local pauses, weights = redis.call('HGETALL', queue_key('pauses', queue)), redis.call('HGETALL', queue_key('weights', queue))
  return {fields, pauses, weights}, 4096 + 100 * (#pauses + #weights)
end
