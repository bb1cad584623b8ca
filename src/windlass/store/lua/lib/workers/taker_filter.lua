-- Filter of a taker, as a string: '' matches every job that is not hidden and has no steps; else priority \1 kind \1
-- names joined by \0, with 'h' before the priority if hidden jobs match too, and 's' if jobs with steps do.
-- Kinds: '' any name, 'only' these names, 'except' these names, 'glob' a pattern.
local glob = require 'glob'
local record = require 'jobs.record'
local lanes = require 'queues.lanes'

local taker_filter = {}

taker_filter.ANY_WITH_STEPS = 's\1\1'

function taker_filter.parse(text)
  if text == '' then return {any = true, kind = ''} end
  if text == taker_filter.ANY_WITH_STEPS then return {any = true, kind = '', steps = true} end
  local hidden, steps, priority, kind, rest = string.match(text, '^(h?)(s?)([^\1]*)\1([^\1]*)\1(.*)$')
  local filter = {kind = kind, priority = tonumber(priority), hidden = hidden == 'h', steps = steps == 's'}
  if kind == 'glob' then
    filter.pattern, filter.parts = rest, glob.split(rest)
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
  if filter.parts then return glob.matches_parts(filter.parts, name) end
  return glob.match(filter.pattern, name)
end

-- Match a lane by its name. Hidden lanes, and lanes of jobs with steps, match only if the filter includes them.
function taker_filter.matches_lane(filter, lane)
  if not filter.steps and lanes.needs_steps(lane) then return false end
  return (filter.hidden or not lanes.is_hidden(lane)) and wants_name(filter, lanes.name_in(lane))
end

function taker_filter.matches(filter, job)
  if not filter.hidden and record.has(job, 'hidden') then return false end
  if not filter.steps and record.has(job, 'needs_steps') then return false end
  return filter.any or ((not filter.priority or filter.priority == job.priority) and wants_name(filter, job.name))
end

return taker_filter
