------------------------------- MODULE Session -------------------------------
(***************************************************************************)
(* Retries: a client sends an operation again, copies are duplicated and   *)
(* delayed, the leader changes between two copies.                         *)
(*                                                                         *)
(* LoLKV 3.5: "it is safe to process requests again since they are         *)
(* idempotent".  They are not: a delayed first copy of put(x, 1) that      *)
(* comes after put(x, 2) of another client undoes it (hole L17).  Here     *)
(* session and operation number are part of the entry; the leader answers  *)
(* a number that it knows from its completion record, and a new leader     *)
(* rebuilds the records from the entries that are stored.                  *)
(*                                                                         *)
(* One counter; an operation increments it and its result is the number it *)
(* made, so doing it twice shows.  A client does its operations one after  *)
(* another, with the numbers 1, 2, ..  A request once sent stays in the    *)
(* network: it may arrive late, often, or never.  So do answers.           *)
(*                                                                         *)
(* That committed entries survive a change of the leader is what           *)
(* ViewChange.tla checks; here one step NewTerm keeps all of them and a    *)
(* prefix of the others.                                                   *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
    Client,           \* symmetric
    MaxOp,            \* operations of a client
    MaxTerm,
    MaxLog,           \* entries; without mutants each operation makes one

    \* The rules that mutants break.  TRUE is right except where noted.
    Dedupe,           \* a number that was executed is not executed again (L17)
    WaitForFirst,     \* a number is known from when its entry is written, not from when it is applied
    RecordInEntry,    \* records are part of entries and rebuilt from them (L17)
    KeepNewest,       \* a session's newest record outlives the reclaiming of its entry (L17)
    AnswerCommitted,  \* an answer follows the commit
    DefiniteFailure,  \* FALSE is right: a write that was posted is in doubt, not failed (L16)
    FreeRefusal       \* FALSE is right: a refusal leaves no mark, yet says that nothing will happen

VARIABLES
    term,
    log,         \* entries, in the order of csn: [client, op]
    done,        \* so many of them are committed and applied
    gone,        \* positions of entries that were reclaimed
    records,     \* positions whose completion records the leader has
    high,        \* high[c]: the highest number of c that the leader knows of
    sent,        \* requests: [client, op]
    answers,     \* answers: [client, op, result]
    next         \* next[c]: the operation that c is at

vars == <<term, log, done, gone, records, high, sent, answers, next>>

Ops == 1..MaxOp
Failed == -1
Max(a, b) == IF a > b THEN a ELSE b
Request(c, o) == [client |-> c, op |-> o]
Positions(c, o) == {i \in 1..Len(log) : log[i] = Request(c, o)}

Init ==
    /\ term = 1 /\ log = <<>> /\ done = 0 /\ gone = {} /\ records = {}
    /\ high = [c \in Client |-> 0] /\ sent = {} /\ answers = {} /\ next = [c \in Client |-> 1]

-----------------------------------------------------------------------------
\* Clients

Send(c) ==
    /\ next[c] <= MaxOp /\ sent' = sent \cup {Request(c, next[c])}
    /\ UNCHANGED <<term, log, done, gone, records, high, answers, next>>

\* Any answer to this number ends the operation; so does the deadline: then it is in doubt.
Receive(c) ==
    /\ \E a \in answers : a.client = c /\ a.op = next[c]
    /\ next' = [next EXCEPT ![c] = @ + 1]
    /\ UNCHANGED <<term, log, done, gone, records, high, sent, answers>>

GiveUp(c) ==
    /\ Request(c, next[c]) \in sent /\ next' = [next EXCEPT ![c] = @ + 1]
    /\ UNCHANGED <<term, log, done, gone, records, high, sent, answers>>

-----------------------------------------------------------------------------
\* The leader

\* A number above all known ones is executed: the entry is written and posted.  One that is not above and
\* has no record is refused as forgotten, without an answer here.
Execute(c, o) ==
    /\ Request(c, o) \in sent /\ Len(log) < MaxLog
    /\ Dedupe => o > high[c]
    /\ log' = Append(log, Request(c, o))
    /\ records' = records \cup {Len(log) + 1}
    /\ high' = IF WaitForFirst THEN [high EXCEPT ![c] = Max(@, o)] ELSE high
    /\ UNCHANGED <<term, done, gone, sent, answers, next>>

Apply ==
    /\ done < Len(log) /\ done' = done + 1
    /\ LET e == log[done + 1] IN high' = [high EXCEPT ![e.client] = Max(@, e.op)]
    /\ UNCHANGED <<term, log, gone, records, sent, answers, next>>

\* From the completion record, for the first copy and for all others.
Answer(i) ==
    /\ i \in records /\ (AnswerCommitted => i <= done)
    /\ answers' = answers \cup {[client |-> log[i].client, op |-> log[i].op, result |-> i]}
    /\ UNCHANGED <<term, log, done, gone, records, high, sent, next>>

\* What a leader might say that lost its followers: it cannot know.
Fail(i) ==
    /\ DefiniteFailure /\ i \in (done + 1)..Len(log)
    /\ answers' = answers \cup {[client |-> log[i].client, op |-> log[i].op, result |-> Failed]}
    /\ UNCHANGED <<term, log, done, gone, records, high, sent, next>>

\* Say, out of memory.  The number is used up, but nowhere is that written.
Refuse(c, o) ==
    /\ FreeRefusal /\ Request(c, o) \in sent /\ o > high[c]
    /\ high' = [high EXCEPT ![c] = o]
    /\ answers' = answers \cup {[client |-> c, op |-> o, result |-> Failed]}
    /\ UNCHANGED <<term, log, done, gone, records, sent, next>>

\* A superseded entry is reclaimed, and its record with it, once a later one of its session is committed:
\* that client asks no more.  (A pipelining client says what it still waits for; then it is that.)
Reclaim(i) ==
    /\ i \in records /\ i < done
    /\ KeepNewest => \E j \in 1..done : log[j].client = log[i].client /\ log[j].op > log[i].op
    /\ gone' = gone \cup {i} /\ records' = records \ {i}
    /\ UNCHANGED <<term, log, done, high, sent, answers, next>>

\* A new leader: all that is committed, and any prefix of the rest, which thereby is.
NewTerm ==
    /\ term < MaxTerm /\ term' = term + 1
    /\ \E n \in done..Len(log) :
        LET found == IF RecordInEntry THEN (1..n) \ gone ELSE {} IN
        /\ log' = SubSeq(log, 1, n) /\ done' = n
        /\ records' = found
        /\ high' = [c \in Client |-> LET mine == {log[i].op : i \in {j \in found : log[j].client = c}}
                                     IN IF mine = {} THEN 0 ELSE CHOOSE o \in mine : \A p \in mine : p <= o]
    /\ UNCHANGED <<gone, sent, answers, next>>

Next ==
    \/ \E c \in Client : Send(c) \/ Receive(c) \/ GiveUp(c)
    \/ \E c \in Client, o \in Ops : Execute(c, o) \/ Refuse(c, o)
    \/ \E i \in 1..Len(log) : Answer(i) \/ Fail(i) \/ Reclaim(i)
    \/ Apply \/ NewTerm

Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Client)

-----------------------------------------------------------------------------
\* Invariants

\* I14: each operation of a session has at most one effective entry, and all its answers are equal.
ExactlyOnce ==
    /\ \A c \in Client, o \in Ops : Cardinality(Positions(c, o)) <= 1
    /\ \A a, b \in answers : a.client = b.client /\ a.op = b.op => a.result = b.result

\* I8: what was answered is there, in this term and all later ones, as it was answered.
AckedVisible ==
    \A a \in answers : a.result # Failed =>
        a.result <= Len(log) /\ log[a.result] = Request(a.client, a.op)

\* I8: what was said to have failed is in no start set, ever.
NeverWronglyFailed ==
    \A a \in answers : a.result = Failed => Positions(a.client, a.op) \cap 1..done = {}
=============================================================================
