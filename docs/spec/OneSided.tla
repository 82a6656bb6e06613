------------------------------ MODULE OneSided ------------------------------
(***************************************************************************)
(* GETs that READ the leader's memory, and what may happen to that memory  *)
(* meanwhile: entries are reused, the leader is paused while its NIC goes  *)
(* on answering, it is deposed, it rejoins and rebuilds in place.          *)
(*                                                                         *)
(* LoLKV 3.3.4 serves GETs by the leader's threads: "the hash              *)
(* table slot was not modified" if it still holds the same address.  That  *)
(* lets a reused address pass (hole L14), and no lease covers a READ that  *)
(* no CPU sees (L9).  Here the slot carries the entry's version, freed     *)
(* memory rests for longer than a READ may take, and a reader believes     *)
(* nothing unless its lease holds after the bytes came.                    *)
(*                                                                         *)
(* One key, which always has a value; versions count up.  Leader A, whose  *)
(* memory is cells and one slot; its successor B, of which only the value  *)
(* matters.  An entry is two cache lines, written and read at separate     *)
(* moments, in any order.  A checksum that holds is: both lines are of one *)
(* version (its seed and its collisions, L4 and X5, are not modelled).     *)
(*                                                                         *)
(* now is real time.  Clocks: a reader's clock may run slow, so that its   *)
(* lease seems to hold Drift longer than was granted, and a READ to have   *)
(* taken Drift less.  A smaller error only makes a reader more careful.    *)
(***************************************************************************)
EXTENDS Naturals

CONSTANTS
    Time,             \* the run ends here
    Lease,            \* the leader's lease, from before its heartbeat was sent
    ReadMax,          \* T_read: a GET that took longer by the reader's clock is dropped
    Drift,            \* what clocks may be wrong by in these times
    Cells,            \* places of entries
    MaxVersion,

    \* The rules that mutants break.
    Margin,           \* B waits so long after the leader's lease; at least Drift is right (X4)
    Quarantine,       \* rest of a freed cell; more than ReadMax + Drift is right (L14)
    Tag,              \* an entry counts only if its version is the slot's (L14)
    Checksum,         \* an entry counts only if it is whole (L5)
    LeaseCheckAfter,  \* the lease is looked at after the bytes came, not only before (L9)
    SupersedeFirst,   \* an entry is marked superseded before the slot changes
    ClearAfter        \* a superseded word is cleared when the entry it was about is gone already

VARIABLES
    now,
    until,       \* the leader's lease ends here
    fenced,      \* a majority has fenced A: nothing of A commits any more
    serving,     \* B serves
    rejoined,    \* A is a follower and uses its memory anew
    slot,        \* [cell, version]; cell 0: empty
    cell,        \* cell[c]: <<line 1, line 2>>, each the version it was written for
    marked,      \* marked[c]: the superseded word of the entry in c
    freed,       \* freed[c]: when c was freed
    put,         \* A's put under way
    last,        \* last version drawn
    committed,   \* the newest version that is committed
    seen,        \* the newest version that was acknowledged or returned
    known,       \* [cell, version]: the reader's location cache
    expiry,      \* the reader's lease, in real time
    get,         \* the GET under way
    verdict

vars == <<now, until, fenced, serving, rejoined, slot, cell, marked, freed, put, last, committed, seen,
          known, expiry, get, verdict>>
clocks == <<now, until, expiry>>
memory == <<slot, cell, marked, freed>>
client == <<known, get, verdict>>

Max(a, b) == IF a > b THEN a ELSE b
NoPut == [step |-> "none"]
NoGet == [step |-> "none"]
Unknown == [cell |-> 0, version |-> 0]

Init ==
    /\ now = 0 /\ until = Lease /\ fenced = FALSE /\ serving = FALSE /\ rejoined = FALSE
    /\ slot = [cell |-> 1, version |-> 1] /\ cell = [c \in Cells |-> IF c = 1 THEN <<1, 1>> ELSE <<0, 0>>]
    /\ marked = [c \in Cells |-> FALSE] /\ freed = [c \in Cells |-> 0]
    /\ put = NoPut /\ last = 1 /\ committed = 1 /\ seen = 1
    /\ known = Unknown /\ expiry = Lease + Drift /\ get = NoGet /\ verdict = "good"

Tick ==
    /\ now < Time /\ now' = now + 1
    /\ UNCHANGED <<until, expiry, fenced, serving, rejoined, memory, put, last, committed, seen, client>>

\* A majority promises anew.  A paused leader just does not.
Renew ==
    /\ ~fenced /\ until' = now + Lease
    /\ UNCHANGED <<now, expiry, fenced, serving, rejoined, memory, put, last, committed, seen, client>>

\* The reader is told how long the leader's lease holds.
Refresh ==
    /\ now < until /\ ~rejoined /\ expiry' = until + Drift
    /\ UNCHANGED <<now, until, fenced, serving, rejoined, memory, put, last, committed, seen, client>>

-----------------------------------------------------------------------------
\* PUT at A: draw a version, write both lines, commit, mark what is replaced, switch the slot, answer.
\* A may also do the local steps when it is deposed and does not know.

Draw ==
    /\ ~rejoined /\ put = NoPut /\ last < MaxVersion
    /\ \E c \in Cells :
        /\ c # slot.cell /\ now >= freed[c] + Quarantine
        /\ put' = [step |-> "write", cell |-> c, version |-> last + 1]
    /\ last' = last + 1
    /\ UNCHANGED <<clocks, fenced, serving, rejoined, memory, committed, seen, client>>

\* The superseded word is in line 1.  A cache holds a place for as long as it likes, quarantine or not, so
\* the mark on an entry stays until the entry's own version is overwritten.
Rewritten(c) == IF get.step # "none" /\ get.cell = c THEN [get EXCEPT !.rewritten = TRUE] ELSE get

WriteLine(i) ==
    /\ put.step = "write" /\ cell[put.cell][i] # put.version
    /\ cell' = [cell EXCEPT ![put.cell][i] = put.version]
    /\ marked' = [marked EXCEPT ![put.cell] = IF i = 1 \/ ~ClearAfter THEN FALSE ELSE @]
    /\ get' = Rewritten(put.cell)
    /\ UNCHANGED <<clocks, fenced, serving, rejoined, slot, freed, put, last, committed, seen, known,
                   verdict>>

Commit ==
    /\ put.step = "write" /\ cell[put.cell] = <<put.version, put.version>> /\ ~fenced
    /\ put' = [put EXCEPT !.step = "mark"] /\ committed' = put.version
    /\ UNCHANGED <<clocks, fenced, serving, rejoined, memory, last, seen, client>>

Mark ==
    /\ put.step = IF SupersedeFirst THEN "mark" ELSE "marklate"
    /\ LET old == IF SupersedeFirst THEN slot.cell ELSE put.old
       IN marked' = [marked EXCEPT ![old] = TRUE]
    /\ put' = [put EXCEPT !.step = IF SupersedeFirst THEN "switch" ELSE "answer"]
    /\ UNCHANGED <<clocks, fenced, serving, rejoined, slot, cell, freed, last, committed, seen, client>>

Switch ==
    /\ put.step = IF SupersedeFirst THEN "switch" ELSE "mark"
    /\ freed' = [freed EXCEPT ![slot.cell] = now]
    /\ slot' = [cell |-> put.cell, version |-> put.version]
    /\ put' = [step |-> IF SupersedeFirst THEN "answer" ELSE "marklate", cell |-> put.cell,
               version |-> put.version, old |-> slot.cell]
    /\ UNCHANGED <<clocks, fenced, serving, rejoined, cell, marked, last, committed, seen, client>>

Answer ==
    /\ put.step = "answer" /\ put' = NoPut /\ seen' = Max(seen, put.version)
    /\ UNCHANGED <<clocks, fenced, serving, rejoined, memory, last, committed, client>>

-----------------------------------------------------------------------------
\* B: fence and gather, serve when all leases of the old term are over, put.

\* The start set has all that is committed; an entry that is not may be in it or be cut off.
Fence ==
    /\ ~fenced /\ fenced' = TRUE
    /\ committed' \in {committed} \cup (IF put.step = "write" THEN {put.version} ELSE {})
    /\ UNCHANGED <<clocks, serving, rejoined, memory, put, last, seen, client>>

Serve ==
    /\ fenced /\ ~serving /\ now >= until + Margin /\ serving' = TRUE
    /\ UNCHANGED <<clocks, fenced, rejoined, memory, put, last, committed, seen, client>>

PutElsewhere ==
    /\ serving /\ last < MaxVersion
    /\ last' = last + 1 /\ committed' = last + 1 /\ seen' = last + 1
    /\ UNCHANGED <<clocks, fenced, serving, rejoined, memory, put, client>>

\* A hears of its end, becomes a follower and rebuilds in place: first nothing is there, then what B has
\* sends, one version after another.  (The product waits out its lease first; this is harder.)
Rejoin ==
    /\ serving /\ ~rejoined /\ rejoined' = TRUE /\ put' = NoPut
    /\ slot' = Unknown /\ cell' = [c \in Cells |-> <<0, 0>>] /\ marked' = [c \in Cells |-> FALSE]
    /\ get' = IF get.step # "none" THEN [get EXCEPT !.rewritten = TRUE] ELSE get
    /\ UNCHANGED <<clocks, fenced, serving, freed, last, committed, seen, known, verdict>>

Mirror ==
    /\ rejoined /\ \E v \in (slot.version + 1)..committed, c \in Cells :
        /\ cell' = [cell EXCEPT ![c] = <<v, v>>] /\ slot' = [cell |-> c, version |-> v]
        /\ get' = Rewritten(c)
    /\ UNCHANGED <<clocks, fenced, serving, rejoined, marked, freed, put, last, committed, seen, known,
                   verdict>>

-----------------------------------------------------------------------------
\* GET: by the slot and then the entry, or by the location cache the entry alone.

Begin(way, c, v) ==
    /\ get = NoGet /\ (LeaseCheckAfter \/ now < expiry)
    /\ get' = [step |-> way, begin |-> now, floor |-> seen, cell |-> c, version |-> v,
               lines |-> <<0, 0>>, todo |-> {1, 2}, cached |-> way = "entry", stale |-> FALSE,
               rewritten |-> FALSE]
    /\ UNCHANGED <<clocks, fenced, serving, rejoined, memory, put, last, committed, seen, known, verdict>>

BeginBySlot == Begin("slot", 0, 0)
BeginByCache == known # Unknown /\ Begin("entry", known.cell, known.version)

ReadSlot ==
    /\ get.step = "slot"
    /\ get' = [get EXCEPT !.step = IF slot.cell = 0 THEN "miss" ELSE "entry",
                          !.cell = slot.cell, !.version = slot.version]
    /\ UNCHANGED <<clocks, fenced, serving, rejoined, memory, put, last, committed, seen, known, verdict>>

ReadLine(i) ==
    /\ get.step = "entry" /\ i \in get.todo
    /\ get' = [get EXCEPT !.lines[i] = cell[get.cell][i], !.todo = @ \ {i},
                          !.stale = @ \/ (i = 1 /\ get.cached /\ marked[get.cell])]
    /\ UNCHANGED <<clocks, fenced, serving, rejoined, memory, put, last, committed, seen, known, verdict>>

InTime ==
    /\ LeaseCheckAfter => now < expiry
    /\ now <= get.begin + ReadMax + Drift

Believed ==
    /\ Checksum => get.lines[1] = get.lines[2]
    /\ Tag \/ get.cached => get.lines[1] = get.version
    /\ ~get.stale

Complete ==
    /\ get.step = "miss" \/ (get.step = "entry" /\ get.todo = {})
    /\ get' = NoGet
    /\ LET v == get.lines[1] IN
       IF get.step = "miss" THEN
           /\ verdict' = IF InTime THEN "lost" ELSE verdict
           /\ UNCHANGED <<seen, known>>
       ELSE IF InTime /\ Believed THEN
           /\ verdict' = CASE get.lines[1] # get.lines[2] -> "torn"
                           [] v < get.floor -> "stale"
                           [] v > committed -> "dirty"
                           [] get.rewritten -> "reused"
                           [] OTHER -> verdict
           /\ seen' = Max(seen, v)
           /\ known' \in {known, [cell |-> get.cell, version |-> v]}   \* or it is another client's
       ELSE
           /\ known' = IF get.cached THEN Unknown ELSE known
           /\ UNCHANGED <<seen, verdict>>
    /\ UNCHANGED <<clocks, fenced, serving, rejoined, memory, put, last, committed>>

Next ==
    \/ Tick \/ Renew \/ Refresh
    \/ Draw \/ Commit \/ Mark \/ Switch \/ Answer
    \/ Fence \/ Serve \/ PutElsewhere \/ Rejoin \/ Mirror
    \/ BeginBySlot \/ BeginByCache \/ ReadSlot \/ Complete
    \/ \E i \in {1, 2} : WriteLine(i) \/ ReadLine(i)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
\* Invariants

\* I10: what a GET returns is committed, and was current at some moment of the GET: nothing newer had been
\* acknowledged or returned before it began.
GetFresh == verdict \notin {"stale", "dirty", "lost"}

\* I11: the bytes returned are those of one entry.
NoTorn == verdict # "torn"

\* I12: no entry that a GET returned was overwritten while the GET held its place.
NoReuseUnderRead == verdict # "reused"
=============================================================================
