-- Report outcomes and take the next jobs in one call.
-- arguments: ARGV[1] clock offset, [2]..[10] as in take, [11] number of finishes, [12] number of failures, then the
--            items of finish and of fail, then the queues
-- returns:   {answers of finish (only their number, if the fast path finished all), answers of fail, answer of take};
--            or, if the next run of a repeating job was not computed yet, {{what finish asks or nil, ...}, {}, nil}:
--            then nothing was changed
-- refusals:  those of finish and fail per job; those of take for the call, which then reports nothing either;
--            partition_stopped in place of the answer of take, after the reports
-- flags: allow-oom
local batch = require 'batch'
local simple_take = require 'fast_path.simple_take'
local reports = require 'leases.reports'
local take = require 'leases.take'

return function(arguments)
  local finishes, failures = tonumber(arguments[11]), tonumber(arguments[12])
  local at = 13
  local request = {filter = arguments[2], most = tonumber(arguments[3]), wakeup_list = arguments[7], registered_ms = tonumber(arguments[8]),
    others_wait = arguments[9] == '1', direct_handoff = arguments[9] == '2', from = tonumber(arguments[10]), queues_at = at + finishes + 6 * failures}
  local refused = take.refused_filter(request)
  if refused then return {{}, {}, refused} end
  local questions, has_question = {}, false
  for i = 1, finishes do
    local id, token, _, then_at, revision = reports.read_finish(arguments[at + i - 1])
    local job = reports.find_held(id, token)
    questions[i] = job and reports.ask_next_run(job, then_at, revision) or false
    has_question = has_question or questions[i] ~= false
  end
  if has_question then return {questions, {}, false} end
  local finished, failed = {}, {}
  for i = 1, finishes do
    finished[i] = reports.finish(reports.read_finish(arguments[at]))
    at = at + 1
  end
  for _ = 1, failures do
    table.insert(failed, reports.fail(arguments[at], tonumber(arguments[at + 1]), arguments[at + 2], tonumber(arguments[at + 3]), arguments[at + 4], arguments[at + 5]))
    at = at + 6
  end
  batch.flush()
  local terms = {worker = arguments[4], lease_ms = tonumber(arguments[5]), accept_ms = tonumber(arguments[6])}
  return {finished, failed, take.take(request, terms)}
end, simple_take.finish_and_take
