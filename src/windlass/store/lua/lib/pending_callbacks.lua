-- uses: keys, clock, record, wakeups
-- Pending callbacks (`debt` and `owed` in the code). A pending callback is written in the step that ends its job, and
-- outlives the job until it is delivered or given up. Its id is the job's id and a number, because a job that is
-- retried may end again. Pending callbacks are in one list for all, and in one per destination: a process that has no
-- room for a destination skips all of its callbacks at once.
local OWED_BYTES = 65536 -- of a payload or a result; a longer payload is truncated, a longer result left out
local OWED = '\2owed' -- the queue name under which delivering processes wait; no queue has such a name
local DESTINATION = '^[\128-\143]\161d\176(%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x)'
local DEBT_FIELDS = {'job', 'is_whole', 'result', 'is_too_big', 'attempt', 'tries', 'error', 'token', 'to'}
local has_new_debts
at_start[#at_start + 1] = function() has_new_debts = false end

local function debt_key(debt) return P .. 'b:' .. debt end
local function destination_key(destination) return P .. 'od:' .. destination end

-- The destination is the first entry of the extras (store/records/record.py), behind a repeat rule. Nothing else is
-- decoded.
local function destination_of(r)
  local at = has(r, 'repeats') and 8 + string.byte(r.extras, 7) or 1
  return string.match(r.extras, DESTINATION, at) or ''
end

local function to_of(debt) return redis.call('HGET', debt_key(debt), 'to') or '' end

-- Set the score of a destination to the instant of its first callback.
local function mark_destination(destination)
  local first = redis.call('ZRANGE', destination_key(destination), 0, 0, 'WITHSCORES')
  if first[2] then
    redis.call('ZADD', P .. 'owed_to', first[2], destination)
  else
    redis.call('ZREM', P .. 'owed_to', destination)
  end
end

local function list_owed(debt, destination, at)
  redis.call('ZADD', P .. 'owed', at, debt)
  redis.call('ZADD', destination_key(destination), at, debt)
  mark_destination(destination)
end

-- A new callback can only make its destination due earlier.
local function list_new(debt, destination, at)
  redis.call('ZADD', P .. 'owed', at, debt)
  redis.call('ZADD', destination_key(destination), at, debt)
  redis.call('ZADD', P .. 'owed_to', 'LT', at, destination)
end

local function unlist_owed(debt, destination)
  redis.call('ZREM', P .. 'owed', debt)
  redis.call('ZREM', destination_key(destination), debt)
  mark_destination(destination)
end

local function list_given_up(debt, at)
  redis.call('ZADD', P .. 'given_up', at, debt)
  redis.call('ZADD', P .. 'given_up_ids', 0, debt)
end

-- Return whether it was listed.
local function unlist_given_up(debt)
  redis.call('ZREM', P .. 'given_up_ids', debt)
  return redis.call('ZREM', P .. 'given_up', debt) == 1
end

-- Return the record as the job ended, with the beginning of its payload.
local function record_owed(r)
  local last = r.head_bytes + OWED_BYTES
  local raw = #r.raw < math.min(r.bytes, last) and redis.call('GETRANGE', job_key(r.id), 0, last - 1) or r.raw
  return pack_header(r) .. string.sub(raw, HEADER_BYTES + 1, last)
end

local function owe(r, result)
  local debt = r.id .. struct.pack('>I6', redis.call('INCR', P .. 'debts'))
  local fits, destination = #result <= OWED_BYTES, destination_of(r)
  redis.call('HSET', debt_key(debt), 'job', r.id .. record_owed(r), 'tries', 0, 'to', destination,
    'is_whole', r.bytes <= r.head_bytes + OWED_BYTES and 1 or 0, 'result', fits and result or '', 'is_too_big', fits and 0 or 1,
    'attempt', r.state ~= STATE.finished and redis.call('LINDEX', P .. 'a:' .. r.id, -1) or '')
  list_new(debt, destination, now_ms)
  has_new_debts = true
end

local OWES = {[STATE.finished] = 'owes_finished', [STATE.failed] = 'owes_failed', [STATE.cancelled] = 'owes_cancelled'}
local function owes_callback(r) return has(r, OWES[r.state]) end

after_flush[#after_flush + 1] = function()
  if has_new_debts then ring(OWED, nil) end
  has_new_debts = false
end

local function is_debt_due()
  local first = redis.call('ZRANGE', P .. 'owed', 0, 0, 'WITHSCORES')
  return first[2] ~= nil and tonumber(first[2]) <= now_ms
end

-- Return nil if the caller holds the lease of the callback, else the refusal.
local function refused_debt(debt, token)
  local held_by = redis.call('HGET', debt_key(debt), 'token')
  if held_by == token then return nil end
  return (held_by or redis.call('EXISTS', debt_key(debt)) == 1) and 'stale_lease' or 'unknown_callback'
end

local function forget_given_up(debt)
  unlist_given_up(debt)
  redis.call('DEL', debt_key(debt))
end

-- Return {id, field, ...} of a callback, and its bytes. `longest` truncates the payload and leaves out a longer result,
-- for display.
local function read_debt(debt, longest)
  local values = redis.call('HMGET', debt_key(debt), unpack(DEBT_FIELDS))
  local bytes = #debt
  for i = 1, #values do
    values[i] = values[i] or ''
    bytes = bytes + #values[i]
  end
  if longest then
    local head_bytes = struct.unpack('>I2', values[1], 16 + HEADER_BYTES - 1)
    local shown = string.sub(values[1], 1, 16 + head_bytes + longest)
    if #shown < #values[1] then values[1], values[2] = shown, '0' end
    if #values[3] > longest then values[3], values[4] = '', '1' end
  end
  table.insert(values, 1, debt)
  return values, bytes
end
