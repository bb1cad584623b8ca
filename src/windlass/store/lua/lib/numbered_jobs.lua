-- uses: keys, record, numbers
-- Numbers of jobs that were not created under a number.

-- Return the number. A job without one gets one; the caller must flush.
local function number_of(r)
  if has(r, 'has_number') then return redis.call('HGET', P .. 'numbers', r.id) end
  local number = give_number(r)
  save(r)
  return number
end
