//! What must be known of the source before it can be reached again: facts that it reports about itself, kept in a file.
//!
//! In: a connection to it, or the file. Out: its version, its identity, what its sessions begin with. Never here: where
//! in its log the replica stands.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use client::Connection;
use source::zones::{Named, Zones};
use sql::{KNOWS_UTC, Mark, marked};

use crate::exit::{Exit, Failure};
use crate::folder::{removal, write_atomically};

/// File with the facts, in the data folder.
pub(crate) const FACTS_FILE: &str = "source-facts";

/// Facts that a source reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceFacts {
    /// `version` of the source.
    pub version: String,
    pub server_id: u32,
    /// The source's server_uuid as text.
    pub server_uuid: String,
    /// The source's lower_case_table_names: 0, 1 or 2.
    pub lower_case_table_names: u8,
    /// Some once the log says that the source is not verified: whether it said that it has the password, too.
    pub not_verified_said: Option<bool>,
    /// The server that was followed before this one.
    pub before: Option<ServerBefore>,
    /// What of it changes answers.
    pub settings: Arc<SourceSettings>,
}

/// A server that was the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerBefore {
    pub server_uuid: String,
    /// When another server was first followed in its place, µs since 1970.
    pub until_us: u64,
}

/// What changes answers, as the source tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceSettings {
    /// Values of global variables with [`Mark::First`] or [`Mark::Asked`] by name, as SELECT prints them; and
    /// [`KNOWS_UTC`].
    pub globals: Vec<(String, String)>,
    /// Its time zones; None if it was never asked.
    pub zones: Option<Arc<Zones>>,
    /// True if it has so many zones that they are not kept.
    pub zones_too_many: bool,
}

impl SourceSettings {
    /// One of the global variables.
    #[must_use]
    pub fn global(&self, name: &str) -> Option<String> {
        self.globals.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone())
    }

    /// True if it has time zones with names that it does not let us read.
    pub(crate) fn lacks_zones(&self) -> bool {
        self.global(KNOWS_UTC).as_deref() == Some("1") && self.zones.as_ref().is_some_and(|zones| !zones.is_complete())
    }
}

/// What the file holds; None if there is none.
///
/// # Errors
/// Code 7 if the file is damaged; 8 for disk errors.
pub(crate) fn read(path: &Path) -> Result<Option<SourceFacts>, Failure> {
    let damaged = |what: &str| {
        let then = "a replica that starts asks its source again";
        Failure::new(Exit::Corrupt, format!("{}: {what}", path.display())).with_hint(removal(path, then))
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidData => return Err(damaged("not a text")),
        Err(error) => return Err(Failure::io(path.display(), &error)),
    };
    let value = |key: &str| {
        text.lines().find_map(|line| line.split_once('=').filter(|(k, _)| *k == key).map(|(_, v)| v.to_string()))
    };
    let fact = |key: &str| value(key).ok_or_else(|| damaged(&format!("no {key} in it")));
    let number = |key: &str| -> Result<u32, Failure> {
        let text = fact(key)?;
        text.parse().map_err(|_| damaged(&format!("{key} is '{}', no number", text.escape_debug())))
    };
    let lower_case_table_names = u8::try_from(number(LOWER)?).ok().filter(|lower| *lower <= 2);
    Ok(Some(SourceFacts {
        version: fact("version")?,
        server_id: number("server_id")?,
        server_uuid: fact("server_uuid")?,
        lower_case_table_names: lower_case_table_names.ok_or_else(|| damaged(&format!("{LOWER} is above 2")))?,
        not_verified_said: value(NOT_VERIFIED_SAID).map(|what| what == "password"),
        before: value(BEFORE).and_then(|before| {
            let (server_uuid, until_us) = before.rsplit_once(' ')?;
            Some(ServerBefore { server_uuid: server_uuid.to_owned(), until_us: until_us.parse().ok()? })
        }),
        settings: Arc::new(SourceSettings {
            globals: text
                .lines()
                .filter_map(|line| line.strip_prefix("global.")?.split_once('='))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            zones: value(ZONES).map(|complete| {
                let lines = text.lines().filter_map(|line| line.strip_prefix("zone.")?.split_once('='));
                Arc::new(Zones::of_lines(complete == "all", lines))
            }),
            // It is asked again before this is told.
            zones_too_many: false,
        }),
    }))
}

