//! Operations on one key: each is that of the client of the key's group.

use std::time::Duration;

use longarm_base::Csn;
use longarm_fabric::Transport;

use super::ClusterClient;
use crate::error::Error;
use crate::flight::Reply;
use crate::write::{Put, Write};

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

    /// See [`Client::put`](crate::Client::put).
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Csn, Error> {
        self.group_of(key)?.put(key, value)
    }

    /// See [`Client::put_for`](crate::Client::put_for).
    pub fn put_for(&mut self, key: &[u8], value: &[u8], ttl: Duration) -> Result<Csn, Error> {
        self.group_of(key)?.put_for(key, value, ttl)
    }

    /// See [`Client::put_if_absent`](crate::Client::put_if_absent).
    pub fn put_if_absent(&mut self, key: &[u8], value: &[u8]) -> Result<Put, Error> {
        self.group_of(key)?.put_if_absent(key, value)
    }

    /// See [`Client::put_if_absent_for`](crate::Client::put_if_absent_for).
    pub fn put_if_absent_for(&mut self, key: &[u8], value: &[u8], ttl: Duration) -> Result<Put, Error> {
        self.group_of(key)?.put_if_absent_for(key, value, ttl)
    }

    /// See [`Client::compare_and_set`](crate::Client::compare_and_set).
    pub fn compare_and_set(&mut self, key: &[u8], version: Csn, value: &[u8]) -> Result<Put, Error> {
        self.group_of(key)?.compare_and_set(key, version, value)
    }

    /// See [`Client::delete`](crate::Client::delete).
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.group_of(key)?.delete(key)
    }

    /// See [`Client::delete_versioned`](crate::Client::delete_versioned).
    pub fn delete_versioned(&mut self, key: &[u8]) -> Result<Option<Csn>, Error> {
        self.group_of(key)?.delete_versioned(key)
    }

    /// See [`Client::compare_and_delete`](crate::Client::compare_and_delete).
    pub fn compare_and_delete(&mut self, key: &[u8], version: Csn) -> Result<Put, Error> {
        self.group_of(key)?.compare_and_delete(key, version)
    }

    /// See [`Client::increment`](crate::Client::increment).
    pub fn increment(&mut self, key: &[u8], by: i64) -> Result<i64, Error> {
        self.group_of(key)?.increment(key, by)
    }

    /// See [`Client::increment_versioned`](crate::Client::increment_versioned).
    pub fn increment_versioned(&mut self, key: &[u8], by: i64) -> Result<(i64, Csn), Error> {
        self.group_of(key)?.increment_versioned(key, by)
    }

    /// See [`Client::touch`](crate::Client::touch).
    pub fn touch(&mut self, key: &[u8], ttl: Option<Duration>) -> Result<bool, Error> {
        self.group_of(key)?.touch(key, ttl)
    }

    /// See [`Client::write`](crate::Client::write).
    pub fn write(&mut self, write: &Write<'_>) -> Result<Reply, Error> {
        self.group_of(write.key)?.write(write)
    }
}
