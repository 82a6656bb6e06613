-------------------------------- MODULE Disk --------------------------------
(***************************************************************************)
(* What the disks of a group keep over losses of power, and how the group  *)
(* goes on from them (D1 to D6; decisions 44, 46, 47 and 50).              *)
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
(* A write becomes needless when a later one of its key is committed.  The *)
(* leader has all who follow let go of it, and its own disk; then another  *)
(* write may take its room.  Who is away is not asked, and has it still.   *)
(* When it comes back, its memory is given what the leader has there, and  *)
(* then its file, over what its note counts.  Which writes are of one key  *)
(* is not said before the leader finds one of them needless.               *)
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
    MaxFree,         \* writes that may become needless, so that their room is used again

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
    UntoldCeiling,   \* FALSE is right: a follower is told of that ceiling before it may lead (D3)
    LetGoEarly,      \* FALSE is right: a disk lets go when its note covers what made the write needless (D5)
    OwnDiskUnasked,  \* FALSE is right: the leader's own disk is asked, too (D5)
    Uncounted,       \* FALSE is right: a note has the count of what the file let go of, too (D5)
    FewerLeads,      \* FALSE is right: who let go of fewer than another of its term does not lead (D5)
    WriteOver,       \* FALSE is right: a file says so before it loses what its note counts (D4)
    LeadOwing        \* FALSE is right: until then its replica does not lead from it (D6)

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
    losses,
    needless,   \* <<w, u>>: w is needless, since u, a later write of the same key, is committed
    took,       \* <<v, w>>: v is where w was
    gone,       \* gone[r]: of which it was told, in its sync term, to let go; a leader: which it asked for
    owed        \* owed[r]: what its note counts, and its memory lacks since a leader wrote it

reign == <<now, leader, follows, common, top, start, how>>
memory == <<sync, mixed, mem, told>>
file == <<disk, note>>
rooms == <<needless, took>>
freeing == <<gone, owed>>
vars == <<reign, synced, served, drawn, committed, memory, file, losses, rooms, freeing>>

Terms == 1..MaxTerm
Lost == -1

Majority(Q) == 2 * Cardinality(Q) > Cardinality(Replica)
\* Just so many that they are a majority.
Majorities == {Q \in SUBSET Replica : Cardinality(Q) = Cardinality(Replica) \div 2 + 1}
Max(S) == CHOOSE a \in S : \A b \in S : b <= a
Min(S) == CHOOSE a \in S : \A b \in S : a <= b
Versions(S) == {w[2] : w \in S}
Of(t, S) == {w \in S : w[1] = t}

\* Writes that are needless, and what made them so.
Needless == {p[1] : p \in needless}
Instead(w) == {p[2] : p \in {q \in needless : q[1] = w}}

\* Those whose room these writes took.
Room(S) == {p[2] : p \in {q \in took : q[1] \in S}}

\* S has w, or a later write of its key that made it needless.
RECURSIVE There(_, _)
There(w, S) == w \in S \/ \E u \in Instead(w) : There(u, S)

\* The first note of term t, whose versions are above v.
FirstNote(t, v) ==
    IF Sync THEN [term |-> t, mixed |-> FALSE, gone |-> {}]
    ELSE [term |-> t, mixed |-> FALSE, gone |-> {}, stable |-> v, at |-> v, ceiling |-> v + Slack]

\* The group is founded, and a first term serves.
Init ==
    \E l \in Replica :
    /\ now = 1 /\ leader = {l} /\ follows = Replica \ {l} /\ synced = Replica /\ common = 1 /\ top = 0
    /\ drawn = {} /\ committed = {} /\ losses = 0
    /\ start = [t \in Terms |-> {}] /\ served = {1} /\ how = [t \in Terms |-> "memory"]
    /\ sync = [r \in Replica |-> 1] /\ mixed = [r \in Replica |-> FALSE]
    /\ mem = [r \in Replica |-> {}] /\ told = [r \in Replica |-> 0]
    /\ disk = [r \in Replica |-> {}] /\ note = [r \in Replica |-> FirstNote(1, 0)]
    /\ needless = {} /\ took = {}
    /\ gone = [r \in Replica |-> {}] /\ owed = [r \in Replica |-> {}]

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
    /\ gone' = [gone EXCEPT ![c] = {}]
    /\ UNCHANGED <<served, drawn, committed, losses, rooms>>