const LOWER: &str = "lower_case_table_names";

/// In the file, `password` if the log says that a source that is not verified has the password; else `source`.
const NOT_VERIFIED_SAID: &str = "not_verified_said";

/// In the file, `server_uuid` of the server before, and until when it was the source, in µs.
const BEFORE: &str = "before";

/// In the file, `all` if the source has no other zones than those of the lines `zone.NAME=`.
const ZONES: &str = "zones";

/// What a source tells of what changes answers.
pub(crate) fn settings(source: &mut Connection) -> client::Result<Arc<SourceSettings>> {
    let globals = globals(source)?;
    let named = source::zones::named(source)?;
    let zones_too_many = matches!(named, Named::TooMany);
    let known = match named {
        Named::All(zones) => zones,
        Named::Refused | Named::TooMany => Zones::default(),
    };
    let zones = zones(source, &globals, known)?;
    Ok(Arc::new(SourceSettings { globals, zones: Some(Arc::new(zones)), zones_too_many }))
}

/// Those that the source has.
fn globals(source: &mut Connection) -> client::Result<Vec<(String, String)>> {
    let names = [Mark::First, Mark::Asked].into_iter().flat_map(marked);
    let names = names.map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let found = source.query(&format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})"))?;
    let mut all = Vec::new();
    for row in 0..found.rows.len() {
        let (Some(name), Some(value)) = (found.text(row, 0), found.text(row, 1)) else { continue };
        // SHOW prints switches as words. None of these texts is one.
        let value = match value.as_str() {
            "ON" => "1".to_owned(),
            "OFF" => "0".to_owned(),
            _ => value,
        };
        all.push((name.to_ascii_lowercase(), value));
    }
    // What Django asks for the same purpose. A replica as ours does not know it before it has asked its own source.
    match source.query_value("SELECT CONVERT_TZ('2001-01-01 01:00:00', 'UTC', 'UTC') IS NOT NULL") {
        Err(error) if error.server_code().is_some() => {}
        knows => all.extend(knows?.map(|knows| (KNOWS_UTC.to_owned(), knows))),
    }
    all.sort();
    Ok(all)
}

/// `zones`, and those that sessions of a source with these global variables begin with.
fn zones(source: &mut Connection, globals: &[(String, String)], mut zones: Zones) -> client::Result<Zones> {
    let value = |name: &str| globals.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value.as_str());
    let mut names = Vec::new();
    if value("system_time_zone") != "UTC" {
        names.push("SYSTEM");
    }
    let global = value("time_zone");
    if !global.is_empty() && global != "SYSTEM" && !global.starts_with(['+', '-']) {
        names.push(global);
    }
    for name in names {
        if let Some(rules) = source::zones::rules_of(source, name)? {
            zones.add(name, Some(rules));
        }
    }
    Ok(zones)
}

/// Whether a replica or relay in this folder has been connected to its source before.
#[must_use]
pub fn knows_source(data: &Path) -> bool {
    data.join(FACTS_FILE).exists()
}

/// What of the source changes answers, as last seen by this folder's replica. A file that cannot be read counts as none
/// here, because a receiver that finds it refuses to start.
#[must_use]
pub fn known_source_settings(data: &Path) -> Arc<SourceSettings> {
    read(&data.join(FACTS_FILE)).ok().flatten().map(|facts| facts.settings).unwrap_or_default()
}

/// The source's `lower_case_table_names` as last seen by this folder's replica; 0 if it never connected.
///
/// # Errors
/// As [`read`].
pub(crate) fn known_lower_case_table_names(data: &Path) -> Result<u8, Failure> {
    Ok(read(&data.join(FACTS_FILE))?.map_or(0, |facts| facts.lower_case_table_names))
}

