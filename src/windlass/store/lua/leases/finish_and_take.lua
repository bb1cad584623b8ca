-- Report outcomes and take the next jobs in one call.
-- arguments: the first nine of take, then finishes, failures (how many of each follow); then the items of finish and of
--            fail; then queues
-- returns:   {answers of finish (only their number, if the fast path finished all), answers of fail, answer of take};
--            or, if the next run of a repeating job was not computed yet, {{what finish asks or nil, ...}, {}, nil}:
--            then nothing was changed
-- refusals:  those of finish and fail per job; those of take for the call, which then reports nothing either;
--            partition_stopped in place of the answer of take, after the reports
-- flags: allow-oom
local batch = require 'batch'
local fast_take = require 'fast_path.take'
local reports = require 'leases.reports'
local take = require 'leases.take'

local FINISHES_AT, FAIL_WIDTH = 13, 6

-- Return per finish what its caller must compute first (false: nothing); nil if there is nothing to compute.
local function list_questions(arguments, finishes)
  local questions, has_question = {}, false
  for i = 1, finishes do
    local id, token, _, then_at, revision = reports.read_finish(arguments[FINISHES_AT + i - 1])
    local job = reports.find_held(id, token)
    questions[i] = job and reports.ask_next_run(job, then_at, revision) or false
    has_question = has_question or questions[i] ~= false
  end
  return has_question and questions or nil
end

local function report(arguments, finishes, failures)
  local finished, failed = {}, {}
  for i = 1, finishes do finished[i] = reports.finish(reports.read_finish(arguments[FINISHES_AT + i - 1])) end
  for i = 1, failures do
    local at = FINISHES_AT + finishes + FAIL_WIDTH * (i - 1)
    local id, token, then_what, delay_ms, reason, content = unpack(arguments, at, at + FAIL_WIDTH - 1)
    failed[i] = reports.fail(id, tonumber(token), then_what, tonumber(delay_ms), reason, content)
  end
  batch.flush()
  return finished, failed
end

local function finish_and_take(arguments, filter, most, worker, lease_ms, accept_ms, wakeup_list, registered_ms,
    waiting, resume, finishes, failures)
  finishes, failures = tonumber(finishes), tonumber(failures)
  local queues_at = FINISHES_AT + finishes + FAIL_WIDTH * failures
  local request = take.read_request(arguments, queues_at, filter, most, worker, lease_ms, accept_ms, wakeup_list,
    registered_ms, waiting, resume)
  local refused = take.refused_filter(request)
  if refused then return {{}, {}, refused} end
  local questions = list_questions(arguments, finishes)
  if questions then return {questions, {}, false} end
  local finished, failed = report(arguments, finishes, failures)
  return {finished, failed, take.take(request)}
end

return finish_and_take, fast_take.finish_and_take
