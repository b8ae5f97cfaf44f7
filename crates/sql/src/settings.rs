//! A session's variables.
//!
//! In: assignments. Out: values to read, and those that the session itself works by. Never here: values of other
//! sessions; a variable that is not named in [`crate::rules`] keeps its value.

use std::time::Duration;

use wire::row::type_code;

use crate::ast::Scope;
use crate::bind::{Field, Value};
use crate::charsets::text_as_sql;
use crate::error::{SqlError, Warning};
use crate::invalid::utf8mb3_of;
use crate::rules;
use crate::table::{ZoneByName, has_zone_names, zone_by_name};
use crate::uses::{Mark, Rule, marked};
use crate::variables::{self, OwnValues, Settable, Variable};
use crate::{Charsets, KNOWS_UTC, Result, deprecated, modes};

mod typed;

pub use typed::{ReadConsistency, TrackedGtids, TrackedTransaction, Typed};

/// A variable that was set, for session tracking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracked {
    pub name: &'static str,
    /// Its value as SHOW VARIABLES prints it.
    pub value: String,
}

/// The variables of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    charsets: Charsets,
    typed: Typed,
    /// Those with [`Mark::First`], as bits by their places, whose first value was not known when the session began, and
    /// which it has not set itself.
    awaited: u16,
    /// Variables that were set, with their values, but for character sets.
    changed: Vec<(&'static str, Option<String>)>,
    began: StatementTime,
}

/// When the statement that runs began, in microseconds since 1970. Settings that differ in nothing else are the same.
#[derive(Debug, Clone, Copy, Default)]
struct StatementTime(u128);

impl PartialEq for StatementTime {
    fn eq(&self, _: &StatementTime) -> bool {
        true
    }
}

impl Eq for StatementTime {}

/// Variables that SET NAMES changes, in the order in which they are reported.
const CHARSET_VARIABLES: &[&str] = &["character_set_client", "character_set_connection", "character_set_results"];

/// The bit of a variable in [`Settings::awaited`].
fn place_of_first(name: &str) -> Option<usize> {
    marked(Mark::First).position(|first| first == name)
}

/// A zone with a name, as `time_zone` shows it; None if there is none at the source.
fn named_zone(given: &Value, own: &dyn OwnValues) -> Option<Result<String>> {
    let given = utf8mb3_of(&given.text()?).0;
    match zone_by_name(own, &given) {
        ZoneByName::Known(name, _) => Some(Ok(name)),
        // Without the right to read their names, all that is known is whether there are any.
        ZoneByName::NoRules if has_zone_names(own) && !given.starts_with(['+', '-']) => {
            Some(Err(SqlError::not_supported(&format!("SET time_zone to {given}, whose rules are not known,"))))
        }
        ZoneByName::NoRules | ZoneByName::Nowhere => None,
    }
}

/// A variable's value as SQL that means the same under each `sql_mode` and character set.
fn sql_of(name: &str, value: &str) -> String {
    let is_number =
        variables::find(name).is_some_and(|one| matches!(one.type_code, type_code::LONGLONG | type_code::DOUBLE));
    let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'\'' | b'\\'));
    match (is_number, is_plain) {
        (true, _) => value.to_owned(),
        (_, true) => format!("'{value}'"),
        _ => text_as_sql(value.as_bytes(), values::collation::UTF8MB4_0900_AI_CI),
    }
}

/// A variable that sessions may set.
fn of_session(name: &str, own: &dyn OwnValues) -> Result<&'static Variable> {
    let variable = variables::named(name, own)?;
    variable.check_scope_to_set(Some(Scope::Session))?;
    Ok(variable)
}

/// A value to which a session's variable may be set, or DEFAULT.
fn check_value(variable: &Variable, value: Option<&Value>, warnings: &mut Vec<Warning>) -> Result<()> {
    let Variable { name, .. } = variable;
    match (variable.settable, value) {
        (Settable::Globally, value) => {
            value.map(|value| rules::integer(variable, value, warnings)).transpose()?;
            let text = format!("SESSION variable '{name}' is read-only. Use SET GLOBAL to assign the value");
            Err(SqlError::new(1621, "HY000", text))
        }
        (Settable::WithoutDefault, None) => {
            Err(SqlError::new(1230, "42000", format!("Variable '{name}' doesn't have a default value")))
        }
        _ => Ok(()),
    }
}

