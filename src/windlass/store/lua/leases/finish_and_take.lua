-- Report outcomes and take the next jobs in one call.
-- arguments: ARGV[1] clock offset, [2]..[10] as in take, [11] number of finishes, [12] number of failures, then the
--            items of finish and of fail, then the queues
-- returns:   {answers of finish (only their number, if the fast path finished all), answers of fail, answer of take};
--            or, if the next run of a repeating job was not computed yet, {{what finish asks or nil, ...}, {}, nil}:
--            then nothing was changed
-- refusals:  those of finish and fail per job; those of take for the call, which then reports nothing either;
--            partition_stopped in place of the answer of take, after the reports
-- flags: allow-oom
-- first: exchange_plainly
-- uses: batch, reports, taking, plain_take
local finishes, failures = tonumber(ARGV[11]), tonumber(ARGV[12])
local at = 13
local arguments = {filter = ARGV[2], most = tonumber(ARGV[3]), bell = ARGV[7], registered_ms = tonumber(ARGV[8]),
  others_wait = ARGV[9] == '1', by_hand = ARGV[9] == '2', from = tonumber(ARGV[10]), queues_at = at + finishes + 6 * failures}
local refused = refused_filter(arguments)
if refused then return {{}, {}, refused} end
local questions, has_question = {}, false
for i = 1, finishes do
  local id, token, _, then_at, revision = read_finish(ARGV[at + i - 1])
  local r = held(id, token)
  questions[i] = r and question(r, then_at, revision) or false
  has_question = has_question or questions[i] ~= false
end
if has_question then return {questions, {}, false} end
local finished, failed = {}, {}
for i = 1, finishes do
  finished[i] = finish(read_finish(ARGV[at]))
  at = at + 1
end
for _ = 1, failures do
  table.insert(failed, fail(ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], tonumber(ARGV[at + 3]), ARGV[at + 4], ARGV[at + 5]))
  at = at + 6
end
flush()
local terms = {worker = ARGV[4], lease_ms = tonumber(ARGV[5]), accept_ms = tonumber(ARGV[6])}
return {finished, failed, take_all(arguments, terms)}
