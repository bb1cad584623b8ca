-- uses: glob, record, lanes
-- Filter of a taker, as a string: '' matches every job that is not hidden; else priority \1 kind \1 names joined by \0,
-- with 'h' before the priority if hidden jobs match too.
-- Kinds: '' any name, 'only' these names, 'except' these names, 'glob' a pattern.
local function parse_filter(text)
  if text == '' then return {any = true, kind = ''} end
  local hidden, priority, kind, rest = string.match(text, '^(h?)([^\1]*)\1([^\1]*)\1(.*)$')
  local filter = {kind = kind, priority = tonumber(priority), hidden = hidden == 'h'}
  if kind == 'glob' then
    filter.pattern, filter.parts = rest, parts_of(rest)
  else
    filter.names, filter.list = {}, {}
    for name in string.gmatch(rest, '[^%z]+') do
      -- Without this check the lanes of a repeated name would be scanned twice, and their jobs leased twice.
      if not filter.names[name] then table.insert(filter.list, name) end
      filter.names[name] = true
    end
  end
  return filter
end

local function wants_name(filter, name)
  if filter.kind == '' then return true end
  if filter.kind == 'only' then return filter.names[name] == true end
  if filter.kind == 'except' then return not filter.names[name] end
  if filter.parts then return matches_parts(filter.parts, name) end
  return glob(filter.pattern, name)
end

-- Match a lane by its name. Hidden lanes match only if the filter includes them.
local function wants_lane(filter, lane)
  return (filter.hidden or not is_hidden_lane(lane)) and wants_name(filter, name_of_lane(lane))
end

local function wants(filter, r)
  if not filter.hidden and has(r, 'hidden') then return false end
  return filter.any or ((not filter.priority or filter.priority == r.priority) and wants_name(filter, r.name))
end
