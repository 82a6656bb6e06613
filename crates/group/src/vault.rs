//! Where a replica keeps what it promised: beside its data, or in a directory of another disk, its *vault*.
//!
//! A change of the leader waits for two promises to be on disk, and a disk that is given much else lets them
//! wait. So they may have a disk of their own (`vault_dir`).
//!
//! (1) A replica that cannot find what it promised must not go on as if that were nothing (L2). So the data
//!     directory has a *pointer* once the promises are elsewhere, and the vault a *tag* of the replica. The
//!     pointer without a vault, or with one that has no such tag, is refused.
//! (2) Promises that are beside the data move when the vault is named for the first time: they are in the
//!     vault before the pointer is made, and go from the data directory after that. What was cut off in
//!     between is begun again. Of two promises the one of the higher term counts, as it does for whoever
//!     heard of either.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use longarm_base::ReplicaId;

use crate::durable::owner_file::{self, Unread};
use crate::options::StartError;
use crate::vote_store::{FileVoteStore, VoteStore, make_dir, signed};

/// The key of the pointer's checksum, which guards against damage, not against people.
const SUM_KEY: u64 = 0x7661_756C_7473_2121;

/// A replica's place for what it promised.
#[derive(Clone, Copy, Debug)]
pub struct Vault<'a> {
    /// The directory of its data, or of its node.
    pub data: &'a Path,
    /// The vault, if it is to have one.
    pub dir: Option<&'a Path>,
    /// The group of the replica.
    pub group: u64,
    /// The replica.
    pub replica: ReplicaId,
    /// Whether the directory has the promises of replicas of several groups.
    pub of_several: bool,
}

/// A pointer: `longarm-vault 1 OWNER PATH CHECKSUM`, and a line's end.
struct Pointer {
    owner: String,
    dir: PathBuf,
}

impl Pointer {
    fn read(data: &Path, name: &str) -> std::io::Result<Option<Pointer>> {
        let text = match owner_file::read(data, name, false) {
            Ok((text, _)) => text,
            Err(Unread::Failed(_, error)) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(Unread::Failed(_, error)) => return Err(error),
            Err(Unread::InUse) => unreachable!("it is not locked"),
        };
        let damaged = || Error::new(ErrorKind::InvalidData, format!("`{name}` in it is damaged"));
        let (body, _) = text.rsplit_once(' ').ok_or_else(damaged)?;
        let mut words = body.splitn(4, ' ').skip(2);
        let (owner, dir) = words.next().zip(words.next()).ok_or_else(damaged)?;
        let known = signed(SUM_KEY, body.into()) == text && body.starts_with("longarm-vault 1 ");
        known.then(|| Some(Pointer { owner: owner.into(), dir: dir.into() })).ok_or_else(damaged)
    }

    fn make(&self, data: &Path, name: &str) -> std::io::Result<()> {
        let Pointer { owner, dir } = self;
        owner_file::make(data, name, &signed(SUM_KEY, format!("longarm-vault 1 {owner} {}", dir.display())))
    }
}

impl Vault<'_> {
    /// The store of what the replica promised. The directories are made if they are not there.
    pub fn open(&self) -> Result<FileVoteStore, StartError> {
        let wrong = |text: String| StartError::Directory { dir: self.data.display().to_string(), text };
        let failed = |error: Error| wrong(format!("what the replica promised cannot be kept: {error}"));
        make_dir(self.data).map_err(failed)?;
        let known = Pointer::read(self.data, &self.pointer()).map_err(failed)?;
        match (known, self.dir) {
            (None, None) => FileVoteStore::named(self.data, &self.own()).map_err(failed),
            (Some(pointer), None) => Err(wrong(format!(
                "what the replica promised is in {}: name that with --vault-dir",
                pointer.dir.display()
            ))),
            (Some(pointer), Some(vault)) if !vault.join(self.tag()).exists() => Err(wrong(format!(
                "what the replica promised is in {}, and {} has nothing of it: name the directory that has",
                pointer.dir.display(),
                vault.display()
            ))),
            (pointer, Some(vault)) => self.enter(vault, pointer.is_some()).map_err(failed),
        }
    }

    /// The store in a vault; what is beside the data moves there.
    fn enter(&self, vault: &Path, is_known: bool) -> std::io::Result<FileVoteStore> {
        let store = FileVoteStore::named(vault, &format!("promise-{}", self.owner()))?;
        let own = FileVoteStore::named(self.data, &self.own())?;
        if !is_known {
            if let Some(promise) = own.load()?
                && store.load()?.is_none_or(|known| known.term <= promise.term)
            {
                store.store(&promise)?;
            }
            owner_file::make(vault, &self.tag(), "what a replica promised is here\n")?;
            let dir = std::path::absolute(vault)?;
            Pointer { owner: self.owner(), dir }.make(self.data, &self.pointer())?;
        }
        match std::fs::remove_file(self.data.join(self.own())) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(store),
        }
    }

    fn owner(&self) -> String {
        format!("{:016x}-{}", self.group, self.replica)
    }

    fn tag(&self) -> String {
        format!("vault-{}", self.owner())
    }

    /// The name of what is beside the data. One group keeps the name that the store has always had.
    fn own(&self) -> String {
        if self.of_several { format!("promise-{:016x}", self.group) } else { "promise".into() }
    }

    fn pointer(&self) -> String {
        if self.of_several { format!("vault-{:016x}", self.group) } else { "vault".into() }
    }
}

