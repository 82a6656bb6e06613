//! Faults that tests build in on purpose: a check that no fault can fail shows nothing.
//!
//! Without the feature `mutants` there are none, and the compiler knows it. With it, `LONGARM_MUTANT` names
//! the one that this process has. `cargo x sim --mutants` demands that the simulator, or a test named there,
//! finds each out.

/// A fault, named after the hole in the papers' protocols that it opens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// A write that was sent again runs again (L17 of LoLKV's holes: retries are not idempotent).
    NoDedupe,
    /// A remembered entry counts although it was superseded (HydraDB's address cache without its guard).
    TrustSuperseded,
    /// An acknowledgement of a follower that is not synced counts (L1).
    CountUnsynced,
    /// The start set is gathered from anybody, whatever its sync term (L1).
    GatherAny,
    /// A replica reports before it has revoked the queue pairs of older terms (L6, L7).
    NoFence,
    /// What was seen counts, whether or not the lease still holds (L9).
    NoLease,
    /// A tombstone goes while older entries of its key are stored (L10).
    DropTombstones,
    /// The oldest segments are never emptied, so tombstones stay while any item does.
    NeverSweep,
    /// A move switches the slot whatever it names (L12).
    MoveAnyway,
    /// A new term counts its writes from the beginning (L13).
    ResetCsn,
    /// What lies beyond the start set stays (L16).
    NoCut,
    /// What clients may still ask for counts as too old for that as soon as there is another leader (L17).
    AgeAtOnce,
    /// A client is taken to repeat nothing before the operation that it sends (L17).
    RepeatNothing,
    /// A conditional write does not keep others away until it is applied (L18).
    ShareStripes,
    /// A follower that is synced is not given claims that are younger than the table it was sent.
    ForgetClaims,
    /// What was pushed counts as landed once it has completed, though others WRITE there over other
    /// connections (the acknowledgement window: L6).
    NoDrain,
    /// What a standby index has of a segment stays when that is claimed anew (decision 14).
    KeepGone,
    /// A promise is not kept on disk (L2).
    ForgetPromise,
    /// A replica reports inside its promise to the leader (L8).
    ReportInside,
    /// A follower that was kept from its core takes that for its leader's silence (decision 20).
    BlameOwnAbsence,
    /// A client takes its clock to go exactly as the server's does (X4).
    NoDrift,
    /// A replica helps one that knows of an older set of replicas than itself to lead (M14).
    OldMembers,
    /// Other replicas are agreed on as soon as one has kept that (M14).
    AgreeAlone,
    /// A pair has MOVED before its records stand in the next table (C5).
    MoveFirst,
    /// A record moves within its pair, and a reader that finds it in neither slot is not told to ask (B1).
    MoveUnseen,
    /// The slots of a pair that has MOVED are not wiped, so who remembers one goes on finding its record.
    LeaveSlots,
    /// An entry is moved again while its first copy waits for acknowledgements.
    MoveTwice,
    /// A replica whose disk says nothing takes that for its first start (L2, decision 18).
    FoundAnyway,
    /// A promise is not kept with those that may found the group (L2, decision 18).
    ForgetFounders,
    /// A disk that holds nothing counts as empty, whatever the disk before it had (L2, decision 18).
    FoundByDisk,
    /// A replica that lost its memory votes with what its disk has, though it acknowledged from memory (D6).
    VoteCold,
    /// An election from disks does not wait for all replicas (D6).
    ColdMajority,
    /// A replica that leads from its disk keeps what only its memory has (D6).
    KeepWarmTail,
    /// A leader from a disk draws versions above the ceiling of that disk alone (D3).
    OwnCeiling,
    /// A follower is not told which versions a leader from a disk gave up (D3).
    UntoldCeiling,
    /// A start set from a disk is taken for one that others may have, too (D6).
    ShareDisk,
    /// The window goes by the disk of the leader alone (D2).
    NotedAlone,
    /// The window goes by the moment of a note, not by the version up to which it covers everything (D2).
    CoverMoment,
    /// The file of a follower becomes a mixture while the leader's has less of the term (D2).
    MixAhead,
    /// All files of a group become mixtures at once, while it forms from a disk (D2).
    MixTogether,
    /// The scrub takes what is not to be in the file yet for lost (D9).
    ScrubBeyond,
    /// What a replica promised is not yet on disk when it says so (L2).
    NoSync,
    /// A leader that syncs a follower anew finds its own older connections there (M1).
    KeepWriters,
    /// The fence does not wait for whoever is being let in (M1).
    NoEntering,
    /// The heart tells a follower floors of its own term before it holds that term's start set.
    RaiseFloors,
    /// A follower lets go of a segment before it has what made that needless.
    ReleaseEarly,
    /// A follower that lets go of segments is not told of their count.
    UntoldCount,
    /// Streams that nobody reported are not cut (L16).
    KeepUncut,
    /// Collection copies a delete, or a saved outcome, that is not applied yet (L11).
    MoveUnapplied,
    /// The copy of a moved entry has its place after the look at the slot only (rule DraftFirst).
    LookFirst,
    /// The stable point is as high as the lowest write under way (M10).
    StableHigh,
    /// A follower that is gone goes on counting as synced while it is synced anew (L1).
    CountGone,
    /// What a write found that left no entry is told without a lease (L9).
    TellAnyway,
    /// A standby index stays though it goes beyond the cut (L16, decision 14).
    KeepBeyond,
    /// An entry is superseded only after the slot names another (decision 5).
    LateSupersede,
    /// A leader that another is to replace reports inside its own lease: it neither waits for its end nor
    /// keeps the promise that it asks of others (M6, L8).
    ReportAtOnce,
    /// A new leader's calendar is its host's, whatever was told gone by earlier ones' (decision 16).
    OwnCalendar,
    /// A follower that counts itself synced has no floors until the leader tells it some: what was reclaimed
    /// is a gap to it (L6).
    AdoptBare,
    /// A follower is told floors that do not cover what it let go of while it was being synced (L6).
    AdoptEarly,
    /// What a follower has of the term is pushed to it once more, with other superseded bits than those by
    /// which its standby index counts (decision 14).
    PushAnew,
    /// A follower that comes back is not told the floors that it left with: what was reclaimed since is a gap
    /// to it (L6).
    SkipFloors,
    /// What a follower acknowledges while it is let go counts, though it may have left with less (L6).
    CountLeaving,
    /// A follower counts itself synced before all that was pushed to it has arrived (M3).
    AdoptUnflushed,
    /// A stream that a follower passed over when it reported is not cut, and goes into its standby index
    /// before it counts (L16, decision 14).
    PassUncut,
    /// What a replica was counted for stays in its page when it is cut off there, and is reported again
    /// (L16).
    KeepFloors,
    /// A replica that is catching up has floors as before: what its leader freed is a gap above
    /// them (L6).
    LeaveGaps,
    /// A start set with a gap is taken for one that followers of its base have, too (L16).
    HideGaps,
    /// What was found in a segment is pushed to a follower that has let go of it meanwhile (M9).
    PushOver,
    /// It is told that an item's time is over while a write that found it alive is under way (decision 16).
    TellGone,
    /// A maintenance thread sleeps before it has sent what it wrote; a leader that hands over waits for it
    /// (I20).
    SleepUnsent,
    /// A leader whose lease is over says what it answered before to a request that left no entry (L17).
    RecallAnyway,
    /// A follower that had let go of a segment which its leader still has is given its line alone (L16).
    TrustTable,
    /// A follower is given the line of a segment as it is at the moment, open or sealed, over two connections
    /// at once.
    LineAsItIs,
    /// A follower that comes back to its leader takes segments into its standby index while the leader pushes
    /// them, lines before content (decision 14).
    LookMeanwhile,
    /// A follower that is caught up is pushed what streams send to it, too (decision 14).
    PushTwice,
    /// What a stream sent counts as landed once it has completed, when its segment is released (the
    /// acknowledgement window: L6).
    TrustCompletion,
    /// A follower is given the lines of segments that it had let go of before their content (L16).
    LinesFirst,
    /// A follower that comes back in the same term is told its floors once it is in sync: its disk waits for
    /// what was reclaimed, and it waits for its disk.
    FloorsLast,
    /// Who waits for an answer does not look whether the other end is still there (I20).
    AskOnce,
    /// A follower is given the content of a segment under the line of its older use.
    ContentUnderLine,
    /// A candidate that has a segment in its next use takes entries of the older one (M3).
    FetchOlder,
    /// A client that walks over a tree does not READ what is committed (decision 32).
    WalkNoBound,
    /// A client that walks over a tree does not look at its leaves again (decision 32).
    WalkNoMarks,
    /// A step's flush stores left nodes before the right ones that they name (B2).
    LeftFirst,
    /// A reader does not compare the generation of a node with that of the pointer (B2).
    NoGeneration,
    /// A reader takes a leaf that was changed after the step that it looks at (B6).
    NodeLater,
    /// A reader does not compare the fences of neighbours (B2).
    NoAdjoin,
    /// A page is shown whatever the leader has committed meanwhile (decision 30).
    ScanNoWindow,
    /// What was applied, and not what was committed, bounds what may show besides the tree (decision 30).
    ScanAppliedBound,
    /// A stream says that entries are committed only when they are applied, after their slots (decision 30).
    CommitLate,
    /// The tree takes what its replica has, applied by the leader or not (M12).
    TreeByFloor,
    /// A delete leaves no marker in the tree, so that an older write which comes later is there again.
    TreeDropMarker,
    /// A tree goes on in the next term without what it lacked of the one before.
    TreeForgetTail,
    /// A page is judged by what a READ found committed before the request for it came (decision 30).
    ScanOldSample,
    /// A committed entry that has not landed at the replica is taken not to touch any page (decision 30).
    ScanSkipUnlanded,
    /// A replica answers whatever term the client names (decision 30).
    ScanAnyTerm,
    /// A page begins with the last key of the page before it.
    TokenAgain,
    /// A replica does not look at the marks of leaves when a page is looked at again (decision 34).
    RecheckUnmarked,
    /// A client takes its pages together as they are, and has none looked at again (decision 34).
    TogetherUnchecked,
    /// A snapshot does not keep what a key was before it changed (decision 36).
    SnapshotForgets,
    /// A moment is kept whatever the leader has committed meanwhile (decision 36).
    SnapshotUnchecked,
    /// The tree passes over an entry that was reclaimed before it was taken.
    TreeSkipGap,
    /// The tree does not follow copies that collection makes.
    TreeIgnoreMove,
    /// The tree takes the copy of an entry that was deleted or overwritten before.
    TreeMoveAnyway,
    /// Whether segments were reused while a tree was built from them is not looked at.
    BuildOnce,
    /// The tree stays though the replica's memory is written over.
    KeepMixed,
    /// Segments that are claimed while a tree waits for what was applied before are not looked at.
    NoteOnce,
    /// What is written counts as this replica's own before it is on disk (D1).
    AckUnsynced,
    /// A note says what the batch is to make true of which it is a part (D1).
    NoteWithBatch,
    /// Writes are taken however far the disk is behind (D2).
    NoWindow,
    /// What is above the version of the note stays after a loss of power (D2).
    KeepBeyondCut,
    /// Versions go on from those that were found, and not above those that may have been drawn (D3).
    ResetCeiling,
    /// What goes at a restart stays in the file (D4).
    KeepInFile,
    /// The disk lets go of a segment before a note covers what made it needless (D5).
    ReuseEarly,
    /// The disk lets go of a segment whose freed line is not in the file (D5).
    LazyFree,
    /// A follower's disk lets go of a segment before a note covers what made it needless (D5).
    FreeUncovered,
    /// A follower lets go of a segment that its disk has in use (D5).
    FreeInMemory,
    /// What a follower has in memory counts before it is on its disk (D1).
    AckFromMemory,
    /// A follower says that it is in sync before its disk is (D1).
    SyncedInMemory,
    /// A replica that began anew with what its disk has is taken to have all that it acknowledged (D1).
    ClaimAcked,
    /// A file that is given another start set does not say so (D4).
    ForgetMixed,
    /// A file is given what its memory has in segments that were used again, and does not say so first (D4).
    WriteOver,
    /// The line of a segment that a file is given again is synced with its entries, and not after them (D4).
    LinesAtOnce,
    /// A replica leads from its file though a leader may have written over what the file alone has (D6).
    LeadOwing,
    /// A follower's disk goes on writing when the memory is about to change (D4).
    DrainAfterReady,
    /// Entries that a next leader cut off stay in the file of a replica that had them (D4).
    KeepCutOff,
    /// What is left of an entry that was cut off stays in the file (D8).
    KeepBroken,
    /// What has landed of an entry that is on its way goes to the file with its neighbours (D8).
    CopyLanding,
    /// A copy of a page that was cut off stays in the file (D4).
    LeaveTorn,
    /// Damage below a floor is taken for the end of a stream (D8).
    TrustRot,
    /// Out of place, a record that was replaced is shown until its slot is wiped (decision 48).
    StayShown,
    /// Out of place, a record is shown before its bit is persistent (decision 48).
    ShowEarly,
    /// Out of place, one look finds a key missing (C1).
    MissAtOnce,
    /// Out of place, a key is missing in a pair that is being changed (decision 48).
    MissLocked,
    /// Out of place, a slot that has a bit and nothing in it is passed over (C1).
    SkipWiped,
    /// Records that a loss of power left hidden stay so (decision 48).
    LeaveHidden,
    /// The line of a segment in persistent memory is not written back before an entry is in it (M13).
    ForgetLines,
    /// The line of a segment in persistent memory changes when the segment is sealed (M13).
    SealLines,
    /// A table in persistent memory is used whose place is not persistent (M13).
    ForgetGeometry,
    /// An entry that is moved in a full pair is not noted before its slot is emptied (M13).
    MoveUnnoted,
    /// A server that goes on from persistent memory draws versions from where the tables end (M13).
    DrawAgain,
    /// The time that a server with persistent memory tells is not persistent (M13).
    ForgetTime,
    /// A server that goes on from persistent memory does not wait for the calendar of its last life (M13).
    RunAhead,
    /// A backup reads which segments there are before it has the version that it is of (M16).
    ListFirst,
    /// A backup lets go of a segment before it is copied (M16).
    LetGoUncopied,
    /// A backup takes what is above its version (M16).
    TakeBeyond,
    /// A backup is of the stable point as it begins, which writes under way hold down (M16).
    BackUpBehind,
    /// A segment waits for a backup for ever (M16).
    HoldForever,
}

impl Mutant {
    /// Whether this process has it.
    #[cfg(not(feature = "mutants"))]
    #[inline(always)]
    pub const fn is_on(self) -> bool {
        false
    }

    /// Whether this process has it.
    #[cfg(feature = "mutants")]
    pub fn is_on(self) -> bool {
        use std::sync::atomic::{AtomicBool, Ordering};

        static ON: std::sync::LazyLock<Option<String>> =
            std::sync::LazyLock::new(|| std::env::var("LONGARM_MUTANT").ok());
        /// Those that were asked about and are off: names are compared once.
        static OFF: [AtomicBool; 256] = [const { AtomicBool::new(false) }; 256];
        let Some(on) = &*ON else { return false };
        let off = &OFF[self as usize];
        // Relaxed: whoever does not see it compares once more.
        if off.load(Ordering::Relaxed) {
            return false;
        }
        let is_on = *on == format!("{self:?}");
        // Relaxed: as above.
        off.store(!is_on, Ordering::Relaxed);
        is_on
    }
}
