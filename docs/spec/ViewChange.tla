----------------------------- MODULE ViewChange -----------------------------
(***************************************************************************)
(* How one term ends and the next begins: promises, fence, gather, start   *)
(* set, sync term, acknowledgement gate, claims of segments, leases.       *)
(*                                                                         *)
(* The paper was checked with TLA+, too (LoLKV 5).                         *)
(* What the paper does and what is different here:                         *)
(*  - LoLKV 3.4 elects the replica with the largest <term,                 *)
(*    seg_ver> and consolidates by the highest <term, seq_num> of each     *)
(*    thread.  Across terms that loses readable entries (hole L1).  Here   *)
(*    a replica knows its sync term: the term whose start set it holds.    *)
(*  - LoLKV 3.4 says that a replica votes once in a term, and not          *)
(*    where it remembers that (L2).  Here a promise is persisted first.    *)
(*  - LoLKV 3.1.2 replicates claims of segments on the queue pair          *)
(*    of whichever thread claims (L3).  Here claims are one stream, META,  *)
(*    and data follows its claim on each follower.                         *)
(*  - LoLKV 3.3.4 has a lease inside which others "will not try to         *)
(*    become a leader"; they may still vote (L8).  Here a promise forbids  *)
(*    the report, and it is looked at after the fence.                     *)
(*                                                                         *)
(* An entry is <<term, stream, position>>.  A replica holds a prefix of    *)
(* each stream, so a length says it all.  Stream 0 is META; its position i *)
(* claims the segment of data stream i.  That order loses nothing: streams *)
(* belong to one term, so they may be renamed term by term.                *)
(*                                                                         *)
(* Partition, pause, a slow link, a leader that crashed and kept its       *)
(* memory: an action that may happen need not.  A leader that others have  *)
(* left behind goes on acting here until it hears of it.  Crash is a crash *)
(* that loses the memory.                                                  *)
(*                                                                         *)
(* A sync takes its time.  A replica that is given another start set than  *)
(* its own, stream by stream, holds a mixture; it goes on to count as one  *)
(* of its old sync term until it has all and adopts the new one.  One      *)
(* whose memory is lost does not count before that: its sync is one step.  *)
(*                                                                         *)
(* Leases are without clocks.  What the bound on clock rates gives is an   *)
(* order of ends: a reader's lease ends before the leader's share that it  *)
(* rests on, and that share before the follower's promise.                 *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Replica,          \* a set of model values; symmetric
    MaxTerm,          \* terms are 1..MaxTerm; 0 is before the first
    WriteTerm,        \* entries are written in terms 1..WriteTerm: the last terms may only judge
    Streams,          \* data streams of a term
    MaxPos,           \* entries of a data stream
    MaxCrash,         \* crashes that lose memory, all replicas together
    Leases,           \* TRUE: heartbeats and leases are modelled

    \* The rules that mutants break.  TRUE is right except where noted.
    SyncGate,         \* an acknowledgement counts only from a synced follower (L1)
    ServeSynced,      \* serve only when a majority is synced (L1)
    BaseOnly,         \* gather only from replicas of the highest sync term (L1)
    PersistPromise,   \* a promise survives the loss of memory (L2)
    AmnesiacVotes,    \* FALSE is right: who lost its memory reports nothing (L2)
    ResyncAll,        \* who comes back within a term is given all of that term
    UniqueTerms,      \* a term is one node's by construction; FALSE: and votes are not kept (L2)
    ClaimFirst,       \* data goes to a follower after that follower's claim (L3)
    FenceFirst,       \* older queue pairs are revoked before the report (L6, L7)
    VoteInsideLease,  \* FALSE is right: no report inside a promise (L8)
    BootWait,         \* a replica that restarts keeps the promise it may have made
    RateBound,        \* the bound on clock rates holds (X4)
    ReaderNested,     \* a reader's lease lies inside the leader's (L9)
    Cut,              \* a sync voids what lies beyond the start set (L16)
    KeepAbove,        \* who is overwritten from a base below its sync term still counts
    KeepBelow,        \* and so does who is overwritten from one above
    AdoptWhole,       \* a follower adopts when it has all
    ReleaseAfter,     \* a leader that hands over takes promises back when no reader's lease rests on them
    ReleaseOwn        \* and when it has ended its own lease

VARIABLES
    term,     \* term[r]: the promised term, persisted
    sync,     \* sync[r]: the term whose start set r holds; Lost if memory is lost
    open,     \* open[r]: the term whose queue pairs r accepts WRITEs from; None: no
    role,     \* role[r]: follower, candidate, new (installing) or leader of term[r]
    len,      \* len[r][t][s]: how much of stream s of term t is in r's memory
    got,      \* got[r]: what candidate r gathered so far
    owner,    \* owner[t]: whose term t is
    start,    \* start[t]: the start set (cut table) of term t, by its leader
    synced,   \* synced[t]: who told the leader of t that it is synced
    served,   \* served[t]: t has served
    ack,      \* ack[t][s][r]: up to where the leader of t counts r
    crashes,
    base,     \* base[t]: the term that the start set of t goes on from, on followers too
    lent,     \* lent[r]: the term in which r made itself ready to be synced; None: no
    mixed,    \* mixed[r]: None; 0: r holds a mixture; a term: r was wiped, and reports to who has that
    quiet,    \* quiet[r]: r has promised not to report; the lease word was renewed
    share,    \* share[t]: replicas whose renewals the leader of t still counts on
    reader    \* reader[t]: the shares that a client's lease in term t rests on; {}: no lease

data == <<len, ack>>
lease == <<quiet, share, reader>>
sets == <<base, lent, mixed>>
vars == <<sets, term, sync, open, role, len, got, owner, start, synced, served, ack, crashes, lease>>

Terms == 1..MaxTerm
All == 0..Streams             \* META and the data streams
Data == 1..Streams
None == -1
Lost == -1

Majority(Q) == 2 * Cardinality(Q) > Cardinality(Replica)
Max(a, b) == IF a > b THEN a ELSE b
Empty == [t \in Terms |-> [s \in All |-> 0]]
Nothing == [from |-> {}, sync |-> Lost, len |-> Empty]

Init ==
    /\ term = [r \in Replica |-> 0] /\ sync = [r \in Replica |-> 0] /\ open = [r \in Replica |-> 0]
    /\ role = [r \in Replica |-> "follower"] /\ len = [r \in Replica |-> Empty]
    /\ got = [r \in Replica |-> Nothing] /\ owner = [t \in Terms |-> None]
    /\ start = [t \in Terms |-> Empty] /\ synced = [t \in Terms |-> {}]
    /\ served = [t \in Terms |-> FALSE]
    /\ ack = [t \in Terms |-> [s \in Data |-> [r \in Replica |-> 0]]]
    /\ crashes = 0
    /\ base = [t \in Terms |-> 0] /\ lent = [r \in Replica |-> None] /\ mixed = [r \in Replica |-> None]
    /\ quiet = [r \in Replica |-> FALSE] /\ share = [t \in Terms |-> {}]
    /\ reader = [t \in Terms |-> {}]

-----------------------------------------------------------------------------
\* Elections

\* Who lost its memory neither stands nor reports until a leader has synced it (L2).
MayReport(r) == sync[r] # Lost \/ AmnesiacVotes

Stand(c, t) ==
    /\ t > term[c] /\ MayReport(c)
    /\ UniqueTerms => owner[t] = None
    /\ owner' = [owner EXCEPT ![t] = c]
    /\ term' = [term EXCEPT ![c] = t] /\ open' = [open EXCEPT ![c] = t]
    /\ role' = [role EXCEPT ![c] = "candidate"] /\ got' = [got EXCEPT ![c] = Nothing]
    /\ lent' = [lent EXCEPT ![c] = None]
    /\ UNCHANGED <<sync, base, mixed, data, start, synced, served, crashes, lease>>

\* Persist the term, then revoke every queue pair of older terms, of all workers (L7), and flush (L6).
\* No WRITE of an older term lands after this.
Promise(f, c) ==
    /\ role[c] = "candidate" /\ term[c] > term[f] /\ MayReport(f)
    /\ term' = [term EXCEPT ![f] = term[c]]
    /\ open' = IF FenceFirst THEN [open EXCEPT ![f] = term[c]] ELSE open
    /\ role' = [role EXCEPT ![f] = "follower"] /\ got' = [got EXCEPT ![f] = Nothing]
    /\ lent' = [lent EXCEPT ![f] = None]
    /\ UNCHANGED <<sync, base, mixed, data, owner, start, synced, served, crashes, lease>>

\* What can be told from memory: a data stream counts as far as its segment is claimed there (L3).
Valid(f) == [t \in Terms |-> [s \in All |->
    IF s = 0 \/ len[f][t][0] >= s THEN len[f][t][s] ELSE 0]]

Longest(a, b) == [t \in Terms |-> [s \in All |-> Max(a[t][s], b[t][s])]]

\* Gather of one report: among replicas of the highest sync term the longest prefix of each stream.
\* The lease word is looked at after the fence: a renewal that landed before it is seen (L8).
Gather(c, f) ==
    /\ role[c] = "candidate" /\ term[f] = term[c] /\ f \notin got[c].from /\ MayReport(f)
    /\ (UniqueTerms \/ f = c \/ role[f] = "follower")
    /\ FenceFirst => open[f] = term[f]
    /\ VoteInsideLease \/ ~quiet[f]
    /\ got' = [got EXCEPT ![c] = [
           from |-> @.from \cup {f},
           sync |-> Max(@.sync, sync[f]),
           len |-> CASE ~BaseOnly \/ sync[f] = @.sync -> Longest(@.len, Valid(f))
                     [] BaseOnly /\ sync[f] > @.sync -> Valid(f)
                     [] OTHER -> @.len]]
    /\ UNCHANGED <<sets, term, sync, open, role, data, owner, start, synced, served, crashes, lease>>

\* Install the start set; older terms are fixed by it.  What is older than the base the candidate has itself,
\* which is among those of the highest sync term; only the streams of the base are gathered.
StartSet(c) == [u \in Terms |->
    CASE ~BaseOnly \/ u = got[c].sync -> got[c].len[u]
      [] BaseOnly /\ u < got[c].sync -> Valid(c)[u]
      [] OTHER -> Empty[u]]

NewTerm(c) ==
    LET t == term[c] IN
    /\ role[c] = "candidate" /\ Majority(got[c].from)
    /\ c \in got[c].from /\ (BaseOnly => sync[c] = got[c].sync)
    /\ role' = [role EXCEPT ![c] = "new"]
    /\ len' = [len EXCEPT ![c] = StartSet(c)] /\ sync' = [sync EXCEPT ![c] = t]
    /\ start' = [start EXCEPT ![t] = StartSet(c)]
    /\ base' = [base EXCEPT ![t] = IF mixed[c] # None THEN t ELSE got[c].sync]
    /\ mixed' = [mixed EXCEPT ![c] = None]
    /\ synced' = [synced EXCEPT ![t] = {c}]
    /\ got' = [got EXCEPT ![c] = Nothing]
    /\ UNCHANGED <<term, open, lent, owner, served, ack, crashes, lease>>

\* What f has to be given in place of what it has of older terms, to hold the start set of t.
Differ(f, t) == {<<u, s>> \in (1..(t - 1)) \X All : len[f][u][s] # start[t][u][s]}

\* Whether f holds the start set of the base of t, and no mixture.
HasBase(f, t) == sync[f] = base[t] /\ sync[f] # Lost /\ mixed[f] = None

\* Who goes on from the base voids at once what lies beyond the cuts (L16).  Who does not voids nothing.
Begin(c, f) ==
    LET t == term[c]
        wiped == IF sync[f] > base[t] THEN ~KeepAbove ELSE ~KeepBelow
    IN
    /\ role[c] \in {"new", "leader"} /\ f # c /\ term[f] <= t /\ sync[f] \notin {t, Lost} /\ lent[f] # t
    /\ term' = [term EXCEPT ![f] = t] /\ open' = [open EXCEPT ![f] = t] /\ lent' = [lent EXCEPT ![f] = t]
    /\ role' = [role EXCEPT ![f] = "follower"] /\ got' = [got EXCEPT ![f] = Nothing]
    /\ IF HasBase(f, t)
       THEN /\ len' = [len EXCEPT ![f] = [u \in Terms |-> [s \in All |->
                          CASE Cut /\ u = base[t] /\ @[u][s] > start[t][u][s] -> start[t][u][s]
                            [] Cut /\ u > base[t] -> 0
                            [] OTHER -> @[u][s]]]]
            /\ UNCHANGED <<sync, mixed>>
       ELSE /\ sync' = IF wiped THEN [sync EXCEPT ![f] = Lost] ELSE sync
            /\ len' = IF wiped THEN [len EXCEPT ![f] = Empty] ELSE len
            /\ mixed' = [mixed EXCEPT ![f] = IF ~wiped THEN 0 ELSE IF sync[f] < base[t] THEN base[t] ELSE t]
    /\ UNCHANGED <<base, owner, start, synced, served, ack, crashes, lease>>

