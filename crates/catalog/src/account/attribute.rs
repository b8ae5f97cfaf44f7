//! An account's attribute, a JSON object, as ATTRIBUTE and COMMENT change it.
//!
//! In: a JSON text. Out: the object merged, and as the server prints it. Never here: attributes that the server keeps
//! for itself.

use std::collections::BTreeMap;

use serde_json::Value;

/// JSON keys in MySQL's order: shorter ones first, then by bytes.
type Key = (usize, String);

/// Members of the object, empty without one.
#[derive(Clone, PartialEq, Default)]
pub(crate) struct Attribute(BTreeMap<Key, Value>);

impl Attribute {
    /// The members of an object; None for any other text, which the source refuses.
    pub(crate) fn of(text: &str) -> Option<Attribute> {
        match serde_json::from_str(text).ok()? {
            Value::Object(members) => Some(Attribute(members.into_iter().map(keyed).collect())),
            _ => None,
        }
    }

    /// COMMENT is the member of that name.
    pub(crate) fn of_comment(comment: &str) -> Attribute {
        Attribute([keyed(("comment".to_owned(), Value::from(comment)))].into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `JSON_MERGE_PATCH`.
    pub(crate) fn merge(&mut self, patch: &Attribute) {
        for (key, value) in &patch.0 {
            if value.is_null() {
                self.0.remove(key);
            } else {
                let old = self.0.remove(key).unwrap_or_default();
                self.0.insert(key.clone(), patched(old, value));
            }
        }
    }

    pub(crate) fn shown(&self) -> String {
        let members = self.0.iter().map(|((_, key), value)| (key, value));
        let mut text = String::new();
        show_object(members, &mut text);
        text
    }
}

fn keyed((key, value): (String, Value)) -> (Key, Value) {
    ((key.len(), key), value)
}

fn patched(old: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut members = match old {
        Value::Object(members) => members,
        _ => serde_json::Map::new(),
    };
    for (key, value) in patch {
        let old = members.remove(key).unwrap_or_default();
        if !value.is_null() {
            members.insert(key.clone(), patched(old, value));
        }
    }
    Value::Object(members)
}

fn show(value: &Value, text: &mut String) {
    match value {
        Value::Array(all) => {
            text.push('[');
            for (index, one) in all.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { ", " });
                show(one, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by_key(|(key, _)| (key.len(), *key));
            show_object(members.into_iter(), text);
        }
        other => text.push_str(&other.to_string()),
    }
}

fn show_object<'a>(members: impl Iterator<Item = (&'a String, &'a Value)>, text: &mut String) {
    text.push('{');
    for (index, (key, value)) in members.enumerate() {
        text.push_str(if index == 0 { "" } else { ", " });
        text.push_str(&Value::from(key.as_str()).to_string());
        text.push_str(": ");
        show(value, text);
    }
    text.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As 9.7.4 did it.
    #[test]
    fn it_is_merged_and_printed_as_the_server_does() {
        let mut attribute = Attribute::default();
        for (patch, shown) in [
            (
                r#"{"z": 1, "long": {"b":1,"a":null}, "n":null, "f":1.50, "e": 1e3, "big": 18446744073709551615, "t":true, "u":"é\u0041\n\/"}"#,
                r#"{"e": 1000.0, "f": 1.5, "t": true, "u": "éA\n/", "z": 1, "big": 18446744073709551615, "long": {"b": 1}}"#,
            ),
            (
                r#"{"long": {"c":[1,null]}, "z":null, "t":null, "u":null, "e":null}"#,
                r#"{"f": 1.5, "big": 18446744073709551615, "long": {"b": 1, "c": [1, null]}}"#,
            ),
            (r#"{"long": 3, "big": null, "f": null}"#, r#"{"long": 3}"#),
            ("{}", r#"{"long": 3}"#),
            (r#"{"long": {"cc": {}, "b": 2}}"#, r#"{"long": {"b": 2, "cc": {}}}"#),
        ] {
            attribute.merge(&Attribute::of(patch).unwrap());
            assert_eq!(attribute.shown(), shown, "{patch}");
        }
        attribute.merge(&Attribute::of_comment("it's"));
        assert!(attribute.shown().ends_with(r#""comment": "it's"}"#));
        assert!(Attribute::of("").is_none() && Attribute::of("[1]").is_none());
    }
}
