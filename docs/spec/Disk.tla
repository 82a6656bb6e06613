-------------------------------- MODULE Disk --------------------------------
(***************************************************************************)
(* What the disks of a group keep over losses of power, and how the group  *)
(* goes on from them (D1, D2, D3, D4, D6; decisions 44, 46, 47 and 50).    *)
(*                                                                         *)
(* Two modes.  In sync mode a write is acknowledged when the disks of a    *)
(* majority have it, and a replica votes with what its disk has.  In async *)
(* mode a write is acknowledged when the memories of a majority have it.   *)
(* A replica that lost its memory then votes in no election from memory.   *)
(* If most have lost theirs, all report what is on their disks.  The best  *)
(* disk is the start set, and what is above its stable version is given    *)
(* up.                                                                     *)
(*                                                                         *)
(* A write is <<term, version>>.  Each has a stream of its own, so writes  *)
(* reach memories and disks in any order.  A leader draws versions one     *)
(* after another.  All writes up to the stable version are committed.      *)
(*                                                                         *)
(* What is written to a file and not synced may be there after a loss of   *)
(* power, or not.  So a file changes here when a note says so, and at a    *)
(* loss, by any part of what it was being given.                           *)
(*                                                                         *)
(* What ViewChange has is coarse here.  An election is one step, from the  *)
(* promises to the new leader's start set in its memory.  No WRITE of an   *)
(* older leader lands from then on, so what such a leader still does might *)
(* as well have come before, and is left out.  A follower's memory is      *)
(* given all that the leader's has in one step.  A loss of power and the   *)
(* restart from the file are one step.                                     *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Replica,         \* a set of model values; symmetric
    Sync,            \* TRUE: sync mode; FALSE: async mode
    Lossy,           \* async: an operator may give his word that replicas never come back
    MaxTerm,         \* terms are 1..MaxTerm; 0 is before the first
    MaxWrite,        \* writes, all terms together
    MaxLoss,         \* losses of power, of one replica each
    AtOnce,          \* TRUE: nothing else happens between the first of these and the last
    Window,          \* async: writes beyond those that the notes of a majority cover
    Slack,           \* async: versions that a note allows beyond those that were drawn

    \* The rules that mutants break.  TRUE is right except where noted.
    AckUnsynced,     \* FALSE is right: a leader counts itself for what its disk has (D1)
    AckFromMemory,   \* FALSE is right: a follower counts for what its disk has (D1)
    SyncedInMemory,  \* FALSE is right: a follower is in sync when a note of its disk says so (D1, D6)
    NoteWithBatch,   \* FALSE is right: a note says only what an earlier sync has made true (D1)
    KeepCutOff,      \* FALSE is right: what a next leader cut off goes from the file, too (D4)
    ForgetMixed,     \* FALSE is right: a file that is given another start set says so first (D4)
    NoWindow,        \* FALSE is right: writes wait while notes are too old (D2)
    NotedAlone,      \* FALSE is right: the notes of a majority count, not the leader's (D2)
    CoverStable,     \* a note covers the writes up to its stable version, not all that were written (D2)
    KeepBeyondCut,   \* FALSE is right: what is above the stable version goes (D2)
    MixAhead,        \* FALSE is right: a file becomes a mixture when the leader's has as much of the term (D2)
    VoteCold,        \* FALSE is right: who lost its memory votes in no election from memory (D6)
    ColdMajority,    \* FALSE is right: all must report from their disks (D6)
    KeepWarmTail,    \* FALSE is right: who leads from its disk gives up what only its memory has (D6)
    OwnCeiling,      \* FALSE is right: the highest ceiling of all disks that report counts (D3)
    UntoldCeiling    \* FALSE is right: a follower is told of that ceiling before it may lead (D3)

VARIABLES
    now,        \* the term: the last one that somebody was elected for
    leader,     \* who leads it; {}: nobody any more
    follows,    \* who the leader writes to
    synced,     \* who counts in it
    common,     \* the term whose start set a follower may share with it
    top,        \* versions of it are above this one
    drawn,      \* all writes
    committed,  \* those that were ever acknowledged
    start,      \* start[t]: the start set of term t
    served,     \* the terms that have served
    how,        \* how[t]: what t was elected from: memory, disks, or disks by an operator's word, of which
                \* one may have been a mixture
    sync,       \* sync[r]: the term whose start set the memory of r holds; Lost: its memory does not count
    mixed,      \* mixed[r]: its memory was read from a mixed file
    mem,        \* mem[r]: the writes in its memory
    told,       \* told[r]: it draws no version up to this one
    disk,       \* disk[r]: the writes in its file
    note,       \* note[r]: what its file says of itself
    losses

reign == <<now, leader, follows, common, top, start, how>>
memory == <<sync, mixed, mem, told>>
file == <<disk, note>>
vars == <<reign, synced, served, drawn, committed, memory, file, losses>>

Terms == 1..MaxTerm
Lost == -1

Majority(Q) == 2 * Cardinality(Q) > Cardinality(Replica)
\* Just so many that they are a majority.
Majorities == {Q \in SUBSET Replica : Cardinality(Q) = Cardinality(Replica) \div 2 + 1}
Max(S) == CHOOSE a \in S : \A b \in S : b <= a
Min(S) == CHOOSE a \in S : \A b \in S : a <= b
Versions(S) == {w[2] : w \in S}
Of(t, S) == {w \in S : w[1] = t}

\* The first note of term t, whose versions are above v.
FirstNote(t, v) ==
    IF Sync THEN [term |-> t, mixed |-> FALSE]
    ELSE [term |-> t, mixed |-> FALSE, stable |-> v, at |-> v, ceiling |-> v + Slack]

\* The group is founded, and a first term serves.
Init ==
    \E l \in Replica :
    /\ now = 1 /\ leader = {l} /\ follows = Replica \ {l} /\ synced = Replica /\ common = 1 /\ top = 0
    /\ drawn = {} /\ committed = {} /\ losses = 0
    /\ start = [t \in Terms |-> {}] /\ served = {1} /\ how = [t \in Terms |-> "memory"]
    /\ sync = [r \in Replica |-> 1] /\ mixed = [r \in Replica |-> FALSE]
    /\ mem = [r \in Replica |-> {}] /\ told = [r \in Replica |-> 0]
    /\ disk = [r \in Replica |-> {}] /\ note = [r \in Replica |-> FirstNote(1, 0)]

\* The highest version that r knows of.
Known(r) == Max({told[r]} \cup Versions(mem[r]))

-----------------------------------------------------------------------------
\* Elections

\* c is elected for the next term, with start set S, which no version above v precedes.
Begin(c, of, S, word, v) ==
    /\ now < MaxTerm /\ now' = now + 1 /\ leader' = {c} /\ follows' = {} /\ synced' = {}
    /\ common' = of /\ top' = Max({v} \cup Versions(S))
    /\ start' = [start EXCEPT ![now + 1] = S] /\ how' = [how EXCEPT ![now + 1] = word]
    /\ sync' = [sync EXCEPT ![c] = now + 1] /\ mixed' = [mixed EXCEPT ![c] = FALSE]
    /\ mem' = [mem EXCEPT ![c] = S] /\ told' = [told EXCEPT ![c] = v]
    /\ UNCHANGED <<served, drawn, committed, losses>>

\* From memory: as in ViewChange, of those of the highest sync term the candidate takes all of that term.
\* What a base that never served gave up is given up with it.
ElectFromMemory(c, Q) ==
    LET b == Max({sync[r] : r \in Q})
        those == {r \in Q : sync[r] = b}
        S == {w \in mem[c] : w[1] < b} \cup Of(b, UNION {mem[r] : r \in those})
    IN
    /\ \A r \in Q : sync[r] # Lost
    /\ c \in those
    /\ Begin(c, IF mixed[c] THEN now + 1 ELSE b, S,
             IF b \in served THEN "memory" ELSE how[b], told[c])
    /\ UNCHANGED file

\* Which disk is better: that of the higher term, then one that is no mixture, and then that of the higher
\* stable version.  A mixture may lack what was written anew in segments that were used again.
Better(a, b) ==
    \/ a.term > b.term
    \/ /\ a.term = b.term
       /\ \/ ~a.mixed /\ b.mixed
          \/ a.mixed = b.mixed /\ a.stable > b.stable

\* What is left of S by note n.
Covered(n, S) == {w \in S : w[1] < n.term \/ (w[1] = n.term /\ (Sync \/ KeepBeyondCut \/ w[2] <= n.stable))}

\* From disks: all report, or a majority by an operator's word.  If a majority has its memory, that elects.
\* The best disk leads.  A replica that has its memory goes back to what its disk has.
ElectFromDisks(c, Q, word) ==
    LET n == note[c]
        warm == {r \in Replica : sync[r] # Lost}
        S == IF c \in warm /\ KeepWarmTail THEN mem[c] ELSE Covered(n, mem[c])
        high == Max({note[r].ceiling : r \in IF OwnCeiling THEN {c} ELSE Q})
    IN
    /\ ~Majority(warm \cap Q)
    /\ IF word \/ ColdMajority THEN Q \in Majorities ELSE Q = Replica
    /\ \A r \in Q : ~Better(note[r], n)
    /\ c \in warm => sync[c] = n.term /\ ~n.mixed
    /\ word \/ ~n.mixed
    /\ Begin(c, now + 1, S, IF word THEN IF \E r \in Q : note[r].mixed THEN "mixture" ELSE "word"
                           ELSE IF Majority(warm) THEN "early" ELSE "disks",
             Max({told[c], high}))
    /\ disk' = [disk EXCEPT ![c] = S] /\ UNCHANGED note

\* A leader serves when a majority's disks have its start set.
Counts(r) ==
    /\ synced' = synced \cup {r}
    /\ served' = IF leader # {} /\ Majority(synced \cup {r}) THEN served \cup {now} ELSE served

\* If the file of f counts in this term, the leader's has as much of the term.
AsMuch(l, f) ==
    IF Sync \/ note[f].term # now \/ note[f].mixed THEN TRUE
    ELSE note[l].term = now /\ ~note[l].mixed /\ note[l].stable >= note[f].stable

\* The leader gives the follower all that it has, and tells it which versions are gone.  If the follower does
\* not share the start set, a note says that its file is a mixture from now on.  The file may be one of those
\* whose notes let writes be taken: so the leader's own file has as much of the term first.
Adopt(l, f) ==
    LET shares == ~mixed[f] /\ sync[f] \in {common, now}
        its == note[f].term = now /\ ~note[f].mixed
        there == shares /\ its
    IN
    /\ Sync \/ shares \/ MixAhead \/ AsMuch(l, f)
    /\ f # l /\ f \notin follows /\ follows' = follows \cup {f}
    /\ mem' = [mem EXCEPT ![f] = mem[l]]
    /\ sync' = [sync EXCEPT ![f] = now] /\ mixed' = [mixed EXCEPT ![f] = FALSE]
    /\ told' = IF UntoldCeiling THEN told ELSE [told EXCEPT ![f] = Max({@, told[l]})]
    /\ note' = IF shares \/ ForgetMixed THEN note ELSE [note EXCEPT ![f].mixed = TRUE]
    /\ IF there \/ SyncedInMemory THEN Counts(f) ELSE UNCHANGED <<synced, served>>
    /\ UNCHANGED <<now, leader, common, top, start, how, drawn, committed, disk, losses>>

-----------------------------------------------------------------------------
\* Writes

IsNoted(r) == note[r].term = now /\ ~note[r].mixed

\* What notes say, as the leader knows: of those that count and follow.
Says(l, r, of) == IF IsNoted(r) /\ (r = l \/ r \in follows \cap synced) THEN of[r] ELSE -1

\* What the notes of a majority have reached.
Reached(l, of) ==
    IF NotedAlone THEN Says(l, l, of) ELSE Max({Min({Says(l, r, of) : r \in Q}) : Q \in Majorities})

\* The writes of this term above that version.
Above(v) == {w \in drawn : w[1] = now /\ w[2] > v}

Write(l) ==
    LET v == Max({top, Known(l)}) + 1 IN
    /\ now \in served /\ Cardinality(drawn) < MaxWrite
    /\ ~Sync => v <= Reached(l, [r \in Replica |-> note[r].ceiling])
    /\ ~Sync /\ ~NoWindow => Cardinality(Above(Reached(l, [r \in Replica |-> note[r].at]))) < Window
    /\ drawn' = drawn \cup {<<now, v>>} /\ mem' = [mem EXCEPT ![l] = @ \cup {<<now, v>>}]
    /\ UNCHANGED <<reign, synced, served, committed, sync, mixed, told, file, losses>>

\* A WRITE lands on f.
Land(l, f, w) ==
    /\ w[1] = now /\ w \in mem[l] \ mem[f]
    /\ mem' = [mem EXCEPT ![f] = @ \cup {w}]
    /\ UNCHANGED <<reign, synced, served, drawn, committed, sync, mixed, told, file, losses>>

\* What counts as there: in sync mode what is in the file.
Has(l, r) ==
    IF Sync /\ ~(IF r = l THEN AckUnsynced ELSE AckFromMemory) THEN disk[r] ELSE mem[r]

Commit(l, w) ==
    /\ w[1] = now /\ w \notin committed /\ w \in mem[l]
    /\ Majority({r \in synced : w \in Has(l, r)})
    /\ committed' = committed \cup {w}
    /\ UNCHANGED <<reign, synced, served, drawn, memory, file, losses>>

-----------------------------------------------------------------------------
\* Disks

\* Who has a scribe.
Scribes == leader \cup (IF leader = {} THEN {} ELSE follows)

\* What the file is when it has all that the memory has: what was cut off is void.
Whole(r) == IF KeepCutOff THEN mem[r] \cup Of(note[r].term, disk[r]) ELSE mem[r]

\* The version up to which all writes are committed, as the leader knows.
Stable(l) ==
    LET under_way == Of(now, mem[l]) \ committed
    IN IF under_way = {} THEN Max({top, Known(l)}) ELSE Min(Versions(under_way)) - 1

\* What a note says that rests on this moment of the leader.
Moments(l) ==
    LET stable == Stable(l)
        written == Max({top, Known(l)})
    IN IF Sync THEN FirstNote(now, 0)
       ELSE [term |-> now, mixed |-> FALSE, stable |-> stable,
             at |-> IF CoverStable THEN stable ELSE written, ceiling |-> written + Slack]

\* The first note of the term: the file has the start set, and all that was written by that moment.  From then
\* on the replica counts.
NoteTerm(l, r) ==
    /\ ~IsNoted(r) /\ (~Sync => mem[l] \subseteq mem[r])
    /\ disk' = IF NoteWithBatch THEN disk ELSE [disk EXCEPT ![r] = Whole(r)]
    /\ note' = [note EXCEPT ![r] = Moments(l)]
    /\ Counts(r)
    /\ UNCHANGED <<reign, drawn, committed, memory, losses>>

\* In sync mode: a batch is in the file.
Batch(r) ==
    /\ Sync /\ IsNoted(r) /\ disk[r] # mem[r]
    /\ disk' = [disk EXCEPT ![r] = mem[r]]
    /\ UNCHANGED <<reign, synced, served, drawn, committed, memory, note, losses>>

\* In async mode: all that was written at a moment is in the file, and a note says so, with the stable version
\* of that moment.
Note(l, r) ==
    /\ ~Sync /\ IsNoted(r) /\ mem[l] \subseteq mem[r] /\ Moments(l) # note[r]
    /\ disk' = IF NoteWithBatch THEN disk ELSE [disk EXCEPT ![r] = mem[r]]
    /\ note' = [note EXCEPT ![r] = Moments(l)]
    /\ UNCHANGED <<reign, synced, served, drawn, committed, memory, losses>>

\* The power is lost, and the replica starts with what the file has: any part of what it was being given.
\* What does not count by the note is void in the file, too.
Lose(r) ==
    LET n == note[r] IN
    /\ losses < MaxLoss /\ losses' = losses + 1
    /\ \E come \in SUBSET (mem[r] \ disk[r]), gone \in SUBSET (IF KeepCutOff THEN {} ELSE disk[r] \ mem[r]) :
           LET left == Covered(n, (disk[r] \ gone) \cup come) IN
           disk' = [disk EXCEPT ![r] = left] /\ mem' = [mem EXCEPT ![r] = left]
    /\ sync' = [sync EXCEPT ![r] = IF Sync \/ VoteCold THEN n.term ELSE Lost]
    /\ mixed' = [mixed EXCEPT ![r] = n.mixed]
    /\ told' = [told EXCEPT ![r] = IF Sync THEN 0 ELSE n.ceiling]
    /\ leader' = leader \ {r} /\ follows' = follows \ {r} /\ synced' = synced \ {r}
    /\ UNCHANGED <<now, common, top, start, how, served, drawn, committed, note>>

\* Some have lost their power, and others are about to.
Dark == AtOnce /\ losses > 0 /\ losses < MaxLoss

Next ==
    \/ ~Dark /\ \E l \in leader :
        \/ Write(l)
        \/ \E w \in drawn : Commit(l, w) \/ \E f \in follows : Land(l, f, w)
        \/ \E r \in Replica : Adopt(l, r)
        \/ \E r \in Scribes : NoteTerm(l, r) \/ Batch(r) \/ Note(l, r)
    \/ \E r \in Replica : Lose(r)
    \/ ~Dark /\ now < MaxTerm /\ \E c \in Replica :
        \/ \E Q \in Majorities : c \in Q /\ ElectFromMemory(c, Q)
        \/ ~Sync /\ \E Q \in SUBSET Replica, word \in {FALSE, Lossy} : c \in Q /\ ElectFromDisks(c, Q, word)

Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Replica)

-----------------------------------------------------------------------------
\* Invariants

ByDisks(t) == how[t] \in {"disks", "word", "mixture"}

\* What was acknowledged before u, or could be read, unless a term that goes by disks gave it up before u.
Shown(u) ==
    LET kept(w, t) == \A d \in served : t < d /\ d < u /\ ByDisks(d) => w \in start[d]
    IN {w \in drawn :
        \/ w[1] < u /\ w \in committed /\ kept(w, w[1])
        \/ \E t \in served : t < u /\ w \in start[t] /\ kept(w, t)}

GivenUp(u) == Shown(u) \ start[u]

\* D1, D6: what was acknowledged, or read, is in each later start set; in async mode unless most memory was
\* lost, or an operator gave his word.
Complete == \A u \in served : ~ByDisks(u) => GivenUp(u) = {}

\* D2: what is left after that is what the group held at a moment.
Moment == \A u \in served : ByDisks(u) => \A w \in GivenUp(u), v \in start[u] : v[2] < w[2]

\* D2: no more is lost than the window.  An operator whose word is given while the file of a follower is a
\* mixture gives up all that only the missing replicas have.
Bounded == \A u \in served : how[u] \in {"disks", "word"} => Cardinality(GivenUp(u)) <= Window

\* D3: no version names two writes that anybody saw.
OneWrite ==
    LET seen == committed \cup UNION {start[t] : t \in served}
    IN \A v, w \in seen : v[2] = w[2] => v = w

\* D4: of older terms a file has the start set of its note's term, no more and no less.  Of that term it has
\* all that the note covers.
Noted ==
    \A r \in Replica : ~note[r].mixed =>
        LET n == note[r] IN
        /\ {w \in disk[r] : w[1] < n.term} = start[n.term]
        /\ ~Sync => {w \in drawn : w[1] = n.term /\ w[2] <= n.stable} \subseteq disk[r]

\* What a term that serves cut off, or gave up, is in no later start set.
NoReturn == \A t, u \in served : t < u => {w \in start[u] : w[1] < t} \subseteq start[t]
=============================================================================
