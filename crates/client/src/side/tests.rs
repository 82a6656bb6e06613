use proptest::prelude::*;

use super::*;

mod queues;
mod shared_core;

const MS: u64 = 1_000_000;

fn selector(rule: Rule) -> Selector {
    Selector::new(Settings { seed: 7, rule, nanos_per_kib: 100 })
}

/// One that has seen so many times of each side, a microsecond apart.
fn with_times(server: &[u64], client: &[u64]) -> Selector {
    let mut selector = selector(Rule::Queues);
    for took in server {
        selector.answered(Nanos(1), Size::Short, Answered { took: Nanos(*took), bytes: 0 });
    }
    client.iter().for_each(|took| selector.read_round(Nanos(1), Size::Short, Nanos(*took)));
    selector
}

/// What seems better, without exploring.
fn seems(selector: &mut Selector, now: u64, rounds: u64) -> Option<Side> {
    let rule = selector.settings.rule;
    selector.sizes[Size::Short as usize].better(Nanos(now), rule, rounds)
}

/// Times around 1000, with a deviation of 10.
fn steady(times: &mut Times, count: u64) {
    (0..count).for_each(|i| times.add(Nanos(i), 990 + i % 2 * 20));
}

fn kept(times: &Times) -> Vec<u64> {
    times.kept.iter().map(|sample| sample.took).collect()
}

#[test]
fn the_size_of_an_operation_is_that_of_its_limit() {
    let limits = [0, 1, 16, 17, 128, 129, u64::MAX];
    let sizes = [Size::Short, Size::Short, Size::Short, Size::Medium, Size::Medium, Size::Long, Size::Long];
    assert_eq!(limits.map(Size::of_limit), sizes);
}

#[test]
fn the_server_is_taken_where_its_queue_is_shorter() {
    // Least 1000 and 100. The mean request waits 60, the mean round 20.
    let mut selector = with_times(&[1000, 1120], &[100, 120, 140, 120]);
    assert_eq!(seems(&mut selector, 1, 2), Some(Side::Client), "60 against 40");
    assert_eq!(seems(&mut selector, 1, 3), Some(Side::Client), "equal queues");
    assert_eq!(seems(&mut selector, 1, 4), Some(Side::Server), "60 against 80");
    assert_eq!(seems(&mut with_times(&[5], &[9]), 1, 1), Some(Side::Client), "no queues at all");
}

#[test]
fn the_other_rule_compares_whole_times() {
    let mut selector = with_times(&[1000, 1120], &[100, 120, 140, 120]);
    selector.settings.rule = Rule::Times;
    assert_eq!(seems(&mut selector, 1, 8), Some(Side::Client), "1060 against 960");
    assert_eq!(seems(&mut selector, 1, 9), Some(Side::Server), "1060 against 1080");
}

#[test]
fn a_mean_is_of_the_last_hundred() {
    let mut times = Times::default();
    steady(&mut times, 100);
    times.add(Nanos(100), 1005);
    times.add(Nanos(101), 1006);
    assert_eq!(times.kept.len(), 100);
    assert_eq!(kept(&times)[98..], [1005, 1006]);
    let taken: Vec<u128> = kept(&times).into_iter().map(u128::from).collect();
    assert_eq!(times.sum, taken.iter().sum::<u128>());
    assert_eq!(times.squares, taken.iter().map(|took| took * took).sum::<u128>());
}

#[test]
fn what_is_beyond_three_deviations_is_left_out() {
    for (took, taken) in [(1030, true), (970, true), (1031, false), (969, false)] {
        let mut times = Times::default();
        steady(&mut times, 20);
        times.add(Nanos(20), took);
        assert_eq!(times.kept.len(), 20 + usize::from(taken), "{took}");
    }
    let mut few = Times::default();
    steady(&mut few, 9);
    few.add(Nanos(9), 5000);
    assert_eq!(few.kept.len(), 10, "of nine times the deviation says nothing");
}

#[test]
fn where_more_is_left_out_than_taken_the_load_has_changed() {
    let mut times = Times::default();
    steady(&mut times, 100);
    (0..50).for_each(|i| times.add(Nanos(100 + i), 5000 + i));
    assert_eq!(times.kept.len(), 100, "as many taken as left out, of the last hundred");
    times.add(Nanos(150), 5050);
    assert_eq!(kept(&times), [5050], "begun anew");
    times.add(Nanos(151), 5051);
    assert_eq!(kept(&times), [5050, 5051]);
    assert_eq!(times.least.get(Nanos(151)), 990, "the network is the same");

    let mut young = Times::default();
    steady(&mut young, 10);
    (0..11).for_each(|i| young.add(Nanos(10 + i), 5000));
    assert_eq!(kept(&young), [5000], "eleven against ten");
}

