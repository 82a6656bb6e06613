//! Tests of the code that ships, in a world.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use longarm_base::random::SplitMix64;
use longarm_base::{Nanos, ReplicaId};
use longarm_client::{Client, Options};
use longarm_fabric::Address;
use longarm_fabric::sim::{Landing, Sim, Weather};
use longarm_memory::recycling;
use longarm_server::{Server, ServerOptions};

use crate::operator;
use crate::plan::Plan;
use crate::replicas::{ClusterSize, QUICK, Servers};
use crate::run;
use crate::scenario::Scenario;
use crate::scenarios::SCENARIOS;
use crate::timeline;
use crate::workload::{FILLED, Load};
use crate::world::{Drift, Stopped, World};

const ROUGH: Weather = Weather { spread: Nanos(3000), landing: Landing::Any, loss: 100, ..Weather::FINE };

/// What three clients of one server saw, and the steps that the world took.
fn three_clients(seed: u64) -> (Vec<String>, u64) {
    let (world, sim, log) = (World::new(seed), Sim::new(ROUGH), Rc::new(RefCell::new(Vec::new())));
    let (server, address) = (world.add_machine(Drift::default()), Address::Sim("node0".into()));
    let (net, at) = (sim.clone(), address.clone());
    world.start(server, "server", move || serve(&net, options(at)));
    for number in 0..3u64 {
        let machine = world.add_machine(Drift { offset: Nanos(number * 1_000_000_000), rate: 0 });
        let (net, at, log) = (sim.clone(), address.clone(), log.clone());
        world.start(machine, "client", move || {
            longarm_host::sleep(Duration::from_millis(5));
            let options = Options { spin: Duration::ZERO, ..Options::default() };
            let mut client = Client::connect_over(net, &at, options).expect("connect");
            for i in 0..200 {
                let key = format!("k{}", i % 5);
                client.put(key.as_bytes(), format!("{number}-{i}").as_bytes()).expect("put");
                let got = client.get(key.as_bytes()).expect("get").expect("nobody deletes");
                log.borrow_mut().push(format!("{number} {key} {}", String::from_utf8_lossy(&got)));
            }
        });
    }
    assert_eq!(world.run(Nanos::from_millis(1000)), Stopped::Time);
    world.enter(|| sim.machine_down(server));
    world.crash(server);
    (log.take(), world.steps())
}

/// A server, for as long as its machine runs.
fn serve(sim: &Sim, options: ServerOptions) {
    let _server = Server::start_on(sim, options).expect("a server starts");
    loop {
        longarm_host::sleep(Duration::from_secs(1));
    }
}

fn options(at: Address) -> ServerOptions {
    ServerOptions {
        addresses: vec![at],
        spin: Duration::ZERO,
        memory: 16 << 20,
        expected_items: 1000,
        ..ServerOptions::default()
    }
}

#[test]
fn the_server_and_the_clients_that_ship_run_and_the_seed_decides() {
    let seen = three_clients(1);
    assert_eq!(seen.0.len(), 600, "all are done within a second");
    assert_eq!(seen, three_clients(1));
    assert_ne!(seen.0, three_clients(2).0);
}

/// `cargo x sim --ci` runs more seeds, on all cores.
#[test]
fn every_scenario_has_a_seed_without_a_violation_and_a_seed_decides() {
    for scenario in SCENARIOS {
        let report = run::run(scenario, 0);
        assert_eq!(report.violation, None, "cargo x sim --scenario {} --seeds 0", scenario.name);
        assert_eq!(report, run::run(scenario, 0), "{}: once more is the same", scenario.name);
    }
}

