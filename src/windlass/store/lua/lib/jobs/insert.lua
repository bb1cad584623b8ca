-- Insert of a job, shared by enqueue and by schedules.
local STATE = require('constants').STATE
local FLAG = require('constants').FLAG
local batch = require 'batch'
local clock = require 'clock'
local link_dependencies = require 'dependencies.link_dependencies'
local flow_record = require 'flows.flow_record'
local counters = require 'jobs.counters'
local ended_ids = require 'jobs.ended_ids'
local ending = require 'jobs.ending'
local index = require 'jobs.index'
local job_tags = require 'jobs.job_tags'
local new_record = require 'jobs.new_record'
local record = require 'jobs.record'
local repeat_rule = require 'jobs.repeat_rule'
local unique_keys = require 'jobs.unique_keys'
local keys = require 'keys'
local caps = require 'limits.caps'
local configuration = require 'queues.configuration'
local queue_index = require 'queues.queue_index'

local insert = {}

-- Action for a unique key.
insert.UNIQUE_ACTION = {none = 0, keep = 1, replace = 2, debounce = 3, throttle = 4, refuse = 5}
local TERMS_BYTES = {[0] = 1, 1, 5, 13, 7, 1} -- of each action; the ids of the jobs to wait for follow
local CONTENT_BITS = record.CODEC_BITS + FLAG.has_callback + FLAG.owes_finished + FLAG.owes_failed + FLAG.owes_cancelled
  + FLAG.whole_seconds + FLAG.leaves_tombstone

function insert.waiting_length(queue)
  return redis.call('ZCARD', keys.ready(queue)) + redis.call('ZCARD', keys.laned(queue))
    + redis.call('ZCARD', keys.scheduled(queue)) + redis.call('ZCARD', keys.waiting(queue))
end

local function is_full(job, config)
  if config.max_length == 0 and config.max_bytes == 0 then return false end
  config.length = config.length or insert.waiting_length(job.queue)
  return (config.max_length > 0 and config.length >= config.max_length)
    or (config.max_bytes > 0 and config.bytes + job.bytes > config.max_bytes)
end

local function note_growth(job, config)
  if config.length then config.length = config.length + 1 end
  config.bytes = config.bytes + job.bytes
  batch.increment(keys.queue(job.queue), 'bytes', job.bytes)
  if not config.is_known then
    redis.call('SADD', keys.queues(), job.queue)
    config.is_known = true
  end
end

local function add(job, sequence, after)
  local config = configuration.of(job.queue)
  if is_full(job, config) then return {'queue_full', job.id, 0} end
  if job.links ~= '' and flow_record.is_closed(job) then return {'flow_exists', job.id, 0} end
  local refusal, links = link_dependencies.find(job, after)
  if refusal then return {refusal, job.id, 0} end
  job.sequence, job.created_at = sequence, clock.now_ms
  if job.ready_at == 0 then job.ready_at = clock.now_ms end
  if links then link_dependencies.link(job, links) else job.state = index.state_by_time(job) end
  index.enter(job)
  new_record.write(job)
  if job.links ~= '' then flow_record.add(job, after) end
  unique_keys.hold(job)
  job_tags.enter(job, clock.now_ms)
  queue_index.note_fields(job)
  note_growth(job, config)
  counters.add(job.queue, 'enqueued', 1)
  return {link_dependencies.STATUS_OF[job.state], job.id, new_record.FIRST_REVISION}
end

local function grows_too_much(existing, job)
  local config, grown = configuration.of(existing.queue), job.bytes - existing.bytes
  return config.max_bytes > 0 and grown > 0 and not record.is_ended(existing)
    and config.bytes + grown > config.max_bytes
end

