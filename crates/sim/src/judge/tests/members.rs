//! Forged logs of groups whose replicas change (M14).

use super::*;

#[test]
fn m14_replicas_change_one_at_a_time_and_as_was_agreed() {
    let after = |agreed: Option<&[u8]>, next: &[u8]| {
        let mut log = Log::serving();
        if let Some(agreed) = agreed {
            log.kept(agreed, &[0, 1, 2]).agreed(agreed);
        }
        log.of(next).report(2, term(2, 0), term(1, 0), &[0]).install(term(2, 0), term(1, 0), &[0]);
        log.on(2, Observation::Adopted { term: term(2, 0) }).serve(term(2, 0));
        log
    };
    after(None, &[0, 1, 2]).is_sound();
    // That the next set is known does not mean that it was agreed on.
    after(None, &[0, 1, 2, 3]).is_sound();
    after(Some(&[0, 1, 2, 3]), &[0, 1, 2, 3]).is_sound();
    after(Some(&[0, 2]), &[0, 2]).is_sound();
    after(Some(&[0, 2]), &[0, 1, 2]).breaks("M14");
    after(None, &[0, 1, 2, 3, 4]).breaks("M14");
    after(None, &[0, 1, 3]).breaks("M14");
}

#[test]
fn m14_replicas_are_agreed_on_once_majorities_of_both_sets_have_them_on_disk() {
    let on_disk = |next: &[u8], by: &[u32]| {
        let mut log = Log::serving();
        log.kept(next, by).agreed(next);
        log
    };
    let (more, fewer) = (&[0, 1, 2, 3], &[0, 2]);
    on_disk(more, &[0, 1, 3]).is_sound();
    on_disk(more, &[0, 1]).breaks("M14");
    on_disk(more, &[0]).breaks("M14");
    on_disk(fewer, &[0, 2]).is_sound();
    on_disk(fewer, &[0, 1]).breaks("M14");
    Log::serving().kept(more, &[0, 1, 2]).agreed(fewer).breaks("M14");
}

#[test]
fn m14_majorities_are_those_of_the_replicas_that_a_term_has() {
    let mut log = Log::new();
    log.of(&[0, 1, 2, 3]).install(term(1, 0), Term::ZERO, &[0]).breaks("I1");
    let mut log = Log::new();
    log.of(&[0, 2, 3]).install(term(1, 0), Term::ZERO, &[0]).breaks("I1");
    let mut log = Log::new();
    log.of(&[0, 1]).install(term(1, 0), Term::ZERO, &[0]).serve(term(1, 0));
    log.put(0, 0, 1).is_sound();
    log.wrote(0, 1, 2, true).committed(0, 2, &[3]).breaks("I4");
}