\* One stream is as in the start set.  Claims come first: a mixture may hold data whose claim is gone.
Overwrite(c, f) ==
    LET t == term[c] IN
    /\ role[c] \in {"new", "leader"} /\ f # c /\ term[f] = t /\ lent[f] = t /\ sync[f] # t
    /\ \E <<u, s>> \in Differ(f, t) :
           /\ HasBase(f, t) => u = base[t]
           /\ s # 0 => len[f][u][0] = start[t][u][0]
           /\ Cut \/ len[f][u][s] < start[t][u][s]
           /\ len' = [len EXCEPT ![f][u][s] = start[t][u][s]]
    /\ UNCHANGED <<sets, term, sync, open, role, got, owner, start, synced, served, ack, crashes, lease>>

\* It has all of the start set, and adopts it.  If it was counted in this term before, that is not enough: its
\* acknowledgements still count, and as a synced replica it will report, so it needs all that the leader has of
\* this term by now.
Adopted(c, f) ==
    LET t == term[c] IN
    /\ sync' = [sync EXCEPT ![f] = t] /\ synced' = [synced EXCEPT ![t] = @ \cup {f}]
    /\ mixed' = [mixed EXCEPT ![f] = None]
    /\ lent' = [lent EXCEPT ![f] = None]

Given(c, f) == IF f \in synced[term[c]] /\ ResyncAll THEN len[c][term[c]] ELSE len[f][term[c]]