/// As in the third of all seeds in which clients write all keys first.
#[test]
fn the_table_grows_several_times_under_clients_that_fill_it() {
    let (world, sim, told) = (World::new(5), Sim::new(ROUGH), Rc::new(RefCell::new(Vec::new())));
    let (server, address) = (world.add_machine(Drift::default()), Address::Sim("node0".into()));
    let drawn = |seed| Load::draw(&mut SplitMix64::new(seed));
    let load = (0..).map(drawn).find(|load| load.fills).expect("a third of them");
    let options = ServerOptions { expected_items: load.expected, ..options(address.clone()) };
    let (net, tell) = (sim.clone(), told.clone());
    world.start(server, "server", move || serve(&net, options));
    let client = world.add_machine(Drift::default());
    world.start(client, "client", move || {
        longarm_host::sleep(Duration::from_millis(5));
        let options = Options { spin: Duration::ZERO, ..Options::default() };
        let mut client = Client::connect_over(sim, &address, options).expect("connect");
        for key in 1..=FILLED {
            client.put(format!("key-{key}").as_bytes(), b"value").expect("put");
            if [FILLED / 3, FILLED].contains(&key) {
                longarm_host::sleep(Duration::from_millis(50));
                let stats = client.stats().expect("statistics");
                let epoch = stats.split("\"geometry_epoch\":").nth(1).expect("it is told");
                let epoch = epoch.chars().take_while(char::is_ascii_digit).collect::<String>();
                tell.borrow_mut().push(epoch.parse::<u64>().expect("a number"));
            }
        }
    });
    assert_eq!(world.run(Nanos::from_millis(5000)), Stopped::Time);
    // The epoch changes once when a table comes, and once when the old table goes.
    let grown: Vec<u64> = told.borrow().iter().map(|epoch| (epoch - 1) / 2).collect();
    assert_eq!(grown, [1, 2], "with a third of the keys, and with all");
}

#[test]
fn a_world_that_ended_leaves_nothing_behind() {
    let maps =
        || std::fs::read_to_string("/proc/self/maps").expect("procfs").matches("memfd:longarm-arena").count();
    let all = Scenario::named("all").expect("there is one");
    run::run(all, 1);
    // Other tests of this process have worlds, too, but not so many.
    (0..30).for_each(|seed| drop(run::run(all, seed)));
    assert!(maps() < 20, "{} arenas of worlds that ended are still mapped", maps());
}

/// The client notices that the server is gone although its GETs need no answer of the server: the server no
/// longer vouches for its memory.
#[test]
fn a_client_of_a_server_that_is_gone_says_so() {
    let (world, sim, said) = (World::new(3), Sim::new(Weather::FINE), Rc::new(RefCell::new(None)));
    let (server, client) = (world.add_machine(Drift::default()), world.add_machine(Drift::default()));
    let address = Address::Sim("node0".into());
    let (net, at) = (sim.clone(), address.clone());
    world.start(server, "server", move || serve(&net, options(at)));
    let (net, error) = (sim.clone(), said.clone());
    world.start(client, "client", move || {
        longarm_host::sleep(Duration::from_millis(5));
        let options =
            Options { spin: Duration::ZERO, timeout: Duration::from_millis(500), ..Options::default() };
        let mut client = Client::connect_over(net, &address, options).expect("connect");
        client.put(b"key", b"value").expect("put");
        let gone = (0..u64::MAX).find_map(|_| client.get(b"key").err());
        *error.borrow_mut() = gone;
    });
    assert_eq!(world.run(Nanos::from_millis(50)), Stopped::Time);
    world.enter(|| sim.machine_down(server));
    world.crash(server);
    world.run(Nanos::from_millis(1_500));
    let error = said.take().expect("a get fails").to_string();
    assert!(error.contains("lost") && error.contains("nobody listens"), "{error}");
}

/// A world with a group of three, whose servers are machines 0 to 2.
fn group(seed: u64, weather: Weather) -> (World, Sim, Rc<Servers>) {
    let (world, sim) = (World::new(seed), Sim::new(weather));
    let log = std::env::var("LONGARM_SIM_LOG").is_ok();
    let options = ServerOptions {
        spin: Duration::ZERO,
        memory: 16 << 20,
        expected_items: 1000,
        peers: operator::peers(),
        log: longarm_server::Log::new(move |line| {
            if log {
                eprintln!("{}", line.text);
            }
        }),
        ..ServerOptions::default()
    };
    let size = ClusterSize { servers: 3, founders: 3, groups: 1 };
    let servers = Rc::new(Servers::new(size, options, QUICK, Duration::from_micros(200)));
    for node in 0..3 {
        assert_eq!(world.add_machine(Drift::default()), node);
        world.start(node, "server", servers.body(&sim, node));
    }
    (world, sim, servers)
}

