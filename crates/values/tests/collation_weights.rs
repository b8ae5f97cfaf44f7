//! Weights against answers of a real server kept in `collation_weights.txt` (see `examples/collation_weights.rs`).

use flate2::Crc;
use values::collation;
use values::sort_key::{implemented, implemented_collations, weight_string};

const ANSWERS: &str = include_str!("collation_weights.txt");

fn bytes(quoted: &str) -> Vec<u8> {
    let hex = quoted.trim_matches('\'').as_bytes().as_chunks::<2>().0;
    hex.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn every_character_of_the_unicode_collations() {
    let mut blocks = 0;
    for line in ANSWERS.lines() {
        let mut fields = line.split(' ');
        if fields.next() != Some("characters") {
            continue;
        }
        let found = collation::by_name(fields.next().unwrap()).unwrap();
        let first = u32::from_str_radix(fields.next().unwrap(), 16).unwrap();
        let expected = u32::from_str_radix(fields.next().unwrap(), 16).unwrap();
        let mut crc = Crc::new();
        let mut weights = Vec::new();
        // D800 to DFFF are no characters.
        for c in (first..=first | 0xfff).filter_map(char::from_u32) {
            weights.clear();
            weight_string(found.id, c.encode_utf8(&mut [0; 4]).as_bytes(), &mut weights).unwrap();
            // Eight weights on each of three levels: what bounds the length of a sort key.
            assert!(weights.len() <= 3 * 8 * 2 + 4, "U+{:04X}", u32::from(c));
            crc.update(&[u8::try_from(weights.len()).unwrap()]);
            crc.update(&weights);
        }
        assert_eq!(crc.sum(), expected, "{} from U+{first:04X}", found.name);
        blocks += 1;
    }
    // Eight collations of utf8mb4 with 17 planes, three of utf8mb3 with one.
    assert_eq!(blocks, 8 * 17 * 16 + 3 * 16, "blocks of 4096");
}

#[test]
fn strings() {
    let mut strings = 0;
    for line in ANSWERS.lines() {
        let [kind, name, text, expected] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        if kind != "string" {
            continue;
        }
        let mut weights = Vec::new();
        weight_string(collation::by_name(name).unwrap().id, &bytes(text), &mut weights).unwrap();
        assert_eq!(weights, bytes(expected), "{line}");
        strings += 1;
    }
    assert!(strings > 1000, "{strings}");
}

#[test]
fn what_is_implemented() {
    let id = |name| collation::by_name(name).unwrap().id;
    for name in [
        "binary",
        "utf8mb4_bin",
        "gbk_bin",
        "utf8mb4_0900_ai_ci",
        "utf8mb4_0900_bin",
        "utf8mb4_general_ci",
        "utf8mb3_general_ci",
        "latin1_swedish_ci",
        "ascii_general_ci",
    ] {
        assert!(implemented(id(name)), "{name}");
    }
    for name in ["utf8mb4_ja_0900_as_cs", "latin1_german2_ci", "gbk_chinese_ci", "gb18030_unicode_520_ci"] {
        assert!(!implemented(id(name)), "{name}");
    }
    assert!(!implemented(0));
    let all: Vec<u16> = implemented_collations().map(|found| found.id).collect();
    assert!(all.is_sorted() && all.iter().all(|id| implemented(*id)));
    assert_eq!(all.len(), (0..=u16::MAX).filter(|id| implemented(*id)).count());
    println!("{} collations", all.len());
}
