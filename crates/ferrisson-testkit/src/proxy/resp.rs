//! Where a RESP frame ends, and what a request says.

use std::io;

use bytes::{Bytes, BytesMut};

/// Takes one whole frame off the front of the buffer: a request, or a reply in RESP2 or RESP3.
pub(super) fn take_frame(buffer: &mut BytesMut) -> io::Result<Option<Bytes>> {
    let Some(end) = frame_end(buffer, 0)? else { return Ok(None) };
    Ok(Some(buffer.split_to(end).freeze()))
}

/// The name and arguments of a request.
pub(super) fn args(frame: &Bytes) -> Vec<Bytes> {
    if frame.first() != Some(&b'*') {
        // An inline command.
        let words = frame.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        return words.map(|word| frame.slice_ref(word)).collect();
    }
    elements(frame)
}

/// The bulk strings in an array, as far as it has any.
pub(super) fn elements(frame: &Bytes) -> Vec<Bytes> {
    let Some((mut at, count)) = header(frame, 0).ok().flatten() else { return Vec::new() };
    let mut elements = Vec::new();
    for _ in 0..count.max(0) {
        let Ok(Some((start, len))) = header(frame, at) else { break };
        let Ok(Some(end)) = frame_end(frame, at) else { break };
        if frame[at] == b'$' && len >= 0 {
            elements.push(frame.slice(start..end - 2));
        }
        at = end;
    }
    elements
}

fn frame_end(buffer: &[u8], at: usize) -> io::Result<Option<usize>> {
    let Some(kind) = buffer.get(at) else { return Ok(None) };
    let Some(line) = line_end(buffer, at) else { return Ok(None) };
    let children = |per_item| match header(buffer, at)? {
        Some((start, count)) => skip(buffer, start, count.max(0).unsigned_abs() * per_item),
        None => Ok(None),
    };
    match kind {
        b'$' | b'=' | b'!' => match header(buffer, at)? {
            Some((start, len)) if len >= 0 => {
                let len = usize::try_from(len).map_err(|_| invalid("length"))?;
                Ok(Some(start + len + 2).filter(|end| *end <= buffer.len()))
            }
            _ => Ok(Some(line)),
        },
        b'*' | b'~' | b'>' => children(1),
        b'%' => children(2),
        // Attributes come before the value that they belong to.
        b'|' => match children(2)? {
            Some(end) => frame_end(buffer, end),
            None => Ok(None),
        },
        _ => Ok(Some(line)),
    }
}

fn skip(buffer: &[u8], mut at: usize, count: u64) -> io::Result<Option<usize>> {
    for _ in 0..count {
        match frame_end(buffer, at)? {
            Some(end) => at = end,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// The number in the first line of a frame, and where the next line starts.
fn header(buffer: &[u8], at: usize) -> io::Result<Option<(usize, i64)>> {
    let Some(end) = line_end(buffer, at) else { return Ok(None) };
    let digits = std::str::from_utf8(&buffer[at + 1..end - 2]).map_err(|_| invalid("number"))?;
    let number = digits.parse().map_err(|_| invalid("number"))?;
    Ok(Some((end, number)))
}

fn line_end(buffer: &[u8], at: usize) -> Option<usize> {
    let line = buffer.get(at..)?;
    line.windows(2).position(|pair| pair == b"\r\n").map(|position| at + position + 2)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not RESP: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: &[&str] = &[
        "+OK\r\n",
        "-ERR no\r\n",
        ":12\r\n",
        "$-1\r\n",
        "$3\r\na\r\n\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*2\r\n*1\r\n:1\r\n$0\r\n\r\n",
        "%1\r\n+a\r\n*1\r\n_\r\n",
        ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n",
        "|1\r\n+ttl\r\n:3600\r\n$1\r\nx\r\n",
        "=5\r\ntxt:x\r\n",
        "PING\r\n",
    ];

    #[test]
    fn a_frame_is_taken_when_its_last_byte_is_there_and_not_before() {
        for frame in FRAMES {
            for cut in 0..frame.len() {
                let mut part = BytesMut::from(&frame[..cut]);
                assert_eq!(take_frame(&mut part).unwrap(), None, "{frame:?} cut at {cut}");
            }
            let mut whole = BytesMut::from(format!("{frame}+next\r\n").as_str());
            assert_eq!(take_frame(&mut whole).unwrap().unwrap(), frame);
            assert_eq!(take_frame(&mut whole).unwrap().unwrap(), "+next\r\n");
        }
    }

    #[test]
    fn a_request_is_read_in_both_forms() {
        let get = Bytes::from("*2\r\n$3\r\nGET\r\n$1\r\nx\r\n");
        assert_eq!(args(&get), ["GET", "x"]);
        assert_eq!(args(&Bytes::from("GET  x\r\n")), ["GET", "x"]);
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(take_frame(&mut BytesMut::from("*x\r\n")).is_err());
    }
}