Adopt(c, f) ==
    LET t == term[c] IN
    /\ role[c] \in {"new", "leader"} /\ f # c /\ term[f] = t /\ lent[f] = t /\ sync[f] \notin {t, Lost}
    /\ \A <<u, s>> \in Differ(f, t) :
           \/ HasBase(f, t) /\ u # base[t]
           \/ ~Cut /\ len[f][u][s] > start[t][u][s]
           \/ ~AdoptWhole
    /\ len' = [len EXCEPT ![f][t] = Given(c, f)]
    /\ Adopted(c, f)
    /\ UNCHANGED <<term, open, role, got, base, owner, start, served, ack, crashes, lease>>

\* A replica that lost its memory comes back only this way, with a term not below its own (L2).
Restore(c, f) ==
    LET t == term[c] IN
    /\ role[c] \in {"new", "leader"} /\ f # c /\ term[f] <= t /\ sync[f] = Lost
    /\ term' = [term EXCEPT ![f] = t] /\ open' = [open EXCEPT ![f] = t]
    /\ role' = [role EXCEPT ![f] = "follower"] /\ got' = [got EXCEPT ![f] = Nothing]
    /\ len' = [len EXCEPT ![f] = [u \in Terms |->
                  CASE u < t -> start[t][u]
                    [] u = t -> Given(c, f)
                    [] OTHER -> @[u]]]
    /\ Adopted(c, f)
    /\ UNCHANGED <<base, owner, start, served, ack, crashes, lease>>

