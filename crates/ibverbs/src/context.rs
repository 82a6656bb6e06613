//! Devices, ports, GIDs, and what happens to them.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::Error;
use crate::bindings as b;
use crate::library::{functions, verb};

/// Names of the RDMA devices of this machine.
pub fn devices() -> Result<Vec<String>, Error> {
    let list = List::get()?;
    Ok(list.entries().map(name).collect())
}

/// The library's list of devices, freed when dropped.
struct List {
    first: *mut *mut b::ibv_device,
    count: usize,
}

impl List {
    fn get() -> Result<List, Error> {
        functions()?;
        let mut count = 0;
        // SAFETY: `count` is where the number goes.
        let first = unsafe { verb!(get_device_list(&mut count)) };
        if first.is_null() {
            let error = std::io::Error::last_os_error();
            // The kernel was built without RDMA: then there is no device, either.
            if error.raw_os_error() == Some(libc::ENOSYS) {
                return Ok(List { first, count: 0 });
            }
            let (verb, device) = ("get_device_list", "this machine".into());
            return Err(Error::Verb { verb, device, source: error });
        }
        Ok(List { first, count: usize::try_from(count).unwrap_or(0) })
    }

    fn entries(&self) -> impl Iterator<Item = *mut b::ibv_device> + '_ {
        // SAFETY: the library gave an array of `count` devices, which stands until it is freed.
        (0..self.count).map(|i| unsafe { *self.first.add(i) })
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if !self.first.is_null() {
            // SAFETY: from get_device_list, freed once. Contexts that were opened keep their device.
            unsafe { verb!(free_device_list(self.first)) };
        }
    }
}

fn name(device: *mut b::ibv_device) -> String {
    // SAFETY: a device of a live list; its name is terminated.
    unsafe { CStr::from_ptr(verb!(get_device_name(device))) }.to_string_lossy().into_owned()
}

/// An open device.
pub struct Context {
    pub(crate) raw: *mut b::ibv_context,
    name: String,
}

// SAFETY: verbs may be called on one context from every thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// What a device can do, as far as anybody here asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Ports, numbered from 1.
    pub ports: u8,
    /// Queue pairs it has room for.
    pub queue_pairs: u32,
    /// Work requests of one queue pair, each way.
    pub work_requests: u32,
    /// Entries of one completion queue.
    pub completions: u32,
    /// READs and atomics that one queue pair may have outstanding at us.
    pub reads_served: u8,
    /// READs and atomics that we may have outstanding on one queue pair.
    pub reads_posted: u8,
    /// Longest registration, in bytes.
    pub registration: u64,
    /// Remote atomics are atomic among each other.
    pub atomics: bool,
}

/// A port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// From 1.
    pub number: u8,
    /// Ready for traffic.
    pub active: bool,
    /// Ethernet (RoCE); otherwise InfiniBand.
    pub ethernet: bool,
    /// Bytes of payload of a packet: 256 to 4096.
    pub mtu: u32,
    /// Address in an InfiniBand subnet; 0 on Ethernet.
    pub lid: u16,
    /// Entries of its GID table.
    pub gids: u32,
}

/// What network a GID belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GidKind {
    /// InfiniBand, or RoCE version 1 (the kernel names them with one word).
    IbOrRoceV1,
    /// RoCE version 2: UDP over IP, routable.
    RoceV2,
}

/// An address of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gid {
    /// Its place in the table.
    pub index: u8,
    /// The address.
    pub bytes: [u8; 16],
    /// Its network.
    pub kind: GidKind,
}

impl Gid {
    /// The IPv4 address it stands for, if any.
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        Ipv6Addr::from(self.bytes).to_ipv4_mapped()
    }

    /// The address it stands for.
    pub fn ip(&self) -> IpAddr {
        Ipv6Addr::from(self.bytes).to_canonical()
    }
}

impl std::fmt::Display for Gid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.ip().fmt(f)
    }
}

/// Something that happened to a device or to objects of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The device is gone, or needs a reset: everything on it is lost.
    DeviceLost,
    /// A port lost its link.
    PortDown(u8),
    /// A port has a link (again).
    PortUp(u8),
    /// Something else, by its number in the header.
    Other(u32),
}

