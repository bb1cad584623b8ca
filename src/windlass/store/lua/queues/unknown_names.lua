-- Return the first names of a queue's queued jobs, and the workers and takers that decide which of them are known.
-- arguments: queue, most_names, most_jobs (examined per kind of lane), most_workers; then names, instead of those of
--            queued jobs
-- returns:   {now, {{name, {push worker that does not know it, ...}}, ...}, {filter of waiting takers, ...}, all
--            workers, {worker as in explain, ...}, {names, ...}}
-- refusals:  none
-- flags: no-writes
local clock = require 'clock'
local record = require 'jobs.record'
local keys = require 'keys'
local lanes = require 'queues.lanes'
local candidates = require 'workers.candidates'

local NAMES_AT = 6
local PUSH_WORKERS_MAX = 100 -- asked for each name; others count as workers that know it
local NAMELESS_END = '\1' -- sorts after all lanes without a name, and before all with one

local function add(found, name)
  if found[name] then return end
  found[name] = true
  found[#found + 1] = name
end

local function add_name_of(found, member)
  local job = record.load(lanes.id_in_member(member))
  if job then add(found, job.name) end
end

-- Lanes with a name are sorted by it: each step finds the next name, no matter how many lanes have it.
local function add_lane_names(found, queue, most_names)
  local from = '[' .. NAMELESS_END
  while #found < most_names do
    local entry = redis.call('ZRANGEBYLEX', keys.lane_names(queue), from, '+', 'LIMIT', 0, 1)[1]
    if not entry then return end
    local name = string.match(entry, '^[^%z]*')
    add(found, name)
    from = '[' .. name .. '\1'
  end
end

local function add_heads(found, queue, most_jobs)
  local range = redis.call('ZRANGEBYLEX', keys.lane_names(queue), '-', '(' .. NAMELESS_END, 'LIMIT', 0, most_jobs)
  for _, entry in ipairs(range) do
    local head = lanes.head_of(keys.lane(queue, string.sub(entry, 2)))
    if head then add_name_of(found, head) end
  end
end

local function queued_names(queue, most_names, most_jobs)
  local found = {}
  for _, member in ipairs(redis.call('ZRANGE', keys.lane(queue, ''), 0, most_jobs - 1)) do
    add_name_of(found, member)
  end
  add_heads(found, queue, most_jobs)
  add_lane_names(found, queue, most_names)
  return found
end

return function(arguments, queue, most_names, most_jobs, most_workers)
  most_names, most_jobs, most_workers = tonumber(most_names), tonumber(most_jobs), tonumber(most_workers)
  local names = #arguments >= NAMES_AT and {unpack(arguments, NAMES_AT)} or queued_names(queue, most_names, most_jobs)
  local rows = {}
  for i = 1, math.min(#names, most_names) do
    rows[i] = {names[i], candidates.workers_without_name(names[i], PUSH_WORKERS_MAX)}
  end
  local filters, waiting = {}, candidates.waiting_filters(queue)
  for i = 1, #waiting, 2 do filters[#filters + 1] = waiting[i] end
  local workers, lists = candidates.registered_workers(most_workers)
  return {clock.now_ms, rows, filters, redis.call('ZCARD', keys.workers()), workers, lists}
end