Serve(c) ==
    LET t == term[c] IN
    /\ role[c] = "new" /\ (ServeSynced => Majority(synced[t]))
    /\ role' = [role EXCEPT ![c] = "leader"] /\ served' = [served EXCEPT ![t] = TRUE]
    /\ UNCHANGED <<sets, term, sync, open, data, got, owner, start, synced, crashes, lease>>

-----------------------------------------------------------------------------
\* Writes (LoLKV 3.3.2, by streams and positions)

\* The worker of stream s writes an entry into its own memory; for the first one it claims a segment.
Put(l, s) ==
    LET t == term[l] IN
    /\ role[l] = "leader" /\ t <= WriteTerm /\ len[l][t][0] >= s - 1 /\ len[l][t][s] < MaxPos
    /\ len' = [len EXCEPT ![l][t][0] = Max(@, s), ![l][t][s] = @ + 1]
    /\ UNCHANGED <<sets, term, sync, open, role, got, owner, start, synced, served, ack, crashes, lease>>

\* One WRITE lands on f, in the order of positions, and its completion counts (gate: L1).  Landing and
\* counting are one step: the count is never taken back, and what it commits may be answered at once.
Replicate(l, f, s) ==
    LET t == term[l]
        pos == len[f][t][s] + 1
    IN
    /\ role[l] = "leader" /\ f # l /\ open[f] = t
    /\ SyncGate => sync[f] = t
    /\ pos <= len[l][t][s]
    /\ s # 0 /\ ClaimFirst => len[f][t][0] >= s
    /\ len' = [len EXCEPT ![f][t][s] = pos]
    /\ ack' = IF s = 0 THEN ack ELSE [ack EXCEPT ![t][s][f] = Max(@, pos)]
    /\ UNCHANGED <<sets, term, sync, open, role, got, owner, start, synced, served, crashes, lease>>

