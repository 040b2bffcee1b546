//! Where one WebSocket frame ends and the next begins (RFC 6455 §5.2): heads are read, nothing else.

/// Longest head: two bytes, eight of length, four of mask.
const LONGEST: usize = 14;

/// The opcode of a Close frame.
const CLOSE: u8 = 8;

/// Follows the frames of one direction.
#[derive(Debug, Default)]
pub(super) struct Frames {
    head: [u8; LONGEST],
    /// Bytes of the head that have come.
    have: usize,
    /// Bytes of the payload that have not.
    left: u64,
    closed: bool,
}

impl Frames {
    /// These bytes have come.
    pub(super) fn advance(&mut self, mut bytes: &[u8]) {
        while let Some((&first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let skipped = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
                self.left -= skipped as u64;
                bytes = bytes.get(skipped..).unwrap_or_default();
                continue;
            }
            if let Some(place) = self.head.get_mut(self.have) {
                *place = first;
            }
            self.have += 1;
            bytes = rest;
            if self.have == self.length() {
                self.payload();
            }
        }
    }

    /// How many bytes are sure to belong to the frame under way; none: between two frames.
    pub(super) fn due(&self) -> Option<u64> {
        match (self.left, self.have) {
            (0, 0) => None,
            (0, have) => Some((self.length() - have) as u64),
            (left, _) => Some(left),
        }
    }

    /// Whether a Close frame has come, behind which there is none.
    pub(super) fn closed(&self) -> bool {
        self.closed
    }

    /// How long the head is, as far as is known.
    fn length(&self) -> usize {
        let [_, second, ..] = self.head;
        if self.have < 2 {
            return 2;
        }
        let length = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask = if second & 0x80 == 0 { 0 } else { 4 };
        2 + length + mask
    }

    /// The head is complete.
    fn payload(&mut self) {
        let [first, second, ref rest @ ..] = self.head;
        let bytes = match second & 0x7f {
            126 => rest.get(..2),
            127 => rest.get(..8),
            _ => None,
        };
        self.left = match bytes {
            Some(bytes) => bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
            None => u64::from(second & 0x7f),
        };
        self.closed |= first & 0x0f == CLOSE;
        self.have = 0;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;

    fn frame(first: u8, length: usize, masked: bool) -> Vec<u8> {
        let mask = if masked { 0x80 } else { 0 };
        let mut frame = match length {
            0..126 => vec![first, mask | length as u8],
            126..65536 => [&[first, mask | 126][..], &(length as u16).to_be_bytes()].concat(),
            _ => [&[first, mask | 127][..], &(length as u64).to_be_bytes()].concat(),
        };
        if masked {
            frame.extend([1, 2, 3, 4]);
        }
        // Payload that looks like heads.
        frame.extend((0..length).map(|at| if at % 2 == 0 { 0x88 } else { 0xff }));
        frame
    }

    #[test]
    fn boundaries_are_where_frames_end_however_the_bytes_come() {
        let sizes = [0, 1, 125, 126, 127, 65535, 65536, 70000];
        for masked in [false, true] {
            let frames: Vec<_> = sizes.iter().map(|size| frame(0x82, *size, masked)).collect();
            for step in [1, 2, 3, 7, 4096] {
                let mut follower = Frames::default();
                for (frame, size) in frames.iter().zip(sizes) {
                    let mut rest = &frame[..];
                    assert_eq!(follower.due(), None, "before a frame of {size}");
                    while !rest.is_empty() {
                        let (now, later) = rest.split_at(step.min(rest.len()));
                        follower.advance(now);
                        rest = later;
                        match follower.due() {
                            None => assert!(rest.is_empty(), "within a frame of {size}"),
                            Some(due) => assert!(due > 0 && due <= rest.len() as u64, "{due} of {size}"),
                        }
                    }
                }
                assert!(!follower.closed());
                follower.advance(&frames.concat());
                assert_eq!(follower.due(), None);
            }
        }
    }

    #[test]
    fn a_close_frame_is_seen_and_a_payload_like_one_is_not() {
        let mut follower = Frames::default();
        follower.advance(&frame(0x81, 300, true));
        assert!(!follower.closed());
        follower.advance(&frame(0x88, 2, true));
        assert!(follower.closed());
    }

    #[test]
    fn lengths_beyond_reason_are_followed_and_never_fit() {
        let mut follower = Frames::default();
        follower.advance(&[0x82, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]);
        assert_eq!(follower.due(), Some(u64::MAX - 1));
    }
}