#[test]
fn single_outliers_never_add_up() {
    let mut times = Times::default();
    steady(&mut times, 100);
    for i in 0..1000 {
        // One in three.
        let took = if i % 3 == 0 { 5000 } else { 990 + i % 2 * 20 };
        times.add(Nanos(100 + i), took);
        assert!(kept(&times).iter().all(|took| *took < 5000), "{i}");
    }
}

#[test]
fn what_is_older_than_three_seconds_is_forgotten() {
    let mut times = Times::default();
    times.add(Nanos(0), 100);
    times.add(Nanos(1000 * MS), 300);
    assert!(times.mean(Nanos(3000 * MS), Rule::Times).is_some_and(|mean| mean.count == 2));
    let mean = times.mean(Nanos(3000 * MS + 1), Rule::Queues).expect("one is left");
    assert_eq!((mean.sum, mean.count), (200, 1), "the least time stays until its part of time is over");
    let mean = times.mean(Nanos(3500 * MS), Rule::Queues).expect("one is left");
    assert_eq!((mean.sum, mean.count), (0, 1), "300 is the least of three seconds now");
    assert!(times.mean(Nanos(4000 * MS + 1), Rule::Queues).is_none());
    assert_eq!((times.sum, times.squares, times.judged), (0, 0, 0));
}

#[test]
fn the_least_time_is_of_three_seconds() {
    let mut least = Recent::<Least, PART, PARTS>::default();
    assert_eq!(least.get(Nanos(5 * MS)), TIME_MAX);
    least.part(Nanos(50 * MS)).add(10);
    least.part(Nanos(60 * MS)).add(12);
    least.part(Nanos(2000 * MS)).add(20);
    assert_eq!(least.get(Nanos(3499 * MS)), 10);
    assert_eq!(least.get(Nanos(3500 * MS)), 20);
    least.part(Nanos(3500 * MS)).add(30);
    assert_eq!(least.get(Nanos(3500 * MS)), 20, "the part that the first had is used again");
    assert_eq!(least.get(Nanos(5499 * MS)), 20);
    assert_eq!(least.get(Nanos(5500 * MS)), 30);
}

#[test]
fn one_operation_in_a_hundred_takes_the_other_side_as_the_seed_decides() {
    let others = |seed| -> Vec<usize> {
        let mut selector = Selector::new(Settings { seed, rule: Rule::Queues, nanos_per_kib: 0 });
        selector.sizes = with_times(&[1000, 1120], &[100, 120]).sizes;
        let mut took = |_: &usize| selector.choose(Nanos(1), Size::Short, 1) == Side::Server;
        (0..100_000).filter(|i| took(i)).collect()
    };
    let first = others(1);
    assert!((850..1150).contains(&first.len()), "{}", first.len());
    assert_eq!(first, others(1));
    assert_ne!(first, others(2));
}

#[test]
fn a_side_of_which_nothing_is_known_is_tried_once_at_a_time() {
    let mut one = selector(Rule::Queues);
    let choose = |selector: &mut Selector, now| selector.choose(Nanos(now), Size::Short, 2);
    assert_eq!(choose(&mut one, 0), Side::Client);
    assert_eq!(choose(&mut one, 0), Side::Server);
    assert_eq!(choose(&mut one, 0), Side::Client, "both are awaited");
    one.read_round(Nanos(5), Size::Short, Nanos(5));
    assert_eq!(choose(&mut one, 100 * MS - 1), Side::Client, "the server is awaited");
    assert_eq!(choose(&mut one, 100 * MS), Side::Server, "it seems to have failed: again");
    assert_eq!(choose(&mut one, 100 * MS + 1), Side::Client);

    let mut other = selector(Rule::Queues);
    let answered = Answered { took: Nanos(5), bytes: 0 };
    assert_eq!(choose(&mut other, 0), Side::Client);
    other.answered(Nanos(5), Size::Short, answered);
    assert_eq!(choose(&mut other, 10), Side::Server, "it is known, and READs are awaited");
    assert_eq!(choose(&mut other, 100 * MS), Side::Client);
}

