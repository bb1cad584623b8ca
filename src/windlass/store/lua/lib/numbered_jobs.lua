-- uses: keys, record, numbers
-- Jobs as dialects with numbers show them.

-- Return the number of a job that was not created under a number. A job without one gets one; the caller must flush.
local function number_of(r)
  if has(r, 'has_number') then return redis.call('HGET', P .. 'numbers', r.id) end
  local number = give_number(r)
  save(r)
  return number
end

-- Return {number ('': the id contains it), id + whole record}.
local function show(r)
  local number = number_in(r.id) and '' or number_of(r)
  payload_of(r) -- reads a payload that is not loaded yet
  return {number, r.id .. r.raw}
end
