-- Create the job of a schedule now, independently of its occurrences and of running jobs.
-- arguments: ARGV[1] clock offset, [2] name, [3] expected revision, [4] instant, [5] id + record, [6] terms (see
--            enqueue), [7] version of the limits
-- returns:   {status, id, revision} as in enqueue
-- refusals:  unknown_schedule, revision_conflict, limits_changed; those of enqueue as status
-- uses: keys, batch, record, limits, wakeups, ending, schedules, wake_takers
local name = ARGV[2]
local revision = revision_of_schedule(name)
if revision == 0 then return 'unknown_schedule' end
if revision ~= tonumber(ARGV[3]) then return 'revision_conflict' end
if have_limits_changed(ARGV[7]) then return 'limits_changed' end
-- A call that is repeated after a lost answer has the same id.
local id = string.sub(ARGV[5], 1, 16)
local known = load(id)
if known then return {'existing', id, known.revision} end
if ended_lately({id})[1] then return {'ended', id, 0} end
local answer = make_job(name, tonumber(ARGV[4]), ARGV[5], ARGV[6])
flush()
ring_all()
trim_histories()
return answer
