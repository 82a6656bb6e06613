//! The versions of the protocol that a program speaks, and the agreement of two programs.
//!
//! A hello of a client begins with `[least u16 | most u16][features u32]`; the hello of a replica or an
//! operator, and that of a client that scans, has a mark of four bytes before it. These bytes
//! have this form in every version, so a server of any version can tell a client of any other which versions
//! each of them speaks.

use crate::codec::{Bad, Fields, Out};

/// The mark before the versions of a replica, or an operator: it tells such a hello from a client's.
pub(crate) const PEER_MARK: u32 = 0x7265_6570;
/// The mark before the versions of a client that scans.
pub(crate) const SCAN_MARK: u32 = 0x6E61_6373;

/// A range of versions, and features beyond the least of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versions {
    /// The oldest version that is spoken.
    pub least: u16,
    /// The newest version that is spoken.
    pub most: u16,
    /// A bit for each ability that a side has and the other may lack: abilities that both have are used.
    pub features: u32,
}

/// The ability to take part in a backup.
pub const BACKUP: u32 = 1;

/// The versions of this program.
pub const VERSIONS: Versions = Versions { least: 8, most: 8, features: BACKUP };

/// The agreement of two programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// The newest version that both speak.
    pub version: u16,
    /// The features that both have.
    pub features: u32,
}

impl Agreed {
    /// Takes what the other side agreed to: one of the versions that were offered, and features among them.
    pub(crate) fn take(fields: &mut Fields<'_>) -> Result<Agreed, Bad> {
        let (version, features) = (fields.u32()?, fields.u32()?);
        let one = u16::try_from(version).map(|version| Versions { least: version, most: version, features });
        let agreed = one.ok().and_then(|one| VERSIONS.meet(one).ok());
        agreed
            .filter(|agreed| agreed.features == features)
            .ok_or(Bad("the server speaks a version of the protocol, or a feature, that was not offered"))
    }

    pub(crate) fn put(self, out: &mut Out) {
        out.u32(u32::from(self.version));
        out.u32(self.features);
    }
}

impl Versions {
    /// The range that a hello of any kind names.
    pub fn of_hello(bytes: &[u8]) -> Result<Versions, Bad> {
        let mut fields = Fields(bytes);
        if [PEER_MARK, SCAN_MARK].iter().any(|mark| bytes.starts_with(&mark.to_le_bytes())) {
            fields.u32()?;
        }
        Versions::take(&mut fields)
    }

    /// The agreement of this side with a side that speaks `theirs`; the error names both ranges.
    pub fn meet(self, theirs: Versions) -> Result<Agreed, String> {
        let (least, most) = (self.least.max(theirs.least), self.most.min(theirs.most));
        if least > most {
            return Err(format!(
                "this side speaks versions {self} of the protocol, the other one {theirs}: upgrade the older"
            ));
        }
        Ok(Agreed { version: most, features: self.features & theirs.features })
    }

    pub(crate) fn take(fields: &mut Fields<'_>) -> Result<Versions, Bad> {
        let (range, features) = (fields.u32()?, fields.u32()?);
        let versions = Versions { least: range as u16, most: (range >> 16) as u16, features };
        match versions.least <= versions.most {
            true => Ok(versions),
            false => Err(Bad("a range of protocol versions that ends before it begins")),
        }
    }

    pub(crate) fn put(self, out: &mut Out) {
        out.u32(u32::from(self.least) | u32::from(self.most) << 16);
        out.u32(self.features);
    }
}

impl std::fmt::Display for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.least == self.most {
            true => write!(f, "{}", self.most),
            false => write!(f, "{} to {}", self.least, self.most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sides_agree_on_the_newest_version_and_what_both_can_do() {
        let speaks = |least, most, features| Versions { least, most, features };
        let ours = speaks(6, 8, 0b011);
        assert_eq!(ours.meet(speaks(7, 9, 0b110)), Ok(Agreed { version: 8, features: 0b010 }));
        assert_eq!(ours.meet(speaks(1, 6, 0)), Ok(Agreed { version: 6, features: 0 }));
        let text = ours.meet(speaks(9, 9, 0)).expect_err("no version in common");
        assert!(text.contains("6 to 8") && text.contains(" 9:"), "{text}");
        assert!(ours.meet(speaks(1, 5, 0)).is_err());
    }
}