\* The leader's memory is lost with all that is volatile; a promise is persisted (L2).
Crash(r) ==
    /\ crashes < MaxCrash /\ crashes' = crashes + 1
    /\ term' = IF PersistPromise THEN term ELSE [term EXCEPT ![r] = 0]
    /\ sync' = [sync EXCEPT ![r] = Lost] /\ open' = [open EXCEPT ![r] = None]
    /\ role' = [role EXCEPT ![r] = "follower"] /\ got' = [got EXCEPT ![r] = Nothing]
    /\ len' = [len EXCEPT ![r] = Empty]
    /\ quiet' = [quiet EXCEPT ![r] = Leases /\ BootWait]
    /\ lent' = [lent EXCEPT ![r] = None] /\ mixed' = [mixed EXCEPT ![r] = None]
    /\ UNCHANGED <<base, owner, start, synced, served, ack, share, reader>>

-----------------------------------------------------------------------------
\* Leases

rest == <<sets, term, sync, open, role, data, got, owner, start, synced, served, crashes>>

\* The leader's WRITE of the lease word lands on f and completes: f is passive.
Renew(l, f) ==
    LET t == term[l] IN
    /\ Leases /\ role[l] = "leader" /\ open[f] = t
    /\ quiet' = [quiet EXCEPT ![f] = TRUE] /\ share' = [share EXCEPT ![t] = @ \cup {f}]
    /\ UNCHANGED <<rest, reader>>

\* A client is granted a lease for one-sided READs while the leader's own lease holds.
Grant(l) ==
    /\ role[l] = "leader"
    /\ \E Q \in SUBSET share[term[l]] :
           Majority(Q) /\ reader' = [reader EXCEPT ![term[l]] = Q]
    /\ UNCHANGED <<rest, quiet, share>>

ReaderEnds(t) ==
    /\ reader[t] # {} /\ reader' = [reader EXCEPT ![t] = {}]
    /\ UNCHANGED <<rest, quiet, share>>

ShareEnds(t, f) ==
    /\ f \in share[t] /\ (ReaderNested => f \notin reader[t])
    /\ share' = [share EXCEPT ![t] = @ \ {f}]
    /\ UNCHANGED <<rest, quiet, reader>>

\* The leader hands over: it ends its own lease, when no client's rests on it any more, and takes back the
\* promises that were made to it.  It leads no more.  A replica that learns of it later keeps its promise for
\* longer than it need.
Release(l) ==
    LET t == term[l] IN
    /\ Leases /\ role[l] = "leader" /\ (ReleaseAfter => reader[t] = {})
    /\ role' = [role EXCEPT ![l] = "follower"]
    /\ share' = IF ReleaseOwn THEN [share EXCEPT ![t] = {}] ELSE share
    /\ quiet' = [f \in Replica |-> quiet[f] /\ open[f] # t]
    /\ UNCHANGED <<sets, term, sync, open, data, got, owner, start, synced, served, crashes, reader>>