#[test]
fn a_group_elects_a_leader_serves_and_loses_nothing_when_it_is_gone() {
    let (world, sim, servers) = group(1, Weather::FINE);
    let client = world.add_machine(Drift::default());
    let (net, all, said) = (sim.clone(), servers.addresses.clone(), Rc::new(RefCell::new(0)));
    let done = said.clone();
    world.start(client, "client", move || {
        let options = Options { spin: Duration::ZERO, ..Options::default() };
        let mut client = Client::connect_group_over(net, &all, options).expect("connect");
        for i in 0..100u32 {
            client.put(format!("k{i}").as_bytes(), &i.to_le_bytes()).expect("put");
        }
        *done.borrow_mut() = 1;
        longarm_host::sleep(Duration::from_millis(100));
        for i in 0..100u32 {
            let got = client.get(format!("k{i}").as_bytes()).expect("get");
            assert_eq!(got.as_deref(), Some(&i.to_le_bytes()[..]), "k{i}");
        }
        client.put(b"more", b"1").expect("put");
        *done.borrow_mut() = 2;
    });
    assert_eq!(world.run(Nanos::from_millis(50)), Stopped::Time);
    assert_eq!(*said.borrow(), 1, "{:?}", (0..3).map(|node| servers.told(node)).collect::<Vec<_>>());
    let leader = (0..3).find(|&node| servers.told(node).role == "leader").expect("one leads");
    world.enter(|| sim.machine_down(leader));
    world.crash(leader);
    assert_eq!(world.run(Nanos::from_millis(400)), Stopped::Time);
    assert_eq!(*said.borrow(), 2, "{:?}", (0..3).map(|node| servers.told(node)).collect::<Vec<_>>());
}

/// A leader that hands over takes promises back, and its transferee may serve at once: it need not put its
/// calendar forward by a promise, as if its predecessor's lease could still run. It once did, and so did each
/// transferee after it.
#[test]
fn a_leader_that_is_handed_over_to_takes_no_item_before_its_time() {
    const MOVES: u8 = 30;
    let (ttl, patience) = (Duration::from_millis(300), Duration::from_secs(1));
    let (world, sim, servers) = group(1, Weather::FINE);
    let client = world.add_machine(Drift::default());
    let (net, all, tools) = (sim.clone(), servers.addresses.clone(), servers.tools(&sim, 0));
    let told = Rc::new(RefCell::new(None));
    let tell = told.clone();
    world.start(client, "client", move || {
        let options = Options { spin: Duration::ZERO, ..Options::default() };
        let mut client = Client::connect_group_over(net, &all, options).expect("connect");
        let asked = longarm_host::now();
        client.put_for(b"key", b"value", ttl).expect("put");
        for number in 0..MOVES {
            let to = ReplicaId(number % 3);
            assert_eq!(tools.move_leader(to, patience).expect("it is moved").leader, to);
        }
        while client.get(b"key").expect("get").is_some() {
            longarm_host::sleep(Duration::from_millis(1));
        }
        *tell.borrow_mut() = Some(longarm_host::now().since(asked));
    });
    assert_eq!(world.run(Nanos::from_millis(5_000)), Stopped::Time);
    let lived = told.borrow().expect("its time is over");
    assert!(lived >= Nanos::from_millis(295), "gone after {lived:?}");
}

/// A watched run of a group tells its judge everything, and its timeline is the same each time.
#[test]
fn a_watched_run_tells_the_same_each_time() {
    let scenario = Scenario::named("group-crashes").expect("there is one");
    let plan = Plan::of(scenario, 3);
    let told = || {
        let (report, notes, operations) = run::watch(&plan);
        let lines = timeline::lines(&notes, &operations, Nanos::from_millis(20));
        (timeline::verdict(&report, &notes, &operations), lines, report)
    };
    let first = told();
    assert_eq!(first.2.violation, None);
    assert!(first.2.events > 1000, "{} events", first.2.events);
    assert!(first.1.iter().any(|line| line.text.contains(" leads in term ")), "{:?}", first.1);
    assert!(first.1.iter().any(|line| line.text.starts_with("fault: ")), "{:?}", first.1);
    assert_eq!(first, told());
}

/// Checks that these seeds of a scenario violate nothing.
#[track_caller]
fn are_sound(name: &str, seeds: &[u64]) {
    let scenario = Scenario::named(name).expect("there is one");
    for &seed in seeds {
        assert_eq!(run::run(scenario, seed).violation, None, "{name} seed {seed}");
    }
}

