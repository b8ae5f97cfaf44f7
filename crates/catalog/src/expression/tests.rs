//! What 9.7.4 printed of each expression: `printed.txt` has one a line, with a tab between both.

use super::*;

const PRINTED: &str = include_str!("printed.txt");

fn context() -> StatementContext {
    StatementContext { collation_connection: Some(255), ..StatementContext::default() }
}

fn own_name(name: &str) -> Option<String> {
    Some(name.to_lowercase())
}

/// None is right, too: it is refused. The share that is known is asserted, so that it does not shrink unseen.
#[test]
fn printed_as_by_the_source() {
    let (mut known, mut all, mut wrong) = (0, 0, Vec::new());
    for line in PRINTED.lines() {
        let (text, printed) = line.split_once('\t').unwrap();
        all += 1;
        for text in [text, printed] {
            match spelled(&context(), text).map(|spelled| with_names(&spelled, &own_name)) {
                Some(ours) if ours == printed => known += 1,
                Some(ours) => wrong.push(format!("{text}\n  source {printed}\n  here   {ours}")),
                None => println!("not known: {text}"),
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {all}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(known * 100 >= all * 2 * 95, "{known} of {}", all * 2);
}
