//! Forged logs: each rule lets a lawful run pass, and finds what breaks it.

mod members;

use longarm_base::{Csn, Nanos, RegionId, ReplicaId, Term};
use longarm_host::observe::Observation;
use longarm_wire::{ARENA_REGION, PAGE_REGION, RING_REGION};

use super::Judge;
use crate::replicas::QUICK;
use crate::world::Drift;

const MS: u64 = 1_000_000;
const KEY: u64 = 0xAB;

fn term(counter: u32, node: u8) -> Term {
    Term::new(counter, ReplicaId(node))
}

/// Three replicas, two that may be added, and clocks that go right.
struct Log {
    judge: Judge,
    time: u64,
    members: Vec<u8>,
}

impl Log {
    fn new() -> Log {
        Log::that_loses(None)
    }

    fn that_loses(window: Option<Nanos>) -> Log {
        Log { judge: Judge::new(5, QUICK, &[Drift::default(); 5], window), time: 0, members: vec![0, 1, 2] }
    }

    /// A tenth of a millisecond later something happens on a machine.
    fn on(&mut self, machine: u32, event: Observation) -> &mut Log {
        self.time += MS / 10;
        self.judge.hear(Nanos(self.time), machine, &event);
        self
    }

    fn pass(&mut self, time: u64) -> &mut Log {
        self.time += time;
        self
    }

    fn report(&mut self, machine: u32, of: Term, sync: Term, lens: &[u64]) -> &mut Log {
        let (lens, reclaimed, mixed) = (lens.to_vec(), 0, false);
        self.on(machine, Observation::Promised { term: of })
            .on(machine, Observation::Fenced { term: of })
            .on(machine, Observation::Reported { term: of, sync, lens, reclaimed, mixed })
    }

    /// All elect a leader from their disks; its own has the stream of the base up to the cut, and all up to
    /// this version.
    fn install_from_disk(&mut self, of: Term, base: Term, cut: u64, stable: u64) -> &mut Log {
        for machine in 0..3 {
            let (sync, lens, reclaimed, mixed) = (base, vec![0], 0, true);
            self.on(machine, Observation::Promised { term: of })
                .on(machine, Observation::Fenced { term: of });
            self.on(machine, Observation::Reported { term: of, sync, lens, reclaimed, mixed });
        }
        let (cuts, disk) = (vec![cut], Some(Csn(stable)));
        let members = [0, 1, 2].map(ReplicaId).to_vec();
        let installing = Observation::Installing { term: of, base, cuts, mixed: false, disk, members };
        self.on(u32::from(of.leader().0), installing)
    }

    /// Nodes 0 and 1 elect node 0, which installs.
    fn install(&mut self, of: Term, base: Term, cuts: &[u64]) -> &mut Log {
        let leader = u32::from(of.leader().0);
        let other = if leader == 0 { 1 } else { 0 };
        self.report(leader, of, base, cuts).report(other, of, base, cuts);
        self.takes(leader, of, base, cuts)
    }

    fn takes(&mut self, machine: u32, of: Term, base: Term, cuts: &[u64]) -> &mut Log {
        self.takes_what(machine, of, base, cuts, false)
    }

    fn takes_what(&mut self, machine: u32, term: Term, base: Term, cuts: &[u64], mixed: bool) -> &mut Log {
        let members = self.members.iter().map(|&node| ReplicaId(node)).collect();
        self.on(
            machine,
            Observation::Installing { term, base, cuts: cuts.to_vec(), mixed, disk: None, members },
        )
    }

    /// From now on terms have these replicas.
    fn of(&mut self, members: &[u8]) -> &mut Log {
        self.members = members.to_vec();
        self
    }

    fn serve(&mut self, of: Term) -> &mut Log {
        let leader = u32::from(of.leader().0);
        let other = if leader == 0 { 1 } else { 0 };
        self.on(leader, Observation::Adopted { term: of })
            .on(other, Observation::Adopted { term: of })
            .on(leader, Observation::Served { term: of, boot: u64::from(of.counter()) })
    }

