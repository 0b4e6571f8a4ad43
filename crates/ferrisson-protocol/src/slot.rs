//! Which of the 16384 slots of a cluster a key lives in.

/// Number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16384;

/// The slot of a key: that of its hash tag, or of the whole key if it has none.
pub(crate) fn of(key: &[u8]) -> u16 {
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS
}

/// What is between the first `{` and the first `}` after it, unless that is nothing.
pub(crate) fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let rest = &key[open + 1..];
    let close = rest.iter().position(|&byte| byte == b'}')?;
    (close > 0).then_some(&rest[..close])
}

/// CRC16 with the polynomial 0x1021 and no reflection (XMODEM).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

static TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_cluster_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(of(b"foo"), 12182);
        assert_eq!(of(b""), 0);
    }

    #[test]
    fn only_a_tag_that_is_closed_and_not_empty_counts() {
        for (key, tag) in [
            ("x{tag}y", Some("tag")),
            ("a{{b}}c", Some("{b")),
            ("}{x}", Some("x")),
            ("{a}{b}", Some("a")),
            ("a{b", None),
            ("a}b", None),
            ("{}x", None),
            ("{}{x}", None),
            ("}{", None),
            ("", None),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.map(str::as_bytes), "{key}");
        }
    }
}
