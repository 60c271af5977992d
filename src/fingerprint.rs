//! Short names for long contents, to tell whether something changed. Not for secrets.

/// A 64-bit FNV-1a hash (Fowler, Noll and Vo), fed piece by piece; a piece's length counts, so that pieces cannot run
/// into each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    pub fn of(bytes: &[u8]) -> Self {
        let mut hash = Self::default();
        hash.add(bytes);
        hash
    }

    pub fn add(&mut self, piece: &[u8]) {
        for &byte in piece.iter().chain(&(piece.len() as u64).to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_pieces_share_a_name_and_moved_borders_do_not() {
        let of = |pieces: &[&str]| {
            let mut hash = Fingerprint::default();
            pieces.iter().for_each(|piece| hash.add(piece.as_bytes()));
            hash.to_string()
        };
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["ab"]), of(&["ba"]));
        assert_eq!(of(&[]).len(), 16);
    }
}