    /// A group whose node 0 serves term 1.
    fn serving() -> Log {
        let mut log = Log::new();
        log.install(term(1, 0), Term::ZERO, &[0]).serve(term(1, 0));
        log
    }

    fn wrote(&mut self, machine: u32, position: u64, csn: u64, value: bool) -> &mut Log {
        let write = Some((KEY, value));
        self.on(machine, Observation::Wrote { stream: 0, position, csn: Csn(csn), write })
    }

    fn committed(&mut self, machine: u32, below: u64, by: &[u8]) -> &mut Log {
        let by = by.iter().map(|&node| ReplicaId(node)).collect();
        self.on(machine, Observation::Committed { stream: 0, below, by })
    }

    /// Nodes have it on disk that these are to be the replicas.
    fn kept(&mut self, members: &[u8], by: &[u32]) -> &mut Log {
        for &machine in by {
            let members = members.iter().map(|&node| ReplicaId(node)).collect();
            self.on(machine, Observation::Kept { term: term(1, 0), members });
        }
        self
    }

    fn agreed(&mut self, members: &[u8]) -> &mut Log {
        let members = members.iter().map(|&node| ReplicaId(node)).collect();
        self.on(0, Observation::Agreed { term: term(1, 0), members })
    }

    fn applied(&mut self, machine: u32, position: u64) -> &mut Log {
        self.on(machine, Observation::Applied { stream: 0, position })
    }

    fn shown(&mut self, machine: u32, csn: u64) -> &mut Log {
        self.on(machine, Observation::Shown { key: KEY, csn: Csn(csn) })
    }

    /// A write from its entry to its answer.
    fn put(&mut self, machine: u32, position: u64, csn: u64) -> &mut Log {
        self.wrote(machine, position, csn, true)
            .committed(machine, position + 1, &[1])
            .shown(machine, csn)
            .applied(machine, position)
            .on(machine, Observation::Acknowledged { stream: 0, position })
    }

    /// A lease of so many milliseconds.
    fn leased(&mut self, machine: u32, millis: u64, by: &[u8]) -> &mut Log {
        let by = by.iter().map(|&node| ReplicaId(node)).collect();
        let (renewed, end) = (Nanos(self.time), Nanos(self.time + millis * MS));
        self.on(machine, Observation::Leased { renewed, end, by })
    }

    fn restored(&mut self, machine: u32, csn: u64, value: bool) -> &mut Log {
        self.on(machine, Observation::Restored { key: Some(KEY), csn: Csn(csn), value, by: None })
    }

    #[track_caller]
    fn is_sound(&self) {
        assert_eq!(self.judge.violation(), None);
    }

    #[track_caller]
    fn breaks(&self, rule: &str) {
        let violation = self.judge.violation().expect("a violation");
        assert!(violation.starts_with(rule), "{violation}");
    }
}

#[test]
fn a_lawful_change_of_the_leader_passes() {
    let mut log = Log::serving();
    log.put(0, 0, 1).put(0, 1, 2).leased(0, 4, &[1]).pass(6 * MS);
    log.on(0, Observation::SteppedDown { term: term(1, 0) });
    log.install(term(2, 1), term(1, 0), &[2]).restored(1, 1, true).restored(1, 2, true);
    log.serve(term(2, 1)).wrote(1, 0, 3, false).committed(1, 1, &[0]).shown(1, 0).applied(1, 0);
    log.is_sound();
    assert!(log.judge.heard() > 20);
}

#[test]
fn i1_a_term_has_one_leader_and_a_majority_of_promises() {
    Log::serving().takes(1, term(1, 0), Term::ZERO, &[]).breaks("I1");
    let mut log = Log::new();
    log.report(0, term(1, 0), Term::ZERO, &[]);
    log.takes(0, term(1, 0), Term::ZERO, &[]).breaks("I1");
    let mut log = Log::new();
    log.install(term(1, 0), Term::ZERO, &[]).on(0, Observation::Adopted { term: term(1, 0) });
    log.on(0, Observation::Served { term: term(1, 0), boot: 1 }).breaks("I1");
}

