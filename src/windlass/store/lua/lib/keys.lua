-- Every key of one partition. KEYS[1] is the partition's root, e.g. `wl:{0}`: all keys share its hash tag.
--
--   root                     hash    layout version, partition count (in partition 0), test mark, `stopped` (stop.lua),
--                                    `served_by` (fencing.py)
--   j:<id>                   string  the job's record (record.lua)
--   a:<id>                   list    attempts that ended badly, with their errors, the last 20
--   o:<id>                   string  the kept result, with its codec
--   e:<id>                   set     bells to ring when the job ends
--   queues                   set     names of queues that hold something or are configured
--   q:<queue>                hash    configuration, and the byte counts `bytes` and `history_bytes`
--   ready:<queue>            zset    default lane: score priority, member ready time + sequence + id
--   lane:<queue>\0<lane>     zset    another lane, same form
--   laned:<queue>            zset    all jobs of all other lanes, same form: counts, pages, exact priority
--   heads:<queue>            zset    the head of each other lane: score priority, member as above + lane
--   names:<queue>            zset    lexicographic index of other lanes: name \0 lane
--   scheduled:<queue>        zset    score run_at
--   waiting:<queue>          zset    score creation
--   running:<queue>          zset    dispatched and running: score the instant at which the recoverer looks at it
--   finished|failed|cancelled|history:<queue>   zset   score end
--   waiters:<queue>          zset    takers to ring: score registration's end, member bell \1 filter
--   m:<queue>\0<hour>        hash    counters <minute>:<what>
--   u:<queue>\0<key>         zset    holders of a unique key: score sequence
--   t:<tag>                  zset    jobs with a tag: score creation
--   timers:due|lease|ring    zset    queue -> an instant not later than its next scheduled job | overdue lease | ring check
--   retention, expiry        zset    id -> instant of removal | instant by which it must have started
--   ended:<bucket>           set     last 8 bytes of ids that ended, expires
--   seq, token               string  enqueue sequence; lease token
--   workers                  zset    worker -> instant by which it must beat
--   w:<worker>, wj:<worker>  hash, zset   what it says of itself; what it holds, score start
--   bell:<process>           list    what wakes a process
-- STATE, FLAG and DEFAULT come from the loader, out of the Python code; so do KEYS, ARGV and `at_start`.
local P
at_start[#at_start + 1] = function() P = KEYS[1] .. ':' end

local STATE_INDEX = {'scheduled:', nil, 'waiting:', 'running:', 'running:', 'finished:', 'failed:', 'cancelled:'}

local function job_key(id) return P .. 'j:' .. id end
local function queue_key(kind, queue) return P .. kind .. ':' .. queue end
local function lane_key(queue, lane)
  if lane == '' then return P .. 'ready:' .. queue end
  return P .. 'lane:' .. queue .. '\0' .. lane
end