/// A leader's push of the segment table to a follower had completed, but not landed, when a stream's claim of
/// a segment landed over another connection. Then the table landed over the claim, and the follower did not
/// find what it had acknowledged. `Mutant::NoDrain` brings this fault back.
#[test]
fn what_is_pushed_has_landed_before_streams_write() {
    // The first seed found the fault first. The second finds the mutant in the code as it is now.
    are_sound("group-changes-all", &[5_000_240]);
    are_sound("group-landing", &[154]);
}

/// A leader that begins with a mixture has its own term as its base. It gave a follower what it remembered of
/// the base as what the term had written so far. So the follower counted for entries that it lacked.
#[test]
fn a_leader_that_began_with_a_mixture_gives_all_that_it_wrote() {
    are_sound("group-landing", &[521, 606, 725]);
}

/// A follower had been cut off, as its next leader's start set has less, and reported again that it holds
/// what it was counted for before. A leader that began from that had a gap, which another replica of the same
/// base did not have: versions were used twice, and a write was lost. `Mutant::KeepFloors` brings this fault
/// back.
#[test]
fn what_was_cut_off_is_not_reported_again() {
    are_sound("group-steps", &[10, 17, 41_249]);
}

/// A follower that was catching up had let go of a segment. Then the leader gave it what the leader still had
/// there, which landed over what a stream had written in the next use. `Mutant::PushOver` brings this fault
/// back.
#[test]
fn nothing_is_pushed_where_a_follower_has_let_go() {
    are_sound("group-slow", &[105]);
}

/// A leader that handed over waited for a copy that its maintenance thread had written and slept on for 40
/// ms. `Mutant::SleepUnsent` brings this fault back.
#[test]
fn a_leader_that_hands_over_has_sent_what_it_wrote() {
    are_sound("group-moves", &[151, 81_923]);
}

/// A leader refused a client's request, the next leader ran it, and the client sent it to the first again,
/// which said once more that it was refused. `Mutant::RecallAnyway` brings this fault back.
#[test]
fn what_was_refused_is_refused_again_only_under_the_lease() {
    are_sound("group-steps", &[86_051]);
}

/// A replica had let go of a segment, and of what it had written there when it led. The next leader still had
/// the segment, gave the replica its line, and so entries that no commit had counted were there again.
#[test]
fn what_a_replica_let_go_of_does_not_come_back_with_a_line() {
    are_sound("group-strands", &[86_485]);
}

/// A candidate had been given a segment in its next use when it left. It fetched what another replica had
/// there in the older use, and lost the entries of the younger one; a follower that had both counted them
/// twice.
/// `Mutant::FetchOlder` brings this fault back.
#[test]
fn a_candidate_keeps_the_younger_use_of_a_segment() {
    are_sound("group-strands", &[1_838_834_891_785]);
}

/// A follower went and came back before the leader's stream looked, and so it went on counting while it was
/// synced anew.
#[test]
fn a_follower_that_came_back_at_once_counts_once_it_is_synced() {
    are_sound("group-slow", &[81_224]);
}

/// A machine was lost while a candidate READ its memory. The network answered with zeroes, and the candidate
/// wrote them over the line of a segment that it had.
#[test]
fn a_read_of_a_machine_that_is_lost_has_no_answer() {
    are_sound("group-landing", &[40_910]);
}

/// With half a percent of drift each way a client trusted an anchor for too long. A client that only read got
/// what a deposed leader had, two seconds on. `Mutant::NoDrift` brings this fault back.
#[test]
fn a_client_of_a_drifting_clock_does_not_trust_for_longer() {
    are_sound("group-pauses", &[3, 5, 8, 13]);
}

/// A follower's tree was built of the segments that it had at first. What the leader had applied by then lay
/// in a segment that was claimed there a moment later, so pages left out keys. `Mutant::NoteOnce` brings this
/// fault back.
#[test]
fn a_tree_has_what_lies_in_segments_that_are_claimed_while_it_waits() {
    are_sound("group-scans-pauses", &[2, 7]);
    are_sound("group-scans-weather", &[10]);
}

/// While a tree was being built, entries were moved before they were looked at. Their copies came with the
/// stream, and were taken for those of deleted keys, as an older tree had had all up to their versions.
#[test]
fn a_tree_that_is_being_built_takes_the_copies_of_what_it_did_not_see() {
    are_sound("group-scans-pauses", &[1005]);
}