#[test]
fn a_change_met_is_two_rounds_more_for_a_while() {
    let served = |met: Option<u64>, now| -> bool {
        let mut selector = with_times(&[1000, 1120], &[100, 120, 140, 120]);
        if let Some(at) = met {
            selector.disturbed(Nanos(at));
        }
        let sides = (0..9).filter(|_| selector.choose(Nanos(now), Size::Short, 2) == Side::Server);
        sides.count() > 4
    };
    assert!(!served(None, 2), "60 against 2 times 20");
    assert!(served(Some(2), 2), "60 against 4 times 20");
    assert!(served(Some(2), 100 * MS + 1));
    assert!(!served(Some(2), 100 * MS + 2));
}

#[test]
fn the_time_of_the_bytes_of_an_answer_is_no_time_in_a_queue() {
    let mut selector = selector(Rule::Queues);
    for (took, bytes) in [(1000, 0), (1400, 4096), (50, 4096)] {
        selector.answered(Nanos(1), Size::Short, Answered { took: Nanos(took), bytes });
    }
    assert_eq!(kept(&selector.sizes[Size::Short as usize].server), [1000, 1000, 0]);
}

#[test]
fn sizes_know_nothing_of_each_other() {
    let mut selector = with_times(&[1000], &[100]);
    assert!(seems(&mut selector, 1, 1).is_some());
    for size in [Size::Medium, Size::Long] {
        assert_eq!(selector.sizes[size as usize].better(Nanos(1), Rule::Queues, 1), None);
        selector.answered(Nanos(1), size, Answered { took: Nanos(9), bytes: 0 });
        assert_eq!(selector.sizes[size as usize].server.kept.len(), 1);
    }
}

/// What may be told a selector: a moment, a time, and a number.
#[derive(Clone, Copy, Debug)]
enum Told {
    Choose(u64, u32),
    Answered(u64, u64, u32),
    Round(u64, u64),
    Disturbed(u64),
}

fn any_time() -> impl Strategy<Value = u64> {
    prop_oneof![0..5000_u64, 0..10_000 * MS, Just(u64::MAX), any::<u64>()]
}

fn any_told() -> impl Strategy<Value = Told> {
    prop_oneof![
        (any_time(), any::<u32>()).prop_map(|(now, rounds)| Told::Choose(now, rounds)),
        (any_time(), any_time(), any::<u32>()).prop_map(|(now, took, n)| Told::Answered(now, took, n)),
        (any_time(), any_time()).prop_map(|(now, took)| Told::Round(now, took)),
        any_time().prop_map(Told::Disturbed),
    ]
}

proptest! {
    /// Moments that go backwards, and times of any length: no overflow, and sums that are those of what is
    /// kept. Without the limits of history and time the first products would overflow.
    #[test]
    fn any_times_are_survived(
        all in prop::collection::vec(any_told(), 0..400),
        longest in any::<bool>(),
        per_kib in any::<u32>(),
    ) {
        let rule = if longest { Rule::Times } else { Rule::Queues };
        let mut selector = Selector::new(Settings { seed: 1, rule, nanos_per_kib: per_kib });
        for told in all {
            match told {
                Told::Choose(now, rounds) => drop(selector.choose(Nanos(now), Size::Long, rounds)),
                Told::Answered(now, took, bytes) => {
                    selector.answered(Nanos(now), Size::Long, Answered { took: Nanos(took), bytes });
                }
                Told::Round(now, took) => selector.read_round(Nanos(now), Size::Long, Nanos(took)),
                Told::Disturbed(now) => selector.disturbed(Nanos(now)),
            }
            let queues = &selector.sizes[Size::Long as usize];
            for times in [&queues.server, &queues.client] {
                let taken: Vec<u128> = kept(times).into_iter().map(u128::from).collect();
                prop_assert!(taken.len() <= HISTORY && times.judged as usize <= HISTORY);
                prop_assert_eq!(times.sum, taken.iter().sum::<u128>());
                prop_assert_eq!(times.squares, taken.iter().map(|took| took * took).sum::<u128>());
            }
        }
    }

    /// A full history of the longest times, which are compared after as many rounds as there can be.
    #[test]
    fn the_longest_times_are_compared(least in any_time(), rounds in any::<u32>()) {
        let longest = [&[least][..], &[u64::MAX; HISTORY - 1]].concat();
        let mut selector = with_times(&longest, &longest);
        prop_assert!(seems(&mut selector, 1, u64::from(rounds) + ROUNDS_AGAIN).is_some());
        selector.settings.rule = Rule::Times;
        let better = seems(&mut selector, 1, u64::from(rounds) + ROUNDS_AGAIN);
        prop_assert_eq!(better, Some(Side::Server));
    }
}
