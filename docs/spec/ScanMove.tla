------------------------------ MODULE ScanMove ------------------------------
(***************************************************************************)
(* Copies that collection made, in the follower's tree of Scan.            *)
(*                                                                         *)
(* The tree says of a key which version it has, and at which place the     *)
(* entry of that version lies.  Collection copies an entry to another      *)
(* place, under the old csn, and frees the old one.  The copy is an entry  *)
(* of another stream, so a vector may have a copy and not the write that   *)
(* it is a copy of.  And it may be applied after the key was deleted, when *)
(* the tree's marker of that delete is gone.                               *)
(*                                                                         *)
(* One key.  Writes 1 and 2 are known by their csns, copies by the numbers *)
(* that follow; each lies at the place of its number, and a younger copy   *)
(* of a version has a higher number.  Whether a page may be answered is    *)
(* Scan's matter: it only asks what the tree has where all that is         *)
(* committed of the key is in the vector.                                  *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Copies,        \* so many are made
    Seconds,       \* what the second write is: "put", "del"; a run takes one
    Ways,          \* its stream: 1, as the first, or 2; a run takes one

    \* The rules that mutants break.
    AboveStable,   \* a copy whose key the tree does not have counts only above the stable point
    StableOfTree,  \* that is the one of the tree before the step, not the one of the step's own sample
    Early,         \* such a copy counts: its write comes later
    ByAge,         \* of one version the youngest copy counts
    Marker,        \* a delete leaves a marker
    GapsSeen       \* an entry that is gone before the tree took it is not passed over

VARIABLES
    second, way,
    entries,       \* entries that are written
    csn, source,   \* of each: the version, and the place that it is a copy of (0: a write)
    committed, stored, applied,
    slot,          \* the leader's slot: the place that it names, or 0
    gone,          \* places that are in use by something else
    tree,          \* [csn, place]; csn 0: the tree has nothing, place 0: a marker
    vector, sample, todo,
    stable,        \* the stable point that the sample began with
    upto           \* that of the sample that the tree took last

plan == <<second, way>>
leader == <<entries, csn, source, committed, stored, applied, slot, gone>>
follower == <<tree, vector, sample, todo, stable, upto>>
vars == <<plan, leader, follower>>

Writes == {1, 2}
All == 1..(2 + Copies)
Streams == {1, 2, 3}
None == [csn |-> 0, place |-> 0]

StreamOf(e) == CASE e = 1 -> 1 [] e = 2 -> way [] OTHER -> 3
Deletes(e) == e = 2 /\ second = "del"
Max(S) == CHOOSE x \in S \cup {0} : \A y \in S : y <= x
Earlier(e) == {d \in entries : d < e /\ StreamOf(d) = StreamOf(e)}

Init ==
    /\ second \in Seconds /\ way \in Ways
    /\ entries = {} /\ csn = [e \in All |-> 0] /\ source = [e \in All |-> 0]
    /\ committed = {} /\ stored = {} /\ applied = {} /\ slot = 0 /\ gone = {}
    /\ tree = None /\ vector = {} /\ sample = {} /\ todo = {} /\ stable = 0 /\ upto = 0

-----------------------------------------------------------------------------
\* The leader

\* A delete waits until no write of its key is under way.
Draw(n) ==
    /\ n \notin entries /\ (n = 2 => 1 \in entries) /\ (Deletes(n) => 1 \in stored)
    /\ entries' = entries \cup {n} /\ csn' = [csn EXCEPT ![n] = n]
    /\ UNCHANGED <<plan, source, committed, stored, applied, slot, gone, follower>>

\* What the slot names is copied, once at a time.
Copy ==
    /\ slot # 0 /\ \A e \in entries \ stored : source[e] # slot
    /\ \E e \in All \ Writes :
        /\ e \notin entries /\ \A d \in 3..(e - 1) : d \in entries
        /\ entries' = entries \cup {e}
        /\ csn' = [csn EXCEPT ![e] = csn[slot]] /\ source' = [source EXCEPT ![e] = slot]
    /\ UNCHANGED <<plan, committed, stored, applied, slot, gone, follower>>

Commit(e) ==
    /\ e \in entries \ committed /\ Earlier(e) \subseteq committed
    /\ committed' = committed \cup {e}
    /\ UNCHANGED <<plan, entries, csn, source, stored, applied, slot, gone, follower>>

\* A copy takes the slot only from the very place that it copied.
Store(e) ==
    /\ e \in committed \ stored /\ Earlier(e) \subseteq applied
    /\ stored' = stored \cup {e}
    /\ slot' = CASE source[e] # 0 -> IF slot = source[e] THEN e ELSE slot
                 [] Max({csn[d] : d \in stored \cap Writes}) > csn[e] -> slot
                 [] OTHER -> IF Deletes(e) THEN 0 ELSE e
    /\ UNCHANGED <<plan, entries, csn, source, committed, applied, gone, follower>>

Apply(e) ==
    /\ e \in stored \ applied /\ applied' = applied \cup {e}
    /\ UNCHANGED <<plan, entries, csn, source, committed, stored, slot, gone, follower>>

\* What no slot names is given back.  The follower has all that made it needless, but its tree may not.
Free(e) ==
    /\ e \in applied \ gone /\ slot # e /\ ~Deletes(e)
    /\ \A d \in entries : source[d] = e => d \in applied
    /\ gone' = gone \cup {e}
    /\ UNCHANGED <<plan, entries, csn, source, committed, stored, applied, slot, follower>>

StablePoint ==
    LET under == {n \in entries \cap Writes : n \notin applied}
    IN IF under = {} THEN Max(entries \cap Writes) ELSE Max({n \in Writes : \A m \in under : n < m})

-----------------------------------------------------------------------------
\* The follower

\* Of the entries of a step, the one that counts: the highest version, and its youngest copy.
Best(S) ==
    LET high == Max({csn[e] : e \in S})
    IN Max({e \in S : csn[e] = high})

Taken(S, by) ==
    LET e == Best(S)
    IN CASE S = {} -> tree
         [] tree.csn > csn[e] -> tree
         [] tree.csn = csn[e] ->
                IF tree.place # 0 /\ (e > tree.place \/ ~ByAge) THEN [tree EXCEPT !.place = e] ELSE tree
         [] source[e] # 0 /\ (~Early \/ (AboveStable /\ csn[e] <= by)) -> tree
         [] Deletes(e) -> IF Marker THEN [csn |-> csn[e], place |-> 0] ELSE None
         [] OTHER -> [csn |-> csn[e], place |-> e]

\* Markers go when nothing older can come any more.
Pruned(t, by) == IF t.csn # 0 /\ t.place = 0 /\ t.csn <= by THEN None ELSE t

ReadApplied(i) ==
    /\ i \in (IF todo = {} THEN Streams ELSE todo)
    /\ LET found == sample \cup {e \in applied : StreamOf(e) = i}
           left == (IF todo = {} THEN Streams ELSE todo) \ {i}
           seen == IF todo = {} THEN StablePoint ELSE stable
           new == found \ vector
       IN /\ todo' = left
          /\ IF left = {} THEN
                 /\ GapsSeen => new \cap gone = {}
                 /\ tree' = Pruned(Taken(new \ gone, IF StableOfTree THEN upto ELSE seen), seen)
                 /\ vector' = found /\ sample' = {} /\ stable' = 0 /\ upto' = seen
             ELSE sample' = found /\ stable' = seen /\ UNCHANGED <<tree, vector, upto>>
    /\ UNCHANGED <<plan, leader>>

Next ==
    \/ Copy
    \/ \E n \in Writes : Draw(n)
    \/ \E e \in entries : Commit(e) \/ Store(e) \/ Apply(e) \/ Free(e)
    \/ \E i \in Streams : ReadApplied(i)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
\* Invariants

\* I15: where no committed write is missing in the vector, the tree has the version that GETs find.
Agrees ==
    LET newest == Max(vector \cap Writes)
    IN committed \cap Writes \subseteq vector =>
           IF newest = 0 \/ Deletes(newest) THEN tree.place = 0 ELSE tree.csn = newest /\ tree.place # 0

\* I16: if the entry is not at its place any more, then what says so is still to come.
Placed ==
    tree.place \in gone =>
        \E e \in stored \ vector : csn[e] > tree.csn \/ (csn[e] = tree.csn /\ e > tree.place)
=============================================================================
