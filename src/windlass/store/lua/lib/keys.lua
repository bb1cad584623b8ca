-- Every key of one partition. KEYS[1] is the partition's root, e.g. `wl:{0}`: all keys share its hash tag.
--
--   root                     hash    layout version, partition count (in partition 0), test mark, `stopped` (stop.lua),
--                                    `served_by` (fencing.py)
--   j:<id>                   string  the job's record (record.lua)
--   a:<id>                   list    attempts that ended badly, with their errors, the last 20
--   o:<id>                   string  the kept result, with its codec
--   l:<id>                   list    lines that its holders have said, the last ones (job_log.lua)
--   e:<id>                   set     bells to ring when the job ends
--   c:<id>                   zset    its members (children, jobs it waits for): score their state (dependencies.lua)
--   d:<id>                   zset    jobs that wait for its end: score what they were told last
--   work                     zset    steps on families that are still to be done: kind + id, score when
--   restoring                zset    jobs of an import that belong to others: score 1 to be linked, 2 to be settled
--   queues                   set     names of queues that hold something or are configured
--   q:<queue>                hash    configuration, the byte counts `bytes` and `history_bytes`, marks
--   ready:<queue>            zset    default lane: score priority, member ready time + sequence + id
--   lane:<queue>\0<lane>     zset    another lane, same form
--   laned:<queue>            zset    all jobs of all other lanes, same form: counts, pages, exact priority
--   heads:<queue>            zset    the head of each other lane: score as in the lane, member as above + lane
--   names:<queue>            zset    lexicographic index of other lanes: name \0 lane
--   parked:<queue>\0<holdup> zset    lanes that a limit or a pause holds back, as in heads
--   parked_at:<queue>        hash    lane -> what holds it back
--   room:<queue>             zset    holdups that have room, though lanes are parked there
--   rates:<queue>            zset    rates that hold lanes back -> instant of their next token
--   pauses:<queue>           hash    'l' + lane or 'n' + name -> since when and why
--   weights:<queue>          hash    lane -> weight, where it is not 1
--   turns:<queue>            zset    lane -> virtual time, where it is ahead of the queue's (fair share)
--   entered:<queue>          hash    lane -> virtual time with which its head was entered (fair share)
--   scheduled:<queue>        zset    score run_at
--   waiting:<queue>          zset    score creation
--   running:<queue>          zset    dispatched and running: score the instant at which the recoverer looks at it
--   finished|failed|cancelled|history:<queue>   zset   score end
--   waiters:<queue>          zset    takers to ring: score registration's end, member bell \1 filter
--   m:<queue>\0<hour>        hash    counters <minute>:<what>; waits and runs by bits of their span (counters.lua)
--   u:<queue>\0<key>         zset    holders of a unique key: score sequence
--   throttle:<queue>\0<key>  string  end of the period + id of the job that won it; expires
--   t:<tag>                  zset    jobs with a tag: score creation
--   timers:due|lease|ring    zset    queue -> an instant not later than its next scheduled job | overdue lease | ring check
--   retention, expiry        zset    id -> instant of removal | instant by which it must have started
--   ended:<bucket>           set     last 8 bytes of ids that ended, expires
--   limits, limit_names      hash    number -> limit; name -> number
--   limits_version, limit_number   string   grow with every change; with every new limit
--   rematch                  string  version of the limits against which waiting jobs are being matched
--   holders:<holdup>         zset    jobs that run under a limit: score start; a holdup is number, number:key or number=key
--   full_at:<holdup>         string  when a rate's bucket is full again; expires then
--   parked_in:<holdup>       set     queues with lanes parked under a limit
--   held:<number>            set     holdups of a limit that have holders or parked lanes
--   caps:<number>            hash    holdup -> its own cap + what callers keep with it (caps.lua)
--   keyed:<number>           zset    holdups that may have a cap of their own, and have one, or jobs: score 0
--   under:<holdup>           zset    jobs of such a holdup that have not ended: score state
--   idle_caps                zset    holdups with a cap and without jobs -> instant at which the cap is forgotten
--   seq, token               string  enqueue sequence; lease token
--   number                   string  the last number that was given to a job (numbers.lua)
--   slip:<name>              string  the last call with this slip, and the first number it drew; expires
--   numbers, numbered        hash    id -> number, number -> id: of jobs that got theirs later
--   workers                  zset    worker -> instant by which it must beat
--   w:<worker>, wj:<worker>  hash, zset   what it says of itself; what it holds, score start
--   push_workers             zset    workers that jobs are pushed to: score registration (push_workers.lua)
--   push_full                set     those of them that had no room when somebody looked
--   idle:<queue>             zset    worker -> until when it may be given a job (idle_workers.lua); expires
--   wn:<worker>              zset    job names that it does not know: score when it said so
--   schedules                zset    schedule -> its next occurrence; +inf when it is paused or over
--   schedule_names           zset    the same names, by name
--   s:<schedule>             hash    definition (opaque), revision, created_at, next_at (0: over), paused (why; if at all),
--                                    last_planned_at, last_fired_at, last_job, fired, skipped, missed
--   sj:<schedule>            list    ids of the jobs it made last, newest first, at most 20
--   bell:<process>           list    what wakes a process
--   hand:<process>           string  worker to whom a job may be handed with the ring (plain_hand.lua); expires
--   owed, given_up           zset    debt -> instant at which it is due | at which it is removed (pending_callbacks.lua)
--   od:<destination>         zset    the same of the debts owed to one destination
--   owed_to                  zset    destination -> instant at which its first debt is due
--   given_up_ids             zset    the debts that were given up, by id
--   b:<debt>                 hash    a callback owed: the job as it ended, its result, how often it was tried, its destination
--   debts                    string  numbers of debts and of their leases
--   followed                 string  somebody follows what happens: the epoch of events.lua; expires
--   events                   stream  what happened, bounded; written only while `followed` is there; expires
--   tokens                   hash    name -> when a token was made and expires + its definition (tokens.lua); partition 0
--   ended_sessions           zset    sessions that were ended by logout: score when the last of their cookies is over, in s;
--                                    expires; partition 0
--   tokens_version           string  another after every change of them, and of these
--   stats:<component>        hash    instance -> until when + what it counted last (opaque); expires; in partition 0
--   audit                    stream  who did what, bounded (audit.lua); in partition 0
-- STATE, EVENT, FLAG, LOG and DEFAULT come from the loader, out of the Python code; so do KEYS, ARGV, `at_begin` and `at_start`.
local P
at_begin[#at_begin + 1] = function() P = KEYS[1] .. ':' end

local STATE_INDEX = {'scheduled:', nil, 'waiting:', 'running:', 'running:', 'finished:', 'failed:', 'cancelled:'}

local function job_key(id) return P .. 'j:' .. id end
local function queue_key(kind, queue) return P .. kind .. ':' .. queue end
local function lane_key(queue, lane)
  if lane == '' then return P .. 'ready:' .. queue end
  return P .. 'lane:' .. queue .. '\0' .. lane
end