/// A value was written where an entry had been that a tree named, and looked like an entry of that version
/// that is younger than any copy. The tree kept a place at which nothing was.
#[test]
fn a_tree_takes_the_copy_of_what_a_value_was_written_over() {
    are_sound("group-scans-pauses", &[70171]);
}

/// A leader that was cut off from its followers emptied a segment that had a delete which was not committed.
/// The next leader had cut off the delete, and found the copy, which was in another stream.
#[test]
fn a_delete_that_was_cut_off_has_no_copy() {
    are_sound("group-scans-strands", &[17000080]);
}

/// A replica that began to lead, and left scans to its followers, still showed the tree that it had kept as a
/// follower. The entries that the tree named were moved, and who inspected it found them missing.
#[test]
fn a_replica_that_begins_to_lead_shows_no_tree_of_before() {
    are_sound("group-scans-all", &[16000094]);
}

/// A write in doubt took effect between a last look at its key and the look at the arena. Where replicas kept
/// no ordered index the judge did not look again, and took that for an index that lacks the key.
#[test]
fn a_write_that_takes_effect_between_two_looks_is_no_violation() {
    are_sound("group-stalls", &[20000574]);
}

/// Runs in a row are the same as each alone, whatever was in their memory before.
#[test]
fn runs_that_use_memory_again_are_the_same() {
    let plans: Vec<Plan> = ["group-crashes", "group-changes", "all"]
        .iter()
        .map(|name| Plan::of(Scenario::named(name).expect("there is one"), 3))
        .collect();
    let alone: Vec<_> = plans.iter().map(run::play).collect();
    let in_a_row = || plans.iter().chain(&plans).map(run::play).collect::<Vec<_>>();
    assert_eq!(recycling(in_a_row), [alone.clone(), alone].concat());
}

/// A page of a table was cut off, and so was the next write to the same place. The sectors of the two
/// together were the first page, which so came back, with the line of a segment that nobody had acknowledged.
#[test]
fn a_page_that_was_cut_off_does_not_come_back_with_the_next() {
    are_sound("durable-all", &[21]);
}

/// The file of a follower that came back was given what it had acknowledged, before all of that was to be
/// seen in its memory, and the note counted it.
#[test]
fn a_file_is_given_what_is_acknowledged_once_it_has_landed() {
    are_sound("power-steps", &[4011]);
}

/// A follower's disk had an entry that the next leader cut off, below the floors that the disk had by then.
/// The file kept it, and said later that it was of an older term, where all that is there counts.
#[test]
fn what_a_leader_cut_off_does_not_come_back_from_a_disk() {
    are_sound("power", &[11]);
}

/// A follower whose disk had let go of three segments came back, and was given them again, since another
/// follower had still to let go of them. The judge took the three for told when power was lost.
#[test]
fn a_follower_that_comes_back_knows_of_fewer_freed_segments() {
    are_sound("power", &[53]);
}

/// Of an entry that was on its way to persistent memory the mark was there and the position was not. Zero is
/// below every floor, so the server took it for damage, and did not start.
#[test]
fn a_write_that_a_loss_of_power_tears_in_persistent_memory_is_no_damage() {
    are_sound("durable-group", &[4030]);
}

/// Each life of a server that serves from persistent memory began where the one before had allowed its
/// calendar to go, and allowed as much again. Items went seconds before their time.
#[test]
fn the_calendar_does_not_run_ahead_over_many_lives() {
    are_sound("pmem", &[6]);
    are_sound("pmem-all", &[2]);
}

/// A leader from a disk went on above the versions that were lost, and wrote nothing. The next leader had not
/// been told of them, found no entry, and drew the first version once more.
#[test]
fn a_follower_of_a_leader_from_a_disk_knows_which_versions_are_lost() {
    are_sound("async-group", &[121]);
}

/// Leaders from disks that never served came one after the other, each with the disk of the one before.
#[test]
fn what_was_given_up_is_what_the_first_of_several_disks_lacked() {
    are_sound("cold", &[9, 17]);
}

/// A follower lost power while the leader's thread stood between telling the follower of freed segments and
/// relying on that. The judge took what the leader had told for not told.
#[test]
fn a_leader_that_stands_may_rely_on_what_it_told_a_follower_that_is_gone() {
    are_sound("group-stalls-all", &[1_839_051_995_139]);
}
