//! What was seen, counted.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// Statements kept of each kind of difference.
const KEPT_MAX: usize = 100;

/// What became of one statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Both answered the same.
    Equal,
    /// The replica does not answer this construct.
    Refused(String),
    /// Both answered, not the same: how.
    Different(String),
    /// Either answer may be right: why.
    NotDetermined(&'static str),
    /// Answers differ by nature: why.
    ByNature(&'static str),
    /// They could not be compared: why.
    NotComparable(&'static str),
    /// The source's state moved during each try.
    Moved,
    /// The source alone ran it: it may write.
    Written,
}

/// Counts of one statement form.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Form {
    pub count: u64,
    /// What was found: the construct, or how answers differ.
    pub what: String,
}

/// Counts since the start.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Answers that were equal.
    pub equal: u64,
    /// Reads that the replica does not answer.
    pub refused: u64,
    pub different: u64,
    /// Answers of which either may be right, by reason.
    pub not_determined: BTreeMap<&'static str, u64>,
    /// Answers that differ by nature, by reason.
    pub by_nature: BTreeMap<&'static str, u64>,
    /// Reads that were not compared, by reason.
    pub not_comparable: BTreeMap<&'static str, u64>,
    /// Reads during each try of which the source's state moved.
    pub moved: u64,
    /// Statements that only the source ran.
    pub written: u64,
    /// Statement forms that are refused, by their text with `?` for literals.
    pub refused_forms: BTreeMap<String, Form>,
    /// Statement forms that differ.
    pub different_forms: BTreeMap<String, Form>,
    /// Statement forms that differ by nature.
    pub by_nature_forms: BTreeMap<String, Form>,
    /// Statements of refused, different and by-nature forms beyond those that are kept.
    pub refused_beyond: u64,
    pub different_beyond: u64,
    pub by_nature_beyond: u64,
    /// Differences whose rows the file for them could not take.
    pub not_kept: u64,
    /// Why the last of them was not kept.
    pub not_kept_because: Option<String>,
    /// Clients that have been there.
    pub clients: u64,
    pub source: String,
    pub replica: String,
}

impl Report {
    /// Counts what was found of a statement; `text` is without its literals.
    pub(crate) fn add(&mut self, found: Found, text: impl FnOnce() -> String) {
        let of_form = match &found {
            Found::Refused(what) => Some((&mut self.refused_forms, &mut self.refused_beyond, what.as_str())),
            Found::Different(what) => Some((&mut self.different_forms, &mut self.different_beyond, what.as_str())),
            Found::ByNature(why) => Some((&mut self.by_nature_forms, &mut self.by_nature_beyond, *why)),
            _ => None,
        };
        if let Some((forms, beyond, what)) = of_form {
            let text = text();
            if forms.len() < KEPT_MAX || forms.contains_key(&text) {
                let form = forms.entry(text).or_default();
                form.count += 1;
                what.clone_into(&mut form.what);
            } else {
                *beyond += 1;
            }
        }
        match found {
            Found::Equal => self.equal += 1,
            Found::Refused(_) => self.refused += 1,
            Found::Different(_) => self.different += 1,
            Found::NotDetermined(why) => *self.not_determined.entry(why).or_default() += 1,
            Found::ByNature(why) => *self.by_nature.entry(why).or_default() += 1,
            Found::NotComparable(why) => *self.not_comparable.entry(why).or_default() += 1,
            Found::Moved => self.moved += 1,
            Found::Written => self.written += 1,
        }
    }

    /// Reads: all but what only the source ran.
    #[must_use]
    pub fn reads(&self) -> u64 {
        let of = |counts: &BTreeMap<&'static str, u64>| counts.values().sum::<u64>();
        self.equal
            + self.refused
            + self.different
            + self.moved
            + of(&self.not_determined)
            + of(&self.by_nature)
            + of(&self.not_comparable)
    }
}

/// A page that can be handed on: no literal of a statement is in it.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reads = self.reads();
        let share = |count: u64| 100.0 * count as f64 / reads.max(1) as f64;
        writeln!(f, "May this application read here?")?;
        writeln!(f, "source {}, replica {}, {} clients", self.source, self.replica, self.clients)?;
        writeln!(f, "{reads} reads and session statements, {} statements that only the source ran", self.written)?;
        let mut line = |what: &str, count: u64| writeln!(f, "  {what:<64} {count:>10} {:>7.2} %", share(count));
        line("equal", self.equal)?;
        line("different", self.different)?;
        line("refused: not answered by the replica yet", self.refused)?;
        for (why, count) in &self.not_determined {
            line(&format!("not determined: {why}"), *count)?;
        }
        for (why, count) in &self.by_nature {
            line(&format!("different by nature: {why}"), *count)?;
        }
        for (why, count) in &self.not_comparable {
            line(&format!("not compared: {why}"), *count)?;
        }
        line("not compared: the source changed during the read", self.moved)?;
        if let Some(why) = &self.not_kept_because {
            writeln!(f, "rows of {} differences are not kept: {why}", self.not_kept)?;
        }
        for (title, forms, beyond) in [
            ("Different", &self.different_forms, self.different_beyond),
            ("Refused", &self.refused_forms, self.refused_beyond),
            ("Different by nature", &self.by_nature_forms, self.by_nature_beyond),
        ] {
            if forms.is_empty() {
                continue;
            }
            writeln!(f, "\n{title}, by statement:")?;
            let mut sorted: Vec<(&String, &Form)> = forms.iter().collect();
            sorted.sort_by_key(|(_, form)| std::cmp::Reverse(form.count));
            for (text, form) in sorted {
                writeln!(f, "  {:>8}  {}\n            {text}", form.count, form.what)?;
            }
            if beyond > 0 {
                writeln!(f, "  {beyond:>8}  of other forms: only the first {KEPT_MAX} forms are listed")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_beyond_the_forms_that_are_kept_are_told() {
        let mut report = Report::default();
        for number in 0..KEPT_MAX + 3 {
            report.add(Found::Different("rows".into()), || format!("SELECT c{number}"));
        }
        report.add(Found::Different("rows".into()), || "SELECT c0".into());
        assert_eq!((report.different, report.different_forms.len(), report.different_beyond), (104, 100, 3));
        let page = report.to_string();
        assert!(page.contains("         3  of other forms: only the first 100 forms are listed"), "{page}");
        assert_eq!(page.matches("of other forms").count(), 1, "{page}");
    }
}
