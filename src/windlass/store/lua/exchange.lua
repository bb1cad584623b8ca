-- Reports outcomes and takes the next jobs in one call.
-- arguments: ARGV[1] clock offset, [2]..[10] as of take, [11] number of finishes, [12] number of failures, then the
--            items of finish and of fail, then the queues
-- returns:   {answers of finish, answers of fail, what take returns}
-- refusals:  those of finish and fail per job; names_need_lanes for the call, which then reports nothing either;
--            partition_stopped in the place of what take returns
-- flags: allow-oom
-- uses: batch, reports, taking
local finishes, failures = tonumber(ARGV[11]), tonumber(ARGV[12])
local at = 13
local arguments = {filter = ARGV[2], most = tonumber(ARGV[3]), bell = ARGV[7], registered_ms = tonumber(ARGV[8]),
  others_wait = ARGV[9] == '1', from = tonumber(ARGV[10]), queues_at = at + 3 * finishes + 6 * failures}
if lacks_name_lanes(arguments) then return {{}, {}, 'names_need_lanes'} end
local finished, failed = {}, {}
for i = 1, finishes do
  finished[i] = finish(ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2])
  at = at + 3
end
for _ = 1, failures do
  table.insert(failed, fail(ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], tonumber(ARGV[at + 3]), ARGV[at + 4], ARGV[at + 5]))
  at = at + 6
end
flush()
local terms = {worker = ARGV[4], lease_ms = tonumber(ARGV[5]), accept_ms = tonumber(ARGV[6])}
return {finished, failed, take_all(arguments, terms)}
