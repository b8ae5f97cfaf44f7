//! How fresh an account's reads are until its session says otherwise.

use std::fmt;
use std::str::FromStr;

/// How fresh rows must be, as `slipstream_read_consistency` names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Consistency {
    /// What is visible.
    #[default]
    Eventual,
    /// What the session has seen, which it says.
    Session,
    /// All that was acknowledged before.
    Global,
    /// No older than a time.
    Bounded,
}

/// What an account's sessions begin with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reads {
    /// `slipstream_read_consistency`.
    pub consistency: Consistency,
    /// `slipstream_read_staleness` in ms; None: the default.
    pub staleness_ms: Option<u32>,
}

impl Consistency {
    const ALL: [Consistency; 4] =
        [Consistency::Eventual, Consistency::Session, Consistency::Global, Consistency::Bounded];

    /// Its name in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Consistency::Eventual => "eventual",
            Consistency::Session => "session",
            Consistency::Global => "global",
            Consistency::Bounded => "bounded",
        }
    }
}

impl FromStr for Consistency {
    type Err = String;

    fn from_str(text: &str) -> Result<Consistency, String> {
        let found = Consistency::ALL.into_iter().find(|one| one.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| format!("'{text}' is not one of eventual, session, global, bounded"))
    }
}

impl fmt::Display for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.consistency.name())?;
        self.staleness_ms.map_or(Ok(()), |ms| write!(f, " ({ms} ms)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for one in Consistency::ALL {
            assert_eq!(one.name().parse(), Ok(one));
        }
        assert_eq!("GLOBAL".parse(), Ok(Consistency::Global));
        assert!("".parse::<Consistency>().is_err() && "strong".parse::<Consistency>().is_err());
        assert_eq!(Reads { consistency: Consistency::Bounded, staleness_ms: Some(5) }.to_string(), "bounded (5 ms)");
    }
}