\* What is left of S by note n.
Covered(n, S) == {w \in S : w[1] < n.term \/ (w[1] = n.term /\ (Sync \/ KeepBeyondCut \/ w[2] <= n.stable))}

\* What the file of r is to lose, though its note counts it, when it is given what memory has.
Lacks(r, S) ==
    IF WriteOver \/ note[r].mixed THEN {} ELSE (Covered(note[r], disk[r]) \cap Needless) \ S

\* From memory: as in ViewChange, of those of the highest sync term the candidate takes all of that term.
\* What a base that never served gave up is given up with it.  What the candidate has let go of it does not
\* take from others.  Who was told of fewer than another does not lead: it has something where another may
\* have what was written later.
ElectFromMemory(c, Q) ==
    LET b == Max({sync[r] : r \in Q})
        those == {r \in Q : sync[r] = b}
        S == {w \in mem[c] : w[1] < b} \cup (Of(b, UNION {mem[r] : r \in those}) \ (gone[c] \ mem[c]))
    IN
    /\ \A r \in Q : sync[r] # Lost
    /\ c \in those
    /\ FewerLeads \/ \A r \in those : Cardinality(gone[r]) <= Cardinality(gone[c])
    /\ Begin(c, IF mixed[c] THEN now + 1 ELSE b, S,
             IF b \in served THEN "memory" ELSE how[b], told[c])
    /\ owed' = [owed EXCEPT ![c] = Lacks(c, S)]
    /\ UNCHANGED file

\* Which disk is better: that of the higher term, then one that is no mixture, and then that of the higher
\* stable version.  A mixture may lack what was written anew in segments that were used again.
Better(a, b) ==
    \/ a.term > b.term
    \/ /\ a.term = b.term
       /\ \/ ~a.mixed /\ b.mixed
          \/ a.mixed = b.mixed /\ a.stable > b.stable

