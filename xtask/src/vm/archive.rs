//! The initramfs as bytes: a cpio archive in the form `newc`, which the kernel unpacks as its first root.
//! Not compressed: an emulated CPU unpacks slower than it reads.

const TRAILER: &str = "TRAILER!!!";
const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const DEVICE: u32 = 0o020_600;

/// The device that a device file stands for.
#[derive(Default)]
struct DeviceNumber {
    major: u32,
    minor: u32,
}

/// An archive to which entries are added; parents come before children.
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    pub fn new() -> Archive {
        Archive { bytes: Vec::new(), entries: 0 }
    }

    pub fn directory(&mut self, name: &str) {
        self.entry(name, DIRECTORY, DeviceNumber::default(), &[]);
    }

    /// An executable file.
    pub fn program(&mut self, name: &str, content: &[u8]) {
        self.entry(name, PROGRAM, DeviceNumber::default(), content);
    }

    /// A character device.
    pub fn device(&mut self, name: &str, major: u32, minor: u32) {
        self.entry(name, DEVICE, DeviceNumber { major, minor }, &[]);
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.entry(TRAILER, 0, DeviceNumber::default(), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: DeviceNumber, content: &[u8]) {
        let DeviceNumber { major, minor } = device;
        self.entries += 1;
        let size = u32::try_from(content.len()).expect("no file of ours is 4 GiB long");
        let name_size = u32::try_from(name.len() + 1).expect("names are short");
        // inode, mode, uid, gid, links, time, size, device (2), device it is (2), name, checksum (none in
        // newc).
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    /// Names and contents end at a multiple of four.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[test]
fn an_archive_is_as_the_kernel_reads_it() {
    let mut archive = Archive::new();
    archive.directory("dev");
    archive.device("dev/console", 5, 1);
    archive.program("init", b"hello");
    let bytes = archive.finish();
    let text = String::from_utf8_lossy(&bytes);
    assert_eq!(bytes.len() % 4, 0);
    let heads: Vec<usize> = text.match_indices("070701").map(|(at, _)| at).collect();
    assert!(heads.iter().all(|at| at % 4 == 0), "{heads:?}");
    let init = &text[heads[2]..];
    assert_eq!(&init[14..22], "000081ed", "mode");
    assert_eq!(&init[54..62], "00000005", "size");
    assert_eq!(&init[94..102], "00000005", "name with its zero");
    assert_eq!(&init[110..116], "init\0\0");
    assert_eq!(&init[116..124], "hello\0\0\0");
    assert_eq!(&text[heads[1]..][78..94], "0000000500000001", "the console is 5:1");
    assert!(text.ends_with("TRAILER!!!\0\0\0\0"), "{:?}", &text[text.len() - 16..]);
}