/// The store to which the directory of a server's, or one replica's, data points.
pub(crate) fn pointed(data: &Path) -> std::io::Result<FileVoteStore> {
    match Pointer::read(data, "vault")? {
        Some(Pointer { owner, dir }) => FileVoteStore::named(&dir, &format!("promise-{owner}")),
        None => FileVoteStore::open(data),
    }
}

#[cfg(test)]
mod tests {
    use longarm_base::Term;

    use super::*;
    use crate::vote_store::Promise;

    fn vault<'a>(data: &'a Path, dir: Option<&'a Path>) -> Vault<'a> {
        Vault { data, dir, group: 9, replica: ReplicaId(2), of_several: false }
    }

    fn promise(term: u32) -> Promise {
        Promise { term: Term::new(term, ReplicaId(2)), ..Promise::default() }
    }

    fn term(vault: Vault<'_>) -> Option<Term> {
        vault.open().expect("opened").load().expect("read").map(|promise| promise.term)
    }

    fn refused(vault: Vault<'_>) -> String {
        vault.open().map(|_| ()).expect_err("it is refused").to_string()
    }

    #[test]
    fn promises_move_to_the_vault_and_are_not_forgotten_without_it() {
        let home = tempfile::tempdir().expect("a directory");
        let (data, dir, other) = (home.path().join("d"), home.path().join("v w"), home.path().join("o"));
        vault(&data, None).open().expect("opened").store(&promise(4)).expect("stored");
        let there = vault(&data, Some(&dir));
        assert_eq!(term(there), Some(promise(4).term), "what is beside the data moves");
        assert!(!data.join("promise").exists());
        there.open().expect("opened").store(&promise(6)).expect("stored");
        let without = refused(vault(&data, None));
        assert!(without.contains("v w: name that with --vault-dir"), "{without}");
        let elsewhere = refused(vault(&data, Some(&other)));
        assert!(elsewhere.contains("has nothing of it"), "{elsewhere}");
        assert_eq!(term(there), Some(promise(6).term));
        assert_eq!(pointed(&data).expect("found").load().expect("read"), Some(promise(6)));
        // Another replica's promises are others.
        let third = home.path().join("third");
        assert_eq!(term(Vault { replica: ReplicaId(1), ..vault(&third, Some(&dir)) }), None);
        // The data is lost, and what was promised is not.
        std::fs::remove_dir_all(&data).expect("removed");
        assert_eq!(term(there), Some(promise(6).term));
    }

    #[test]
    fn a_move_that_was_cut_off_is_begun_again_and_the_higher_term_counts() {
        let home = tempfile::tempdir().expect("a directory");
        let (data, dir) = (home.path().join("d"), home.path().join("v"));
        let there = vault(&data, Some(&dir));
        for (own, known, expected) in [(4, 3, 4), (4, 4, 4), (4, 5, 5)] {
            let _ = std::fs::remove_dir_all(&data);
            there.open().expect("opened").store(&promise(known)).expect("stored");
            // The power was lost before the pointer was there.
            std::fs::remove_file(data.join("vault")).expect("removed");
            vault(&data, None).open().expect("opened").store(&promise(own)).expect("stored");
            assert_eq!(term(there), Some(promise(expected).term));
        }
        std::fs::write(data.join("vault"), "longarm-vault 1 x").expect("written");
        assert!(refused(there).contains("`vault` in it is damaged"));
    }
}
