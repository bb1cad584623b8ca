------------------------------- MODULE Engine -------------------------------
(* The engine of Windlass: one queue of one partition, and the Lua scripts that change it.                          *)
(*                                                                                                                  *)
(* An engine runs one script at a time, so each operator below is one atomic step. It maps the state of the engine  *)
(* to the next one, as the script does. Comments name the script; paths are below src/windlass/store/lua.           *)
(* README.md tells what the model leaves out.                                                                       *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
  Jobs,        \* ids that producers use
  Workers,     \* worker processes
  Gone,        \* holder of the leases of processes that were killed: a new process has a new id
  Waiting,     \* workers that wait at an empty queue, and accept direct handoffs
  Retake,      \* jobs whose overdue lease can be taken while its holder may still report (retake)
  MaxAttempts, \* attempts of each job
  LeaseLength, \* steps of time (Deployment!Pass) from a take to the deadline
  Bugs         \* numbers of mutants (mutants/) that are planted here; {} is Windlass

Holders == Workers \cup {Gone}
NoOne == "no one"
Leased == {"dispatched", "running"}
Ended == {"finished", "failed", "cancelled"}

AcceptLength == 1 \* steps in which a worker must accept a job that was handed over

NoRecord == [st |-> "none", tok |-> 0, own |-> NoOne, att |-> 0, due |-> 0, stop |-> FALSE, again |-> FALSE]

Empty == [
  \* The keys of the queue.
  rec      |-> [j \in Jobs |-> NoRecord],  \* record: state, lease token, holder, attempt, time until the deadline,
                                           \* flags cancel_requested (stop) and retakeable (again)
  ready    |-> {},                         \* lane: may be taken
  sched    |-> {},                         \* scheduled
  running  |-> {},                         \* running: has a lease
  byWorker |-> [v \in Holders |-> {}],     \* wj:<worker>
  order    |-> <<>>,                       \* jobs by ready time and sequence
  waiters  |-> <<>>,                       \* registered wakeup lists, the oldest first
  ring     |-> FALSE,                      \* timers:ring, the check for a lost wakeup
  leaseT   |-> FALSE,                      \* timers:lease
  dueT     |-> FALSE,                      \* timers:due
  next     |-> 0,                          \* token that the counter gives again (only with a bug)
  ids      |-> {},                         \* ended:<bucket>: ids of removed jobs
  \* What the engine has promised, noted beside the keys. No operation reads these fields. Without bugs they follow
  \* from the keys, so they add no states.
  entered  |-> {},                         \* jobs that were added, so that their enqueue was or may be acknowledged
  over     |-> [j \in Jobs |-> FALSE],     \* jobs that have ended
  lease    |-> [j \in Jobs |-> 0],         \* token whose holder may report (0: none)
  until    |-> [j \in Jobs |-> 0],         \* time until the deadline that the holder was told
  runs     |-> [j \in Jobs |-> 0],         \* attempts that count
  place    |-> <<>>,                       \* order in which the jobs should be taken
  asked    |-> {},                         \* running jobs whose cancel was requested
  broken   |-> {}                          \* promises that a step has broken
]

Bug(number) == number \in Bugs
Max(a, b) == IF a > b THEN a ELSE b
Without(list, j) == SelectSeq(list, LAMBDA k : k # j)
AtEnd(list, j) == Append(Without(list, j), j)
IsLeased(e, j) == e.rec[j].st \in Leased
IsEnded(e, j) == e.rec[j].st \in Ended
BreakIf(e, isBroken, promise) == IF isBroken THEN [e EXCEPT !.broken = @ \cup {promise}] ELSE e

\* lib/workers/wakeups.lua: wake one waiting taker, and have it checked later, because that taker may be dead.
Wake(e) == IF e.waiters = <<>> THEN e ELSE [e EXCEPT !.waiters = Tail(@), !.ring = TRUE]

\* Timers are lower bounds. One without a reason has no effect, and the next loop removes it: here it goes at once.
Quiet(e) == [e EXCEPT
  !.leaseT = @ /\ \E j \in e.running : ~e.rec[j].again,
  !.dueT = @ /\ e.sched # {},
  !.ring = @ /\ e.ready # {} /\ e.waiters # <<>>]

-----------------------------------------------------------------------------
(* Indexes and ends: lib/jobs/index.lua, lib/jobs/ending.lua, lib/jobs/end_header.lua *)

LeaveRunning(e, j) == [e EXCEPT
  !.running = IF Bug("02") THEN @ ELSE @ \ {j},
  !.byWorker[e.rec[j].own] = IF Bug("22") THEN @ ELSE @ \ {j},
  !.ready = IF e.rec[j].again /\ ~Bug("08") THEN @ \ {j} ELSE @,
  !.rec[j].again = FALSE]

Leave(e, j) ==
  CASE e.rec[j].st = "queued" -> [e EXCEPT !.ready = @ \ {j}]
    [] e.rec[j].st = "scheduled" -> [e EXCEPT !.sched = @ \ {j}]
    [] IsLeased(e, j) -> LeaveRunning(e, j)
    [] OTHER -> e

End(e, j, state) ==
  LET kept == IF Bug("193") /\ state = "finished" THEN e.rec[j].due ELSE 0
      known == BreakIf(e, e.over[j], "ended jobs stay ended")
  IN [Leave(known, j) EXCEPT
       !.rec[j] = [NoRecord EXCEPT !.st = state, !.due = kept],
       !.order = Without(@, j), !.place = Without(@, j),
       !.over[j] = TRUE, !.lease[j] = 0, !.until[j] = 0, !.runs[j] = 0, !.asked = @ \ {j}]

\* maintenance/clean.lua, ending.remove: the retention is over. A finished job of which nothing is kept goes in the
\* same step as it ends, which is End and Remove here.
Remove(e, j) == [e EXCEPT !.rec[j] = NoRecord, !.ids = IF Bug("17") THEN @ ELSE @ \cup {j}]

\* reports.put_back: the lease ends, and the job goes back to its old place, or to a later time.
PutBack(e, j, isLater) ==
  LET known == BreakIf(e, e.over[j], "ended jobs stay ended")
      left == Leave(known, j)
      lane == IF Bug("10") /\ isLater /\ e.rec[j].again THEN left.ready \cup {j} ELSE left.ready
      put == [left EXCEPT
        !.rec[j].st = IF isLater THEN "scheduled" ELSE "queued",
        !.rec[j].tok = 0, !.rec[j].own = NoOne, !.rec[j].due = 0,
        !.order = IF isLater \/ Bug("09") THEN AtEnd(@, j) ELSE @,
        !.place = IF isLater THEN AtEnd(@, j) ELSE @,
        !.ready = IF isLater THEN lane ELSE lane \cup {j},
        !.sched = IF isLater THEN @ \cup {j} ELSE @,
        !.dueT = @ \/ isLater,
        !.lease[j] = 0, !.until[j] = 0]
  IN IF isLater THEN put ELSE Wake(put)

GiveBackAttempt(e, j) == [e EXCEPT !.rec[j].att = IF @ > 0 THEN @ - 1 ELSE 0, !.runs[j] = @ - 1]

-----------------------------------------------------------------------------
(* Reports of holders: lib/leases/reports.lua, lib/leases/lease.lua, and their fast paths in lib/fast_path *)

\* reports.find_held; lib/fast_path/finish.lua and accept.lua compare the token themselves (simple.lua).
Holds(e, j, tok, lacksCheck) == IsLeased(e, j) /\ (tok = e.rec[j].tok \/ Bug("01") \/ lacksCheck)
Accepted(e, j, tok) == BreakIf(e, tok # e.lease[j], "no stale report is accepted")

\* leases/finish.lua
Finish(e, j, tok) ==
  IF Holds(e, j, tok, Bug("111") /\ e.rec[j].st = "running") THEN End(Accepted(e, j, tok), j, "finished") ELSE e

\* leases/fail.lua. `how`: "retry", "final" or "cancelled".
Fail(e, j, tok, how) ==
  LET known == Accepted(e, j, tok)
  IN IF ~Holds(e, j, tok, FALSE) THEN e
     ELSE IF how = "cancelled" \/ (how = "retry" /\ e.rec[j].stop) THEN End(known, j, "cancelled")
     ELSE IF how = "final" THEN End(known, j, "failed")
     ELSE PutBack(known, j, TRUE)

\* reports.release, also for workers/forget.lua
GiveBack(e, j) ==
  IF e.rec[j].stop THEN End(e, j, "cancelled")
  ELSE LET back == GiveBackAttempt(e, j)
       IN PutBack(IF Bug("07") THEN [back EXCEPT !.rec[j].att = e.rec[j].att] ELSE back, j, FALSE)

\* leases/release.lua
Release(e, j, tok) == IF Holds(e, j, tok, FALSE) THEN GiveBack(Accepted(e, j, tok), j) ELSE e

\* leases/extend.lua (heartbeat), lease.prolong
Extend(e, j, tok, length) ==
  IF ~Holds(e, j, tok, FALSE) \/ e.rec[j].st # "running" THEN e
  ELSE [Accepted(e, j, tok) EXCEPT
         !.rec[j].due = IF Bug("18") THEN length ELSE Max(@, length),
         !.until[j] = Max(@, length),
         !.ready = IF e.rec[j].again THEN @ \ {j} ELSE @,
         !.rec[j].again = FALSE,
         !.byWorker[e.rec[j].own] = @ \cup {j},
         !.leaseT = TRUE]

\* leases/accept.lua: the lease of a dispatched job begins.
Accept(e, j, tok) ==
  IF ~Holds(e, j, tok, Bug("197")) \/ e.rec[j].st # "dispatched" THEN e
  ELSE [Accepted(e, j, tok) EXCEPT
         !.rec[j].st = "running", !.rec[j].due = IF Bug("20") THEN @ ELSE LeaseLength,
         !.until[j] = LeaseLength, !.leaseT = TRUE]

-----------------------------------------------------------------------------
(* Leases: lib/leases/take.lua, lib/leases/lease.lua, lib/leases/lease_header.lua, lib/fast_path/take.lua *)

IsBefore(list, a, b) == \E x, y \in 1..Len(list) : x < y /\ list[x] = a /\ list[y] = b

\* The promises that a new lease must keep.
Judged(e, j, tok) ==
  LET a == BreakIf(e, \E k \in Jobs : e.lease[k] = tok, "lease tokens are new")
      b == BreakIf(a, e.lease[j] # 0 /\ e.until[j] > 0, "one live lease")
      c == BreakIf(b, e.over[j], "ended jobs stay ended")
      d == BreakIf(c, j \in e.asked, "no run after a cancel")
  IN BreakIf(d, \E k \in e.ready : IsBefore(e.place, k, j), "jobs are taken in order")

Attempt(e, j, state) ==
  IF state = "running" /\ Bug("112") /\ e.rec[j].att = 0 THEN 0
  ELSE IF state = "running" /\ Bug("134") THEN 1 ELSE e.rec[j].att + 1

Grant(e, j, w, tok, state) ==
  LET length == IF state = "running" THEN LeaseLength ELSE AcceptLength
      stop == e.rec[j].stop
  IN [Leave(Judged(e, j, tok), j) EXCEPT
       !.rec[j] = [st |-> state, tok |-> tok, own |-> w, att |-> Attempt(e, j, state), due |-> length, stop |-> stop,
                   again |-> FALSE],
       !.running = @ \cup {j}, !.byWorker[w] = @ \cup {j},
       !.leaseT = @ \/ state = "running" \/ ~Bug("120"),
       !.lease[j] = tok, !.until[j] = length, !.runs[j] = @ + 1]

ReadyInOrder(e) == SelectSeq(e.order, LAMBDA j : j \in e.ready)

\* lease.may_start: an overdue retake job with no attempt left fails instead.
IsUsedUp(e, j) == e.rec[j].st = "running" /\ e.rec[j].att >= MaxAttempts

RECURSIVE TakeUpTo(_, _, _, _, _)
TakeUpTo(e, w, number, tokens, got) ==
  LET jobs == ReadyInOrder(e)
      j == Head(jobs)
      lease == [job |-> j, tok |-> Head(tokens)]
  IN IF number = 0 \/ jobs = <<>> THEN [eng |-> e, got |-> got]
     ELSE IF IsUsedUp(e, j) THEN TakeUpTo(End(e, j, "failed"), w, number, tokens, got)
     ELSE TakeUpTo(Grant(e, j, w, lease.tok, "running"), w, number - 1, Tail(tokens), got \cup {lease})

Register(e, w) == IF w \in Waiting THEN [e EXCEPT !.waiters = AtEnd(@, w)] ELSE e

\* Tokens come from a counter. They are only compared for equality, so the model uses `tokens`, numbers that no process
\* has. This keeps the number of states small.
Counted(e, tokens) == IF e.next = 0 THEN tokens ELSE <<e.next>> \o tokens

\* leases/take.lua. The rest is offered to the next waiter. A taker that finds nothing is registered for a wakeup.
Take(e, w, number, tokens) ==
  LET taken == TakeUpTo(e, w, number, Counted(e, tokens), {})
      found == Cardinality(taken.got)
      t == [taken.eng EXCEPT !.next = IF Bug("26") /\ found = 2 THEN Counted(e, tokens)[2] ELSE IF found = 0 THEN @ ELSE 0]
  IN [eng |-> IF found = 0 THEN Register(t, w) ELSE IF found = number /\ t.ready # {} THEN Wake(t) ELSE t,
      got |-> taken.got]

-----------------------------------------------------------------------------
(* New jobs: jobs/enqueue.lua, lib/jobs/insert.lua, lib/fast_path/enqueue.lua, lib/fast_path/handoff.lua *)

Added(e, j) == [BreakIf(e, e.over[j], "ended jobs stay ended") EXCEPT
  !.rec[j] = [NoRecord EXCEPT !.st = "queued"],
  !.order = AtEnd(@, j), !.place = AtEnd(@, j), !.entered = @ \cup {j}]

IsUnknown(e, j, isAlone) ==
  /\ e.rec[j].st = "none"
  /\ j \notin e.ids \/ (isAlone /\ Bug("130")) \/ (~isAlone /\ Bug("113"))

Insert(e, j, isAlone) ==
  LET added == [Added(e, j) EXCEPT !.ready = @ \cup {j}]
  IN IF IsUnknown(e, j, isAlone) \/ (~isAlone /\ Bug("132") /\ e.rec[j].st # "none")
     THEN IF (isAlone /\ Bug("131")) \/ (~isAlone /\ Bug("114")) THEN added ELSE Wake(added)
     ELSE e

RECURSIVE InsertAll(_, _, _)
InsertAll(e, list, isAlone) ==
  IF list = <<>> THEN e ELSE InsertAll(Insert(e, Head(list), isAlone), Tail(list), isAlone)

\* A repeated enqueue changes nothing, whether its job waits, runs, or has ended.
Enqueue(e, list) == InsertAll(e, list, Len(list) = 1)

\* handoff.try: the queue is idle, and a worker waits.
MayHandOver(e, j) ==
  /\ IsUnknown(e, j, TRUE) /\ e.waiters # <<>>
  /\ e.ready = {} \/ Bug("119")
  /\ ~(e.leaseT /\ \E k \in e.running : e.rec[k].due = 0 /\ ~e.rec[k].again)

\* handoff.hand_over: the record travels with the wakeup.
HandOver(e, j, tok) ==
  LET w == Head(e.waiters)
      alone == [Added(e, j) EXCEPT !.rec[j].st = "none"]
  IN [Grant(alone, j, w, tok, "dispatched") EXCEPT !.waiters = Tail(@)]

-----------------------------------------------------------------------------
(* Effects of time: lib/leases/expiry.lua, maintenance/recover.lua, maintenance/promote.lua *)

\* expiry.lose_lease. `isSilent`: its worker sends no heartbeats, so that the lease ends before its deadline.
LoseLease(e, j, isSilent) ==
  LET known == BreakIf(e, e.until[j] > 0 /\ ~isSilent, "leases last until their deadline")
      most == IF Bug("19") THEN MaxAttempts + 1 ELSE MaxAttempts
  IN IF e.rec[j].stop THEN End(known, j, "cancelled")
     ELSE IF e.rec[j].st = "dispatched" THEN PutBack(GiveBackAttempt(known, j), j, FALSE)
     ELSE IF j \in Retake /\ e.rec[j].st = "running"
       THEN Wake([known EXCEPT !.rec[j].again = TRUE, !.rec[j].due = 0, !.until[j] = 0, !.ready = @ \cup {j},
                               !.order = AtEnd(@, j), !.place = AtEnd(@, j)])
     ELSE IF e.rec[j].att >= most THEN End(known, j, "failed")
     ELSE PutBack(known, j, FALSE)

\* recover_overdue, also as part of a take. It reads the index `running`, once the timer says that a lease is overdue.
IsOverdue(e, j) == e.leaseT /\ j \in e.running /\ e.rec[j].due = 0 /\ ~e.rec[j].again
Recover(e, j) == LoseLease(e, j, FALSE)

\* Leases of others must not be touched when a worker is silent or leaves.
Own(e, j, v) == BreakIf(e, e.rec[j].own # v, "only the worker's own leases")

RECURSIVE LoseAll(_, _, _)
LoseAll(e, v, jobs) ==
  IF jobs = {} THEN [e EXCEPT !.byWorker[v] = {}]
  ELSE LET j == CHOOSE k \in jobs : TRUE
       IN LoseAll(IF IsLeased(e, j) /\ ~e.rec[j].again THEN LoseLease(Own(e, j, v), j, TRUE) ELSE e, v, jobs \ {j})

\* recover_worker
RecoverWorker(e, v) == LoseAll(e, v, e.byWorker[v])

RECURSIVE ReleaseAll(_, _, _)
ReleaseAll(e, v, jobs) ==
  IF jobs = {} THEN e
  ELSE LET j == CHOOSE k \in jobs : TRUE
       IN ReleaseAll(IF IsLeased(e, j) THEN GiveBack(Own(e, j, v), j) ELSE e, v, jobs \ {j})

\* workers/forget.lua: a worker that leaves.
Forget(e, v) == ReleaseAll(e, v, e.byWorker[v])

\* repeat_wakeups
WakeAll(e) == [e EXCEPT !.ring = FALSE, !.waiters = <<>>]

\* expiry.promote
Promote(e, j) ==
  LET moved == [e EXCEPT !.sched = @ \ {j}, !.ready = @ \cup {j}, !.rec[j].st = "queued",
                         !.dueT = ~Bug("13") /\ e.sched # {j}]
  IN Wake(moved)

-----------------------------------------------------------------------------
(* People and programs: jobs/cancel.lua, jobs/retry.lua, jobs/requeue.lua *)

\* cancellation.cancel_record
Cancel(e, j) ==
  IF e.rec[j].st = "none" \/ IsEnded(e, j) THEN e
  ELSE IF IsLeased(e, j) /\ ~e.rec[j].again THEN [e EXCEPT !.rec[j].stop = TRUE, !.asked = @ \cup {j}]
  ELSE End(e, j, "cancelled")

\* requeue.reopen: all attempts again, at the end of the queue. This is the one way back from an end.
Retry(e, j) ==
  LET open == [e EXCEPT !.rec[j] = [NoRecord EXCEPT !.st = "queued"], !.ready = @ \cup {j}, !.over[j] = FALSE,
                        !.order = Append(@, j), !.place = Append(@, j)]
  IN IF Bug("25") THEN open ELSE Wake(open)

\* The lease ends at once; its attempt is given back (returns_attempt). The job goes to its instant of creation, which
\* is before all others here.
Requeue(e, j) ==
  LET back == IF IsLeased(e, j) THEN GiveBackAttempt(e, j) ELSE e
  IN Wake([Leave(back, j) EXCEPT
       !.rec[j].st = "queued", !.rec[j].tok = 0, !.rec[j].own = NoOne, !.rec[j].due = 0,
       !.rec[j].stop = IF Bug("14") THEN @ ELSE FALSE,
       !.ready = @ \cup {j}, !.order = <<j>> \o Without(@, j), !.place = <<j>> \o Without(@, j),
       !.lease[j] = 0, !.until[j] = 0, !.asked = @ \ {j}])
=============================================================================
