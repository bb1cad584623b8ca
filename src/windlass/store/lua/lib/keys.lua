-- Keys of one partition. This table lists every key. The functions below build the most frequent keys; other files
-- append the rest to the prefix `P`. KEYS[1] is the partition's root, e.g. `wl:{0}`: all keys share its hash tag.
-- A limit key is a limit's number, number:key or number=key; where lanes are blocked, also a pause (limits.lua).
--
--   root                        hash    layout version, partition count (in partition 0), test mark,
--                                       `stopped` (stop.lua), `served_by` (fencing.py)
--   j:<id>                      string  record of a job (record.lua)
--   a:<id>                      list    the last 20 unsuccessful attempts, with their errors (attempts.lua)
--   o:<id>                      string  kept result, with its codec
--   l:<id>                      list    last log lines of its holders (job_log.lua)
--   e:<id>                      set     wakeup lists to notify when the job ends
--   c:<id>                      zset    its members (children, jobs it waits for): score their state (dependencies.lua)
--   d:<id>                      zset    jobs that wait for its end: score the state they were last notified of
--   work                        zset    pending steps on dependencies: kind + id, score when
--   restoring                   zset    imported jobs with a parent or members: score 1 to be linked, 2 to be settled
--   queues                      set     names of queues that hold something or are configured
--   q:<queue>                   hash    configuration, the byte counts `bytes` and `history_bytes_now`, marks
--   ready:<queue>               zset    default lane: score priority, member ready time + sequence + id
--   lane:<queue>\0<lane>        zset    another lane, same form
--   laned:<queue>               zset    all jobs of all other lanes, same form: counts, pages, exact priority
--   heads:<queue>               zset    head of each other lane: score as in the lane, member as above + lane
--   names:<queue>               zset    lexicographic index of other lanes: name \0 lane
--   parked:<queue>\0<limit key> zset    lanes that a limit or a pause blocks, as in heads
--   parked_at:<queue>           hash    lane -> limit key that blocks it
--   room:<queue>                zset    limit keys that have room, although lanes are blocked there
--   rates:<queue>               zset    rates that block lanes -> instant of their next token
--   pauses:<queue>              hash    'l' + lane or 'n' + name -> since + reason
--   weights:<queue>             hash    lane -> weight, if it is not 1
--   turns:<queue>               zset    lane -> virtual time, if it is ahead of the queue's (fair share)
--   entered:<queue>             hash    lane -> virtual time at which its head was entered (fair share)
--   scheduled:<queue>           zset    score run_at
--   waiting:<queue>             zset    score creation
--   running:<queue>             zset    dispatched and running: score the instant at which the recoverer checks it
--   finished|failed|cancelled|history:<queue>   zset   score end
--   waiters:<queue>             zset    waiting takers: score end of registration, member wakeup list \1 filter
--   m:<queue>\0<hour>           hash    counters <minute>:<what>; waits and runs by bits of duration (counters.lua)
--   u:<queue>\0<key>            zset    holders of a unique key: score sequence
--   throttle:<queue>\0<key>     string  end of the period + id of the job that won it; expires
--   t:<tag>                     zset    jobs with a tag: score creation
--   timers:due|lease|ring       zset    queue -> an instant not later than its next scheduled job | overdue lease |
--                                       wakeup check
--   retention, expiry           zset    id -> instant of removal | instant by which it must have started
--   ended:<bucket>              set     last 8 bytes of ids that ended; expires
--   limits, limit_names         hash    number -> limit; name -> number
--   limits_version, limit_number   string   grow with every change; with every new limit
--   rematch                     string  version of the limits against which waiting jobs are being matched
--   holders:<limit key>         zset    jobs that run under a limit: score start
--   full_at:<limit key>         string  when a rate's bucket is full again; expires then
--   parked_in:<limit key>       set     queues with lanes that a limit blocks
--   held:<number>               set     limit keys of a limit that have holders or blocked lanes
--   caps:<number>               hash    limit key -> its own cap + data that callers keep with it (caps.lua)
--   keyed:<number>              zset    limit keys that may have their own cap, and have a cap or jobs: score 0
--   under:<limit key>           zset    jobs of such a limit key that have not ended: score state
--   idle_caps                   zset    limit keys with a cap and without jobs -> instant at which the cap is removed
--   seq, token                  string  enqueue sequence; lease token
--   number                      string  last number given to a job (numbers.lua)
--   slip:<name>                 string  request id: last call under this name, and its first reserved number; expires
--   numbers, numbered           hash    id -> number, number -> id: of jobs whose number was assigned later
--   workers                     zset    worker -> instant by which it must send a heartbeat
--   w:<worker>, wj:<worker>     hash, zset   description of a worker; jobs it holds, score start
--   push_workers                zset    workers to which jobs are pushed: score registration (push_workers.lua)
--   push_full                   set     push workers that had no free slot when a call looked
--   idle:<queue>                zset    worker -> until when it may be given a job (idle_workers.lua); expires
--   wn:<worker>                 zset    job names that the worker does not know: score when it reported so
--   schedules                   zset    schedule -> its next occurrence; +inf when it is paused or over
--   schedule_names              zset    the same names, by name
--   s:<schedule>                hash    definition (opaque), revision, created_at, next_at (0: over), paused (reason),
--                                       last_planned_at, last_fired_at, last_job, fired, skipped, missed
--   sj:<schedule>               list    ids of the last jobs it created, newest first, at most 20
--   bell:<process>              list    wakeup list of a process
--   hand:<process>              string  worker that accepts a direct handoff (plain_hand.lua); expires
--   owed, given_up              zset    callback -> instant at which it is due | is removed (pending_callbacks.lua)
--   od:<destination>            zset    the same for the pending callbacks of one destination
--   owed_to                     zset    destination -> instant at which its first pending callback is due
--   given_up_ids                zset    callbacks that were given up, by id
--   b:<callback>                hash    pending or given-up callback: job as it ended, result, tries, destination
--   debts                       string  numbers of callbacks and of their leases
--   followed                    string  there are followers of events: the epoch of events.lua; expires
--   events                      stream  events, bounded; written only while `followed` exists; expires
--   tokens                      hash    name -> creation and expiry of a token + definition (tokens.lua); partition 0
--   ended_sessions              zset    sessions ended by logout: score when the last of their cookies expires, in s;
--                                       expires; partition 0
--   tokens_version              string  changes with the tokens and the ended sessions; partition 0
--   stats:<component>           hash    instance -> until when + its last figures (opaque); expires; partition 0
--   audit                       stream  audit log, bounded (audit.lua); partition 0
-- The loader adds STATE, EVENT, FLAG, LOG and DEFAULT from the Python code, and KEYS, ARGV, `at_begin` and `at_start`.
local P
at_begin[#at_begin + 1] = function() P = KEYS[1] .. ':' end

local STATE_INDEX = {'scheduled:', nil, 'waiting:', 'running:', 'running:', 'finished:', 'failed:', 'cancelled:'}

local function job_key(id) return P .. 'j:' .. id end
local function queue_key(kind, queue) return P .. kind .. ':' .. queue end
local function lane_key(queue, lane)
  if lane == '' then return P .. 'ready:' .. queue end
  return P .. 'lane:' .. queue .. '\0' .. lane
end
