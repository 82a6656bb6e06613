//! The parser against its own encoder, and against everything else.

use proptest::prelude::*;

use super::*;

fn bytes_of(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = vec![0xaa; frame.size()];
    frame.encode(&mut bytes);
    bytes
}

/// One of each kind, with payloads of `payload` (whole words).
fn every(seq: u16, number: u64, payload: &[u8]) -> Vec<Frame<'_>> {
    let (region, offset) = (RegionId(number as u32), number & !7);
    let write = |signalled, imm| Frame::Write { seq, signalled, region, offset, imm, bytes: payload };
    let text = &payload[..payload.len().min(TEXT_MAX)];
    vec![
        Frame::Read { seq, region, offset, want: (number as u32) % (READ_MAX + 1) },
        write(false, None),
        write(true, None),
        write(true, Some(number as u32)),
        write(false, Some(0)),
        Frame::Send { seq, signalled: true, bytes: &payload[..payload.len().min(SEND_MAX)] },
        Frame::CompareSwap { seq, region, offset, expected: number, new: !number },
        Frame::FetchAdd { seq, region, offset, add: number },
        Frame::Data { seq, bytes: payload },
        Frame::Word { seq, word: number },
        Frame::Ack { seq },
        Frame::Fail { seq, text },
        Frame::Credit { count: seq },
        Frame::Goodbye { why: Why::Closed, text: b"" },
        Frame::Goodbye { why: Why::Protocol, text },
        Frame::Goodbye { why: Why::Revoked, text },
    ]
}

#[test]
fn the_layout_is_frozen() {
    let read = Frame::Read { seq: 0x0102, region: RegionId(3), offset: 0x40, want: 0x2c0 };
    let expected = [1, 0, 2, 1, 16, 0, 0, 0, 3, 0, 0, 0, 0xc0, 2, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(bytes_of(&read), expected);
    let write = Frame::Write {
        seq: 1,
        signalled: true,
        region: RegionId(16),
        offset: 8,
        imm: Some(5),
        bytes: &[9; 8],
    };
    let head = [3, 1, 1, 0, 24, 0, 0, 0, 16, 0, 0, 0, 5, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(bytes_of(&write), [&head[..], &[9; 8]].concat());
    assert_eq!(bytes_of(&Frame::Ack { seq: 0xffff }), [18, 0, 0xff, 0xff, 0, 0, 0, 0]);
    assert_eq!(data_head(7, 704), bytes_of(&Frame::Data { seq: 7, bytes: &[0; 704] })[..HEAD]);
}

#[test]
fn limits_are_found_in_the_head() {
    let head = |kind, flags, len: u32| head(kind, flags, 0, len as usize);
    for kind in 0..=255u8 {
        match limits(kind) {
            None => assert_eq!(parse(&head(kind, 0, 0)), Err(FrameError::Kind(kind))),
            Some((shortest, longest)) => {
                for len in [longest as u32 + 1, u32::MAX].into_iter().chain((shortest as u32).checked_sub(1))
                {
                    assert_eq!(parse(&head(kind, 0, len)), Err(FrameError::Length { kind, len }));
                }
                assert_eq!(parse(&head(kind, 4, longest as u32)), Err(FrameError::Flags(kind)));
            }
        }
    }
}

#[test]
fn unaligned_and_reserved_bits_are_refused() {
    let mut read = bytes_of(&Frame::Read { seq: 0, region: RegionId(1), offset: 64, want: 8 });
    read[16] = 65;
    assert_eq!(parse(&read), Err(FrameError::Unaligned(READ)));
    let mut read = bytes_of(&Frame::Read { seq: 0, region: RegionId(1), offset: 64, want: 8 });
    read[12..16].copy_from_slice(&(READ_MAX + 1).to_le_bytes());
    assert_eq!(parse(&read), Err(FrameError::Length { kind: READ, len: READ_MAX + 1 }));
    let write =
        Frame::Write { seq: 0, signalled: false, region: RegionId(1), offset: 0, imm: None, bytes: &[0; 9] };
    assert_eq!(parse(&bytes_of(&write)), Err(FrameError::Unaligned(WRITE)));
    let mut add = bytes_of(&Frame::FetchAdd { seq: 0, region: RegionId(1), offset: 0, add: 1 });
    add[12] = 1;
    assert_eq!(parse(&add), Err(FrameError::Flags(FAA)));
}

proptest! {
    #[test]
    fn frames_come_back(seq: u16, number: u64, words in 0usize..80) {
        let payload = vec![number as u8; words * 8];
        for frame in every(seq, number, &payload) {
            let mut bytes = bytes_of(&frame);
            let len = bytes.len();
            bytes.extend_from_slice(&[0x55; 30]);
            prop_assert_eq!(parse(&bytes), Ok(Some((frame, len))));
        }
    }

    #[test]
    fn a_frame_cut_anywhere_is_incomplete(seq: u16, number: u64, words in 0usize..6) {
        let payload = vec![7; words * 8];
        for frame in every(seq, number, &payload) {
            let bytes = bytes_of(&frame);
            for cut in 0..bytes.len() {
                prop_assert_eq!(parse(&bytes[..cut]), Ok(None), "{:?} cut at {}", frame, cut);
            }
        }
    }

    /// Whatever comes: no panic, nothing past the end, and what is accepted encodes to the very same bytes.
    #[test]
    fn any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
                 kind in 0u8..24, len in 0u32..100) {
        if bytes.len() >= HEAD {
            (bytes[0], bytes[1]) = (kind, bytes[1] & 3);
            bytes[4..8].copy_from_slice(&len.to_le_bytes());
        }
        let _ = peek_data(&bytes);
        if let Ok(Some((frame, used))) = parse(&bytes) {
            prop_assert!(used <= bytes.len());
            prop_assert_eq!(frame.size(), used);
            if !matches!(frame, Frame::Goodbye { .. }) {
                prop_assert_eq!(&bytes_of(&frame)[..], &bytes[..used]);
            }
        }
    }
}
