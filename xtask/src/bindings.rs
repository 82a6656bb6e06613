//! `cargo x bindings`: makes `crates/ibverbs/src/bindings.rs` anew from the machine's `infiniband/verbs.h`,
//! with the program bindgen. The result is committed, so that nobody else needs bindgen, libclang or the
//! header. Do it when a newer rdma-core has something that is wanted: the library keeps its old ABI for good.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TARGET: &str = "crates/ibverbs/src/bindings.rs";
const MISSING: &str = "cargo x bindings needs bindgen, libclang and the header:
  cargo install bindgen-cli
  apt install libclang-dev libibverbs-dev    (Fedora: dnf install clang-devel rdma-core-devel)
BINDGEN names the program if it is not in PATH; LIBCLANG_PATH the folder of libclang.so.";

/// Each gets a type `fn_...`, with the arguments of `ibv_...`.
const FUNCTIONS: &[&str] = &[
    "ack_async_event",
    "ack_cq_events",
    "alloc_pd",
    "close_device",
    "create_ah",
    "create_comp_channel",
    "create_cq",
    "create_qp",
    "create_srq",
    "dealloc_pd",
    "dereg_mr",
    "destroy_ah",
    "destroy_comp_channel",
    "destroy_cq",
    "destroy_qp",
    "destroy_srq",
    "free_device_list",
    "get_async_event",
    "get_cq_event",
    "get_device_list",
    "get_device_name",
    "modify_qp",
    "modify_srq",
    "open_device",
    "query_device",
    "query_gid",
    "query_pkey",
    "query_port",
    "query_qp",
    "reg_mr",
    "wc_status_str",
];
/// Types that no argument above leads to: the names of bits, and what `struct ibv_device` says of itself.
const MORE_TYPES: &str = "ibv_(access_flags|wc_flags|send_flags|qp_attr_mask|srq_attr_mask|node_type|\
                          transport_type|port_attr)";
/// The threads library's types come from the crate libc: their size differs from machine to machine.
const FROM_LIBC: &str = "pthread_(mutex|cond)_t|(__)?pthread_.*|__atomic_wide_counter.*";
/// Pointers to these are passed by, at most.
const OPAQUE: &str = "ibv_(wq|mw_bind)";
/// What the committed file must bear to be valid on every 64-bit machine.
const X86_64_ONLY: &str = "#[cfg(target_arch = \"x86_64\")]\n";
/// What bindgen puts before each check of a layout.
const CHECK: &str = "#[allow(clippy::unnecessary_operation, clippy::identity_op)]\n";

/// `--include DIR` takes the header from another folder than /usr/include. `Ok(true)` if the file was
/// written.
pub fn run(root: &Path, args: &[&str]) -> Result<bool, String> {
    let include = match args {
        [] => PathBuf::from("/usr/include"),
        ["--include", dir] => PathBuf::from(dir),
        _ => return Err("cargo x bindings takes --include DIR and nothing else".into()),
    };
    let header = include.join("infiniband/verbs.h");
    let text = std::fs::read_to_string(&header)
        .map_err(|error| format!("{}: {error}\n{MISSING}", header.display()))?;
    let mut notice = notice(&text)?;
    for more in ["verbs_api.h", "ib_user_ioctl_verbs.h"] {
        let path = include.join("infiniband").join(more);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        add_holders(&mut notice, &text);
    }
    let (raw, tool) = generate(&include)?;
    let code = on_x86_64_only(&format(root, &raw)?);
    let head = format!(
        "//! The types of libibverbs, by `cargo x bindings` from infiniband/verbs.h of rdma-core.\n\
         //! Made with {tool}, not to be edited. The names of structures and constants are the header's; so\n\
         //! are the sizes and offsets, which the compiler checks below. 64-bit machines only.\n\
         \n{notice}\n"
    );
    std::fs::write(root.join(TARGET), head + &code).map_err(|error| format!("{TARGET}: {error}"))?;
    println!("{TARGET}: written with {tool}");
    Ok(true)
}

