----------------------------- MODULE ScanClient -----------------------------
(***************************************************************************)
(* A page by the client alone: it READs the follower's tree, and the       *)
(* leader's committed words.  No server's thread has a part in it.         *)
(*                                                                         *)
(* The table, the leader and the judge are those of Scan.  Here the        *)
(* follower's tree is nodes: a header and two places for leaves.  A leaf   *)
(* says which keys it covers (its fences), in which step it changed last,  *)
(* and with which generation its place is used; whoever points to a leaf   *)
(* names the generation.  One step of the owner takes what one READ of the *)
(* applied words found.  It writes new leaves at the right before the      *)
(* leaves that they came from, and the header, with the vector, last.      *)
(*                                                                         *)
(* The client READs the header, leaves (from any pointer that ever was:    *)
(* its cache may be old), and the committed words.  If these show more     *)
(* than the header's vector had, it READs the header until the tree has    *)
(* all that, and then looks whether a leaf that it used has changed.       *)
(* Inner nodes only help to find leaves, and are not modelled.  A leaf is  *)
(* READ whole: a torn one does not verify.                                 *)
(***************************************************************************)
EXTENDS Scan

CONSTANTS
    \* The rules that mutants break.
    HeaderTerm,    \* the header is of the term whose leader the client has its lease on
    HeaderLast,    \* the header is written after the leaves of its step
    StepCheck,     \* a leaf that changed after the header's step does not count
    Adjoin,        \* the next leaf begins where the one before ends, and the last has no end
    TouchAll,      \* a leaf changes if an entry counts in it, even if a later one of the step undoes that
    Generation,    \* a leaf counts only with the generation that the pointer names
    Bound,         \* the committed words are READ
    Marks,         \* leaves are looked at again if the committed words show more
    MarksLast      \* ... after the header that has all that was READ

VARIABLES
    header,        \* [term, step, vector]
    leaf,          \* leaf[p]: [generation, step, low, high, items]
    flush,         \* what the owner still has to write, in order: <<place, leaf>>, or <<0, header>>
    split,         \* whether place 2 is in use
    walk           \* the client's walk

own == <<header, leaf, flush, split, walk>>
all == <<vars, own>>

\* As a leaf's upper fence: there is none.
NoEnd == 3
Places == {1, 2}
Nowhere == [generation |-> 0, step |-> 0, low |-> 0, high |-> 0, items |-> <<0, 0>>]
NoWalk == [step |-> "none", term |-> 0, at |-> 0, vector |-> {}, got |-> <<Nowhere, Nowhere>>, used |-> {},
           words |-> {}, todo |-> {}]

InitClient ==
    /\ Init
    /\ header = [term |-> 1, step |-> 0, vector |-> {}]
    /\ leaf = <<[Nowhere EXCEPT !.low = 1, !.high = NoEnd], Nowhere>>
    /\ flush = <<>> /\ split = FALSE /\ walk = NoWalk

-----------------------------------------------------------------------------
\* The owner of the tree

Within(low, high, table) == [k \in Keys |-> IF low <= k /\ k < high THEN table[k] ELSE 0]

\* The leaves of the next step, in the order in which they are written.  A leaf changes if an entry counts in
\* it, or a marker goes, or its fences change.  An older entry than the tree has does not count.
Changes(next, taken, step) ==
    LET new(low, high, g) ==
            [generation |-> g, step |-> step, low |-> low, high |-> high, items |-> Within(low, high, next)]
        counts(k) == Newest(taken, k) > tree[k]
        changed(p) ==
            \/ Within(leaf[p].low, leaf[p].high, next) # leaf[p].items
            \/ TouchAll /\ \E k \in Keys : leaf[p].low <= k /\ k < leaf[p].high /\ counts(k)
        same(p) ==
            IF changed(p) THEN <<<<p, new(leaf[p].low, leaf[p].high, leaf[p].generation)>>>> ELSE <<>>
    IN IF ~split THEN
           {[split |-> FALSE, row |-> same(1)],
            [split |-> TRUE, row |-> <<<<2, new(2, NoEnd, leaf[2].generation)>>, <<1, new(1, 2, 0)>>>>]}
       ELSE
           {[split |-> TRUE, row |-> same(2) \o same(1)],
            [split |-> FALSE, row |-> <<<<1, new(1, NoEnd, 0)>>,
                                        <<2, [leaf[2] EXCEPT !.generation = @ + 1]>>>>]}

\* Taking a sample or a start set begins a step, unless nothing came with it.
Step ==
    LET next == [term |-> following', step |-> header.step + 1, vector |-> vector']
        taken == (IF following' = following THEN vector' ELSE start) \ vector
    IN IF vector' = vector /\ following' = following THEN UNCHANGED <<flush, split>>
       ELSE \E new \in Changes(tree', taken, next.step) :
           /\ split' = new.split
           /\ flush' = IF HeaderLast THEN Append(new.row, <<0, next>>) ELSE <<<<0, next>>>> \o new.row

Feed ==
    /\ flush = <<>>
    /\ Adopt \/ \E i \in Streams : ReadApplied(i)
    /\ Step
    /\ UNCHANGED <<header, leaf, walk>>

WriteNext ==
    /\ flush # <<>> /\ flush' = Tail(flush)
    /\ LET place == Head(flush)[1]
           what == Head(flush)[2]
       IN IF place = 0 THEN header' = what /\ UNCHANGED leaf
          ELSE leaf' = [leaf EXCEPT ![place] = what] /\ UNCHANGED header
    /\ UNCHANGED <<vars, split, walk>>

-----------------------------------------------------------------------------
\* The client

Mine == <<header, leaf, flush, split>>

ReadHeader ==
    /\ scan.step = "asked" /\ walk.step = "none" /\ (HeaderTerm => header.term = scan.term)
    /\ walk' = [NoWalk EXCEPT !.step = "leaves", !.term = scan.term, !.at = header.step,
                              !.vector = header.vector]
    /\ UNCHANGED <<vars, Mine>>

\* A pointer names a place and a generation; all that ever were are tried.
ReadLeaf(p, g) ==
    /\ walk.step = "leaves" /\ p \notin walk.used
    /\ g <= leaf[p].generation
    /\ Generation => g = leaf[p].generation
    /\ leaf[p].high # 0 /\ leaf[p].high > from
    /\ StepCheck => leaf[p].step <= walk.at
    /\ walk' = [walk EXCEPT !.got[p] = leaf[p], !.used = @ \cup {p}]
    /\ UNCHANGED <<vars, Mine>>

\* The leaves that were READ cover the range from its first key to its end, without a gap.
First(p) == p \in walk.used /\ walk.got[p].low <= from
Covers(p, q) ==
    /\ First(p)
    /\ IF Adjoin THEN
           IF p = q THEN walk.got[p].high = NoEnd
           ELSE q \in walk.used /\ walk.got[q].low = walk.got[p].high /\ walk.got[q].high = NoEnd
       ELSE q \in walk.used

Walked ==
    /\ walk.step = "leaves"
    /\ \E p, q \in Places :
        /\ Covers(p, q)
        /\ walk' = [walk EXCEPT !.step = IF Bound THEN "words" ELSE "ready", !.used = {p, q},
                                !.todo = IF Bound THEN Streams ELSE {},
                                !.got = [r \in Places |-> IF r \in {p, q} THEN @[r] ELSE Nowhere]]
    /\ UNCHANGED <<vars, Mine>>

\* A line of the leader that the client has its lease on.
ReadWord(i) ==
    /\ walk.step = "words" /\ i \in walk.todo
    /\ LET words == walk.words \cup {n \in CommittedWords : Term(n) = walk.term /\ Stream(n) = i}
           left == walk.todo \ {i}
           same == words \subseteq walk.vector
       IN walk' =
           CASE left # {} -> [walk EXCEPT !.words = words, !.todo = left]
             [] same \/ ~Marks -> [walk EXCEPT !.step = "ready", !.words = {}, !.todo = {}]
             [] MarksLast -> [walk EXCEPT !.step = "header", !.words = words, !.todo = {}]
             [] OTHER -> [walk EXCEPT !.step = "marks", !.words = words, !.todo = walk.used]
    /\ UNCHANGED <<vars, Mine>>

ReadHeaderAgain ==
    /\ walk.step = "header" /\ (HeaderTerm => header.term = walk.term) /\ walk.words \subseteq header.vector
    /\ walk' = IF MarksLast THEN [walk EXCEPT !.step = "marks", !.todo = walk.used]
               ELSE [walk EXCEPT !.step = "ready", !.words = {}]
    /\ UNCHANGED <<vars, Mine>>

ReadMark(p) ==
    /\ walk.step = "marks" /\ p \in walk.todo
    /\ leaf[p].generation = walk.got[p].generation /\ leaf[p].step = walk.got[p].step
    /\ LET left == walk.todo \ {p}
       IN walk' = [walk EXCEPT !.todo = left,
                               !.step = CASE left # {} -> "marks"
                                          [] MarksLast -> "ready"
                                          [] OTHER -> "header"]
    /\ UNCHANGED <<vars, Mine>>

\* What was READ does not fit: all again.
Again ==
    /\ walk.step # "none" /\ walk' = NoWalk
    /\ UNCHANGED <<vars, Mine>>

Found ==
    [k \in Keys |->
        Max({Left(walk.got[p].items[k]) : p \in walk.used})]

Ready ==
    /\ walk.step = "ready" /\ scan.step = "asked" /\ walk.term = scan.term
    /\ scan' = [scan EXCEPT !.step = "answered", !.page = PageOf(Found)]
    /\ walk' = NoWalk
    /\ UNCHANGED <<asked, leader, change, follower, judge, Mine>>
Beside ==
    \/ Draw \/ Fence \/ Serve \/ End
    \/ \E n \in Drawn : Commit(n) \/ Store(n) \/ SayCommitted(n) \/ Apply(n) \/ Land(n)
    \/ \E t \in {1, 2} : Ask(t)
    \/ \E k \in Keys : Get(k)

NextClient ==
    \/ Beside /\ UNCHANGED own
    \/ Feed \/ WriteNext
    \/ ReadHeader \/ Walked \/ ReadHeaderAgain \/ Again \/ Ready
    \/ \E p \in Places : ReadMark(p) \/ \E g \in 0..leaf[p].generation : ReadLeaf(p, g)
    \/ \E i \in Streams : ReadWord(i)

SpecClient == InitClient /\ [][NextClient]_all
=============================================================================
