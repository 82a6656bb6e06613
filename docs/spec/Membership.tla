----------------------------- MODULE Membership -----------------------------
(***************************************************************************)
(* Which replicas count, when one more or one less is to (M14): how a      *)
(* group goes from one set of replicas to the next, and what of what was   *)
(* committed with the one is in the start sets of the other.               *)
(*                                                                         *)
(* LoLKV has no changes of membership (L20).  Here                         *)
(*  - a term has one set, from its candidate's first question to its end;  *)
(*  - a leader that serves says what the next set is: one more or one less *)
(*    than its own.  It ends its term, and the next has that set.          *)
(*                                                                         *)
(* A replica keeps the newest set that it knows of with its promise, as of *)
(* a term: <<t, 0>> is what term t had, <<t, 1>> what its leader said is   *)
(* next.  Sets of different terms are not compared by what they are.       *)
(*                                                                         *)
(* What ViewChange has is coarse here: a term writes at most one entry,     *)
(* which lands on a majority at once; promises and reports of a majority   *)
(* are one step, start set and sync of a majority another.  No memory is   *)
(* lost.                                                                   *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Replica,      \* a set of model values; symmetric
    Founder,      \* how many of them the group began with
    MaxTerm,      \* terms are 1..MaxTerm; 0 is before the first
    Writes,       \* the terms in which an entry may be written
    Changes,      \* the terms in which another set may be wanted
    Grow,         \* FALSE: only one less may be, and nobody is synced later

    \* The rules that mutants break.  TRUE is right.
    Newest,       \* nobody promises to a candidate that knows of an older set than itself
    Confirm,      \* a majority keeps the set of a term before its leader says which is next
    Single,       \* the next set is one more or one less
    Agree         \* a set is agreed on when majorities of both keep it; FALSE: when anybody does

VARIABLES
    term,     \* term[r]: the promised term, persisted
    stamp,    \* stamp[r]: as of when r knows the set of replicas, persisted
    set,      \* set[r]: that set; {}: it was told of none yet
    sync,     \* sync[r]: the term whose start set r holds; None: nothing
    has,      \* has[r]: the terms whose entry r holds
    owner,    \* owner[t]: whose term t is; None: nobody's
    own,      \* own[t]: the set of term t
    asof,     \* asof[t]: as of when its candidate knew it
    got,      \* got[t]: who reported, and what: <<replica, sync, has>>
    start,    \* start[t]: the start set of term t
    synced,   \* synced[t]: who holds it; {}: t does not serve
    ack,      \* ack[t]: who holds the entry of t, as its leader counts
    kept,     \* kept[t]: who keeps <<t, 0>>
    next,     \* next[t]: what its leader said is next; {}: nothing
    agreed    \* agreed[t]: who keeps <<t, 1>>

terms == <<owner, own, asof, got, start, synced, ack, kept, next, agreed>>
vars == <<term, stamp, set, sync, has, terms>>

Terms == 1..MaxTerm
None == -1
Majority(Q, S) == 2 * Cardinality(Q \cap S) > Cardinality(S)
Older(a, b) == a[1] < b[1] \/ (a[1] = b[1] /\ a[2] < b[2])

Init ==
    \E F \in SUBSET Replica :
    /\ Cardinality(F) = Founder
    /\ term = [r \in Replica |-> 0] /\ has = [r \in Replica |-> {}]
    /\ stamp = [r \in Replica |-> IF r \in F THEN <<0, 0>> ELSE <<0, -1>>]
    /\ set = [r \in Replica |-> IF r \in F THEN F ELSE {}]
    /\ sync = [r \in Replica |-> IF r \in F THEN 0 ELSE None]
    /\ owner = [t \in Terms |-> None] /\ own = [t \in Terms |-> {}] /\ asof = [t \in Terms |-> <<0, 0>>]
    /\ got = [t \in Terms |-> {}] /\ start = [t \in Terms |-> {}] /\ synced = [t \in Terms |-> {}]
    /\ ack = [t \in Terms |-> {}]
    /\ kept = [t \in Terms |-> {}] /\ next = [t \in Terms |-> {}] /\ agreed = [t \in Terms |-> {}]

\* r takes what term t knows, if that is newer.
Learn(r, when, what) ==
    /\ stamp' = IF Older(stamp[r], when) THEN [stamp EXCEPT ![r] = when] ELSE stamp
    /\ set' = IF Older(stamp[r], when) THEN [set EXCEPT ![r] = what] ELSE set

\* Just so many that they are more than half of S.
Majorities(S) == {Q \in SUBSET S : Cardinality(Q) = Cardinality(S) \div 2 + 1}

\* A candidate takes the newest set it knows of.  A majority promises and reports: in one step, since who has
\* promised takes part in nothing older, whenever the last of them does.
Elect(c, t, Q) ==
    /\ t > term[c] /\ owner[t] = None /\ c \in set[c] /\ c \in Q /\ Q \in Majorities(set[c])
    /\ \A u \in 1..(t - 1) : owner[u] # None
    /\ \A r \in Q : term[r] < t /\ sync[r] # None /\ (Newest => ~Older(stamp[c], stamp[r]))
    /\ owner' = [owner EXCEPT ![t] = c] /\ own' = [own EXCEPT ![t] = set[c]]
    /\ asof' = [asof EXCEPT ![t] = stamp[c]]
    /\ got' = [got EXCEPT ![t] = {<<r, sync[r], has[r]>> : r \in Q}]
    /\ term' = [r \in Replica |-> IF r \in Q THEN t ELSE term[r]]
    /\ stamp' = [r \in Replica |-> IF r \in Q /\ Older(stamp[r], stamp[c]) THEN stamp[c] ELSE stamp[r]]
    /\ set' = [r \in Replica |-> IF r \in Q /\ Older(stamp[r], stamp[c]) THEN set[c] ELSE set[r]]
    /\ UNCHANGED <<sync, has, start, synced, ack, kept, next, agreed>>

\* Who would promise, but knows of a newer set, says so instead.
Tell(r, c) ==
    /\ r \in set[c] /\ Older(stamp[c], stamp[r])
    /\ Learn(c, stamp[r], set[r])
    /\ UNCHANGED <<term, sync, has, terms>>

\* The start set, of the reports of the highest sync term, the candidate's among them.  Who takes it: of these
\* replicas a majority, who have promised nothing younger.
Serve(t, Q) ==
    LET c == owner[t]
        top == CHOOSE s \in {g[2] : g \in got[t]} : \A g \in got[t] : g[2] <= s
        of == {g \in got[t] : g[2] = top}
        all == UNION {g[3] : g \in of}
    IN
    /\ c # None /\ synced[t] = {} /\ c \in Q /\ Q \in Majorities(own[t]) /\ \E g \in of : g[1] = c
    /\ \A r \in Q : term[r] <= t
    /\ start' = [start EXCEPT ![t] = all] /\ synced' = [synced EXCEPT ![t] = Q]
    /\ term' = [r \in Replica |-> IF r \in Q THEN t ELSE term[r]]
    /\ sync' = [r \in Replica |-> IF r \in Q THEN t ELSE sync[r]]
    /\ has' = [r \in Replica |-> IF r \in Q THEN all ELSE has[r]]
    /\ UNCHANGED <<stamp, set, owner, own, asof, got, ack, kept, next, agreed>>

Leads(t) == synced[t] # {} /\ term[owner[t]] = t

\* One more is synced: another replica, or one that is to be one and does not count.
Sync(t, r) ==
    /\ Grow /\ Leads(t) /\ term[r] <= t /\ r \notin synced[t] /\ (r \in own[t] \/ t \in Changes)
    /\ term' = [term EXCEPT ![r] = t] /\ sync' = [sync EXCEPT ![r] = t]
    /\ has' = [has EXCEPT ![r] = has[owner[t]]]
    /\ synced' = [synced EXCEPT ![t] = @ \cup {r}]
    /\ ack' = [ack EXCEPT ![t] = IF t \in has[owner[t]] THEN @ \cup {r} ELSE @]
    /\ Learn(r, asof[t], own[t])
    /\ UNCHANGED <<owner, own, asof, got, start, kept, next, agreed>>

Write(t, Q) ==
    /\ Leads(t) /\ t \in Writes /\ ack[t] = {} /\ owner[t] \in Q /\ Q \in Majorities(own[t])
    /\ Q \subseteq synced[t]
    /\ \A r \in Q : term[r] = t
    /\ has' = [r \in Replica |-> IF r \in Q THEN has[r] \cup {t} ELSE has[r]]
    /\ ack' = [ack EXCEPT ![t] = Q]
    /\ UNCHANGED <<term, stamp, set, sync, owner, own, asof, got, start, synced, kept, next, agreed>>

-----------------------------------------------------------------------------
\* Another set

KeepOwn(t, Q) ==
    /\ Confirm /\ Leads(t) /\ t \in Changes /\ kept[t] = {} /\ Q \in Majorities(own[t])
    /\ \A r \in Q : term[r] = t
    /\ stamp' = [r \in Replica |-> IF r \in Q THEN <<t, 0>> ELSE stamp[r]]
    /\ set' = [r \in Replica |-> IF r \in Q THEN own[t] ELSE set[r]]
    /\ kept' = [kept EXCEPT ![t] = Q]
    /\ UNCHANGED <<term, sync, has, owner, own, asof, got, start, synced, ack, next, agreed>>

Differ(a, b) == Cardinality((a \ b) \cup (b \ a))

Propose(t, S) ==
    /\ Leads(t) /\ t \in Changes /\ next[t] = {}
    /\ Confirm => kept[t] # {}
    /\ S # own[t] /\ (S \ own[t]) \subseteq synced[t] /\ (Grow \/ S \subseteq own[t])
    /\ IF Single THEN Differ(S, own[t]) = 1 ELSE Differ(S, own[t]) <= 2
    /\ next' = [next EXCEPT ![t] = S]
    /\ UNCHANGED <<term, stamp, set, sync, has, owner, own, asof, got, start, synced, ack, kept, agreed>>

KeepNext(t, r) ==
    /\ next[t] # {} /\ term[r] = t /\ r \in own[t] \cup next[t] /\ r \notin agreed[t]
    /\ stamp' = [stamp EXCEPT ![r] = <<t, 1>>] /\ set' = [set EXCEPT ![r] = next[t]]
    /\ agreed' = [agreed EXCEPT ![t] = @ \cup {r}]
    /\ UNCHANGED <<term, sync, has, owner, own, asof, got, start, synced, ack, kept, next>>

Next ==
    \/ \E t \in Terms :
        \/ \E S \in SUBSET Replica \ {{}} : Serve(t, S) \/ Write(t, S) \/ KeepOwn(t, S) \/ Propose(t, S)
        \/ \E c \in Replica, Q \in SUBSET Replica : Elect(c, t, Q)
        \/ \E r \in Replica : Sync(t, r) \/ KeepNext(t, r)
    \/ \E r, c \in Replica : Tell(r, c)

Spec == Init /\ [][Next]_vars

\* For instances that would be too large: few keep what is next, who is synced first is who reported, and each
\* replica leads once.
Narrow == \A t, u \in Terms :
    /\ Cardinality(agreed[t]) <= 1 /\ synced[t] \subseteq {g[1] : g \in got[t]}
    /\ t # u /\ owner[t] # None => owner[t] # owner[u]

Symmetric == Permutations(Replica)

-----------------------------------------------------------------------------
Committed(t) == Majority(ack[t], own[t])
Agreed(t) ==
    IF Agree THEN Majority(agreed[t], own[t]) /\ Majority(agreed[t], next[t]) ELSE agreed[t] # {}

\* What was committed is in the start set of each later term that serves.
Complete == \A t, u \in Terms : t < u /\ synced[u] # {} /\ Committed(t) => t \in start[u]

\* What was agreed on stays: no later term serves with an older set.
Stays == \A t, u \in Terms :
    t < u /\ synced[u] # {} /\ next[t] # {} /\ Agreed(t) => ~Older(asof[u], <<t, 1>>)
=============================================================================
