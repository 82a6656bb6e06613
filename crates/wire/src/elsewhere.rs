//! Why a replica that does not lead refuses a client, in words for people that a client understands too.

const LEADER: &str = "this node is not the leader; it is at ";
const NOBODY: &str = "this node is not the leader, and knows of none yet";

/// The refusal, where the leader's address is known or not.
pub fn elsewhere(leader: Option<&str>) -> String {
    leader.map_or_else(|| NOBODY.into(), |address| format!("{LEADER}{address}"))
}

/// Whether a refusal means that another node leads; and its address, if it was named.
pub fn is_elsewhere(reason: &str) -> Option<Option<&str>> {
    match reason.strip_prefix(LEADER) {
        Some(address) => Some(Some(address)),
        None => (reason == NOBODY).then_some(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_where_the_leader_is() {
        assert_eq!(is_elsewhere(&elsewhere(Some("tcp:a:1"))), Some(Some("tcp:a:1")));
        assert_eq!(is_elsewhere(&elsewhere(None)), Some(None));
        assert_eq!(is_elsewhere("the server is closing"), None);
    }
}
