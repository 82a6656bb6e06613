//! The files that the rules look at: text under the workspace that git would keep.

use std::path::Path;

/// A text file.
pub struct File {
    /// Path relative to the workspace, with slashes.
    pub path: String,
    /// Content.
    pub text: String,
}

impl File {
    /// Whether it is Rust of a product crate.
    pub fn is_product(&self) -> bool {
        self.path.starts_with("crates/") && self.path.contains("/src/") && self.path.ends_with(".rs")
    }

    /// The crate's folder of a product file: `fabric` of `crates/fabric/src/lib.rs`.
    pub fn crate_name(&self) -> &str {
        self.path.strip_prefix("crates/").and_then(|rest| rest.split('/').next()).unwrap_or("")
    }
}

/// All files of interest.
pub struct Tree {
    /// Sorted by path.
    pub files: Vec<File>,
}

const KINDS: [&str; 10] = [".rs", ".md", ".toml", ".sh", ".txt", ".yml", ".py", ".c", ".tla", ".cfg"];
const NAMES: [&str; 6] =
    ["run", ".gitignore", ".editorconfig", "LICENSE-MIT", "LICENSE-APACHE", "Cargo.lock"];
/// Nothing of ours, or nothing that is kept.
const SKIPPED: [&str; 5] = [".git", "target", "corpus", "artifacts", "node_modules"];
const DEPTH_MAX: usize = 12;

impl Tree {
    /// Reads the workspace.
    pub fn read(root: &Path) -> Result<Tree, String> {
        let mut tree = Tree { files: Vec::new() };
        tree.walk(root, "", 0)?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn walk(&mut self, dir: &Path, prefix: &str, depth: usize) -> Result<(), String> {
        assert!(depth < DEPTH_MAX, "the workspace is not so deep: {prefix}");
        let entries = std::fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        for entry in entries {
            let entry = entry.map_err(|error| format!("{}: {error}", dir.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().map_err(|error| format!("{name}: {error}"))?;
            let path = format!("{prefix}{name}");
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.walk(&entry.path(), &format!("{path}/"), depth + 1)?;
            }
            let wanted = NAMES.contains(&name.as_str()) || KINDS.iter().any(|kind| name.ends_with(kind));
            if kind.is_file() && wanted {
                let text =
                    std::fs::read_to_string(entry.path()).map_err(|error| format!("{path}: {error}"))?;
                self.files.push(File { path, text });
            }
        }
        Ok(())
    }

    /// Product sources.
    pub fn product(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_product())
    }

    /// All Rust.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The file with this path.
    pub fn find(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether there is a file, or a directory with files, of this path.
    pub fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&format!("{path}/")))
    }

    /// An invented tree.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let file = |(path, text): &(&str, &str)| File { path: path.to_string(), text: text.to_string() };
        Tree { files: files.iter().map(file).collect() }
    }
}
