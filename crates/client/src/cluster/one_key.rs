//! Operations on one key: each is that of the client of the key's group.

use std::time::Duration;

use longarm_base::Csn;
use longarm_fabric::Transport;

use super::ClusterClient;
use crate::error::Error;
use crate::flight::Reply;
use crate::write::{Put, Write, write_methods};

impl<T: Transport + Clone> ClusterClient<T> {
    /// See [`Client::get`](crate::Client::get).
    #[inline]
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.group_of(key)?.get(key)
    }

    /// See [`Client::get_versioned`](crate::Client::get_versioned).
    #[inline]
    pub fn get_versioned(&mut self, key: &[u8]) -> Result<Option<(Vec<u8>, Csn)>, Error> {
        self.group_of(key)?.get_versioned(key)
    }

    /// See [`Client::get_into`](crate::Client::get_into).
    #[inline]
    pub fn get_into(&mut self, key: &[u8], into: &mut Vec<u8>) -> Result<bool, Error> {
        self.group_of(key)?.get_into(key, into)
    }

    /// See [`Client::get_with`](crate::Client::get_with).
    #[inline]
    pub fn get_with<R>(
        &mut self,
        key: &[u8],
        show: impl FnOnce(&[u8], Csn) -> R,
    ) -> Result<Option<R>, Error> {
        self.group_of(key)?.get_with(key, show)
    }

    /// See [`Client::exists`](crate::Client::exists).
    #[inline]
    pub fn exists(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.group_of(key)?.exists(key)
    }

    write_methods!(self, &mut self);

    /// See [`Client::write`](crate::Client::write).
    #[inline]
    pub fn write(&mut self, write: &Write<'_>) -> Result<Reply, Error> {
        self.group_of(write.key)?.write(write)
    }
}
