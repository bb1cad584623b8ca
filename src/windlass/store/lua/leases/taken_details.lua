-- Set deadlines of jobs that were taken for clients that know jobs by number, and return what these clients see beside
-- each job: its number, its parent, and its ended children. Parents and children in other queues than the given one
-- ('': any) are left out. The answer is bounded: it may lack the last jobs, and children that the next call returns.
-- arguments: children_max (to look at), bytes_max (about), queue; then per job: id, token, lease_ms (since it was
--            taken; 0: the deadline stays), parent ('': none), cursor score ('0': the first page of children, '': no
--            children), cursor member
-- returns:   {per job {number ('': the id contains it), deadline as text ('0': none; '': no lease_ms was given), id of
--            its parent ('': none is shown), cursor score, cursor member ('' at the end), {child, ...}} or a refusal,
--            {parent, ...}}; a child or parent is {number, id + record}
-- refusals:  unknown_job, already_ended (only of a job that changes: it gets a deadline or a number)
-- flags: allow-oom
local STATE = require('constants').STATE
local batch = require 'batch'
local cursor = require 'cursor'
local dependencies = require 'dependencies.dependencies'
local ending = require 'jobs.ending'
local record = require 'jobs.record'
local keys = require 'keys'
local lease = require 'leases.lease'
local reports = require 'leases.reports'
local numbers = require 'numbers'

local ITEMS_AT, ITEM_WIDTH = 5, 6

local function number_to_show(view, job)
  if numbers.number_in(job.id) then return '' end
  view.is_changed = true
  return numbers.of(job)
end

local function show(view, job)
  record.payload_of(job) -- reads a payload that is not loaded yet
  local number = number_to_show(view, job)
  view.bytes_left = view.bytes_left - #job.raw
  return {number, job.id .. job.raw}
end

local function is_in_view(view, job) return view.queue == '' or job.queue == view.queue end

local function show_parent(view, id)
  local parent = id ~= '' and record.load(id)
  if not parent or not is_in_view(view, parent) then return '' end
  if not view.has_parent[id] then
    view.has_parent[id] = true
    view.parents[#view.parents + 1] = show(view, parent)
  end
  return id
end

local function is_shown_child(view, job, owner)
  return record.is_ended(job) and is_in_view(view, job) and dependencies.is_child_of(job, owner)
end

-- Return where the next page starts ('', '': at the end), and the children.
local function ended_children(view, owner, score, member)
  local key, found, most = keys.members(owner), {}, math.max(view.children_left, 1)
  local from = score == '0' and redis.call('ZCOUNT', key, '-inf', '(' .. STATE.finished)
    or cursor.rank_after(key, tonumber(score), member)
  local page = redis.call('ZRANGE', key, from, from + most - 1, 'WITHSCORES')
  for i = 1, #page, 2 do
    view.children_left = view.children_left - 1
    local child = record.load(page[i])
    if child and is_shown_child(view, child, owner) then found[#found + 1] = show(view, child) end
    local is_last = i + 1 == #page
    if is_last and #page < 2 * most then break end
    if is_last or view.bytes_left <= 0 then return page[i + 1], page[i], found end
  end
  return '', '', found
end

local function details_of(view, id, token, lease_ms, parent, score, member)
  local number, deadline = '', ''
  if lease_ms > 0 or not numbers.number_in(id) then
    local job = record.load(id)
    if not job then return ending.missing(id) end
    if lease_ms > 0 then
      if reports.find_held(id, token) then lease.set_length(job, lease_ms) end
      deadline = string.format('%.0f', job.deadline)
    end
    number, view.is_changed = number_to_show(view, job), true
  end
  local shown_parent = show_parent(view, parent)
  if score == '' then return {number, deadline, shown_parent, '', '', {}} end
  return {number, deadline, shown_parent, ended_children(view, id, score, member)}
end

return function(arguments, children_max, bytes_max, queue)
  local view = {
    queue = queue, children_left = tonumber(children_max), bytes_left = tonumber(bytes_max), parents = {},
    has_parent = {}, is_changed = false,
  }
  local answers = {}
  for i = ITEMS_AT, #arguments, ITEM_WIDTH do
    if i > ITEMS_AT and (view.children_left <= 0 or view.bytes_left <= 0) then break end
    local id, token, lease_ms, parent, score, member = unpack(arguments, i, i + ITEM_WIDTH - 1)
    answers[#answers + 1] = details_of(view, id, tonumber(token), tonumber(lease_ms), parent, score, member)
  end
  if view.is_changed then batch.flush() end
  return {answers, view.parents}
end