#[test]
fn i1_a_replica_without_its_disk_promises_no_less_than_it_had() {
    let (first, second) = (term(1, 0), term(2, 0));
    let mut log = Log::new();
    log.on(1, Observation::Promised { term: second });
    log.judge.reformatted(1);
    log.on(1, Observation::Started { term: Term::ZERO }).on(1, Observation::Promised { term: second });
    assert_eq!(log.judge.violation(), None, "it has asked");
    log.judge.reformatted(1);
    log.on(1, Observation::Started { term: Term::ZERO }).on(1, Observation::Promised { term: first });
    let violation = log.judge.violation().expect("it has not");
    assert!(violation.starts_with("I1: node 1 promises term 1.0, and had promised 2.0"), "{violation}");
    // A term of its own counts if another replica has promised it, too; else it never was (group-reformat,
    // seed 61246).
    let after = |others: &[u32]| {
        let mut log = Log::new();
        log.on(0, Observation::Promised { term: first }).on(1, Observation::Promised { term: term(1, 1) });
        others.iter().for_each(|&other| _ = log.on(other, Observation::Promised { term: term(1, 1) }));
        log.judge.reformatted(1);
        log.on(1, Observation::Started { term: Term::ZERO }).on(1, Observation::Promised { term: first });
        log.judge.violation().is_none()
    };
    assert!(after(&[]));
    assert!(!after(&[2]));
}

#[test]
fn i9_a_report_of_a_candidate_that_lost_its_disk_never_was() {
    // Candidate 1 reports for a term of its own, and the leader of the term before counts on it later
    // (power-five, seed 20007).
    let after = |lost: bool, others: &[u32]| {
        let (mut log, own) = (Log::serving(), term(2, 1));
        [1].iter().chain(others).for_each(|&by| _ = log.report(by, own, term(1, 0), &[0]));
        if lost {
            log.judge.reformatted(1);
        }
        log.leased(0, 4, &[1]).judge.violation().is_none()
    };
    assert!(after(true, &[]));
    assert!(!after(false, &[]), "it has its promise");
    assert!(!after(true, &[2]), "another knows of it");
}

#[test]
fn i1_a_promise_outlives_a_loss_of_memory() {
    Log::serving().on(1, Observation::Started { term: term(1, 0) }).is_sound();
    Log::serving().on(1, Observation::Started { term: Term::ZERO }).breaks("I1");
    Log::serving().on(1, Observation::Promised { term: term(1, 0) }).breaks("I1");
    let reported =
        |of| Observation::Reported { term: of, sync: of, lens: vec![], reclaimed: 0, mixed: false };
    Log::serving().pass(9 * MS).on(2, reported(term(1, 0))).breaks("I1");
}

#[test]
fn i2_what_was_committed_is_in_each_later_start_set() {
    let after = |cut: u64, found: &[u64]| {
        let mut log = Log::serving();
        log.put(0, 0, 1).put(0, 1, 2).on(0, Observation::SteppedDown { term: term(1, 0) });
        log.on(1, Observation::Promised { term: term(2, 1) })
            .on(2, Observation::Promised { term: term(2, 1) });
        log.takes(1, term(2, 1), term(1, 0), &[cut]);
        for &csn in found {
            log.restored(1, csn, true);
        }
        log.serve(term(2, 1));
        log
    };
    after(2, &[1, 2]).is_sound();
    after(1, &[1]).breaks("I2");
    after(2, &[1]).breaks("I2");
    after(2, &[]).breaks("I2");
    // A deposed leader that commits what its successor does not have.
    let mut log = Log::serving();
    log.wrote(0, 0, 1, true);
    log.on(1, Observation::Promised { term: term(2, 1) }).on(2, Observation::Promised { term: term(2, 1) });
    log.takes(1, term(2, 1), term(1, 0), &[0]);
    log.on(2, Observation::Adopted { term: term(2, 1) }).serve(term(2, 1)).is_sound();
    log.committed(0, 1, &[1]).breaks("I2");
}

