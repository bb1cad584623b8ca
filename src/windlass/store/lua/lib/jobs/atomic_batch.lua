-- uses: keys, record, new_record, config, caps, unique, ending, link_dependencies, insert
-- Jobs that are added together or not at all: all of them are checked before the first is written.
local TOGETHER = 255 -- first byte of a job's terms: it is added with the next job

local function is_with_next(terms) return string.byte(terms) == TOGETHER end
local CAPPED = 254 -- next byte: I2 length of a cap, and the cap

-- Return the rest of a job's terms, and the cap that it brings, or nil.
local function own_terms(terms)
  if is_with_next(terms) then terms = string.sub(terms, 2) end
  if string.byte(terms) ~= CAPPED then return terms, nil end
  local size = struct.unpack('>I2', terms, 2)
  return string.sub(terms, size + 4), string.sub(terms, 4, size + 3)
end

local function lacks_parent(r, before)
  if r.links == '' or before[links_of(r).parent] then return nil end
  return (find_parent(r))
end

-- Make the one check of a unique key that is possible in advance. If two jobs of the call have the same key, the second
-- is refused.
local function lacks_key(r, terms, before)
  if terms == '' or string.byte(terms) ~= CHECK.refuse then return nil end
  local key = unique_key(r)
  if before[key] or oldest_holder(r) then return 'unique_conflict' end
  before[key] = true
  return nil
end

local function lacks_awaited(terms, before)
  for at = 2, #terms, 16 do -- terms of one byte; the ids follow
    local id = string.sub(terms, at, at + 15)
    if not before[id] and not load(id) and missing(id) == 'unknown_job' then return 'unknown_member' end
  end
  return nil
end

local function lacks_room(r, needed)
  local config = config_of(r.queue)
  if config.max_length == 0 and config.max_bytes == 0 then return nil end
  config.length = config.length or waiting_length(r.queue)
  local need = needed[r.queue] or {jobs = 0, bytes = 0}
  needed[r.queue] = need
  need.jobs, need.bytes = need.jobs + 1, need.bytes + r.bytes
  local is_too_long = config.max_length > 0 and config.length + need.jobs > config.max_length
  local is_too_large = config.max_bytes > 0 and config.bytes + need.bytes > config.max_bytes
  return (is_too_long or is_too_large) and 'queue_full' or nil
end

-- Return why the jobs from the first to the last cannot be added, or nil. `entry_of` and `terms_of` return what the
-- caller sent.
local function refusal_together(first, last, entry_of, terms_of, has_ended)
  local before, needed = {}, {}
  for i = first, last do
    local r = decode_new(entry_of(i))
    local known = load(r.id)
    if known and known.fingerprint ~= r.fingerprint then return 'id_conflict' end
    if not known and not has_ended[i] then
      local terms, cap = own_terms(terms_of(i))
      if lacks_limit(cap) then return 'unknown_limit' end
      local refusal = lacks_parent(r, before) or lacks_awaited(terms, before) or lacks_key(r, terms, before)
        or lacks_room(r, needed)
      if refusal then return refusal end
    end
    before[r.id] = true
  end
  return nil
end
