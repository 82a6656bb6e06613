//! Replaces files whole: whatever happens, the old file or the new one is there.

use std::path::Path;

use crate::output::Failure;

/// Has `write` make a new file beside `path`, and puts it in the place of `path`.
pub fn replace(path: &Path, write: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<(), Failure> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = Path::new(&fresh);
    write(fresh)
        .and_then(|()| std::fs::rename(fresh, path))
        .map_err(|error| Failure::io("write", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_written_whole_leaves_the_old_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        replace(&path, |fresh| std::fs::write(fresh, "old")).expect("written");
        let half = |fresh: &Path| {
            std::fs::write(fresh, "ne")?;
            Err(std::io::Error::other("no space"))
        };
        let failure = replace(&path, half).expect_err("not written");
        assert!(format!("{failure:?}").contains("no space"), "{failure:?}");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "old");
        replace(&path, |fresh| std::fs::write(fresh, "new")).expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "new");
    }
}