#[test]
fn i2_who_begins_to_lead_too_late_need_not_have_what_came_after_it() {
    let mut log = Log::serving();
    log.put(0, 0, 1).install(term(2, 1), term(1, 0), &[1]).restored(1, 1, true);
    log.on(1, Observation::Adopted { term: term(2, 1) }).on(0, Observation::Adopted { term: term(2, 1) });
    // Node 1 stands still, and node 2 leads meanwhile.
    log.install(term(3, 2), term(1, 0), &[1]).restored(2, 1, true).serve(term(3, 2));
    log.wrote(2, 0, 2, true).committed(2, 1, &[0]).shown(2, 2).applied(2, 0).is_sound();
    log.on(1, Observation::Served { term: term(2, 1), boot: 2 }).is_sound();
}

#[test]
fn i2_and_i13_what_a_term_found_is_not_lost_though_nobody_had_applied_it() {
    let after = |delete: bool, found: &[(u64, bool)]| {
        let mut log = Log::serving();
        log.put(0, 0, 1).wrote(0, 1, 2, !delete).install(term(2, 0), term(1, 0), &[2]);
        log.restored(0, 1, true).restored(0, 2, !delete).serve(term(2, 0));
        log.install(term(3, 0), term(2, 0), &[0]);
        for &(csn, value) in found {
            log.restored(0, csn, value);
        }
        log.serve(term(3, 0));
        log
    };
    after(false, &[(2, true)]).is_sound();
    after(false, &[(1, true)]).breaks("I2");
    // The delete is gone, as nothing that it hides is stored.
    after(true, &[]).is_sound();
    after(true, &[(1, true)]).breaks("I13");
}

/// The power is lost some time after a write. Its number had been that of a write which was cut off long
/// before, or of one that counted.
#[test]
fn d2_what_is_given_up_is_as_old_as_the_first_write_of_it_that_counted() {
    for counted in [false, true] {
        let mut log = Log::that_loses(Some(Nanos(40 * MS)));
        log.install(term(1, 0), Term::ZERO, &[0]).serve(term(1, 0)).put(0, 0, 1);
        match counted {
            true => log.put(0, 1, 2),
            false => log.wrote(0, 1, 2, true),
        };
        log.pass(500 * MS).on(0, Observation::SteppedDown { term: term(1, 0) });
        log.install(term(2, 1), term(1, 0), &[1 + u64::from(counted)]).restored(1, 1, true);
        if counted {
            log.restored(1, 2, true);
        }
        log.serve(term(2, 1));
        let csn = if counted { 3 } else { 2 };
        log.wrote(1, 0, csn, true).committed(1, 1, &[0]).shown(1, csn).applied(1, 0);
        log.is_sound();
        log.on(1, Observation::SteppedDown { term: term(2, 1) }).pass(30 * MS);
        let of = term(3, 2);
        log.install_from_disk(of, term(2, 1), 0, 1);
        log.restored(2, 1, true).on(2, Observation::Adopted { term: of });
        log.on(1, Observation::Adopted { term: of }).on(2, Observation::Served { term: of, boot: 3 });
        match counted {
            true => log.breaks("D2: the writes of 5"),
            false => log.is_sound(),
        }
    }
}

/// A leader that began with what a disk had writes, and is gone before it serves. The next leader has what it
/// wrote, above the version of the disk.
#[test]
fn d6_what_is_written_after_a_start_from_a_disk_is_not_given_up_with_what_the_disk_lacked() {
    for since in [false, true] {
        let mut log = Log::that_loses(Some(Nanos(40 * MS)));
        log.install(term(1, 0), Term::ZERO, &[0]).serve(term(1, 0)).put(0, 0, 1).put(0, 1, 2);
        log.on(0, Observation::SteppedDown { term: term(1, 0) });
        let of = term(2, 1);
        log.install_from_disk(of, term(1, 0), 1 + u64::from(!since), 1);
        log.restored(1, 1, true).on(1, Observation::Adopted { term: of });
        log.on(2, Observation::Adopted { term: of });
        if since {
            log.wrote(1, 0, 9, true);
        }
        log.on(1, Observation::SteppedDown { term: of });
        log.install(term(3, 2), of, &[u64::from(since)]).restored(2, 1, true).is_sound();
        match since {
            true => log.restored(2, 9, true).serve(term(3, 2)).is_sound(),
            false => log.restored(2, 2, true).breaks("I3"),
        }
    }
}

