//! Finds the program that the nodes run: `longarm` as it ships, which links nothing that strikes or judges
//! it.

use std::path::{Path, PathBuf};

use longarm::output::{Exit, Failure};
use longarm::processes::this_program;

/// The name of that program.
const NAME: &str = "longarm";

/// The program that is named, or the one beside this one.
pub fn find(named: Option<&Path>) -> Result<PathBuf, Failure> {
    match named {
        Some(path) if path.is_file() => Ok(path.to_path_buf()),
        Some(path) => {
            let text = format!("--program {}: there is no such file", path.display());
            Err(Failure::new(Exit::Usage, text).hint("it is where `longarm` is, whose servers are the nodes"))
        }
        None => beside(&this_program()?),
    }
}

fn beside(own: &Path) -> Result<PathBuf, Failure> {
    let path = own.with_file_name(NAME);
    if path.is_file() {
        return Ok(path);
    }
    let text = format!("there is no {}, whose servers the nodes would be", path.display());
    let hint = "`cargo build --release -p longarm -p longarm-chaos` builds both side by side; --program \
                names one that is elsewhere";
    Err(Failure::new(Exit::System, text).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_beside_this_one_or_where_it_is_said_to_be() {
        let directory = tempfile::tempdir().expect("a directory");
        let own = directory.path().join("longarm-chaos");
        let missing = beside(&own).expect_err("nothing is there");
        assert!(missing.exit == Exit::System && missing.hint.contains("-p longarm -p"), "{missing:?}");
        let path = directory.path().join(NAME);
        let wrong = find(Some(&path)).expect_err("nothing is there");
        assert!(wrong.exit == Exit::Usage && wrong.message.contains("--program"), "{wrong:?}");
        std::fs::write(&path, "").expect("written");
        assert_eq!((beside(&own), find(Some(&path))), (Ok(path.clone()), Ok(path)));
    }
}
