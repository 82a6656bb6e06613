//! Finds the group of a key: a hash of the key chooses among the groups of a cluster.
//!
//! Groups divide the values of the hash equally, in the order in which the cluster's file names them: group
//! `i` of `n` has the values from `i * 2^64 / n` on (Lemire's multiply-shift). The hash is that of
//! [`HashKey`] under the cluster's own key. Each group's index has another key, drawn independently, so keys
//! that meet in a group do not meet in its buckets. Frozen: another hash would look for keys where they are
//! not.

use std::path::Path;

use longarm_cluster::{Cluster, FileError};
use longarm_fabric::{Address, Member};
use longarm_memory::HashKey;

/// The groups of a cluster: their addresses, and their keys.
#[derive(Clone, Debug)]
pub struct Topology {
    place: HashKey,
    groups: Vec<GroupAt>,
}

/// A group and its addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupAt {
    /// The id of the group; zero takes any server at the addresses.
    pub id: u64,
    /// The addresses of its replicas.
    pub addresses: Vec<Address>,
}

impl Topology {
    /// A cluster of these groups, in this order, whose keys are placed under `place_key`.
    ///
    /// # Panics
    /// If there is no group, or one has no address.
    pub fn new(place_key: u64, groups: Vec<GroupAt>) -> Topology {
        assert!(!groups.is_empty(), "a cluster has a group");
        assert!(groups.iter().all(|group| !group.addresses.is_empty()), "a group has replicas");
        Topology { place: HashKey::new(place_key), groups }
    }

    /// Reads the cluster's file, which its nodes and the program's commands have, too. Of its keys only the
    /// one that places keys is kept.
    pub fn read(file: impl AsRef<Path>) -> Result<Topology, FileError> {
        Cluster::read(file.as_ref()).map(|cluster| Topology::from(&cluster))
    }

    /// The topology of one server, or of the replicas of one group.
    pub fn of_one(addresses: Vec<Address>) -> Topology {
        Topology::new(0, vec![GroupAt { id: 0, addresses }])
    }

    /// The groups.
    pub fn groups(&self) -> &[GroupAt] {
        &self.groups
    }

    /// The number of the group of a key. With one group no key is hashed.
    #[inline]
    pub fn group_of(&self, key: &[u8]) -> usize {
        match self.groups.len() {
            1 => 0,
            count => self.place.hash(key).below(count as u64) as usize,
        }
    }
}

impl From<&Cluster> for Topology {
    fn from(cluster: &Cluster) -> Topology {
        let address = |node: Member| node.address;
        let groups = cluster.groups.iter().map(|group| GroupAt {
            id: group.id,
            addresses: cluster.members_of(group).into_iter().map(address).collect(),
        });
        Topology::new(cluster.place_key, groups.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(place_key: u64, groups: u64) -> Topology {
        let address: Address = "tcp://h:1".parse().expect("an address");
        let group = |id| GroupAt { id, addresses: vec![address.clone()] };
        Topology::new(place_key, (1..=groups).map(group).collect())
    }

    /// Clusters depend on these values: a change would lose their items.
    #[test]
    fn keys_are_where_they_always_were() {
        let keys: [&[u8]; 6] = [b"a", b"greeting", b"key-7", b"user:1000", &[0; 16], &[0xff; 1024]];
        let placed = |place_key, groups| {
            let cluster = cluster(place_key, groups);
            keys.map(|key| cluster.group_of(key))
        };
        assert_eq!(placed(0, 3), [0, 0, 0, 1, 1, 0]);
        assert_eq!(placed(0x0123_4567_89ab_cdef, 3), [2, 1, 0, 0, 2, 2]);
        assert_eq!(placed(0x0123_4567_89ab_cdef, 64), [49, 27, 20, 3, 62, 56]);
        let hash = |key: &[u8]| HashKey::new(0x0123_4567_89ab_cdef).hash(key).0;
        let hashes: [u64; 6] = [
            0xc6a5_f371_0fd2_188a,
            0x6d8c_fd49_2265_7726,
            0x50a6_9331_dbca_070c,
            0x0f6e_743d_e11f_3b75,
            0xf848_b739_0370_fefd,
            0xe1e6_d498_1c80_6c4e,
        ];
        assert_eq!(keys.map(hash), hashes);
    }

    #[test]
    fn groups_have_equal_shares_also_of_keys_that_meet_in_an_index() {
        let (cluster, index) = (cluster(7, 5), HashKey::new(8));
        let (mut all, mut met) = ([0u32; 5], [0u32; 5]);
        for i in 0..200_000u32 {
            let key = format!("key {i}");
            let group = cluster.group_of(key.as_bytes());
            all[group] += 1;
            // A sixteenth of a table's buckets.
            met[group] += u32::from(index.hash(key.as_bytes()).below(16) == 3);
        }
        // Five standard deviations of 200,000 and 12,500 throws at a fifth.
        assert!(all.iter().all(|&n| n.abs_diff(40_000) < 900), "{all:?}");
        assert!(met.iter().all(|&n| n.abs_diff(2_500) < 230), "{met:?}");
    }

    #[test]
    fn a_cluster_is_read_from_its_file() {
        let text = "format = 2\nplace_key = \"00000000000000aa\"\n\
            [timing]\nlease = \"100ms\"\nheartbeat = \"5ms\"\nsuspect = \"200ms\"\nelection = \"1s\"\n\
            [[node]]\nnumber = 1\naddress = \"tcp://a:1\"\n[[node]]\nnumber = 2\naddress = \"tcp://b:2\"\n\
            [[group]]\nid = \"0000000000000007\"\nsum_key = \"0123456789abcdef\"\n\
            hash_key = \"0000000000000000\"\nreplicas = [2, 1]\n";
        let path = std::env::temp_dir().join(format!("longarm-topology-{}.toml", std::process::id()));
        std::fs::write(&path, text).expect("written");
        let topology = Topology::read(&path).expect("a cluster");
        std::fs::write(&path, text.replace("[2, 1]", "[2, 3]")).expect("written");
        let wrong = Topology::read(&path).expect_err("there is no node 3").to_string();
        std::fs::remove_file(&path).expect("removed");
        let missing = Topology::read(&path).expect_err("there is no file");
        let addresses = ["tcp://b:2", "tcp://a:1"].map(|text| text.parse().expect("an address"));
        assert_eq!(topology.groups(), [GroupAt { id: 7, addresses: addresses.to_vec() }]);
        assert!(
            !format!("{topology:?}").contains(&0x0123_4567_89ab_cdefu64.to_string()),
            "a key of the nodes"
        );
        assert!(wrong.contains("node 3 is not of the cluster"), "{wrong}");
        assert!(matches!(missing, FileError::Unreadable { .. }), "{missing}");
    }

    #[test]
    fn one_group_has_every_key() {
        assert_eq!(cluster(9, 1).group_of(b"anything"), 0);
        assert_eq!(Topology::of_one(vec!["tcp://h:1".parse().expect("an address")]).group_of(b"x"), 0);
    }
}