#[test]
fn i3_what_was_cut_off_does_not_come_back() {
    let mut log = Log::serving();
    log.put(0, 0, 1).wrote(0, 1, 2, true).install(term(2, 0), term(1, 0), &[1]);
    log.restored(0, 1, true).is_sound();
    log.restored(0, 2, true).breaks("I3");
}

#[test]
fn i13_what_was_deleted_is_not_back_and_i6_nothing_is_forged() {
    let after = |found: &[(u64, bool)]| {
        let mut log = Log::serving();
        log.put(0, 0, 1).wrote(0, 1, 2, false).committed(0, 2, &[1]).shown(0, 0).applied(0, 1);
        log.install(term(2, 0), term(1, 0), &[2]);
        for &(csn, value) in found {
            log.restored(0, csn, value);
        }
        log.serve(term(2, 0));
        log
    };
    after(&[(1, true), (2, false)]).is_sound();
    after(&[]).is_sound();
    after(&[(1, true)]).breaks("I13");
    after(&[(7, true)]).breaks("I6");
}

/// A move may take an older delete to a younger segment, where it outlives the newer one.
#[test]
fn i13_an_older_delete_may_be_all_that_is_left() {
    let mut log = Log::serving();
    log.put(0, 0, 1).wrote(0, 1, 2, false).committed(0, 2, &[1]).shown(0, 0).applied(0, 1);
    log.wrote(0, 2, 3, false).committed(0, 3, &[1]).shown(0, 0).applied(0, 2);
    log.install(term(2, 1), term(1, 0), &[3]).restored(1, 2, false).serve(term(2, 1)).is_sound();
}

#[test]
fn i4_only_synced_followers_count_and_they_have_what_they_were_counted_for() {
    Log::serving().put(0, 0, 1).is_sound();
    Log::serving().wrote(0, 0, 1, true).committed(0, 1, &[2]).breaks("I4");
    Log::serving().wrote(0, 0, 1, true).committed(0, 1, &[]).breaks("I4");
    Log::serving().wrote(0, 0, 1, true).committed(0, 2, &[1]).breaks("I4");
    Log::serving().wrote(0, 0, 1, true).applied(0, 0).breaks("I4");
    Log::serving().wrote(0, 1, 1, true).breaks("I4");
    Log::serving().put(0, 0, 1).report(1, term(2, 1), term(1, 0), &[1]).is_sound();
    Log::serving().put(0, 0, 1).report(1, term(2, 1), term(1, 0), &[0]).breaks("I4");
    // A replica does not have what was cut off, whatever was counted, until a leader gives it entries again.
    let cut = |of, at| Observation::CutOff { sync: term(of, 0), cuts: vec![at] };
    let mut log = Log::serving();
    log.wrote(0, 0, 1, true).on(1, cut(1, 0)).report(1, term(2, 1), term(1, 0), &[1]).breaks("I4");
    let mut log = Log::serving();
    log.wrote(0, 0, 1, true).on(1, cut(1, 1)).report(1, term(2, 1), term(1, 0), &[1]).is_sound();
    let mut log = Log::serving();
    log.wrote(0, 0, 1, true).on(1, cut(1, 0)).on(1, Observation::Adopted { term: term(1, 0) });
    log.report(1, term(2, 1), term(1, 0), &[1]).is_sound();
    // A replica that was catching up with a later term that served lacks what that term reclaimed.
    let mut log = Log::serving();
    log.put(0, 0, 1).install(term(2, 2), term(1, 0), &[1]).restored(2, 1, true).serve(term(2, 2));
    log.report(1, term(3, 1), term(1, 0), &[0]).is_sound();
    let told = Observation::Told { replica: ReplicaId(1), reclaimed: 3 };
    Log::serving().on(0, told.clone()).report(1, term(2, 1), term(1, 0), &[0]).breaks("I13");
    // A replica may know of fewer free segments again while it is attached anew.
    let tells = Observation::Tells { replica: ReplicaId(1), reclaimed: 0 };
    Log::serving().on(0, told).on(0, tells).report(1, term(2, 1), term(1, 0), &[0]).is_sound();
}