\* From disks: all report, or a majority by an operator's word.  If a majority has its memory, that elects.
\* The best disk leads.  A replica that has its memory goes back to what its disk has.  It cannot if a leader
\* wrote over some of that in its memory: that is on its disk alone.
ElectFromDisks(c, Q, word) ==
    LET n == note[c]
        warm == {r \in Replica : sync[r] # Lost}
        S == IF c \in warm /\ KeepWarmTail THEN mem[c] ELSE Covered(n, mem[c])
        high == Max({note[r].ceiling : r \in IF OwnCeiling THEN {c} ELSE Q})
    IN
    /\ ~Majority(warm \cap Q)
    /\ IF word \/ ColdMajority THEN Q \in Majorities ELSE Q = Replica
    /\ \A r \in Q : ~Better(note[r], n)
    /\ c \in warm => sync[c] = n.term /\ ~n.mixed /\ (LeadOwing \/ owed[c] = {})
    /\ word \/ ~n.mixed
    /\ Begin(c, now + 1, S, IF word THEN IF \E r \in Q : note[r].mixed THEN "mixture" ELSE "word"
                           ELSE IF Majority(warm) THEN "early" ELSE "disks",
             Max({told[c], high}))
    /\ disk' = [disk EXCEPT ![c] = S] /\ owed' = [owed EXCEPT ![c] = {}] /\ UNCHANGED note

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
    /\ gone' = [gone EXCEPT ![f] = gone[l] \ mem[l]]
    /\ owed' = [owed EXCEPT ![f] = IF shares THEN Lacks(f, mem[l]) ELSE {}]
    /\ UNCHANGED <<now, leader, common, top, start, how, drawn, committed, disk, losses, rooms>>

\* A follower's connection breaks.  It keeps what it has, and is asked for nothing until it comes back.  If
\* nothing is asked for, it is as if it were slow.
Leave(l, f) ==
    /\ gone[l] # {} /\ follows' = follows \ {f} /\ synced' = synced \ {f}
    /\ UNCHANGED <<now, leader, common, top, start, how, served, drawn, committed, memory, file, losses>>
    /\ UNCHANGED <<rooms, freeing>>

\* The file is to be written over where its note counts something.  So a note says first that it is a mixture.
\* For a follower's the same holds as in Adopt.
Mix(l, r) ==
    /\ owed[r] # {} /\ (Sync \/ r = l \/ MixAhead \/ AsMuch(l, r))
    /\ note' = [note EXCEPT ![r].mixed = TRUE] /\ owed' = [owed EXCEPT ![r] = {}]
    /\ UNCHANGED <<reign, synced, served, drawn, committed, memory, disk, losses, rooms, gone>>

-----------------------------------------------------------------------------
\* Writes

IsNoted(r) == note[r].term = now /\ ~note[r].mixed

\* What notes say, as the leader knows: of those that count and follow.
Says(l, r, of) == IF IsNoted(r) /\ owed[r] = {} /\ (r = l \/ r \in follows \cap synced) THEN of[r] ELSE -1

\* What the notes of a majority have reached.
Reached(l, of) ==
    IF NotedAlone THEN Says(l, l, of) ELSE Max({Min({Says(l, r, of) : r \in Q}) : Q \in Majorities})

\* The writes of this term above that version.
Above(v) == {w \in drawn : w[1] = now /\ w[2] > v}

\* A write goes where nothing is, or takes the room of what the leader's memory has let go of.
Write(l) ==
    LET v == Max({top, Known(l)}) + 1
        free == Needless \ (mem[l] \cup Room(drawn))
    IN
    /\ now \in served /\ Cardinality(drawn) < MaxWrite
    /\ ~Sync => v <= Reached(l, [r \in Replica |-> note[r].ceiling])
    /\ ~Sync /\ ~NoWindow => Cardinality(Above(Reached(l, [r \in Replica |-> note[r].at]))) < Window
    /\ drawn' = drawn \cup {<<now, v>>} /\ mem' = [mem EXCEPT ![l] = @ \cup {<<now, v>>}]
    /\ took' \in {took} \cup {took \cup {<<<<now, v>>, w>>} : w \in free}
    /\ UNCHANGED <<reign, synced, served, committed, sync, mixed, told, file, losses, needless, freeing>>

\* A WRITE lands on f.  What f has let go of is not sent to it again.
Land(l, f, w) ==
    /\ w[1] = now /\ w \in mem[l] \ (mem[f] \cup gone[f])
    /\ mem' = [mem EXCEPT ![f] = (@ \ Room({w})) \cup {w}]
    /\ UNCHANGED <<reign, synced, served, drawn, committed, sync, mixed, told, file, losses, rooms, freeing>>

\* What counts as there: in sync mode what is in the file.
Has(l, r) ==
    IF Sync /\ ~(IF r = l THEN AckUnsynced ELSE AckFromMemory) THEN disk[r] ELSE mem[r]

Commit(l, w) ==
    /\ w[1] = now /\ w \notin committed /\ w \in mem[l]
    /\ Majority({r \in synced : w \in Has(l, r)})
    /\ committed' = committed \cup {w}
    /\ UNCHANGED <<reign, synced, served, drawn, memory, file, losses, rooms, freeing>>

-----------------------------------------------------------------------------
\* Disks

\* Who has a scribe.
Scribes == leader \cup (IF leader = {} THEN {} ELSE follows)

\* The note of r covers w.  In sync mode it has what the file has.
Covers(r, w) == IsNoted(r) /\ IF Sync THEN w \in disk[r] ELSE w[2] <= note[r].stable

\* r may let go of w: a note covers what made it needless.
MayGo(r, w) == LetGoEarly \/ \E u \in Instead(w) : Covers(r, u)

\* What the file is to have.  That of a leader lets go of a write before its memory does.
Wanted(r) == IF r \in leader THEN mem[r] \ {w \in gone[r] : MayGo(r, w) /\ ~OwnDiskUnasked} ELSE mem[r]

\* What the file is when it has all of that: what was cut off is void.
Whole(r) == IF KeepCutOff THEN Wanted(r) \cup Of(note[r].term, disk[r]) ELSE Wanted(r)

\* What r was told of, and the file is not to have any more.
Gone(r) == gone[r] \ Wanted(r)

\* The version up to which all writes are committed, as the leader knows.
Stable(l) ==
    LET under_way == Of(now, mem[l]) \ committed
    IN IF under_way = {} THEN Max({top, Known(l)}) ELSE Min(Versions(under_way)) - 1

\* What a note says that rests on this moment of the leader.
Moments(l, r) ==
    LET stable == Stable(l)
        written == Max({top, Known(l)})
    IN IF Sync THEN [FirstNote(now, 0) EXCEPT !.gone = Gone(r)]
       ELSE [term |-> now, mixed |-> FALSE, gone |-> Gone(r), stable |-> stable,
             at |-> IF CoverStable THEN stable ELSE written, ceiling |-> written + Slack]

\* The first note of the term: the file has the start set, and all that was written by that moment.  From then
\* on the replica counts.
NoteTerm(l, r) ==
    /\ ~IsNoted(r) /\ owed[r] = {} /\ (~Sync => mem[l] \subseteq mem[r] \cup gone[r])
    /\ disk' = IF NoteWithBatch THEN disk ELSE [disk EXCEPT ![r] = Whole(r)]
    /\ note' = [note EXCEPT ![r] = Moments(l, r)]
    /\ Counts(r)
    /\ UNCHANGED <<reign, drawn, committed, memory, losses, rooms, freeing>>

\* In sync mode: a batch is in the file.
Batch(r) ==
    /\ Sync /\ IsNoted(r) /\ owed[r] = {} /\ disk[r] # Wanted(r)
    /\ disk' = [disk EXCEPT ![r] = Wanted(r)]
    /\ UNCHANGED <<reign, synced, served, drawn, committed, memory, note, losses, rooms, freeing>>

\* In sync mode: a note has the count of what the file has let go of.
NoteGone(r) ==
    /\ Sync /\ IsNoted(r) /\ owed[r] = {} /\ note[r].gone # Gone(r) \ disk[r]
    /\ note' = [note EXCEPT ![r].gone = Gone(r) \ disk[r]]
    /\ UNCHANGED <<reign, synced, served, drawn, committed, memory, disk, losses, rooms, freeing>>

\* In async mode: all that was written at a moment is in the file, and a note says so, with the stable version
\* of that moment.
Note(l, r) ==
    /\ ~Sync /\ IsNoted(r) /\ owed[r] = {} /\ mem[l] \subseteq mem[r] \cup gone[r]
    /\ Moments(l, r) # note[r]
    /\ disk' = IF NoteWithBatch THEN disk ELSE [disk EXCEPT ![r] = Wanted(r)]
    /\ note' = [note EXCEPT ![r] = Moments(l, r)]
    /\ UNCHANGED <<reign, synced, served, drawn, committed, memory, losses, rooms, freeing>>

-----------------------------------------------------------------------------
\* Rooms that are used again

\* The leader finds that u has made w needless, and asks all to let go of it.
Ask(l, w, u) ==
    /\ now \in served /\ {w, u} \subseteq mem[l] /\ w[2] < u[2]
    /\ \A x \in {w, u} : x[1] < now \/ x \in committed
    /\ w \notin gone[l] /\ gone' = [gone EXCEPT ![l] = @ \cup {w}]
    /\ \/ <<w, u>> \in needless
       \/ Cardinality(needless) < MaxFree /\ w \notin Needless /\ u \notin Needless
    /\ needless' = needless \cup {<<w, u>>}
    /\ UNCHANGED <<reign, synced, served, drawn, committed, memory, file, losses, took, owed>>

\* A follower that counts is told to let go of w in its memory.  The file follows.
LetGo(l, f, w) ==
    /\ f \in follows \cap synced /\ owed[f] = {} /\ w \in gone[l] \cap mem[f] /\ MayGo(f, w)
    /\ mem' = [mem EXCEPT ![f] = @ \ {w}] /\ gone' = [gone EXCEPT ![f] = @ \cup {w}]
    /\ UNCHANGED <<reign, synced, served, drawn, committed, sync, mixed, told, file, losses, rooms, owed>>

\* The file of r has let go of w, and a note has the count.
HasLetGo(r, w) == IsNoted(r) /\ w \notin disk[r] /\ w \in IF Uncounted THEN Gone(r) ELSE note[r].gone

\* All who follow have let go of w, and the leader's own disk: its room may be used again.
Free(l, w) ==
    /\ w \in gone[l] \cap mem[l] /\ (OwnDiskUnasked \/ HasLetGo(l, w))
    /\ \A f \in follows : w \notin mem[f] /\ HasLetGo(f, w)
    /\ mem' = [mem EXCEPT ![l] = @ \ {w}]
    /\ UNCHANGED <<reign, synced, served, drawn, committed, sync, mixed, told, file, losses, rooms, freeing>>

-----------------------------------------------------------------------------
\* Losses of power

\* The power is lost, and the replica starts with what the file has: any part of what it was being given.
\* What does not count by the note is void in the file, too.  Of two writes in one room it has one, or none.
Lose(r) ==
    LET n == note[r] IN
    /\ losses < MaxLoss /\ losses' = losses + 1
    /\ \E come \in SUBSET (Wanted(r) \ disk[r]),
          lost \in SUBSET (IF KeepCutOff THEN {} ELSE (disk[r] \ Wanted(r)) \ owed[r]) :
           LET file_of == (disk[r] \ lost) \cup come
               left == Covered(n, file_of)
           IN
           /\ Room(come) \cap file_of = {}
           /\ disk' = [disk EXCEPT ![r] = left] /\ mem' = [mem EXCEPT ![r] = left]
    /\ sync' = [sync EXCEPT ![r] = IF Sync \/ VoteCold THEN n.term ELSE Lost]
    /\ mixed' = [mixed EXCEPT ![r] = n.mixed]
    /\ told' = [told EXCEPT ![r] = IF Sync THEN 0 ELSE n.ceiling]
    /\ gone' = [gone EXCEPT ![r] = n.gone] /\ owed' = [owed EXCEPT ![r] = {}]
    /\ leader' = leader \ {r} /\ follows' = follows \ {r} /\ synced' = synced \ {r}
    /\ UNCHANGED <<now, common, top, start, how, served, drawn, committed, note, rooms>>

\* Some have lost their power, and others are about to.
Dark == AtOnce /\ losses > 0 /\ losses < MaxLoss

Next ==
    \/ ~Dark /\ \E l \in leader :
        \/ Write(l)
        \/ \E w \in drawn : Commit(l, w) \/ \E f \in follows : Land(l, f, w)
        \/ \E r \in Replica : Adopt(l, r)
        \/ \E r \in Scribes : NoteTerm(l, r) \/ Batch(r) \/ Note(l, r) \/ NoteGone(r) \/ Mix(l, r)
        \/ \E w, u \in drawn : Ask(l, w, u)
        \/ \E w \in Needless : Free(l, w) \/ \E f \in follows : LetGo(l, f, w)
        \/ \E f \in follows : Leave(l, f)
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
    LET kept(w, t) == \A d \in served : t < d /\ d < u /\ ByDisks(d) => There(w, start[d])
    IN {w \in drawn :
        \/ w[1] < u /\ w \in committed /\ kept(w, w[1])
        \/ \E t \in served : t < u /\ w \in start[t] /\ kept(w, t)}

GivenUp(u) == {w \in Shown(u) : ~There(w, start[u])}

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
        /\ \A w \in disk[r] : w[1] < n.term => There(w, start[n.term])
        /\ \A w \in start[n.term] : There(w, disk[r])
        /\ ~Sync => \A w \in drawn : w[1] = n.term /\ w[2] <= n.stable => There(w, disk[r])

\* What a term that serves cut off, or gave up, is in no later start set.
NoReturn == \A t, u \in served : t < u => \A w \in start[u] : w[1] < t => There(w, start[t])

\* D5: of a write and that whose room it took a replica has one, or none.
OneRoom == \A r \in Replica : Room(mem[r]) \cap mem[r] = {} /\ Room(disk[r]) \cap disk[r] = {}
=============================================================================