impl Context {
    /// Opens the device of that name.
    pub fn open(device: &str) -> Result<Arc<Context>, Error> {
        let list = List::get()?;
        let Some(raw) = list.entries().find(|&raw| name(raw) == device) else {
            let names: Vec<String> = list.entries().map(name).collect();
            let found = match names.is_empty() {
                true => "this machine has none".to_string(),
                false => format!("this machine has {}", names.join(", ")),
            };
            return Err(Error::NoDevice { wanted: device.into(), found });
        };
        // SAFETY: a device of the live list.
        let raw = unsafe { verb!(open_device(raw)) };
        if raw.is_null() {
            return Err(Error::last("open_device", device));
        }
        let context = Context { raw, name: device.into() };
        not_blocking(context.events(), device)?;
        Ok(Arc::new(context))
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it can do.
    pub fn attributes(&self) -> Result<Attributes, Error> {
        // SAFETY: all-zero is a value of this plain structure; the library fills it.
        let mut raw: b::ibv_device_attr = unsafe { std::mem::zeroed() };
        // SAFETY: a live context and the place for the answer.
        let code = unsafe { verb!(query_device(self.raw, &mut raw)) };
        Error::check(code, "query_device", &self.name)?;
        let count = |n: i32| u32::try_from(n).unwrap_or(0);
        let small = |n: i32| u8::try_from(n.clamp(0, 255)).unwrap_or(0);
        Ok(Attributes {
            ports: raw.phys_port_cnt,
            queue_pairs: count(raw.max_qp),
            work_requests: count(raw.max_qp_wr),
            completions: count(raw.max_cqe),
            reads_served: small(raw.max_qp_rd_atom),
            reads_posted: small(raw.max_qp_init_rd_atom),
            registration: raw.max_mr_size,
            atomics: raw.atomic_cap != b::IBV_ATOMIC_NONE,
        })
    }

    /// The state of a port.
    pub fn port(&self, number: u8) -> Result<Port, Error> {
        // SAFETY: all-zero is a value of this plain structure. The library's older form of it is a prefix,
        // and fills what it knows.
        let mut raw: b::ibv_port_attr = unsafe { std::mem::zeroed() };
        // SAFETY: a live context, and room for the answer's newest form.
        let code = unsafe { verb!(query_port(self.raw, number, (&raw mut raw).cast())) };
        Error::check(code, "query_port", &self.name)?;
        Ok(Port {
            number,
            active: raw.state == b::IBV_PORT_ACTIVE,
            ethernet: u32::from(raw.link_layer) == b::IBV_LINK_LAYER_ETHERNET,
            mtu: 128 << raw.active_mtu.clamp(1, 5),
            lid: raw.lid,
            gids: u32::try_from(raw.gid_tbl_len).unwrap_or(0),
        })
    }

    /// The addresses of a port, empty places left out.
    pub fn gids(&self, port: &Port) -> Result<Vec<Gid>, Error> {
        let indexes = 0..port.gids.min(256);
        indexes.filter_map(|index| self.gid(port.number, index as u8).transpose()).collect()
    }

    fn gid(&self, port: u8, index: u8) -> Result<Option<Gid>, Error> {
        let mut raw = b::ibv_gid { raw: [0; 16] };
        // SAFETY: a live context and the place for the answer.
        let code = unsafe { verb!(query_gid(self.raw, port, index.into(), &mut raw)) };
        Error::check(code, "query_gid", &self.name)?;
        // SAFETY: every form of the union is 16 bytes of anything.
        let bytes = unsafe { raw.raw };
        if bytes == [0; 16] {
            return Ok(None);
        }
        // The library says the kind only by a call that older ones lack; the kernel says it here.
        let file = format!("/sys/class/infiniband/{}/ports/{port}/gid_attrs/types/{index}", self.name);
        let kind = match std::fs::read_to_string(file) {
            Ok(text) if text.trim() == "RoCE v2" => GidKind::RoceV2,
            Ok(_) => GidKind::IbOrRoceV1,
            // Gone since it was asked for.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => return Ok(None),
            Err(source) => {
                return Err(Error::Verb {
                    verb: "reading the kind of a GID",
                    device: self.name.clone(),
                    source,
                });
            }
        };
        Ok(Some(Gid { index, bytes, kind }))
    }

    /// Readable when [`event`](Self::event) has something.
    pub fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: the context's descriptor is open as long as the context.
        unsafe { BorrowedFd::borrow_raw((*self.raw).async_fd) }
    }

    /// The next event, if there is one.
    pub fn event(&self) -> Option<Event> {
        // SAFETY: all-zero is a value of this plain structure.
        let mut raw: b::ibv_async_event = unsafe { std::mem::zeroed() };
        // SAFETY: a live context, whose descriptor does not block, and the place for the answer.
        if unsafe { verb!(get_async_event(self.raw, &mut raw)) } != 0 {
            return None;
        }
        // SAFETY: an event that was got just above. Acknowledged at once, so that nobody who destroys the
        // object waits for us.
        unsafe { verb!(ack_async_event(&mut raw)) };
        // SAFETY: read only where the kind says that it is a port's number.
        let port = || unsafe { raw.element.port_num }.clamp(0, 255) as u8;
        Some(match raw.event_type {
            b::IBV_EVENT_DEVICE_FATAL => Event::DeviceLost,
            b::IBV_EVENT_PORT_ERR => Event::PortDown(port()),
            b::IBV_EVENT_PORT_ACTIVE => Event::PortUp(port()),
            other => Event::Other(other),
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened by us, closed once; everything made from it holds it alive.
        unsafe { verb!(close_device(self.raw)) };
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Context({})", self.name)
    }
}

/// Makes reads of an event descriptor return at once.
pub(crate) fn not_blocking(fd: impl AsFd, device: &str) -> Result<(), Error> {
    use std::os::fd::AsRawFd;
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: plain calls on a descriptor that is open.
    let code = unsafe {
        match libc::fcntl(fd, libc::F_GETFL) {
            -1 => -1,
            flags => libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK),
        }
    };
    if code == -1 { Err(Error::last("fcntl(O_NONBLOCK)", device)) } else { Ok(()) }
}