#[test]
fn i4_who_lost_its_memory_counts_for_what_was_written_before_until_it_is_synced_anew() {
    let started = || Observation::Started { term: term(1, 0) };
    let mut log = Log::serving();
    log.wrote(0, 0, 1, true).on(1, started()).committed(0, 1, &[1]).is_sound();
    log.wrote(0, 1, 2, true).on(1, started()).committed(0, 2, &[1]).breaks("I4");
    let mut log = Log::serving();
    log.on(1, started()).on(1, Observation::Adopted { term: term(1, 0) });
    log.wrote(0, 0, 1, true).committed(0, 1, &[1]).is_sound();
}

#[test]
fn i4_nobody_has_more_than_was_written_and_i13_who_lets_go_is_told() {
    Log::serving().put(0, 0, 1).report(1, term(2, 1), term(1, 0), &[2]).breaks("I4");
    let let_go = |log: &mut Log, told| {
        log.on(0, Observation::Told { replica: ReplicaId(1), reclaimed: told });
        log.on(0, Observation::LetGo { replica: ReplicaId(1), reclaimed: 2 })
            .judge
            .violation()
            .map(String::from)
    };
    assert_eq!(let_go(&mut Log::serving(), 2), None);
    assert!(let_go(&mut Log::serving(), 1).is_some_and(|violation| violation.starts_with("I13")));
}

#[test]
fn i5_nothing_lands_from_behind_the_fence() {
    let landed = |from, region: RegionId| Observation::Landed { from, into: 1, region };
    let mut log = Log::serving();
    log.on(1, landed(0, ARENA_REGION)).on(1, landed(2, RING_REGION)).is_sound();
    log.on(1, Observation::Fenced { term: term(2, 2) }).on(1, landed(2, PAGE_REGION)).is_sound();
    log.on(1, landed(0, ARENA_REGION)).breaks("I5");
}

#[test]
fn i9_nobody_reports_inside_a_promise() {
    let mut log = Log::serving();
    log.leased(0, 4, &[1]).pass(5 * MS);
    log.report(1, term(2, 1), term(1, 0), &[]).is_sound();
    let mut log = Log::serving();
    log.leased(0, 4, &[1]).report(1, term(2, 1), term(1, 0), &[]).breaks("I9");
    // The heartbeat had landed before the report, and its completion comes after.
    let mut log = Log::serving();
    log.report(1, term(2, 1), term(1, 0), &[]).leased(0, 4, &[1]).breaks("I9");
    Log::serving().leased(0, 8, &[1]).breaks("I9");
}

#[test]
fn i9_what_a_leader_sees_it_tells_inside_its_lease() {
    Log::serving().on(0, Observation::Answered).breaks("I9");
    let mut log = Log::serving();
    log.leased(0, 4, &[1]).on(0, Observation::Answered).is_sound();
    log.pass(4 * MS).on(0, Observation::Answered).breaks("I9");
    let mut log = Log::serving();
    log.leased(0, 4, &[1]).on(0, Observation::HandedOver { term: term(1, 0) });
    log.on(0, Observation::Answered).breaks("I9");
}

#[test]
fn i9_what_rests_on_a_term_is_over_when_the_next_one_serves() {
    let mut log = Log::serving();
    let trusted =
        |log: &Log, millis: u64| Observation::Trusted { boot: 1, end: Nanos(log.time + millis * MS) };
    log.leased(0, 4, &[1]);
    let fits = trusted(&log, 4);
    log.on(3, fits).is_sound();
    let beyond = trusted(&log, 9);
    log.on(3, beyond).breaks("I9");
    let (mut log, end) = (Log::serving(), Nanos(4 * MS));
    log.leased(0, 4, &[1])
        .on(3, Observation::Trusted { boot: 1, end })
        .on(3, Observation::Relied { boot: 1, at: Nanos(end.0 - 1) })
        .is_sound();
    log.on(3, Observation::Relied { boot: 1, at: end }).breaks("I9");
    let mut log = Log::serving();
    log.leased(0, 4, &[2]);
    let fits = trusted(&log, 4);
    log.on(3, fits).install(term(2, 1), term(1, 0), &[0]).serve(term(2, 1)).breaks("I9");
}