-- Write the new content to the job that holds the key. Its id, creation and attempts stay, and its run time if there is
-- no new one. Name and lane are content: the payload was made for that name, and the limits were matched with both.
local function replace(existing, job, guard)
  if guard > 0 and guard ~= existing.revision then return {'revision_conflict', existing.id, existing.revision} end
  -- The code of a job with steps has begun: its content must not change under it.
  if record.has(existing, 'needs_steps') then return {'existing', existing.id, existing.revision} end
  if grows_too_much(existing, job) then return {'queue_full', existing.id, 0} end
  local is_pending = record.is_pending(existing)
  local is_retakeable = record.has(existing, 'retakeable')
  if is_pending then index.leave(existing) elseif is_retakeable then index.leave_lane(existing) end
  job_tags.change(existing, job.tags)
  queue_index.note_fields(job)
  existing.priority, existing.policy, existing.policy_read = job.priority, job.policy, nil
  existing.name, existing.lane = job.name, job.lane
  repeat_rule.adopt_extras(existing, job)
  caps.change_limits(existing, record.links_of(job).limits)
  record.set_bits(existing, CONTENT_BITS, bit.band(job.flags, CONTENT_BITS))
  if job.ready_at > 0 then existing.ready_at = job.ready_at end
  existing.revision = existing.revision + 1
  if is_pending and existing.state ~= STATE.waiting then existing.state = index.state_by_time(existing) end
  if is_pending then index.enter(existing) elseif is_retakeable then index.enter_lane(existing) end
  if record.is_leased(existing) then index.watch(existing) end -- its execution timeout may have changed
  if existing.state == STATE.finished then ending.reset_retention(existing) end -- its result may have another TTL
  local config, bytes_before = configuration.of(existing.queue), existing.bytes
  record.rewrite(existing, string.sub(job.raw, job.head_bytes + 1))
  -- Later jobs of the same call are checked against the new size of the queue.
  if not record.is_ended(existing) then config.bytes = config.bytes + existing.bytes - bytes_before end
  return {'replaced', existing.id, existing.revision}
end

-- Debounce: the job runs when there was no call for a while. A call that finds it not taken yet replaces its content
-- and moves its run time, at most `most_ms` from its creation. The id of such a call counts as ended, so that a
-- repeated call does not run it a second time.
local function debounce(job, entry, terms, sequence, after)
  local pause_ms, most_ms = struct.unpack('>I6I6', terms, 2)
  local holder = unique_keys.newest_holder(job)
  job.ready_at = clock.now_ms + pause_ms
  local has_started = holder and (holder.attempt > 0 or record.has(holder, 'needs_steps'))
  if not holder or has_started or not record.is_pending(holder) then return add(job, sequence, after) end
  local content = record.parse(job.id, string.sub(entry, 17))
  content.ready_at = most_ms > 0 and math.min(job.ready_at, holder.created_at + most_ms) or job.ready_at
  local answer = replace(holder, content, 0)
  if answer[1] == 'replaced' then ended_ids.note(job.id) end
  return answer
end

-- Throttle: the first call of a period wins, whatever happens to its job.
local function throttle(job, terms, sequence, after)
  local key, period_ms = keys.throttle(job.queue, job.unique), struct.unpack('>I6', terms, 2)
  local known = redis.call('GET', key)
  local until_at, id = 0, nil
  if known then until_at, id = struct.unpack('>I6c16', known) end
  if until_at > clock.now_ms then
    local first = record.load(id)
    return {'existing', id, first and first.revision or 0}
  end
  local answer = add(job, sequence, after)
  if answer[3] > 0 then
    redis.call('SET', key, struct.pack('>I6', clock.now_ms + period_ms) .. job.id, 'PX', period_ms)
  end
  return answer
end

function insert.insert(id, key, entry, terms, sequence, is_stored, has_ended)
  local known = (is_stored or batch.values[key]) and record.load(id)
  local job = new_record.decode(entry)
  if known then return {known.fingerprint == job.fingerprint and 'existing' or 'id_conflict', id, known.revision} end
  if has_ended then return {'ended', id, 0} end
  local check = terms ~= '' and string.byte(terms) or insert.UNIQUE_ACTION.none
  local after = string.sub(terms, TERMS_BYTES[check] + 1)
  if check == insert.UNIQUE_ACTION.debounce then return debounce(job, entry, terms, sequence, after) end
  if check == insert.UNIQUE_ACTION.throttle then return throttle(job, terms, sequence, after) end
  local holder = check ~= insert.UNIQUE_ACTION.none and unique_keys.oldest_holder(job)
  if not holder then return add(job, sequence, after) end
  if check == insert.UNIQUE_ACTION.keep then return {'existing', holder.id, holder.revision} end
  if check == insert.UNIQUE_ACTION.refuse then return {'unique_conflict', holder.id, holder.revision} end
  return replace(holder, record.parse(id, string.sub(entry, 17)), struct.unpack('>I4', terms, 2))
end

return insert