impl Settings {
    /// Bytes of the values that were set.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.changed.iter().map(|changed| size_of_val(changed) + changed.1.as_ref().map_or(0, String::len)).sum()
    }

    /// The variables of a session that begins with these character sets.
    #[must_use]
    pub fn new(charsets: Charsets) -> Settings {
        Settings { charsets, typed: Typed::recorded(), awaited: 0, changed: Vec::new(), began: StatementTime(0) }
    }

    /// Gives the session what sessions begin with at the source.
    pub fn begin_as(&mut self, own: &dyn OwnValues) {
        self.awaited = marked(Mark::First).enumerate().fold(0, |bits, (place, _)| bits | 1 << place);
        self.take_awaited(own);
    }

    /// Gives a session that began before the source was known what it would have begun with.
    pub fn learn(&mut self, own: &dyn OwnValues) {
        // All that the source has is known as soon as this is.
        if self.awaited != 0 && own.own_value(KNOWS_UTC).is_some() {
            self.take_awaited(own);
            self.awaited = 0;
        }
    }

    /// Takes what is known of the awaited values.
    fn take_awaited(&mut self, own: &dyn OwnValues) {
        for (place, name) in marked(Mark::First).enumerate() {
            let known = if self.awaited & 1 << place != 0 { own.own_value(name) } else { None };
            let (Some(variable), Some(text)) = (variables::find(name), known) else { continue };
            self.awaited &= !(1 << place);
            // Until then a session has MySQL's values, and holds no texts of these.
            if variable.value != Some(text.as_str()) {
                // What cannot be a value here has been refused by the source.
                let _ = self.apply(variable.name, Some(text));
            }
        }
    }

    /// A statement begins: what it reads of the time (`@@timestamp`, `NOW()`) is this moment.
    pub fn statement_begins(&mut self) {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        self.began = StatementTime(since_1970.unwrap_or_default().as_micros());
    }

    /// The moment of the statement is this one, in microseconds since 1970.
    pub fn begins_at(&mut self, us: u64) {
        self.began = StatementTime(us.into());
    }

    /// When the statement began, since 1970.
    pub(crate) fn began(&self) -> Duration {
        let StatementTime(us) = self.began;
        Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX))
    }

    /// The session's character sets.
    #[must_use]
    pub fn charsets(&self) -> &Charsets {
        &self.charsets
    }

    /// The same variables for a text that was sent under other character sets; that of results stays. None if they are
    /// the same.
    #[must_use]
    pub fn for_text_of(&self, sent: &Charsets) -> Option<Settings> {
        let charsets = Charsets { results: self.charsets.results, ..*sent };
        (charsets != self.charsets).then(|| Settings { charsets, ..self.clone() })
    }

    /// What the session works by, but for its character sets.
    #[must_use]
    pub fn typed(&self) -> &Typed {
        &self.typed
    }

    /// Whether the session's value of a variable is the one that it would have at the source.
    #[must_use]
    pub fn is_known_at_the_source(&self, name: &str) -> bool {
        let begun = place_of_first(name);
        variables::find(name).is_some_and(|variable| variable.is(Mark::Told))
            || begun.is_some_and(|bit| self.awaited & (1 << bit) == 0)
            || self.changed.iter().any(|(changed, _)| *changed == name)
    }

    /// Variables of MySQL's that have another value than before, or that have a value of their own, with it as SQL in
    /// ASCII; without character sets.
    #[must_use]
    pub fn changed_since(&self, before: Option<&Settings>) -> Vec<(&'static str, String)> {
        let own = self.changed.iter().map(|(name, value)| (*name, value.clone()));
        let switch = ("autocommit", Some(u8::from(self.typed.autocommit).to_string()));
        let all = own.chain([switch, ("sql_mode", Some(modes::text(self.typed.sql_mode)))]);
        let is_new = |(name, value): &(&'static str, Option<String>)| {
            let before = before.and_then(|before| before.own_text(name));
            !name.starts_with("slipstream_") && before.as_ref() != Some(value)
        };
        let sql = |name, value: Option<String>| value.map_or_else(|| "NULL".to_owned(), |value| sql_of(name, &value));
        let mut all: Vec<_> = all.filter(is_new).map(|(name, value)| (name, sql(name, value))).collect();
        // One that was set before the other would be changed by it (max_join_size, sql_big_selects).
        all.sort_unstable_by_key(|(name, _)| *name);
        all
    }

    /// A text as it was set, or as it was recorded.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.changed_text(name) {
            Some(changed) => changed,
            None => variables::find(name)?.value,
        }
    }

    /// A value that was set; None within is NULL.
    fn changed_text(&self, name: &str) -> Option<Option<&str>> {
        self.changed.iter().find(|(own, _)| *own == name).map(|(_, value)| value.as_deref())
    }

    /// True if `session_track_system_variables` names the variable.
    #[must_use]
    pub fn tracks(&self, name: &str) -> bool {
        let list = self.text("session_track_system_variables").unwrap_or_default();
        list.split(',').map(str::trim).any(|tracked| tracked == "*" || tracked.eq_ignore_ascii_case(name))
    }

    /// Type and value of a variable.
    ///
    /// # Errors
    /// 1235 for variables whose value is not known here yet.
    pub(crate) fn read(&self, variable: &Variable, scope: Scope, own: &dyn OwnValues) -> Result<(Field, Value)> {
        if !is_known(variable, own) {
            return Err(SqlError::not_supported(&format!("@@{}", variable.name)));
        }
        let session = if scope == Scope::Session { self.own_text(variable.name) } else { None };
        if let Some(text) = session {
            return Ok(variable.typed(text.as_deref()));
        }
        let own = own.read_value(variable.name)?;
        Ok(variable.typed(own.as_deref().or(variable.value)))
    }

    /// A value that this session has of its own; None within is NULL.
    fn own_text(&self, name: &str) -> Option<Option<String>> {
        let collation = |id| values::collation::by_id(id);
        let charset = |id| collation(id).map(|found| found.charset.to_owned());
        match name {
            "autocommit" => Some(Some(u8::from(self.typed.autocommit).to_string())),
            "sql_mode" => Some(Some(modes::text(self.typed.sql_mode))),
            "character_set_client" => Some(charset(self.charsets.client)),
            "character_set_connection" => Some(charset(self.charsets.connection)),
            "character_set_results" => Some(self.charsets.results.and_then(charset)),
            "collation_connection" => Some(collation(self.charsets.connection).map(|found| found.name.to_owned())),
            "timestamp" => {
                let StatementTime(us) = self.began;
                Some(Some(format!("{}.{:06}", us / 1_000_000, us % 1_000_000)))
            }
            name => {
                // What the session began with, whatever the source's global value is by now.
                let first = || variables::find(name).filter(|variable| variable.is(Mark::First))?.value;
                let text = self.changed_text(name).or_else(|| first().map(Some))?;
                Some(text.map(str::to_owned))
            }
        }
    }

    /// Sets the session's value of a variable; None is DEFAULT.
    ///
    /// # Errors
    /// 1193, 1229 to 1232, 1235, 1238, 1621 and those of character sets and time zones.
    pub fn set(
        &mut self,
        name: &str,
        value: Option<&Value>,
        own: &dyn OwnValues,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Tracked>> {
        let variable = of_session(name, own)?;
        check_value(variable, value, warnings)?;
        let rule = variable.rule;
        if rule == Rule::AsItIs {
            return self.only_as_it_is(variable, value, own, warnings);
        }
        let text = match value {
            Some(value) => match rules::checked(variable, rule, value, warnings) {
                Err(unknown) if rule == Rule::Zone && unknown.code == 1298 => {
                    Some(named_zone(value, own).ok_or(unknown)??)
                }
                checked => checked?,
            },
            None => {
                let global = own.own_value(name).or_else(|| variable.value.map(str::to_owned));
                // To MySQL the bit says that they are off, and DEFAULT copies it as if it said the opposite.
                let is_copied = matches!(variable.name, "foreign_key_checks" | "unique_checks");
                if is_copied { global.map(|on| u8::from(on == "0").to_string()) } else { global }
            }
        };
        if rule == Rule::Mode && value.is_none() {
            warnings.extend(modes::warnings(modes::bits(text.as_deref().unwrap_or_default())?));
        }
        if rule == Rule::Names
            && let Some(unknown) = unknown_name(text.as_deref().unwrap_or_default())
        {
            let text = format!("{unknown} is not a valid system variable and will be ignored.");
            warnings.push(Warning::new(1231, text));
        }
        if let Some(place) = place_of_first(name) {
            self.awaited &= !(1 << place);
        }
        // Of `utf8` MySQL says something else than of what it stands for.
        let given = value.filter(|value| matches!(value, Value::Text(_))).and_then(Value::text);
        let given = given.map(|given| utf8mb3_of(&given).0);
        let named = given.as_deref().or(text.as_deref()).unwrap_or_default();
        let deprecated = match variable.name {
            "character_set_client" | "character_set_connection" | "character_set_results" => deprecated::charset(named),
            "collation_connection" => deprecated::collation(named),
            _ => None,
        };
        self.apply(variable.name, text)?;
        warnings.extend(deprecated);
        Ok(self.tracked(variable))
    }

    /// Whether SET may name this variable; MySQL tells when it parses the statement.
    ///
    /// # Errors
    /// 1193, 1229, 1238.
    pub fn check_name(name: &str, own: &dyn OwnValues) -> Result<()> {
        of_session(name, own).map(drop)
    }

    /// As [`check_name`](Self::check_name), of a statement that is prepared.
    ///
    /// # Errors
    /// 1193, 1229.
    pub fn check_prepared_name(name: &str, own: &dyn OwnValues) -> Result<()> {
        variables::named(name, own)?.check_is_of_sessions()
    }

    /// A variable that has no rule may be set to the value that it has.
    fn only_as_it_is(
        &self,
        variable: &Variable,
        value: Option<&Value>,
        own: &dyn OwnValues,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Tracked>> {
        let now = self.read(variable, Scope::Session, own)?.1;
        // MySQL fails values of another type.
        let is_same = value.is_none_or(|wanted| match (wanted.text(), now.text()) {
            (Some(_), Some(_)) if matches!(now, Value::Int(_) | Value::UInt(_)) && !rules::is_integer(wanted) => false,
            (Some(wanted), Some(now)) => wanted.eq_ignore_ascii_case(&now),
            (wanted, now) => wanted == now,
        });
        if !is_same {
            return Err(SqlError::not_supported(&format!("SET {}", variable.name)));
        }
        warnings.extend(deprecated::set_to_default(variable.name));
        Ok(Vec::new())
    }

    fn apply(&mut self, name: &'static str, text: Option<String>) -> Result<()> {
        let shown = text.as_deref().unwrap_or_default();
        match name {
            "character_set_client" => self.charsets.client = Charsets::of_client(shown)?.id,
            "character_set_connection" => self.charsets.connection = Charsets::by_name(shown)?.id,
            "collation_connection" => self.charsets.connection = Charsets::collation(shown)?.id,
            "character_set_results" => {
                self.charsets.results = text.as_deref().map(Charsets::by_name).transpose()?.map(|found| found.id);
            }
            _ if self.typed.take(name, shown)? => {
                self.changed.retain(|(own, _)| *own != name);
                self.changed.push((name, text.clone()));
                if name == "max_join_size" {
                    // MySQL lets large ones pass only where no size is a limit.
                    let has_no_limit = shown == u64::MAX.to_string();
                    self.apply("sql_big_selects", Some(u8::from(has_no_limit).to_string()))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What session tracking reports of a variable that was set.
    fn tracked(&self, variable: &Variable) -> Vec<Tracked> {
        let names = match variable.name {
            "collation_connection" => &["collation_connection"][..],
            _ => &[variable.name],
        };
        names.iter().filter(|name| self.tracks(name)).filter_map(|name| self.shown(name)).collect()
    }

    /// A variable as SHOW VARIABLES prints it.
    fn shown(&self, name: &str) -> Option<Tracked> {
        let variable = variables::find(name)?;
        let text = self.own_text(name).unwrap_or_else(|| variable.value.map(str::to_owned)).unwrap_or_default();
        let is_switch = matches!(variable.rule, Rule::Switch | Rule::Off);
        let value = match (is_switch, text.as_str()) {
            (true, "1") => "ON".to_owned(),
            (true, "0") => "OFF".to_owned(),
            _ => text,
        };
        Some(Tracked { name: variable.name, value })
    }

    /// A variable's value as SHOW VARIABLES prints it; None if it is not known here.
    #[must_use]
    pub fn listed(&self, variable: &Variable, global: bool, own: &dyn OwnValues) -> Option<String> {
        if !is_known(variable, own) {
            return None;
        }
        let session = if global { None } else { self.own_text(variable.name) };
        let text = match session {
            Some(text) => text,
            None => own.read_value(variable.name).ok()?.or_else(|| variable.value.map(str::to_owned)),
        };
        // NULL is shown as an empty text.
        let text = text.unwrap_or_default();
        Some(match (variable.is_switch, text.as_str()) {
            (true, "1") => "ON".to_owned(),
            (true, "0") => "OFF".to_owned(),
            _ => text,
        })
    }

    /// SET NAMES; None is DEFAULT. What is said of the names, the parser says.
    ///
    /// # Errors
    /// 1115, 1231, 1253, 1273.
    pub fn set_names(&mut self, charset: Option<&str>, collation: Option<&str>) -> Result<Vec<Tracked>> {
        let found = match charset {
            Some(name) => Charsets::of_client(name)?,
            None => Charsets::by_name("utf8mb4")?,
        };
        let connection = match collation {
            None => found,
            Some(name) => {
                let collation = Charsets::collation(name)?;
                if collation.charset != found.charset {
                    let text =
                        format!("COLLATION '{}' is not valid for CHARACTER SET '{}'", collation.name, found.charset);
                    return Err(SqlError::new(1253, "42000", text));
                }
                collation
            }
        };
        self.charsets = Charsets { client: found.id, connection: connection.id, results: Some(connection.id) };
        Ok(self.tracked_charsets())
    }

    /// SET CHARACTER SET; None is DEFAULT. The connection gets the default schema's collation.
    ///
    /// # Errors
    /// 1115, 1231.
    pub fn set_character_set(&mut self, charset: Option<&str>, own: &dyn OwnValues) -> Result<Vec<Tracked>> {
        let found = match charset {
            Some(name) => Charsets::of_client(name)?,
            None => Charsets::by_name("utf8mb4")?,
        };
        let database = own.own_value("collation_database");
        let connection = database.map_or_else(|| Charsets::by_name("utf8mb4"), |name| Charsets::collation(&name))?;
        self.charsets = Charsets { client: found.id, connection: connection.id, results: Some(found.id) };
        Ok(self.tracked_charsets())
    }

    fn tracked_charsets(&self) -> Vec<Tracked> {
        CHARSET_VARIABLES.iter().filter(|name| self.tracks(name)).filter_map(|name| self.shown(name)).collect()
    }
}

/// A server without values of its own.
pub(crate) struct Nothing;

impl OwnValues for Nothing {
    fn own_value(&self, _: &str) -> Option<String> {
        None
    }
}

/// The value that sessions begin with, if an operator sets it: as `SELECT @@name` prints it.
///
/// # Errors
/// Why not, in words: a variable without [`Mark::First`], or a value that it cannot have.
pub fn checked_first_value(name: &str, text: &str) -> std::result::Result<String, String> {
    let variable = variables::find(name).filter(|variable| variable.is(Mark::First)).ok_or_else(|| {
        let these: Vec<&str> = marked(Mark::First).collect();
        format!("'{name}' cannot be set here; these can: {}", these.join(", "))
    })?;
    let number = if variable.type_code == type_code::LONGLONG { text.parse::<u64>().ok() } else { None };
    let value = number.map_or_else(|| Value::Text(text.as_bytes().to_vec()), Value::UInt);
    let mut settings = Settings::new(Charsets::of_server(&Nothing));
    let mut warnings = Vec::new();
    settings.set(variable.name, Some(&value), &Nothing, &mut warnings).map_err(|error| error.message)?;
    // Where MySQL would take another value, with a warning.
    match warnings.iter().find(|warning| warning.code == 1292) {
        Some(warning) => Err(warning.message.clone()),
        None => Ok(settings.own_text(variable.name).flatten().unwrap_or_default()),
    }
}

/// False for variables that tell of transactions or of the machine, and whose values are not known here.
fn is_known(variable: &Variable, own: &dyn OwnValues) -> bool {
    match variable.name {
        "rand_seed1" | "rand_seed2" => false,
        "system_time_zone" => own.own_value(variable.name).is_some_and(|zone| !zone.is_empty()),
        _ => true,
    }
}

/// The first name in a list that is no variable.
fn unknown_name(list: &str) -> Option<&str> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != "*");
    names.into_iter().find(|name| variables::find(&name.to_ascii_lowercase()).is_none())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use values::Zones;

    use super::*;

    /// A source that is in +03:00 and ANSI mode, once it is known.
    struct Source(bool);

    impl OwnValues for Source {
        fn own_value(&self, name: &str) -> Option<String> {
            let known = [("autocommit", "0"), ("knows_utc", "0"), ("sql_mode", "ANSI_QUOTES"), ("time_zone", "+03:00")];
            let known = known.iter().find(|(own, _)| *own == name).filter(|_| self.0);
            known.map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn a_session_that_began_before_the_source_was_known_learns_of_it() {
        let shown = |settings: &Settings, own: &Source| {
            let names = ["autocommit", "sql_mode", "time_zone"];
            names.map(|name| {
                settings.read(variables::find(name).unwrap(), Scope::Session, own).unwrap().1.text().unwrap()
            })
        };
        let (unknown, known) = (Source(false), Source(true));
        let mut early = Settings::new(Charsets::of_server(&Nothing));
        early.begin_as(&unknown);
        early.learn(&unknown);
        assert_eq!(shown(&early, &known)[2], b"SYSTEM");
        // What it has set itself stays, also where that is MySQL's default.
        early.set("autocommit", Some(&Value::Int(1)), &unknown, &mut Vec::new()).unwrap();
        early.learn(&known);
        assert_eq!(shown(&early, &known), [b"1".to_vec(), b"ANSI_QUOTES".to_vec(), b"+03:00".to_vec()]);
        // It is told once: later changes at the source are for later sessions.
        let mut late = Settings::new(Charsets::of_server(&Nothing));
        late.begin_as(&known);
        assert_eq!(shown(&late, &known), [b"0".to_vec(), b"ANSI_QUOTES".to_vec(), b"+03:00".to_vec()]);
        late.set("time_zone", Some(&Value::Text(b"SYSTEM".to_vec())), &known, &mut Vec::new()).unwrap();
        late.learn(&known);
        assert_eq!(shown(&late, &known)[2], b"SYSTEM");
    }

    #[test]
    fn zones_whose_rules_are_known_can_be_set_by_name() {
        struct Source(&'static str, bool);
        impl OwnValues for Source {
            fn own_value(&self, name: &str) -> Option<String> {
                (name == KNOWS_UTC).then(|| self.0.to_owned())
            }

            fn zones(&self) -> Option<Arc<Zones>> {
                let lines = [("SYSTEM", "3600"), ("Europe/Berlin", "3600 5 7200"), ("right/UTC", "")];
                Some(Arc::new(Zones::of_lines(self.1, lines.into_iter())))
            }
        }
        let set = |source: &Source, name: &str| {
            let mut settings = Settings::new(Charsets::of_server(source));
            let value = Value::Text(name.as_bytes().to_vec());
            let set = settings.set("time_zone", Some(&value), source, &mut Vec::new());
            set.map(|_| settings.text("time_zone").unwrap().to_owned()).map_err(|error| error.code)
        };
        let (with_names, without, all) = (Source("1", false), Source("0", false), Source("1", true));
        assert_eq!(set(&with_names, "europe/BERLIN"), Ok("Europe/Berlin".to_owned()));
        assert_eq!(set(&with_names, "utc"), Ok("UTC".to_owned()));
        assert_eq!(set(&with_names, "Asia/Tokyo"), Err(1235));
        assert_eq!(set(&with_names, "+15:00"), Err(1298));
        assert_eq!([set(&without, "UTC"), set(&without, "Asia/Tokyo")], [Err(1298), Err(1298)]);
        assert_eq!(set(&all, "europe/BERLIN"), Ok("Europe/Berlin".to_owned()));
        assert_eq!([set(&all, "right/UTC"), set(&all, "Asia/Tokyo")], [Err(1235), Err(1298)]);
    }

    #[test]
    fn what_sessions_begin_with_can_be_set() {
        assert!(marked(Mark::First).count() <= 16, "one bit each");
        for (name, given, shown) in [
            ("time_zone", "-3:30", "-03:30"),
            ("time_zone", "system", "SYSTEM"),
            ("sql_mode", "ansi_quotes", "ANSI_QUOTES"),
            ("sql_mode", "", ""),
            ("autocommit", "off", "0"),
            ("autocommit", "1", "1"),
            ("transaction_isolation", "read-committed", "READ-COMMITTED"),
            ("sql_select_limit", "18446744073709551615", "18446744073709551615"),
            ("group_concat_max_len", "77", "77"),
        ] {
            assert_eq!(checked_first_value(name, given).as_deref(), Ok(shown), "{name}={given}");
        }
        for (name, given) in [
            ("time_zone", "Europe/Berlin"),
            ("sql_mode", "nonsense"),
            ("autocommit", "maybe"),
            ("transaction_isolation", "SNAPSHOT"),
            ("group_concat_max_len", "1"),
            ("group_concat_max_len", "many"),
            ("max_join_size", "-1"),
            ("version", "1"),
            ("nonsense", "1"),
        ] {
            assert!(checked_first_value(name, given).is_err(), "{name}={given}");
        }
        // Each that can be set has a rule by which values are checked.
        for name in marked(Mark::First) {
            let recorded = variables::find(name).unwrap().value.unwrap();
            assert!(checked_first_value(name, recorded).is_ok(), "{name}={recorded}");
        }
    }
}
