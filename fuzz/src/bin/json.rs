//! JSON documents as text.
#![no_main]

use fuzz::seeds;

/// The logs' rows hold documents at unknown offsets; the fuzzer finds them.
fn documents() -> Vec<Vec<u8>> {
    let mut documents =
        vec![b"\0\x01\0\x0c\0\x0b\0\x01\0\x05\x01\0a".to_vec(), b"\x04\x01".to_vec(), b"\x0c\x03abc".to_vec()];
    documents.push(b"\x02\x03\0\x1a\0\x05\xff\xff\x0c\x0d\0\x04\0\0\x0f\xf6\x08\x0d\0\0\0\0\0\0\0\0\0".to_vec());
    documents.push(b"\x0b\0\0\0\0\0\0\xf0\x3f".to_vec());
    for (_, _, rows) in seeds::rows() {
        documents.extend((12..rows.len().min(60)).step_by(3).map(|at| rows[at..].to_vec()));
    }
    documents
}

fuzz::fuzz_target!(init: seeds::write(documents), |data: &[u8]| {
    let mut out = Vec::new();
    if values::json::write_text(data, &mut out).is_ok() {
        assert!(std::str::from_utf8(&out).is_ok(), "a document is text");
    }
    assert!(out.len() <= 64 << 20, "{} bytes of text from {} bytes", out.len(), data.len());
});
