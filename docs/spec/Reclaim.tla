------------------------------- MODULE Reclaim -------------------------------
(***************************************************************************)
(* Reclaiming segments: moves, tombstones, releases, reuse, and a leader   *)
(* change after which the index is rebuilt from entries alone.             *)
(*                                                                         *)
(* What the paper does and what is different here:                         *)
(*  - LoLKV 3.2 says that the segment store is enough to recover           *)
(*    the hash table, and LoLKV 4.2 reuses the slots of tombstones; then   *)
(*    a tombstone's segment may go before the segment of what it deleted,  *)
(*    and a rebuild brings the key back (hole L10).  Here a tombstone is   *)
(*    dropped only below the watermark.                                    *)
(*  - LoLKV 4.1 moves entries and releases the old segment without         *)
(*    replicating either (L11, L12).  Here a move is an entry with its own *)
(*    position, the slot is switched by comparing the exact old slot when  *)
(*    the move is committed, and releases are records of META.             *)
(*  - LoLKV 3.3.3 resets incarnations with each term (L13).  Here          *)
(*    the csn goes on.                                                     *)
(*                                                                         *)
(* Replicas hold prefixes of two streams: META (claims and releases) and   *)
(* data.  They travel on their own, except that an entry follows the claim *)
(* of its segment (ViewChange.tla says why prefixes are all that a new     *)
(* leader needs, and why only synced replicas count).  An entry is stored  *)
(* on a replica until the release of its segment is there.  The quarantine *)
(* of one-sided READs is in OneSided.tla; here a follower's running        *)
(* snapshot holds an entry.                                                *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
    Replica,            \* symmetric
    Key,
    Segments,           \* number of segments
    Capacity,           \* entries of a segment
    MaxCsn, MaxMeta, MaxData,
    MaxTerm,            \* changes of the leader, plus 1
    Snapshots,          \* TRUE: followers run snapshots that hold entries

    \* The rules that mutants break.
    Watermark,          \* tombstones go only below the watermark (L10)
    StableDrop,         \* ... and only when no older write is under way
    StableClaim,        \* a claim notes the stable point, not the csn counter (M9)
    CommitMove,         \* the slot is switched when the move is committed (L11)
    ExactSlot,          \* ... and only if it still names the entry that was moved (L12)
    DraftFirst,         \* a copy has its place before the slot is looked at
    CsnContinues,       \* a new term goes on above all csns seen (L13)
    AckRelease,         \* reuse waits until synced followers let go (M9, I12)
    Runs,               \* TRUE: segments of one entry are runs, which do not hold the watermark down...
    RunAlive            \* ... while their entry is an item, or under way

VARIABLES
    leader, term,
    synced,      \* replicas that hold the start set of this term
    metas,       \* the leader's META stream: [op, seg, csn] and [op, claim]
    entries,     \* the leader's data stream: [key, csn, kind, claim, from, low]
    m, d,        \* m[r], d[r]: what r has of them
    slot,        \* slot[k]: position of the entry that the index names; 0: none
    flight,      \* positions of entries that are written and neither applied nor aborted
    csn,
    truth,       \* truth[k]: the newest version that anybody may have seen, [csn, kind]
    hold,        \* hold[r]: position of an entry that a snapshot on follower r reads; 0: none
    looked       \* position of the entry that the mover found in its slot and has no place for yet; 0: none

vars == <<leader, term, synced, metas, entries, m, d, slot, flight, csn, truth, hold, looked>>

Majority(Q) == 2 * Cardinality(Q) > Cardinality(Replica)
MaxOf(S) == CHOOSE x \in S : \A y \in S : y <= x
MinOf(S) == CHOOSE x \in S : \A y \in S : y >= x

Init ==
    /\ leader \in Replica /\ term = 1 /\ synced = Replica
    /\ metas = <<>> /\ entries = <<>> /\ m = [r \in Replica |-> 0] /\ d = [r \in Replica |-> 0]
    /\ slot = [k \in Key |-> 0] /\ flight = {} /\ csn = 0
    /\ truth = [k \in Key |-> [csn |-> 0, kind |-> "none"]] /\ hold = [r \in Replica |-> 0] /\ looked = 0

-----------------------------------------------------------------------------
\* Segments, as META tells

Claims(n) == {i \in 1..n : metas[i].op = "claim"}
Released(c, n) == \E i \in 1..n : metas[i].op = "release" /\ metas[i].claim = c
Unreclaimed(n) == {c \in Claims(n) : ~Released(c, n)}
Here == Len(metas)
Current == IF Unreclaimed(Here) = {} THEN 0 ELSE MaxOf(Unreclaimed(Here))
Used(c) == Cardinality({i \in 1..Len(entries) : entries[i].claim = c})
Room == Current # 0 /\ Used(Current) < Capacity /\ Len(entries) < MaxData

\* All csns up to it are applied or aborted.
Stable == IF flight = {} THEN csn
          ELSE MinOf({csn + 1} \cup {entries[i].csn : i \in {j \in flight : entries[j].kind # "move"}}) - 1

\* Entries that are stored where META is known up to n and data up to e.
Stored(n, e) == {i \in 1..e : ~Released(entries[i].claim, n)}

\* A running snapshot of r that was taken before the segment was released there.
Holds(r, c) == hold[r] # 0 /\ entries[hold[r]].claim = c

\* Nobody may still read what was in segment s: synced followers know its releases and hold nothing of it.
\* Others come back by a full sync only and are not waited for.
LetGo(s) == \A r \in synced \ {leader}, c \in Claims(Here) :
    metas[c].seg = s => Released(c, m[r]) /\ ~Holds(r, c)

Claim(s) ==
    /\ Here < MaxMeta
    /\ \A c \in Unreclaimed(Here) : metas[c].seg # s
    /\ AckRelease => LetGo(s)
    /\ Current # 0 => Used(Current) > 0
    /\ metas' = Append(metas, [op |-> "claim", seg |-> s, csn |-> IF StableClaim THEN Stable ELSE csn])
    /\ m' = [m EXCEPT ![leader] = Here + 1]
    /\ UNCHANGED <<leader, term, synced, entries, d, slot, flight, csn, truth, hold, looked>>

\* A sealed segment to which no slot refers, and no write under way.
Release(c) ==
    /\ Here < MaxMeta /\ c \in Unreclaimed(Here) \ {Current}
    /\ \A k \in Key : slot[k] # 0 => entries[slot[k]].claim # c
    /\ \A i \in flight : entries[i].claim # c
    /\ metas' = Append(metas, [op |-> "release", claim |-> c])
    /\ m' = [m EXCEPT ![leader] = Here + 1]
    /\ UNCHANGED <<leader, term, synced, entries, d, slot, flight, csn, truth, hold, looked>>

-----------------------------------------------------------------------------
\* Writes

Write(entry) ==
    /\ entries' = Append(entries, entry) /\ d' = [d EXCEPT ![leader] = Len(entries) + 1]

Draw(k, kind) ==
    /\ Room /\ csn < MaxCsn /\ csn' = csn + 1
    /\ Write([key |-> k, csn |-> csn + 1, kind |-> kind, claim |-> Current, from |-> 0,
              low |-> truth[k].csn])
    /\ flight' = flight \cup {Len(entries) + 1}
    /\ UNCHANGED <<leader, term, synced, metas, m, slot, truth, hold, looked>>

Put(k) == Draw(k, "put")
Delete(k) == truth[k].kind = "put" /\ Draw(k, "tombstone")

\* What an entry is about: a move keeps version and meaning of what it moves.
RECURSIVE Origin(_)
Origin(i) == IF entries[i].kind = "move" THEN Origin(entries[i].from) ELSE i
Kind(i) == entries[Origin(i)].kind

\* The copy goes into a segment that was claimed while the slot still named the entry: that claim is older
\* than any tombstone of the key, and the watermark knows of it.  Here this is one step; in two, looking
\* first, the key may be deleted and a segment claimed in between.
Look(k) ==
    /\ ~DraftFirst /\ looked = 0 /\ looked' = slot[k]
    /\ UNCHANGED <<leader, term, synced, metas, entries, m, d, slot, flight, csn, truth, hold>>

Move(k) ==
    LET from == IF DraftFirst THEN slot[k] ELSE looked IN
    /\ Room /\ from # 0 /\ entries[from].key = k /\ entries[from].claim # Current
    /\ entries[from].claim \in Unreclaimed(Here) /\ \A i \in flight : entries[i].from # from
    /\ Write([key |-> k, csn |-> entries[from].csn, kind |-> "move", claim |-> Current,
              from |-> from, low |-> 0])
    /\ flight' = flight \cup {Len(entries) + 1}
    /\ looked' = 0
    /\ UNCHANGED <<leader, term, synced, metas, m, slot, csn, truth, hold>>

Committed(i) == Majority({r \in synced : d[r] >= i})

\* The index is changed by a comparison with what it held: a lower csn never replaces a higher one.
Apply(i) ==
    LET e == entries[i]
        old == slot[e.key]
    IN
    /\ i \in flight /\ e.kind # "move" /\ Committed(i)
    /\ slot' = [slot EXCEPT ![e.key] = IF old = 0 \/ entries[old].csn < e.csn THEN i ELSE @]
    /\ truth' = [truth EXCEPT ![e.key] = IF @.csn < e.csn THEN [csn |-> e.csn, kind |-> e.kind] ELSE @]
    /\ flight' = flight \ {i}
    /\ UNCHANGED <<leader, term, synced, metas, entries, m, d, csn, hold, looked>>

ApplyMove(i) ==
    LET e == entries[i] IN
    /\ i \in flight /\ e.kind = "move" /\ (CommitMove => Committed(i))
    /\ slot' = IF slot[e.key] = e.from \/ ~ExactSlot THEN [slot EXCEPT ![e.key] = i] ELSE slot
    /\ flight' = flight \ {i}
    /\ UNCHANGED <<leader, term, synced, metas, entries, m, d, csn, truth, hold, looked>>

\* The one entry of a run is never moved.  While it is an item no tombstone hides it, and a write under way is
\* above the stable point.
IsItem(c) == \E i \in 1..Len(entries) :
    /\ entries[i].claim = c /\ entries[i].kind = "put"
    /\ RunAlive => i \in flight \/ slot[entries[i].key] = i

\* The watermark: what was claimed after the tombstone was applied holds nothing older of its key.  The
\* tombstone's own segment goes as a whole and does not count; then the stable point must, or a write under
\* way in that segment, older than the tombstone, would find the slot empty.
DropTombstone(k) ==
    LET i == slot[k] IN
    /\ i # 0 /\ Kind(i) = "tombstone"
    /\ Watermark => \A c \in Unreclaimed(Here) \ {entries[i].claim} :
                        entries[i].csn <= metas[c].csn \/ (Runs /\ IsItem(c))
    /\ StableDrop => entries[i].csn <= Stable
    /\ slot' = [slot EXCEPT ![k] = 0]
    /\ UNCHANGED <<leader, term, synced, metas, entries, m, d, flight, csn, truth, hold, looked>>

-----------------------------------------------------------------------------
\* Followers

LandMeta(r) ==
    /\ r \in synced /\ m[r] < Here /\ m' = [m EXCEPT ![r] = @ + 1]
    /\ UNCHANGED <<leader, term, synced, metas, entries, d, slot, flight, csn, truth, hold, looked>>

LandData(r) ==
    /\ r \in synced /\ d[r] < Len(entries) /\ entries[d[r] + 1].claim <= m[r]
    /\ d' = [d EXCEPT ![r] = @ + 1]
    /\ UNCHANGED <<leader, term, synced, metas, entries, m, slot, flight, csn, truth, hold, looked>>

\* A snapshot on a follower begins to read an entry, and ends.
Hold(r) ==
    /\ Snapshots /\ r \in synced \ {leader} /\ \A q \in Replica : hold[q] = 0
    /\ \E i \in Stored(m[r], d[r]) : hold' = [hold EXCEPT ![r] = i]
    /\ UNCHANGED <<leader, term, synced, metas, entries, m, d, slot, flight, csn, truth, looked>>

LetHoldGo(r) ==
    /\ hold[r] # 0 /\ hold' = [hold EXCEPT ![r] = 0]
    /\ UNCHANGED <<leader, term, synced, metas, entries, m, d, slot, flight, csn, truth, looked>>

\* The index as it follows from stored entries: the highest version of each key; of two copies the later.
Rebuilt(n, e) == [k \in Key |->
    LET mine == {i \in Stored(n, e) : entries[i].key = k}
        top == {i \in mine : \A j \in mine : entries[j].csn <= entries[i].csn}
    IN IF mine = {} THEN 0 ELSE MaxOf(top)]

\* The leader is lost; a majority of synced replicas agrees on the longest prefixes, and what one of them
\* had is committed by that.  The others are not synced any more.
NewTerm(Q, l) ==
    LET n == MaxOf({m[r] : r \in Q})
        e == MaxOf({d[r] : r \in Q})
        index == Rebuilt(n, e)
        top == MaxOf({0} \cup {entries[i].csn : i \in 1..e} \cup {metas[c].csn : c \in Claims(n)})
    IN
    /\ term < MaxTerm /\ Majority(Q) /\ Q \subseteq synced /\ l \in Q
    /\ term' = term + 1 /\ leader' = l /\ synced' = Q
    /\ metas' = SubSeq(metas, 1, n) /\ entries' = SubSeq(entries, 1, e)
    /\ m' = [r \in Replica |-> IF r \in Q THEN n ELSE 0]
    /\ d' = [r \in Replica |-> IF r \in Q THEN e ELSE 0]
    /\ slot' = index /\ flight' = {}
    /\ csn' = IF CsnContinues THEN top ELSE 0
    /\ truth' = [k \in Key |-> IF index[k] # 0 /\ entries[index[k]].csn > truth[k].csn
                               THEN [csn |-> entries[index[k]].csn, kind |-> Kind(index[k])] ELSE truth[k]]
    /\ hold' = [r \in Replica |-> 0] /\ looked' = 0

\* Full sync of a follower that was left behind.
Sync(r) ==
    /\ r \notin synced /\ synced' = synced \cup {r}
    /\ m' = [m EXCEPT ![r] = Here] /\ d' = [d EXCEPT ![r] = Len(entries)]
    /\ hold' = [hold EXCEPT ![r] = 0]
    /\ UNCHANGED <<leader, term, metas, entries, slot, flight, csn, truth, looked>>

Next ==
    \/ \E s \in 1..Segments : Claim(s)
    \/ \E c \in 1..Here : Release(c)
    \/ \E k \in Key : Put(k) \/ Delete(k) \/ Look(k) \/ Move(k) \/ DropTombstone(k)
    \/ \E i \in flight : Apply(i) \/ ApplyMove(i)
    \/ \E r \in Replica : LandMeta(r) \/ LandData(r) \/ Hold(r) \/ LetHoldGo(r) \/ Sync(r)
    \/ \E Q \in SUBSET Replica, l \in Replica : NewTerm(Q, l)

Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Replica)

-----------------------------------------------------------------------------
\* Invariants.  Those about rebuilding are judged for every majority that could form a term now.

StartSets == {[n |-> MaxOf({m[r] : r \in Q}), e |-> MaxOf({d[r] : r \in Q})] :
                 Q \in {S \in SUBSET synced : Majority(S)}}

\* I13: a deleted key does not come back.
Tomb ==
    \A s \in StartSets, k \in Key :
        LET i == Rebuilt(s.n, s.e)[k] IN
        truth[k].kind = "tombstone" /\ i # 0 /\ Kind(i) = "put" => entries[i].csn > truth[k].csn

\* I2, for entries that move: what was visible is found again.
Complete ==
    \A s \in StartSets, k \in Key :
        LET i == Rebuilt(s.n, s.e)[k] IN
        truth[k].kind = "put" => i # 0 /\ entries[i].csn >= truth[k].csn

\* I8: the index shows the newest version.
AckedVisible ==
    \A k \in Key :
        /\ truth[k].kind = "put" => slot[k] # 0 /\ entries[slot[k]].csn = truth[k].csn
        /\ truth[k].kind = "tombstone" => slot[k] = 0 \/ Kind(slot[k]) = "tombstone"

\* I7: a version that is drawn is above all that were visible before.
VersionTotal == \A i \in 1..Len(entries) : entries[i].kind # "move" => entries[i].csn > entries[i].low

\* I12, on followers: no segment is claimed anew where a snapshot still reads it.
NoReuseUnderRead ==
    \A r \in synced \ {leader} : hold[r] # 0 =>
        LET c == entries[hold[r]].claim IN
        ~\E n \in Claims(m[r]) : n > c /\ metas[n].seg = metas[c].seg
=============================================================================
