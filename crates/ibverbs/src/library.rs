//! The library, opened at run time and for good.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use crate::Error;
use crate::bindings as b;

const FILE: &CStr = c"libibverbs.so.1";

macro_rules! functions {
    ($($name:ident: $type:ident,)*) => {
        /// The functions used, each under its name without `ibv_`.
        pub struct Functions {
            $(pub $name: b::$type,)*
        }

        impl Functions {
            /// Opens the library `file` and finds every function in it.
            fn load(file: &CStr) -> Result<Functions, String> {
                let library = open(file)?;
                Ok(Functions {
                    // SAFETY: the type belongs to this function (the same C header says both).
                    $($name: Some(unsafe { symbol(library, concat!("ibv_", stringify!($name), "\0"))? }),)*
                })
            }
        }
    };
}

functions! {
    ack_async_event: fn_ack_async_event,
    ack_cq_events: fn_ack_cq_events,
    alloc_pd: fn_alloc_pd,
    close_device: fn_close_device,
    create_ah: fn_create_ah,
    create_comp_channel: fn_create_comp_channel,
    create_cq: fn_create_cq,
    create_qp: fn_create_qp,
    dealloc_pd: fn_dealloc_pd,
    dereg_mr: fn_dereg_mr,
    destroy_ah: fn_destroy_ah,
    destroy_comp_channel: fn_destroy_comp_channel,
    destroy_cq: fn_destroy_cq,
    destroy_qp: fn_destroy_qp,
    free_device_list: fn_free_device_list,
    get_async_event: fn_get_async_event,
    get_cq_event: fn_get_cq_event,
    get_device_list: fn_get_device_list,
    get_device_name: fn_get_device_name,
    modify_qp: fn_modify_qp,
    open_device: fn_open_device,
    query_device: fn_query_device,
    query_gid: fn_query_gid,
    query_port: fn_query_port,
    query_qp: fn_query_qp,
    reg_mr: fn_reg_mr,
    wc_status_str: fn_wc_status_str,
}

/// The functions, or why there are none. The first call decides.
pub fn functions() -> Result<&'static Functions, Error> {
    static LIBRARY: OnceLock<Result<Functions, String>> = OnceLock::new();
    LIBRARY.get_or_init(|| Functions::load(FILE)).as_ref().map_err(|text| Error::NoLibrary(text.clone()))
}

/// The functions, for those who have an object of the library.
pub fn loaded() -> &'static Functions {
    functions().expect("an object of it exists")
}

/// Calls a function of the library. Whoever has an object of it has loaded it.
macro_rules! verb {
    ($name:ident($($argument:expr),* $(,)?)) => {
        $crate::library::loaded().$name.expect("all were found")($($argument),*)
    };
}
pub(crate) use verb;

fn open(file: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: a terminated name; the constructors of rdma-core's library have no preconditions.
    let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW) };
    if library.is_null() { Err(complaint()) } else { Ok(library) }
}

/// # Safety
/// `F` is the type of a pointer to the function of that name. `name` ends with a zero.
unsafe fn symbol<F: Copy>(library: *mut c_void, name: &str) -> Result<F, String> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: a handle of dlopen, and a terminated name.
    let address = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
    if address.is_null() {
        return Err(format!("{}: it is too old", complaint()));
    }
    // SAFETY: the caller's promise; the sizes are compared above.
    Ok(unsafe { std::mem::transmute_copy(&address) })
}

/// What the loader says was wrong.
fn complaint() -> String {
    // SAFETY: no precondition; the text stays until the next call of this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader does not say why".into();
    }
    // SAFETY: a terminated text, checked for null.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_said_and_how_to_get_it() {
        let text = Functions::load(c"libibverbs-not-here.so.1").err().expect("nobody has this");
        assert!(text.contains("libibverbs-not-here.so.1"), "{text}");
        let error = Error::NoLibrary(text).to_string();
        assert!(error.contains("apt install libibverbs1") && error.contains("dnf install"), "{error}");
    }

    #[test]
    fn another_library_is_not_taken_for_it() {
        let text = Functions::load(c"libc.so.6").err().expect("no verbs there");
        assert!(text.contains("ibv_ack_async_event") && text.contains("too old"), "{text}");
    }
}
