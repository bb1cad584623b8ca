----------------------------- MODULE Deployment -----------------------------
(* Windlass with its producers, workers and network: what can happen, and what must hold.                           *)
(*                                                                                                                  *)
(* The engine (Engine.tla) does each call in one step. Its answer may be lost or come late. Workers may die, be     *)
(* silent, and repeat reports. Calls of processes that no longer live may still arrive.                             *)
EXTENDS Engine, TLC

CONSTANTS
  Cancelled,   \* jobs whose cancel may be requested
  Slots,       \* jobs that a worker runs at the same time
  MaxFaults,   \* crashes, lost answers, silent workers, leaving workers, releases
  MaxHelp      \* jobs that a person queues again

VARIABLES
  eng,         \* state of the engine
  held,        \* per worker the leases that it knows: it runs these jobs
  returned,    \* per worker the leases that it has given back, because it did not know them
  mail,        \* answers of takes and direct handoffs in transit
  flight,      \* leases of dead processes whose report is in transit
  faults,      \* faults left
  help         \* requests of people left
vars == <<eng, held, returned, mail, flight, faults, help>>

Init ==
  /\ eng = Empty
  /\ held = [w \in Workers |-> {}]
  /\ returned = [w \in Workers |-> {}]
  /\ mail = {} /\ flight = {}
  /\ faults = MaxFaults /\ help = MaxHelp

Do(e) == eng' = Quiet(e)
Fault == faults > 0 /\ faults' = faults - 1
Lease(j) == [job |-> j, tok |-> eng.rec[j].tok]
Coming(w) == UNION {m.leases : m \in {n \in mail : n.to = w}}
Tokens(leases) == {l.tok : l \in leases}
InUse == {eng.rec[j].tok : j \in Jobs} \cup Tokens(flight)
  \cup UNION {Tokens(held[w] \cup returned[w]) : w \in Workers} \cup UNION {Tokens(m.leases \cup m.done) : m \in mail}
NewTokens == SelectSeq([t \in 1..20 |-> t], LAMBDA t : t \notin InUse)
IsIdle(w) == \A m \in mail : m.to = w => m.isHandoff
Free(w) == Slots - Cardinality(held[w] \cup Coming(w))

-----------------------------------------------------------------------------
(* Producers and people. A producer repeats a call whose answer it did not hear; it may do so at any time. *)

