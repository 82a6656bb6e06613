//! The one suite that every transport passes: each numbered rule of [`contract`](crate::contract), and what
//! lies between.
//!
//! A transport implements [`Setup`] in a test module and says `conformance!(ItsSetup)`; all get the identical
//! list. The tests are generic functions, so they also run over wrappers and over transports of other crates.

#[allow(missing_docs, reason = "the names are sentences")]
mod access;
pub mod child;
#[allow(missing_docs, reason = "the names are sentences")]
mod death;
#[allow(missing_docs, clippy::new_without_default, reason = "the names say it, and new makes real things")]
pub mod harness;
#[allow(missing_docs, reason = "the names are sentences")]
mod ops;
#[allow(missing_docs, reason = "the names are sentences")]
mod order;
#[allow(missing_docs, reason = "the names are sentences")]
mod revoke;
#[allow(missing_docs, reason = "the names are sentences")]
mod setup;
#[allow(missing_docs, reason = "the names are sentences")]
mod sleep;
mod subject;

pub use subject::Setup;

/// The tests, for the macro.
#[doc(hidden)]
pub mod list {
    pub use super::access::*;
    pub use super::death::*;
    pub use super::ops::*;
    pub use super::order::*;
    pub use super::revoke::*;
    pub use super::setup::*;
    pub use super::sleep::*;
}

/// The tests of the suite for one [`Setup`], in a module of their own; each gets the attribute that stands
/// before it, if one does. `threads Setup`: those that need neither other processes nor sockets.
#[macro_export]
macro_rules! conformance {
    ($(#[$attribute:meta])* $setup:ty) => {
        $crate::conformance! { $(#[$attribute])* threads $setup }
        $crate::conformance! { @each $(#[$attribute])* $setup:
            a_killed_client_is_noticed
            a_killed_server_is_noticed
            nothing_of_another_process_takes_effect_after_revoke
            a_peer_that_heeds_is_fenced_and_lives
            a_revoked_reader_is_cut_off
            strangers_are_answered_and_forgotten
            a_dawdling_peer_holds_up_nobody
            an_unanswered_connect_ends_in_time
        }

        /// Entry of the child processes that other tests start; on its own it does nothing.
        #[test]
        fn child() {
            $crate::conformance::child::enter::<$setup>();
        }
    };
    ($(#[$attribute:meta])* threads $setup:ty) => {
        $crate::conformance! { $(#[$attribute])* attended $setup }
        $crate::conformance! { @each $(#[$attribute])* $setup:
            no_wake_up_is_lost_by_the_channel
            the_channel_tells_of_a_peer_that_left
            arming_with_news_asks_nothing
        }
    };
    // Of a listener whose channel another thread waits on.
    ($(#[$attribute:meta])* attended $setup:ty) => {
        $crate::conformance! { @each $(#[$attribute])* $setup:
            every_operation_round_trips
            sizes_odd_and_longest_come_back
            malformed_requests_change_nothing
            the_listener_side_operates_too
            atomics_of_two_queue_pairs_add_up
            compare_and_swap_counts_exactly
            completions_come_in_posting_order_up_to_the_depth
            silent_requests_report_nothing
            writes_take_effect_in_order
            arrivals_follow_their_bytes_and_all_earlier_ones
            atomics_and_writes_keep_their_order
            a_read_racing_with_stores_sees_whole_words
            messages_arrive_and_buffers_push_back
            arrivals_push_back_and_none_is_lost
            completions_beyond_the_room_wait
            requests_not_allowed_break_only_their_queue_pair
            before_a_violation_all_completes_and_after_it_nothing
            a_closed_peer_is_told_from_a_lost_one
            what_was_outstanding_completes_exactly_once
            nothing_takes_effect_after_revoke
            waiting_ends_by_news_or_by_time
            no_wake_up_is_lost_by_wait
            what_is_lent_is_known_to_the_other_side
            hello_and_welcome_have_limits
            a_rejected_peer_learns_why
            nobody_listening_is_said
            an_address_taken_is_said
            a_secret_is_demanded_from_both
            whoever_connects_has_the_role_that_it_proves
            accept_ends_in_time
            two_hundred_connections_to_one_listener
            connections_outlive_their_listener
        }
    };
    (@each #[$attribute:meta] $setup:ty: $($name:ident)*) => {
        $(
            #[test]
            #[$attribute]
            fn $name() {
                $crate::conformance::list::$name::<$setup>();
            }
        )*
    };
    (@each $setup:ty: $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $crate::conformance::list::$name::<$setup>();
            }
        )*
    };
}