#[test]
fn i7_versions_are_used_once_and_do_not_go_back() {
    Log::serving().put(0, 0, 1).wrote(0, 1, 1, true).committed(0, 2, &[1]).applied(0, 1).breaks("I7");
    Log::serving().put(0, 0, 5).shown(0, 4).breaks("I7");
    Log::serving().put(0, 0, 5).shown(0, 0).shown(0, 4).breaks("I7");
}

#[test]
fn i8_what_is_acknowledged_is_applied_and_visible() {
    let acknowledged = || Observation::Acknowledged { stream: 0, position: 0 };
    let mut log = Log::serving();
    log.wrote(0, 0, 1, true).committed(0, 1, &[1]).on(0, acknowledged()).breaks("I8");
    let mut log = Log::serving();
    log.wrote(0, 0, 1, true).committed(0, 1, &[1]).applied(0, 0).on(0, acknowledged()).breaks("I8");
}

#[test]
fn i14_an_operation_has_one_effect() {
    let ran = |csn| Observation::Ran { session: 9, operation: 4, csn: Csn(csn) };
    let mut log = Log::serving();
    log.on(0, ran(1)).put(0, 0, 1).on(0, ran(1)).on(0, ran(0)).is_sound();
    log.on(0, ran(2)).breaks("I14");
    // The leader of the next term runs again what the first leader ran.
    let mut log = Log::serving();
    log.on(0, ran(1)).put(0, 0, 1).install(term(2, 0), term(1, 0), &[1]).restored(0, 1, true);
    log.serve(term(2, 0)).wrote(0, 0, 2, true).on(0, ran(2)).breaks("I14");
    // A leader that does not know that it is deposed may run what its successor ran, without an effect.
    let (mut log, next) = (Log::serving(), term(2, 1));
    log.report(1, next, term(1, 0), &[0]).report(2, next, term(1, 0), &[0]);
    log.takes(1, next, term(1, 0), &[0]);
    log.on(1, Observation::Adopted { term: next }).on(2, Observation::Adopted { term: next });
    log.on(1, Observation::Served { term: next, boot: 2 }).on(1, ran(5));
    log.wrote(1, 0, 5, true).committed(1, 1, &[2]).shown(1, 5).applied(1, 0);
    log.on(0, ran(2)).is_sound();
    log.on(1, ran(6)).breaks("I14");
}

/// A mixture may have what terms cut off that never served, and nothing that one cut off which did.
#[test]
fn a_mixture_is_a_start_set_of_its_own() {
    let (first, second, third, fourth) = (term(1, 0), term(2, 1), term(3, 1), term(4, 2));
    for served in [false, true] {
        let mut log = Log::serving();
        log.put(0, 0, 1).wrote(0, 1, 2, true).on(0, Observation::SteppedDown { term: first });
        log.install(second, first, &[1]).restored(1, 1, true);
        if served {
            log.serve(second);
        }
        log.on(1, Observation::SteppedDown { term: second });
        log.report(1, third, second, &[0]).report(2, third, second, &[0]);
        log.takes_what(1, third, second, &[0], true).restored(1, 1, true).restored(1, 2, true);
        if served {
            log.breaks("I3: term 3.1");
            continue;
        }
        // A term that goes on from the mixture has what the mixture had.
        log.on(1, Observation::SteppedDown { term: third }).report(1, fourth, third, &[0]);
        log.report(2, fourth, third, &[0]).takes(2, fourth, third, &[0]);
        log.restored(2, 1, true).restored(2, 2, true).is_sound();
    }
}

#[test]
fn i20_what_is_written_is_committed_soon_where_nothing_goes_wrong() {
    for (calm, late) in [(true, false), (true, true), (false, true)] {
        let mut log = Log::serving();
        if calm {
            log.judge.be_prompt();
        }
        log.put(0, 0, 1).wrote(0, 1, 2, true).pass(if late { 11 * MS } else { MS }).committed(0, 2, &[1]);
        if calm && late {
            log.breaks("I20");
        } else {
            log.is_sound();
        }
    }
}