Lists == {<<j>> : j \in Jobs} \cup {list \in Jobs \X Jobs : list[1] # list[2]}

Produce ==
  /\ \E list \in Lists : Do(Enqueue(eng, list))
  /\ UNCHANGED <<held, returned, mail, flight, faults, help>>

\* A dead process does not read its wakeup.
ProduceToWaiter ==
  /\ \E j \in Jobs :
       /\ MayHandOver(eng, j)
       /\ Do(HandOver(eng, j, Head(NewTokens)))
       /\ LET w == Head(eng.waiters)
          IN mail' = IF w = Gone THEN mail
                     ELSE mail \cup {[to |-> w, leases |-> {[job |-> j, tok |-> Head(NewTokens)]}, done |-> {},
                                      isHandoff |-> TRUE]}
  /\ UNCHANGED <<held, returned, flight, faults, help>>

CancelJob ==
  /\ \E j \in Cancelled : Do(Cancel(eng, j))
  /\ UNCHANGED <<held, returned, mail, flight, faults, help>>

Help ==
  /\ help > 0 /\ help' = help - 1
  /\ \E j \in Jobs :
       \/ eng.rec[j].st \in {"failed", "cancelled"} /\ Do(Retry(eng, j))
       \/ eng.rec[j].st \in {"queued", "scheduled"} \cup Leased /\ Do(Requeue(eng, j))
  /\ UNCHANGED <<held, returned, mail, flight, faults>>

-----------------------------------------------------------------------------
(* Workers: sdk/worker, background/lease_holder.py, background/outcomes.py, background/reconciler.py *)

\* Take, alone or after a finish in the same call (leases/finish_and_take.lua). `done`: the finished lease, if any.
Call(w, done, number) ==
  LET finished == IF done = {} THEN eng ELSE LET l == CHOOSE k \in done : TRUE IN Finish(eng, l.job, l.tok)
      taken == Take(finished, w, number, NewTokens)
  IN /\ Do(taken.eng)
     /\ mail' = IF taken.got = {} /\ done = {} THEN mail
                ELSE mail \cup {[to |-> w, leases |-> taken.got, done |-> done, isHandoff |-> FALSE]}
     /\ UNCHANGED <<held, returned, flight, faults, help>>

TakeJobs(w) == IsIdle(w) /\ \E n \in 1..Free(w) : Call(w, {}, n)
FinishAndTake(w) == IsIdle(w) /\ \E l \in held[w] : \E n \in 1..(Free(w) + 1) : Call(w, {l}, n)

\* The answer arrives. Reconciler.admit drops leases that were given back. A worker without a free slot, or one that
\* reads the wakeup late, gives a handed-over job back.
Deliver(m) ==
  LET w == m.to
      known == IF Bug("146") THEN m.leases ELSE m.leases \ returned[w]
  IN /\ mail' = mail \ {m}
     /\ held' = [held EXCEPT ![w] = (@ \ m.done) \cup known]
     /\ UNCHANGED <<eng, returned, flight, faults, help>>

GiveBackHandoff(m) ==
  /\ m.isHandoff
  /\ mail' = mail \ {m}
  /\ LET l == CHOOSE k \in m.leases : TRUE IN Do(Release(eng, l.job, l.tok))
  /\ UNCHANGED <<held, returned, flight, faults, help>>

Arrive(w) == \E m \in mail : m.to = w /\ IF m.isHandoff /\ Free(w) < 0 THEN GiveBackHandoff(m)
                                         ELSE Deliver(m) \/ GiveBackHandoff(m)

LoseAnswer == Fault /\ (\E m \in mail : mail' = mail \ {m}) /\ UNCHANGED <<eng, held, returned, flight, help>>

\* A report whose answer is heard ends the lease for the worker, whatever the answer is; else the worker repeats it.
Report(w, l, e) ==
  /\ Do(e)
  /\ held' \in {held, [held EXCEPT ![w] = @ \ {l}]}
  /\ UNCHANGED <<returned, mail, flight, faults, help>>

FinishJob(w) == \E l \in held[w] : Report(w, l, Finish(eng, l.job, l.tok))
FailJob(w) == \E l \in held[w] :
  \/ eng.rec[l.job].att < MaxAttempts /\ Report(w, l, Fail(eng, l.job, l.tok, "retry"))
  \/ Report(w, l, Fail(eng, l.job, l.tok, "final"))
  \/ eng.rec[l.job].stop /\ Report(w, l, Fail(eng, l.job, l.tok, "cancelled"))
ReleaseJob(w) == \E l \in held[w] :
  /\ Fault /\ Do(Release(eng, l.job, l.tok))
  /\ held' \in {held, [held EXCEPT ![w] = @ \ {l}]}
  /\ UNCHANGED <<returned, mail, flight, help>>
AcceptJob(w) == \E l \in held[w] :
  /\ Do(Accept(eng, l.job, l.tok))
  /\ UNCHANGED <<held, returned, mail, flight, faults, help>>

\* A heartbeat that is refused: the worker stops the code of the job (lease_holder.py).
ExtendLease(w) == \E l \in held[w] : \E length \in 1..LeaseLength :
  LET isRefused == ~Holds(eng, l.job, l.tok, FALSE)
      left == IF isRefused /\ ~Bug("181") THEN held[w] \ {l} ELSE held[w]
      e == Extend(eng, l.job, l.tok, length)
  IN /\ Do(BreakIf(e, isRefused /\ l \in left, "a refused worker stops"))
     /\ held' = [held EXCEPT ![w] = left]
     /\ UNCHANGED <<returned, mail, flight, faults, help>>

\* A worker gives back leases that its heartbeat did not name (workers/beat.lua, reports.unclaimed_leases). The two
\* seconds of age are not modelled: the answer may still be in transit.
Reconcile(w) == \E j \in eng.byWorker[w] :
  /\ eng.rec[j].st = "running" /\ eng.rec[j].own = w /\ ~eng.rec[j].again
  /\ Lease(j) \notin held[w] \cup returned[w]
  /\ IF Lease(j) \in Coming(w) THEN Fault ELSE UNCHANGED faults
  /\ returned' = [returned EXCEPT ![w] = @ \cup {Lease(j)}]
  /\ UNCHANGED <<eng, held, mail, flight, help>>

GiveBackReturned(w) == \E l \in returned[w] :
  /\ l.tok = eng.rec[l.job].tok
  /\ Do(Release(eng, l.job, l.tok))
  /\ UNCHANGED <<held, returned, mail, flight, faults, help>>

\* It forgets given-back leases once no answer can bring them; Windlass remembers the last 10,000.
ForgetReturned(w) == \E l \in returned[w] :
  /\ l.tok # eng.rec[l.job].tok /\ l \notin Coming(w)
  /\ returned' = [returned EXCEPT ![w] = @ \ {l}]
  /\ UNCHANGED <<eng, held, mail, flight, faults, help>>

-----------------------------------------------------------------------------
(* Faults *)

\* The id of a process ends with it. The model has few workers, so the next process takes over the name.
Renamed(e, w) == [e EXCEPT
  !.rec = [j \in Jobs |-> IF e.rec[j].own = w THEN [e.rec[j] EXCEPT !.own = Gone] ELSE e.rec[j]],
  !.byWorker = [@ EXCEPT ![Gone] = @ \cup e.byWorker[w], ![w] = {}],
  !.waiters = LET others == Without(@, Gone) IN [i \in 1..Len(others) |-> IF others[i] = w THEN Gone ELSE others[i]]]

EndProcess(w) ==
  /\ held' = [held EXCEPT ![w] = {}]
  /\ returned' = [returned EXCEPT ![w] = {}]
  /\ mail' = {m \in mail : m.to # w}

Crash(w) ==
  /\ Fault
  /\ Do(Renamed(eng, w))
  /\ EndProcess(w)
  /\ flight' = flight \cup held[w]
  /\ UNCHANGED help

LeaveService(w) == Fault /\ Do(Renamed(Forget(eng, w), w)) /\ EndProcess(w) /\ UNCHANGED <<flight, help>>

Reported(e, l) == {Finish(e, l.job, l.tok), Release(e, l.job, l.tok), Extend(e, l.job, l.tok, LeaseLength),
                   Accept(e, l.job, l.tok)} \cup {Fail(e, l.job, l.tok, how) : how \in {"retry", "final", "cancelled"}}

\* The report of a dead process arrives, or not.
LateReport == \E l \in flight :
  /\ flight' = flight \ {l}
  /\ \E e \in Reported(eng, l) \cup {eng} :
       /\ Do(e)
       \* A client retries only while attempts are left, and confirms only a cancel that was requested.
       /\ e.rec[l.job].st = "scheduled" => eng.rec[l.job].att < MaxAttempts \/ eng.rec[l.job].st = "scheduled"
       /\ e.rec[l.job].st = "cancelled" => eng.rec[l.job].stop \/ eng.rec[l.job].st = "cancelled"
  /\ UNCHANGED <<held, returned, mail, faults, help>>

\* Any report with an old token, at any time: repeated, delayed, or from a worker that was stopped for long. The engine
\* compares tokens only for equality, so one token that is not the current one stands for all.
OldToken == 0
StaleReport ==
  /\ \E j \in Jobs : IsLeased(eng, j) /\ \E e \in Reported(eng, [job |-> j, tok |-> OldToken]) : Do(e)
  /\ UNCHANGED <<held, returned, mail, flight, faults, help>>

-----------------------------------------------------------------------------
(* Time and loops *)

\* A deadline passes for a lease without a living holder. If the holder lives, it was too slow, which is a fault.
HasHolder(j) == \E w \in Workers : Lease(j) \in held[w] \cup Coming(w)
Pass(j) ==
  /\ IsLeased(eng, j) /\ eng.rec[j].due > 0
  /\ Do([eng EXCEPT !.rec[j].due = @ - 1, !.until[j] = IF @ > 0 THEN @ - 1 ELSE 0])
  /\ IF eng.rec[j].due = 1 /\ eng.rec[j].st = "running" /\ HasHolder(j) THEN Fault ELSE UNCHANGED faults
  /\ UNCHANGED <<held, returned, mail, flight, help>>

RecoverLease(j) ==
  /\ IsOverdue(eng, j) /\ Do(Recover(eng, j))
  /\ UNCHANGED <<held, returned, mail, flight, faults, help>>
RecoverSilent(v) ==
  /\ IF v = Gone THEN UNCHANGED faults ELSE Fault
  /\ Do(RecoverWorker(eng, v))
  /\ UNCHANGED <<held, returned, mail, flight, help>>
PromoteJob(j) ==
  /\ eng.dueT /\ j \in eng.sched /\ Do(Promote(eng, j))
  /\ UNCHANGED <<held, returned, mail, flight, faults, help>>
RepeatWakeups == eng.ring /\ Do(WakeAll(eng)) /\ UNCHANGED <<held, returned, mail, flight, faults, help>>
Clean ==
  /\ \E j \in Jobs : IsEnded(eng, j) /\ Do(Remove(eng, j))
  /\ UNCHANGED <<held, returned, mail, flight, faults, help>>

Next ==
  \/ Produce \/ ProduceToWaiter \/ CancelJob \/ Help \/ LoseAnswer \/ LateReport \/ StaleReport \/ RepeatWakeups \/ Clean
  \/ \E w \in Workers :
       \/ TakeJobs(w) \/ FinishAndTake(w) \/ Arrive(w) \/ FinishJob(w) \/ FailJob(w) \/ ReleaseJob(w) \/ AcceptJob(w)
       \/ ExtendLease(w) \/ Reconcile(w) \/ GiveBackReturned(w) \/ ForgetReturned(w) \/ Crash(w) \/ LeaveService(w)
  \/ \E j \in Jobs : Pass(j) \/ RecoverLease(j) \/ PromoteJob(j)
  \/ \E v \in Holders : RecoverSilent(v)

Spec == Init /\ [][Next]_vars

\* Loops run, workers that live go on, answers that are not lost arrive, and time passes.
HeardEnd(w) == FinishJob(w) /\ held'[w] # held[w]
Fairness ==
  /\ \A w \in Workers : /\ WF_vars(TakeJobs(w)) /\ WF_vars(Arrive(w)) /\ WF_vars(HeardEnd(w))
                        /\ WF_vars(Reconcile(w)) /\ WF_vars(GiveBackReturned(w))
  /\ \A j \in Jobs : WF_vars(~HasHolder(j) /\ Pass(j)) /\ WF_vars(RecoverLease(j)) /\ WF_vars(PromoteJob(j))
FairSpec == Spec /\ Fairness

-----------------------------------------------------------------------------
(* Promises. Those of single steps are noted by the operators (Engine!BreakIf). *)

Keeps(promise) == promise \notin eng.broken
NoStaleReport == Keeps("no stale report is accepted")
OneLease ==
  /\ Keeps("one live lease")
  /\ \A j \in Jobs : IF IsLeased(eng, j) THEN eng.rec[j].tok = eng.lease[j] ELSE eng.rec[j].tok = 0 /\ eng.lease[j] = 0
  /\ \A v, w \in Workers : v # w => held[v] \cap held[w] = {}
TokensAreNew == Keeps("lease tokens are new")
EndedStayEnded == Keeps("ended jobs stay ended") /\ \A j \in Jobs : IsEnded(eng, j) => eng.over[j] /\ eng.rec[j].due = 0
CancelIsKept == Keeps("no run after a cancel") /\ \A j \in Jobs : eng.rec[j].stop => IsLeased(eng, j) /\ j \in eng.asked
InOrder == Keeps("jobs are taken in order") /\ eng.order = eng.place
LeasesLast == Keeps("leases last until their deadline") /\ Keeps("only the worker's own leases")
RefusedStops == Keeps("a refused worker stops")
NoRunOfReturned == \A w \in Workers : held[w] \cap returned[w] = {}

\* A job that was added is in exactly one place until it ends. An overdue retake job runs and can be taken.
Places(j) == {p \in {"queued", "scheduled", "leased"} :
  CASE p = "queued" -> j \in eng.ready [] p = "scheduled" -> j \in eng.sched [] OTHER -> j \in eng.running}
PlacesOf(j) ==
  LET r == eng.rec[j]
  IN IF r.st \in {"queued", "scheduled"} THEN {r.st}
     ELSE IF IsLeased(eng, j) THEN IF r.again THEN {"queued", "leased"} ELSE {"leased"}
     ELSE {}
OnePlace == \A j \in Jobs :
  /\ Places(j) = PlacesOf(j)
  /\ j \in eng.entered => eng.over[j] \/ PlacesOf(j) # {}
  /\ eng.rec[j].again => j \in Retake
  /\ eng.over[j] => IsEnded(eng, j) \/ (eng.rec[j].st = "none" /\ j \in eng.ids)

WorkerIndex == \A v \in Holders : \A j \in Jobs :
  LET r == eng.rec[j]
      isHis == IsLeased(eng, j) /\ r.own = v
  IN (j \in eng.byWorker[v] => isHis) /\ (isHis /\ ~r.again => j \in eng.byWorker[v])

Attempts == \A j \in Jobs : eng.rec[j].att = eng.runs[j] /\ eng.rec[j].att <= MaxAttempts

\* Nothing waits for an instant that no loop knows, and no taker sleeps beside a ready job.
TimersAreSet ==
  /\ (\E j \in eng.running : ~eng.rec[j].again) => eng.leaseT
  /\ eng.sched # {} => eng.dueT
NoLostWakeup == eng.ready # {} /\ eng.waiters # <<>> => eng.ring

\* Each job that was added ends, if its faults are finite and live workers go on.
EachJobEnds == \A j \in Jobs : j \in eng.entered ~> eng.over[j]

\* Workers are alike, so that TLC need not look at each of them; so are jobs without special rules.
Alike == Permutations(Workers)
AllAlike == Permutations(Workers) \cup Permutations(Jobs)
=============================================================================
