//! Whole files, read at once and in small pieces: the same events at the same positions, each parsed.
#![no_main]

use std::io::Read;

use binlog::ParsedEvent;
use binlog::reader::BinlogFile;
use fuzz::seeds;

/// Returns a few bytes at a time.
struct Drip<'a>(&'a [u8]);

impl Read for Drip<'_> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let len = room.len().min(13);
        self.0.read(&mut room[..len])
    }
}

fn events(input: impl Read, verify: bool) -> (Vec<(u64, usize)>, Option<String>) {
    let mut events = Vec::new();
    let read = || {
        let mut file = BinlogFile::new("fuzz", input)?;
        if !verify {
            file = file.without_verification();
        }
        while let Some(event) = file.next_event()? {
            events.push((event.offset, event.bytes.len()));
            let _ = event.body().and_then(|body| ParsedEvent::parse(&event.header, body).map(|_| ()));
        }
        Ok(())
    };
    let error = read().err().map(|error: binlog::BinlogError| error.to_string());
    (events, error)
}

fuzz::fuzz_target!(init: seeds::write(seeds::logs), |data: &[u8]| {
    let (checked, _) = events(data, true);
    let whole = events(data, false);
    assert!(whole.0.starts_with(&checked));
    assert_eq!(whole, events(Drip(data), false));
    let mut end = 4;
    for (offset, len) in whole.0 {
        assert_eq!(offset, end, "events lie one behind the other");
        end += len as u64;
    }
});