/// Runs bindgen on a header of one typedef a function; its text, and its name and version.
fn generate(include: &Path) -> Result<(String, String), String> {
    let program = std::env::var_os("BINDGEN").unwrap_or_else(|| "bindgen".into());
    let version = Command::new(&program)
        .arg("--version")
        .output()
        .map_err(|error| format!("{}: {error}\n{MISSING}", program.display()))?;
    let folder = std::env::temp_dir().join(format!("longarm-bindings-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let header = folder.join("functions.h");
    let written = std::fs::write(&header, functions_header());
    let output = written.and_then(|()| bindgen(&program, &header, include).output());
    let _ = std::fs::remove_dir_all(&folder);
    let output = output.map_err(|error| format!("{}: {error}", header.display()))?;
    if !output.status.success() {
        return Err(format!("{}\n{MISSING}", String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8(output.stdout).map_err(|error| format!("bindgen wrote {error}"))?;
    // Its first line says that bindgen wrote it; the head says so too.
    let text = text.split_once('\n').map_or("", |(_, rest)| rest).trim_start().to_string();
    Ok((text, String::from_utf8_lossy(&version.stdout).trim().to_string()))
}

/// What rustfmt makes of it, by the workspace's settings.
fn format(root: &Path, code: &str) -> Result<String, String> {
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024", "--config-path"]).arg(root);
    let mut child = rustfmt
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run rustfmt: {error}"))?;
    // It reads everything before it writes.
    let fed = child.stdin.take().expect("it is piped").write_all(code.as_bytes());
    let output = fed.and_then(|()| child.wait_with_output()).map_err(|error| format!("rustfmt: {error}"))?;
    if !output.status.success() {
        return Err("rustfmt did not understand what bindgen wrote".into());
    }
    String::from_utf8(output.stdout).map_err(|error| format!("rustfmt wrote {error}"))
}

fn bindgen(program: &std::ffi::OsStr, header: &Path, include: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(header);
    command.args(["--allowlist-type", "fn_.*", "--allowlist-type", MORE_TYPES]);
    command.args(["--allowlist-var", "IBV_LINK_LAYER_.*"]);
    command.args(["--blocklist-type", FROM_LIBC, "--opaque-type", OPAQUE]);
    command.args(["--default-enum-style", "consts", "--no-prepend-enum-name"]);
    command.args(["--no-doc-comments", "--no-derive-debug", "--use-core", "--formatter", "none"]);
    command.args(["--rust-edition", "2024", "--rust-target", "1.85"]);
    command.args(["--raw-line", "use libc::{pthread_cond_t, pthread_mutex_t};"]);
    command.arg("--").arg("-I").arg(include);
    command
}

fn functions_header() -> String {
    let types = FUNCTIONS.iter().map(|name| format!("typedef __typeof__(ibv_{name}) fn_{name};\n"));
    std::iter::once("#include <infiniband/verbs.h>\n".to_string()).chain(types).collect()
}

/// The first comment of the header, its copyright and licence, as Rust comments.
fn notice(header: &str) -> Result<String, String> {
    let comment = header.split_once("/*").and_then(|(_, rest)| rest.split_once("*/")).map(|(text, _)| text);
    let comment = comment.filter(|text| text.contains("Redistribution and use in source and binary forms"));
    let comment = comment.ok_or("verbs.h does not begin with the notice of its licence any more")?;
    let lines = comment.trim_matches(['\n', ' ']).lines();
    let lines = lines.map(|line| line.trim_start().trim_start_matches('*').trim_end());
    Ok(lines.map(|line| format!("//{line}\n")).collect())
}

/// Puts the copyright lines of another header under the same licence before the first blank line.
fn add_holders(notice: &mut String, header: &str) {
    let lines = header.lines().take_while(|line| !line.contains("*/") || line.contains("SPDX"));
    for line in lines.filter(|line| line.contains("Copyright (c)")) {
        let line = format!("// {}\n", line.trim_start_matches([' ', '*']));
        let end = notice.find("\n//\n").map_or(notice.len(), |at| at + 1);
        if !notice.contains(&line) {
            notice.insert_str(end, &line);
        }
    }
}

/// Offsets behind a mutex hold where it has the size it has on x86-64: the checks of structures with one are
/// for that machine alone.
fn on_x86_64_only(code: &str) -> String {
    let holders = with_threads(code);
    let sizes: Vec<String> = holders.iter().map(|name| format!("size_of::<{name}>()")).collect();
    let mut out = String::new();
    for (i, part) in code.split(CHECK).enumerate() {
        let end = part.find("\n};").unwrap_or(part.len());
        if i > 0 && sizes.iter().any(|size| part[..end].contains(size)) {
            out.push_str(X86_64_ONLY);
        }
        if i > 0 {
            out.push_str(CHECK);
        }
        out.push_str(part);
    }
    out
}

/// Names of the structures that hold a mutex, themselves or in a member.
fn with_threads(code: &str) -> Vec<String> {
    let structures = code.split("\npub struct ").skip(1).filter_map(|text| {
        let (name, rest) = text.split_once(" {\n")?;
        Some((name, rest.split_once("\n}")?.0))
    });
    let structures: Vec<(&str, &str)> = structures.collect();
    let mut found: Vec<String> = vec!["pthread_mutex_t".into(), "pthread_cond_t".into()];
    loop {
        let holds = |body: &str| found.iter().any(|known| body.contains(&format!(": {known},")));
        let more =
            structures.iter().filter(|(name, body)| !found.iter().any(|known| known == name) && holds(body));
        let more: Vec<String> = more.map(|(name, _)| name.to_string()).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notice_is_kept_and_holders_are_added() {
        let licence = "Redistribution and use in source and binary forms";
        let header = format!("/*\n * Copyright (c) 1 A\n *\n * {licence}\n */\nint x;");
        let mut kept = notice(&header).expect("a notice");
        add_holders(&mut kept, "/* SPDX: x */\n/*\n * Copyright (c) 2 B\n */\n// Copyright (c) 3 C");
        assert_eq!(kept, format!("// Copyright (c) 1 A\n// Copyright (c) 2 B\n//\n// {licence}\n"));
        assert!(notice("/* nothing */").is_err());
    }

    #[test]
    fn checks_of_structures_with_a_mutex_are_for_x86_64() {
        let check = |name: &str| format!("{CHECK}const _: () = {{\n    size_of::<{name}>() - 8usize;\n}};\n");
        let code = format!(
            "\npub struct Has {{\n    pub a: pthread_mutex_t,\n}}\n{}\n\
             pub struct In {{\n    pub a: Has,\n}}\n{}\n\
             pub struct Not {{\n    pub a: *mut Has,\n}}\n{}",
            check("Has"),
            check("In"),
            check("Not")
        );
        let out = on_x86_64_only(&code);
        assert_eq!(out.matches(X86_64_ONLY).count(), 2);
        assert!(!out.split("pub struct Not").nth(1).expect("it").contains(X86_64_ONLY));
        assert_eq!(out.replace(X86_64_ONLY, ""), code, "and nothing else changes");
    }
}