PromiseEnds(f) ==
    /\ quiet[f] /\ (RateBound => \A t \in Terms : f \notin share[t])
    /\ quiet' = [quiet EXCEPT ![f] = FALSE]
    /\ UNCHANGED <<rest, share, reader>>

Next ==
    \/ \E c \in Replica :
        \/ \E t \in Terms : Stand(c, t)
        \/ NewTerm(c) \/ Serve(c) \/ Crash(c) \/ Grant(c) \/ Release(c) \/ PromiseEnds(c)
        \/ \E s \in Data : Put(c, s)
        \/ \E f \in Replica : Promise(f, c) \/ Gather(c, f) \/ Renew(c, f)
                                \/ Begin(c, f) \/ Overwrite(c, f) \/ Adopt(c, f) \/ Restore(c, f)
        \/ \E f \in Replica, s \in All : Replicate(c, f, s)
    \/ \E t \in Terms : ReaderEnds(t)
    \/ \E t \in Terms, f \in Replica : ShareEnds(t, f)

Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Replica)

-----------------------------------------------------------------------------
\* Invariants

\* An entry of stream s of term t is committed when its leader and enough followers count.
Committed(t, s, pos) == Majority({owner[t]} \cup {r \in Replica : ack[t][s][r] >= pos})

\* I1: at most one replica serves a term.
OneLeader ==
    \A a, b \in Replica : role[a] = "leader" /\ role[b] = "leader" /\ term[a] = term[b] => a = b

\* I2: what a term committed, and what it could show from its start set, is in the start set of every
\* later term that serves.
Complete ==
    \A t, u \in Terms : t < u /\ served[u] =>
        /\ \A s \in Data, pos \in 1..MaxPos : Committed(t, s, pos) => start[u][t][s] >= pos
        /\ served[t] => \A o \in 1..(t - 1), s \in Data : start[u][o][s] >= start[t][o][s]

\* I8, last part, as far as it is about terms: what a serving term cut off is in no later start set.
NoReturn ==
    \A t, u \in Terms : t < u /\ served[t] /\ served[u] =>
        \A o \in 1..(t - 1), s \in Data : start[u][o][s] = start[t][o][s]

\* I3: a synced replica holds the start set of its sync term, no more and no less, and prefixes of what
\* the leader of that term has.
SyncMeaning ==
    \A r \in Replica : sync[r] \in Terms /\ mixed[r] = None =>
        LET t == sync[r] IN
        /\ \A o \in 1..(t - 1), s \in All : len[r][o][s] = start[t][o][s]
        /\ \A l \in Replica : owner[t] = l /\ sync[l] = t /\ term[l] = t => \A s \in All : len[r][t][s] <= len[l][t][s]

\* I20, as far as it is about memory: while a minority has lost it, somebody can gather a majority and have what
\* the highest of them has.
NotStranded ==
    LET gone == {r \in Replica : sync[r] = Lost /\ mixed[r] = None}
        says == [r \in Replica |-> Max(sync[r], mixed[r])]
    IN
    ~Majority(Replica \ gone) \/ \E c \in Replica \ gone :
        /\ sync[c] # Lost
        /\ Majority({r \in Replica \ gone : says[r] <= sync[c]})

\* I4: only who was synced in a term is counted in it.
AckGate == \A t \in Terms, s \in Data, r \in Replica : ack[t][s][r] > 0 => r \in synced[t]

\* Data lies only in segments that its stream has claimed, on each replica for itself (L3).
Claimed ==
    \A r \in Replica, t \in Terms, s \in Data : mixed[r] = None /\ len[r][t][s] > 0 => len[r][t][0] >= s

\* I9: a reader's lease rests on the leader's, that on promises.  Once a later term has served, what is left of a
\* share is worth nothing (OldLeasesOver), and the later leader may take those promises back with its own.
LeaseNest ==
    \A t \in Terms :
        /\ reader[t] \subseteq share[t]
        /\ (\A u \in Terms : u > t => ~served[u]) => \A f \in share[t] : quiet[f]

\* I9, what it is for: nobody may read under a lease of a term when a later one serves.
OldLeasesOver ==
    \A t, u \in Terms : t < u /\ served[u] => reader[t] = {} /\ ~Majority(share[t])
=============================================================================
