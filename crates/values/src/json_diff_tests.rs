use proptest::prelude::*;

use super::*;
use crate::json::write_text;

/// Binary form of a JSON text.
fn document(text: &str) -> Vec<u8> {
    fn node(value: &serde_json::Value) -> Node {
        match value {
            serde_json::Value::Null => Node::Binary(4, vec![0]),
            serde_json::Value::Bool(on) => Node::Binary(4, vec![if *on { 1 } else { 2 }]),
            serde_json::Value::Number(number) => {
                let number = number.as_i64().unwrap();
                match i16::try_from(number) {
                    Ok(small) => Node::Binary(5, small.to_le_bytes().to_vec()),
                    Err(_) => Node::Binary(9, number.to_le_bytes().to_vec()),
                }
            }
            serde_json::Value::String(text) => {
                let mut bytes = Vec::new();
                let mut len = text.len();
                while len >= 0x80 {
                    bytes.push(len as u8 | 0x80);
                    len >>= 7;
                }
                bytes.push(len as u8);
                bytes.extend(text.as_bytes());
                Node::Binary(0x0c, bytes)
            }
            serde_json::Value::Array(cells) => Node::Array(cells.iter().map(node).collect()),
            serde_json::Value::Object(members) => {
                let mut members: Vec<_> = members.iter().map(|(k, v)| (k.clone().into_bytes(), node(v))).collect();
                members.sort_by(|a, b| (a.0.len(), &a.0).cmp(&(b.0.len(), &b.0)));
                Node::Object(members)
            }
        }
    }
    let mut out = Vec::new();
    node(&serde_json::from_str(text).unwrap()).write_binary(&mut out).unwrap();
    out
}

fn diff(kind: u8, path: &str, value: Option<&str>) -> Vec<u8> {
    let mut out = vec![kind, path.len() as u8];
    out.extend(path.as_bytes());
    if let Some(value) = value {
        let value = document(value);
        out.push(0xfc);
        out.extend((value.len() as u16).to_le_bytes());
        out.extend(value);
    }
    out
}

/// Applies differences to a document, and checks that the text of a copied row gives the same result.
fn after(text: &str, diffs: &[Vec<u8>]) -> Result<String, ValueError> {
    let (mut binary, mut printed, mut as_text) = (Vec::new(), Vec::new(), Vec::new());
    let mut before = Vec::new();
    write_text(&document(text), &mut before).unwrap();
    let of_text = apply(&before, &diffs.concat(), &mut as_text);
    let of_binary = apply(&document(text), &diffs.concat(), &mut binary);
    assert_eq!(of_text.is_ok(), of_binary.is_ok());
    of_binary?;
    write_text(&binary, &mut printed).unwrap();
    assert_eq!(String::from_utf8_lossy(&printed), String::from_utf8_lossy(&as_text));
    Ok(String::from_utf8(printed).unwrap())
}

#[test]
fn each_operation() {
    let text = r#"{"a": [1, 2, {"x y": "é\n"}], "bb": null}"#;
    let one = |kind, path, value| after(text, &[diff(kind, path, value)]).unwrap();
    assert_eq!(one(0, "$.a[1]", Some("[9]")), r#"{"a": [1, [9], {"x y": "é\n"}], "bb": null}"#);
    assert_eq!(one(0, "$.a[2].\"x y\"", Some("70000")), r#"{"a": [1, 2, {"x y": 70000}], "bb": null}"#);
    assert_eq!(one(0, "$.a[last]", Some("1")), r#"{"a": [1, 2, 1], "bb": null}"#);
    assert_eq!(one(0, "$.bb[0]", Some("{}")), r#"{"a": [1, 2, {"x y": "é\n"}], "bb": {}}"#);
    assert_eq!(one(1, "$.a[1]", Some("true")), r#"{"a": [1, true, 2, {"x y": "é\n"}], "bb": null}"#);
    assert_eq!(one(1, "$.a[90]", Some("7")), r#"{"a": [1, 2, {"x y": "é\n"}, 7], "bb": null}"#);
    assert_eq!(one(1, "$.b", Some("7")), r#"{"a": [1, 2, {"x y": "é\n"}], "b": 7, "bb": null}"#);
    assert_eq!(one(1, "$.\"\"", Some("7")), r#"{"": 7, "a": [1, 2, {"x y": "é\n"}], "bb": null}"#);
    assert_eq!(one(2, "$.a", None), r#"{"bb": null}"#);
    assert_eq!(one(2, "$.a[0]", None), r#"{"a": [2, {"x y": "é\n"}], "bb": null}"#);
    let several = [diff(2, "$.a[0]", None), diff(0, "$.a[0]", Some("\"two\"")), diff(1, "$.a[0]", Some("1"))];
    assert_eq!(after(text, &several).unwrap(), r#"{"a": [1, "two", {"x y": "é\n"}], "bb": null}"#);
}

#[test]
fn what_does_not_fit_is_an_error() {
    for (kind, path, value) in [
        (0, "$.c", Some("1")),
        (0, "$", Some("1")),
        (0, "$.a[3]", Some("1")),
        (1, "$.a", Some("1")),
        (1, "$.b.c", Some("1")),
        (2, "$.c", None),
        (2, "$.a[9]", None),
        (3, "$.a", None),
        (0, "a", Some("1")),
        (0, "$.a[x]", Some("1")),
        (0, "$.\"a", Some("1")),
    ] {
        assert!(after(r#"{"a": [1, 2, 3], "b": 1}"#, &[diff(kind, path, value)]).is_err(), "{kind} {path}");
    }
}

#[test]
fn large_documents() {
    let long = format!("[\"{}\", \"{}\", 5, 70000]", "x".repeat(40_000), "y".repeat(40_000));
    let changed = after(&long, &[diff(0, "$[2]", Some("\"z\""))]).unwrap();
    assert_eq!(changed, long.replace("5, 70000", "\"z\", 70000"));
    // A large document becomes a small one.
    let removed = after(&long, &[diff(2, "$[0]", None), diff(2, "$[0]", None)]).unwrap();
    assert_eq!(removed, "[5, 70000]");
}

proptest! {
    #[test]
    fn never_panics(document: Vec<u8>, differences: Vec<u8>) {
        let _ = apply(&document, &differences, &mut Vec::new());
    }

    #[test]
    fn damaged_documents_do_not_panic(at in 0usize..60, byte: u8) {
        let mut damaged = document(r#"{"a": [1, 2, {"b": "c"}], "d": "text", "e": 7000000}"#);
        if let Some(place) = damaged.get_mut(at) {
            *place = byte;
        }
        let _ = apply(&damaged, &diff(0, "$.d", Some("1")), &mut Vec::new());
    }
}