/// Writes the file whole.
///
/// # Errors
/// The file system's.
pub(crate) fn write(path: &Path, facts: &SourceFacts) -> Result<(), Failure> {
    let mut text = format!(
        "version={}\nserver_id={}\nserver_uuid={}\nlower_case_table_names={}\n",
        observe::one_line(&facts.version),
        facts.server_id,
        observe::one_line(&facts.server_uuid),
        facts.lower_case_table_names
    );
    if let Some(of_password) = facts.not_verified_said {
        text.push_str(&format!("{NOT_VERIFIED_SAID}={}\n", if of_password { "password" } else { "source" }));
    }
    if let Some(before) = &facts.before {
        text.push_str(&format!("{BEFORE}={} {}\n", observe::one_line(&before.server_uuid), before.until_us));
    }
    // A value with a line break would be another line.
    let globals = facts.settings.globals.iter().filter(|(name, value)| !(name.clone() + value).contains(['\n', '\r']));
    text.extend(globals.map(|(name, value)| format!("global.{name}={value}\n")));
    if let Some(zones) = &facts.settings.zones {
        text.push_str(if zones.is_complete() { "zones=all\n" } else { "zones=some\n" });
        // A name with a line break would be another line.
        let lines = zones.lines().filter(|(name, _)| !name.contains(['=', '\n', '\r']));
        text.extend(lines.map(|(name, rules)| format!("zone.{name}={rules}\n")));
    }
    write_atomically(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_adds_no_lines_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FACTS_FILE);
        let mut zones = Zones::new(true);
        zones.add("A\nserver_id=9", None);
        let globals = [("sql_mode", "x\nserver_uuid=evil"), ("time_zone", "SYSTEM")];
        let globals = globals.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let settings = Arc::new(SourceSettings { globals, zones: Some(Arc::new(zones)), zones_too_many: false });
        let version = "9.7.4\nlower_case_table_names=2".to_owned();
        let facts = SourceFacts {
            version,
            server_id: 1,
            server_uuid: "a\r\nzones=some".into(),
            lower_case_table_names: 0,
            not_verified_said: Some(true),
            before: Some(ServerBefore { server_uuid: "b\nserver_id=9".into(), until_us: 7 }),
            settings,
        };
        write(&path, &facts).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let keys: Vec<&str> = text.lines().filter_map(|line| line.split_once('=')).map(|(key, _)| key).collect();
        assert_eq!(
            keys,
            [
                "version",
                "server_id",
                "server_uuid",
                "lower_case_table_names",
                "not_verified_said",
                "before",
                "global.time_zone",
                "zones"
            ]
        );
        assert_eq!(read(&path).unwrap().unwrap().not_verified_said, Some(true));
        let before = read(&path).unwrap().unwrap().before.unwrap();
        assert_eq!((before.server_uuid.as_str(), before.until_us), ("b server_id=9", 7));
        assert_eq!(read(&path).unwrap().unwrap().version, "9.7.4 lower_case_table_names=2");
    }

    #[test]
    fn a_damaged_file_is_not_one_that_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FACTS_FILE);
        assert_eq!(read(&path).unwrap(), None);
        assert_eq!(known_lower_case_table_names(folder.path()).unwrap(), 0);
        let whole = "version=9.7.4\nserver_id=1\nserver_uuid=u\nlower_case_table_names=1\n";
        std::fs::write(&path, whole).unwrap();
        assert_eq!(known_lower_case_table_names(folder.path()).unwrap(), 1);
        let cut = &whole[..whole.len() - 2];
        let above = whole.replace("names=1", "names=3");
        let damaged = [
            (b"".as_slice(), "no lower_case_table_names in it"),
            (cut.as_bytes(), "lower_case_table_names is '', no number"),
            (above.as_bytes(), "lower_case_table_names is above 2"),
            (b"lower_case_table_names=0\nversion=9\nserver_id=x\n", "server_id is 'x', no number"),
            (b"\xff", "not a text"),
        ];
        for (bytes, what) in damaged {
            std::fs::write(&path, bytes).unwrap();
            let failure = read(&path).unwrap_err();
            assert_eq!((failure.exit, &failure.text), (Exit::Corrupt, &format!("{}: {what}", path.display())));
            assert!(failure.hint.unwrap().starts_with("rm "));
            assert!(known_lower_case_table_names(folder.path()).is_err());
        }
    }
}
