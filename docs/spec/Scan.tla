-------------------------------- MODULE Scan --------------------------------
(***************************************************************************)
(* SCAN: a page of the ordered table, answered from a follower's tree,     *)
(* beside PUTs and DELETEs at the leader and GETs that READ the leader's   *)
(* memory.                                                                 *)
(*                                                                         *)
(* HiStore 4.2 answers a scan when "none index updates remains" in the     *)
(* follower's log.  That shows entries that the leader has not applied,    *)
(* and hides others that it has (mutants ByFloor, AtCounter).  Here a page *)
(* follows the window rule.  The leader keeps two words a stream that only *)
(* grow in its term: committed, stored before any slot of those entries,   *)
(* and applied, stored after the slot.  The follower's tree stands at what *)
(* some READ of the applied words found.  A page of a range may be         *)
(* answered if a READ of the committed words, posted after the request     *)
(* came and after the first READ had completed, shows no entry in between  *)
(* whose key lies in the range, and if the leader of that term still leads *)
(* afterwards: the client looks at its lease.                              *)
(*                                                                         *)
(* A write is known by its csn.  A stream is a row of writes of one term,  *)
(* in the order of csns; a vector of positions is the set of the writes    *)
(* below them.  GETs take no time, and a write is answered in the step     *)
(* that stores its slot: all that is looser gives operations more room.    *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, Sequences

CONSTANTS
    Plans,         \* rows of writes <<stream, key, "put" or "del">>, of which a run takes one
    Froms,         \* the first key of the page's range; a run takes one
    Limits,        \* how many items the page has at most; a run takes one
    MaxGets,
    Change,        \* the leader changes once
    Landing,       \* entries come to the follower when they like, in any order; else at once

    \* The rules that mutants break.
    Rule,          \* "window"; "counter" cuts at the csn counter, "stable" at the stable point
    TwoSamples,    \* the committed words are READ at all
    TwoReads,      \* they are not taken from the READ that brought the applied words
    CommitBound,   \* the upper bound is the committed words, not the applied ones
    CommitFirst,   \* a committed word is stored before the slots
    SampleInCall,  \* the committed words are READ after the request came
    LeaseCheck,    \* the client looks at its lease after the answer came
    ByApplied,     \* the tree takes what the leader applied, not what has landed
    TermCheck,     \* the follower compares the request's term with its own
    Marker,        \* a delete leaves a marker in the tree
    StableBefore,  \* markers go by a stable point seen before the READ of the applied words
    StableByWord,  \* the stable point covers only what the applied words cover
    WholeRange,    \* a key that the page does not show conflicts, too, if it lies in the range
    WaitForLanded, \* an entry that has not landed may be of any key
    TailApplied    \* at a new term the tree takes the rest of the start set

ASSUME Rule \in {"window", "counter", "stable"}

VARIABLES
    plan, from, limit,
    drawn,        \* the csn counter: writes 1..drawn are written
    committed,    \* writes that a majority has, as the leader knows
    worded,       \* writes that the committed words cover; used by one mutant, otherwise `committed`
    stored,       \* writes whose slot is stored, and that are answered
    applied,      \* writes that the applied words cover
    fenced,       \* the second leader has fenced the first
    base,         \* the csn counter when it did
    start,        \* its start set
    serving,      \* it serves: all leases on the first are over
    landed,       \* entries that the follower has
    following,    \* the follower's term
    tree,         \* of each key the newest csn that the tree knows, markers included; 0: none
    vector,       \* the writes of the term that the tree has taken
    sample, todo, \* a READ of the applied words: what it found so far, lines still to come
    stable,       \* the stable point that the follower saw before
    clear,        \* lines whose committed words were READ since, and show no conflict
    scan,         \* the scan
    during,       \* the pages that the table would have given since the scan was called
    gets,         \* GETs so far
    confs,        \* configurations that explain the history so far
    verdict

leader == <<drawn, committed, worded, stored, applied>>
change == <<fenced, base, start, serving>>
follower == <<landed, following, tree, vector, sample, todo, stable, clear>>
judge == <<during, gets, confs, verdict>>
asked == <<plan, from, limit>>
vars == <<asked, leader, change, follower, scan, judge>>

Streams == {1, 2}
Keys == {1, 2}

Max(S) == CHOOSE x \in S \cup {0} : \A y \in S : y <= x
Stream(n) == plan[n][1]
Key(n) == plan[n][2]
Deletes(n) == plan[n][3] = "del"
Term(n) == IF n <= base THEN 1 ELSE 2
Drawn == 1..drawn
InOrder(n, S) == \A m \in 1..(n - 1) : Term(m) = Term(n) /\ Stream(m) = Stream(n) => m \in S

-----------------------------------------------------------------------------
\* Tables and pages

\* What a write n, the newest of its key, leaves there: its version, or nothing.
Left(n) == IF n = 0 \/ Deletes(n) THEN 0 ELSE n
Newest(S, k) == Max({n \in S : Key(n) = k})
Table(S) == [k \in Keys |-> Left(Newest(S, k))]

\* What GETs find at the leader that leads.
Visible == IF serving THEN start \cup {n \in stored : n > base} ELSE stored

\* The first items of a table, in the order of keys.
PageOf(table) ==
    LET there == {k \in Keys : k >= from /\ table[k] # 0}
    IN {<<k, table[k]>> : k \in {k \in there : Cardinality({j \in there : j < k}) < limit}}

\* A page that is not the last says nothing of what comes after its last key.
RangeOf(page) ==
    LET shown == {item[1] : item \in page}
    IN CASE ~WholeRange -> shown
         [] Cardinality(page) < limit -> {k \in Keys : k >= from}
         [] OTHER -> {k \in Keys : k >= from /\ k <= Max(shown)}

TreeTable == [k \in Keys |-> Left(tree[k])]

-----------------------------------------------------------------------------
\* The judge.  A configuration is a possible past: the writes that have taken effect, and the scan's page if
\* the scan has.  A key's writes take effect in the order of their csns.  Configurations are closed: whatever
\* may have taken effect since is among them.

NoPage == {<<0, 0>>}

Place(c, upto) ==
    {<<c[1] \cup {n}, c[2]>> :
        n \in {n \in 1..upto : n \notin c[1] /\ \A m \in c[1] : Key(m) = Key(n) => m < n}}

Look(c, called) == IF called /\ c[2] = NoPage THEN {<<c[1], PageOf(Table(c[1]))>>} ELSE {}

RECURSIVE Closed(_, _, _)
Closed(C, upto, called) ==
    LET D == C \cup UNION {Place(c, upto) \cup Look(c, called) : c \in C}
    IN IF D = C THEN C ELSE Closed(D, upto, called)

Called == scan.step \in {"asked", "counted", "answered"}

\* The table has changed.
Watch == during' = IF Called THEN during \cup {PageOf(Table(Visible'))} ELSE during

-----------------------------------------------------------------------------
NoScan == [step |-> "none", term |-> 0, page |-> NoPage, cut |-> 0]

Init ==
    /\ plan \in Plans /\ from \in Froms /\ limit \in Limits
    /\ drawn = 0 /\ committed = {} /\ worded = {} /\ stored = {} /\ applied = {}
    /\ fenced = FALSE /\ base = Len(plan) /\ start = {} /\ serving = FALSE
    /\ landed = {} /\ following = 1 /\ tree = [k \in Keys |-> 0] /\ vector = {}
    /\ sample = {} /\ todo = {} /\ stable = 0 /\ clear = {}
    /\ scan = NoScan /\ during = {} /\ gets = 0 /\ confs = {<<{}, NoPage>>} /\ verdict = "good"

-----------------------------------------------------------------------------
\* The leader

\* A client's write draws its csn.  A delete holds its stripe exclusively: no other write of its key is under
\* way beside it.
Draw ==
    /\ drawn < Len(plan) /\ (fenced => serving)
    /\ LET n == drawn + 1
           beside == {m \in Drawn \ Visible : Key(m) = Key(n) /\ Term(m) = IF serving THEN 2 ELSE 1}
       IN IF Deletes(n) THEN beside = {} ELSE \A m \in beside : ~Deletes(m)
    /\ drawn' = drawn + 1
    /\ landed' = IF Landing THEN landed ELSE landed \cup {drawn + 1}
    /\ confs' = Closed(confs, drawn + 1, Called)
    /\ UNCHANGED <<asked, committed, worded, stored, applied, change, following, tree, vector, sample,
                   todo, stable, clear, scan, during, gets, verdict>>

\* A majority has it, and the leader says so.
Commit(n) ==
    /\ n \notin committed /\ InOrder(n, committed) /\ (Term(n) = 1 => ~fenced)
    /\ committed' = committed \cup {n}
    /\ UNCHANGED <<asked, drawn, worded, stored, applied, change, follower, scan, judge>>

\* The slot, and with it the answer to the client.
Store(n) ==
    /\ n \in committed \ stored /\ InOrder(n, applied)
    /\ stored' = stored \cup {n}
    /\ confs' = {c \in confs : n \in c[1]}
    /\ UNCHANGED <<asked, drawn, committed, worded, applied, change, follower, scan, gets, verdict>>
    /\ Watch

SayCommitted(n) ==
    /\ ~CommitFirst /\ n \in stored \ worded
    /\ worded' = worded \cup {n}
    /\ UNCHANGED <<asked, drawn, committed, stored, applied, change, follower, scan, judge>>

Apply(n) ==
    /\ n \in stored \ applied /\ (~CommitFirst => n \in worded)
    /\ applied' = applied \cup {n}
    /\ UNCHANGED <<asked, drawn, committed, worded, stored, change, follower, scan, judge>>

CommittedWords == IF CommitFirst THEN committed ELSE worded

\* All csns up to it are applied.
StablePoint ==
    LET own == {n \in Drawn : Term(n) = following}
        under == own \ (IF StableByWord THEN applied ELSE stored)
    IN IF under = {} THEN Max(own) ELSE (CHOOSE n \in under : \A m \in under : n <= m) - 1

-----------------------------------------------------------------------------
\* The second leader

\* The start set has all that is committed.  Each stream is cut somewhere behind that.
Fence ==
    /\ Change /\ ~fenced /\ fenced' = TRUE
    /\ base' = drawn
    /\ \E S \in SUBSET (Drawn \ committed) :
        /\ \A n \in S : InOrder(n, committed \cup S)
        /\ start' = committed \cup S
    /\ UNCHANGED <<asked, leader, serving, follower, scan, judge>>

\* The first leader may go on with what it had committed, and may not know.
Serve ==
    /\ fenced /\ ~serving /\ serving' = TRUE
    /\ UNCHANGED <<asked, leader, fenced, base, start, follower, scan, gets, confs, verdict>>
    /\ Watch

-----------------------------------------------------------------------------
\* The follower

Land(n) ==
    /\ n \notin landed /\ (Term(n) = following)
    /\ landed' = landed \cup {n}
    /\ UNCHANGED <<asked, leader, change, following, tree, vector, sample, todo, stable, clear, scan,
                   judge>>

\* What the tree has of a key once it took the writes of S, and let markers go up to a stable point.
Taken(S, upto) ==
    [k \in Keys |->
        LET n == Max({tree[k], Newest(S, k)})
        IN IF n # 0 /\ Deletes(n) /\ (~Marker \/ n <= upto) THEN 0 ELSE n]

\* Without applied words: all that has landed without a gap.
Prefix == {n \in landed : InOrder(n, landed)}

Line(i, S) == {n \in S : Term(n) = following /\ Stream(n) = i}

\* One line of a READ of the applied words.  When the last one came, and the entries have landed, the tree
\* takes them in one step.
ReadApplied(i) ==
    /\ Rule = "window" /\ scan.step \in {"none", "asked"}
    /\ i \in (IF todo = {} THEN Streams ELSE todo)
    /\ LET found == sample \cup Line(i, IF ByApplied THEN applied ELSE Prefix)
           left == (IF todo = {} THEN Streams ELSE todo) \ {i}
           seen == IF todo = {} \/ ~StableBefore THEN StablePoint ELSE stable
           bound == IF CommitBound THEN CommittedWords ELSE applied
           before == IF todo = {} THEN {} ELSE clear
           over == Line(i, bound) \ found # {}
       IN /\ todo' = left
          /\ clear' = CASE ~TwoSamples /\ left = {} /\ scan.step = "asked" -> Streams
                        [] ~TwoReads /\ scan.step = "asked" -> before \cup IF over THEN {} ELSE {i}
                        [] OTHER -> {}
          /\ IF left = {} THEN
                 /\ found \subseteq landed
                 /\ vector' = found /\ tree' = Taken(found \ vector, seen) /\ sample' = {} /\ stable' = 0
             ELSE
                 /\ sample' = found /\ stable' = seen /\ UNCHANGED <<vector, tree>>
    /\ UNCHANGED <<asked, leader, change, landed, following, scan, judge>>

\* One line of the READ of the committed words.  A conflict, or an entry that has not landed: not this time.
ReadCommitted(i) ==
    /\ Rule = "window" /\ TwoSamples /\ TwoReads
    /\ scan.step = "asked" \/ (~SampleInCall /\ scan.step = "none")
    /\ todo = {} /\ i \notin clear
    /\ \A n \in Line(i, IF CommitBound THEN CommittedWords ELSE applied) \ vector :
        IF n \in landed THEN Key(n) \notin RangeOf(PageOf(TreeTable)) ELSE ~WaitForLanded
    /\ clear' = clear \cup {i}
    /\ UNCHANGED <<asked, leader, change, landed, following, tree, vector, sample, todo, stable, scan,
                   judge>>

\* The follower takes over the start set of the second leader, whose streams begin at zero.
Adopt ==
    /\ fenced /\ following = 1
    /\ following' = 2 /\ landed' = start \cup {n \in landed : n > base}
    /\ tree' = Taken(IF TailApplied THEN start \ vector ELSE {}, base)
    /\ vector' = {} /\ sample' = {} /\ todo' = {} /\ stable' = 0 /\ clear' = {}
    /\ UNCHANGED <<asked, leader, change, scan, judge>>

-----------------------------------------------------------------------------
\* The client

\* It names the term that it knows of, which may be over.  A request that fails is sent again.
Ask(t) ==
    /\ t = 2 => serving
    /\ \/ scan.step = "none"
       \/ Called /\ t = 2 /\ scan.term = 1
    /\ scan' = [step |-> "asked", term |-> t, page |-> NoPage, cut |-> 0]
    /\ IF scan.step = "none" THEN
           /\ during' = {PageOf(Table(Visible))}
           /\ confs' = Closed(confs, drawn, TRUE)
           /\ clear' = IF SampleInCall THEN {} ELSE clear
       ELSE clear' = {} /\ UNCHANGED <<during, confs>>
    /\ IF TwoSamples /\ TwoReads THEN UNCHANGED <<sample, todo, stable>>
       ELSE sample' = {} /\ todo' = {} /\ stable' = 0
    /\ UNCHANGED <<asked, leader, change, landed, following, tree, vector, gets, verdict>>

Answer ==
    /\ Rule = "window" /\ scan.step = "asked" /\ clear = Streams /\ todo = {}
    /\ TermCheck => scan.term = following
    /\ scan' = [scan EXCEPT !.step = "answered", !.page = PageOf(TreeTable)]
    /\ clear' = {}
    /\ UNCHANGED <<asked, leader, change, landed, following, tree, vector, sample, todo, stable, judge>>

\* The other rules: the csn counter is READ, the stable point is waited for, and the page is that of all csns
\* up to the one or the other.
ReadCounter ==
    /\ Rule # "window" /\ scan.step = "asked"
    /\ scan' = [scan EXCEPT !.step = "counted", !.cut = drawn]
    /\ UNCHANGED <<asked, leader, change, follower, judge>>

AnswerAtCut ==
    /\ Rule # "window" /\ scan.step = "counted" /\ StablePoint >= scan.cut
    /\ LET cut == IF Rule = "counter" THEN scan.cut ELSE StablePoint
       IN scan' = [scan EXCEPT !.step = "answered", !.page = PageOf(Table({n \in landed : n <= cut}))]
    /\ UNCHANGED <<asked, leader, change, follower, judge>>

Leads(t) == t = 2 \/ ~serving

\* The client believes the page if its lease covers the moment.
End ==
    /\ scan.step = "answered" /\ (LeaseCheck => Leads(scan.term))
    /\ scan' = [NoScan EXCEPT !.step = "done"]
    /\ confs' = {<<c[1], NoPage>> : c \in {c \in confs : c[2] = scan.page}}
    /\ verdict' = IF scan.page \in during THEN verdict ELSE "never"
    /\ during' = {}
    /\ UNCHANGED <<asked, leader, change, follower, gets>>

Get(k) ==
    /\ gets < MaxGets /\ gets' = gets + 1
    /\ confs' = Closed({c \in confs : Table(c[1])[k] = Table(Visible)[k]}, drawn, Called)
    /\ UNCHANGED <<asked, leader, change, follower, scan, during, verdict>>

Next ==
    \/ Draw \/ Fence \/ Serve \/ Adopt
    \/ \E n \in Drawn : Commit(n) \/ Store(n) \/ SayCommitted(n) \/ Apply(n) \/ Land(n)
    \/ \E i \in Streams : ReadApplied(i) \/ ReadCommitted(i)
    \/ \E t \in {1, 2} : Ask(t)
    \/ Answer \/ ReadCounter \/ AnswerAtCut \/ End
    \/ \E k \in Keys : Get(k)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
\* Invariants

\* I15: GETs, writes and the page have one order, which is that of real time where one was over before the
\* other began, and that of csns for each key.
Linearizable == confs # {}

\* I15: the page is what the table was at some moment between call and answer.
Instant == verdict # "never"

\* M12: the tree has only what is committed.
Committed == \A k \in Keys : tree[k] \in {0} \cup start \cup {n \in committed : fenced => n > base}

\* I15: the tree has of each key what the vector says.
Exact == TreeTable = Table(vector \cup IF following = 2 THEN start ELSE {})

-----------------------------------------------------------------------------
\* Plans.  The first write is of stream 1: streams differ by nothing else.

OneWrite == {<<<<1, k, "put">>>> : k \in Keys}
TwoWrites == {<<<<1, k, "put">>, <<i, j, what>>>> : k, j \in Keys, i \in Streams, what \in {"put", "del"}}
Writes == {<<i, k, what>> : i \in Streams, k \in Keys, what \in {"put", "del"}}
ThreeWrites == {<<<<1, 1, "put">>, b, c>> : b, c \in Writes}
Rewritten == {<<<<1, 2, "put">>, <<1, 2, "put">>>>}
Undone == {<<<<1, 1, "put">>, <<1, 1, "del">>, <<2, 2, "put">>>>}
=============================================================================
