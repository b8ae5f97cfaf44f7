//! Functions that change the lists of servers to follow: `asynchronous_connection_failover_…`.
//!
//! In: bound arguments. Out: an order to the replica that the statement waits for, and MySQL's answer. Never here: the
//! lists. Errors and their texts are those of 9.7 (1123 for arguments, 3200 for what the lists do not allow), but for a
//! wrong port and for a network namespace, which it keeps.

use wire::response::column_flag;

use super::Arguments;
use crate::Result;
use crate::bind::{Bind, Bound, Field, Value, is_text};
use crate::error::SqlError;
use crate::orders::{FailoverOrder, ReplicaOrder};
use crate::waits::{Called, Event, Made, Wait};

/// Weight of a server for which none is given.
const WEIGHT: u8 = 50;
/// Characters that MySQL announces for an integer among the arguments.
const INTEGER_CHARACTERS: u32 = 12;

/// Reads the arguments of one function.
struct Reader<'a> {
    function: &'static str,
    bound: &'a [Bound],
}

impl Reader<'_> {
    fn wrong(&self, what: &str) -> SqlError {
        SqlError::new(1123, "HY000", format!("Can't initialize function '{}'; {what}", self.function))
    }

    fn count(&self, least: usize, most: usize, too_many: &str) -> Result<()> {
        let mandatory = "Wrong arguments: You need to specify all mandatory arguments.";
        match self.bound.len() {
            count if count > most => Err(self.wrong(too_many)),
            count if count < least => Err(self.wrong(mandatory)),
            _ => Ok(()),
        }
    }

    /// A text; `Ok(None)` is NULL.
    fn text(&self, at: usize, what: &str) -> Result<Option<String>> {
        match self.bound.get(at).map(|bound| &bound.value) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Text(text)) => Ok(Some(String::from_utf8_lossy(text).into_owned())),
            Some(_) => Err(self.wrong(what)),
        }
    }

    fn filled(&self, at: usize, what: &str) -> Result<String> {
        self.text(at, what)?.filter(|text| !text.is_empty()).ok_or_else(|| self.wrong(what))
    }

    /// The channel. There is one, without a name; NULL is that one.
    fn channel(&self) -> Result<String> {
        Ok(self.text(0, "Wrong arguments: You need to specify channel name.")?.unwrap_or_default())
    }

    fn port(&self, at: usize, what: &str) -> Result<u16> {
        let range = "Wrong arguments: The port argument should be integer between 1-65535.";
        let port = match self.bound.get(at).map(|bound| &bound.value) {
            Some(Value::Int(port)) => u16::try_from(*port),
            Some(Value::UInt(port)) => u16::try_from(*port),
            _ => return Err(self.wrong(what)),
        };
        port.ok().filter(|port| *port > 0).ok_or_else(|| self.wrong(range))
    }

    fn namespace(&self, at: usize) -> Result<()> {
        let text = self.text(at, "Wrong arguments: You need to specify a string value for network_namespace.")?;
        match text.is_none_or(|text| text.is_empty()) {
            true => Ok(()),
            false => Err(SqlError::not_supported("a network namespace")),
        }
    }

    fn weight(&self, at: usize, what: &str) -> Result<u8> {
        let weight = match self.bound.get(at).map(|bound| &bound.value) {
            Some(Value::Int(weight)) => u8::try_from(*weight).ok(),
            Some(Value::UInt(weight)) => u8::try_from(*weight).ok(),
            _ => None,
        };
        weight.filter(|weight| (1..=100).contains(weight)).ok_or_else(|| self.wrong(what))
    }

    fn uuid(&self, at: usize, missing: &str) -> Result<String> {
        let name = self.filled(at, missing)?;
        let is_uuid = name.parse::<base::Uuid>().is_ok();
        let invalid = "Wrong value: Please specify valid UUID for managed name.";
        if is_uuid { Ok(name) } else { Err(self.wrong(invalid)) }
    }

    /// Waits until the order was carried out.
    fn order(&self, bind: &Bind<'_>, channel: String, order: FailoverOrder) -> Result<Called> {
        let characters =
            |bound: &Bound| if is_text(&bound.field) { bound.field.characters() } else { INTEGER_CHARACTERS };
        let length = self.bound.iter().map(characters).max().unwrap_or(0);
        let field = Field::text(column_flag::NOT_NULL, length, bind.settings.charsets().connection);
        if bind.waits.describes() {
            return Ok(Called::Value(Bound { field, value: Value::Null }));
        }
        if !channel.is_empty() {
            let text = format!("Replica channel '{channel}' does not exist.");
            return Err(SqlError::new(3074, "HY000", text).of_execution());
        }
        let wait = Wait { event: Event::Replica(ReplicaOrder::Failover(order)), timeout: None };
        let text = format!("The UDF {}() executed successfully.", self.function);
        Ok(Called::Waits(wait, field, Made::Ordered(Value::Text(text.into_bytes()))))
    }
}

pub(super) fn add_source(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Called> {
    const WEIGHTS: &str = "Wrong arguments: The weight argument value should be integer value between 1-100.";
    let reader = Reader { function: "asynchronous_connection_failover_add_source", bound: &arguments.bound };
    reader.count(3, 5, "Wrong arguments: You must specify max 5 arguments.")?;
    let channel = reader.channel()?;
    let host = reader.filled(1, "Wrong arguments: You need to specify hostname.")?;
    let port = reader.port(2, "Wrong arguments: You need to specify value for port.")?;
    reader.namespace(3)?;
    let weight = if arguments.bound.len() > 4 { reader.weight(4, WEIGHTS)? } else { WEIGHT };
    reader.order(bind, channel, FailoverOrder::AddSource { host, port, weight })
}

pub(super) fn delete_source(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Called> {
    let reader = Reader { function: "asynchronous_connection_failover_delete_source", bound: &arguments.bound };
    reader.count(3, 4, "Wrong arguments: You must specify max 4 arguments.")?;
    let channel = reader.channel()?;
    let host = reader.filled(1, "Wrong arguments: You need to specify hostname.")?;
    let port = reader.port(2, "Wrong arguments: You need to specify value for port.")?;
    reader.namespace(3)?;
    reader.order(bind, channel, FailoverOrder::DeleteSource { host, port })
}

pub(super) fn add_managed(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Called> {
    const PORT: &str = "Wrong arguments: The port argument should be integer between 1-65535.";
    const PRIMARY: &str = "Wrong arguments: The primary_weight argument should be integer between 1-100.";
    const SECONDARY: &str = "Wrong arguments: The secondary_weight argument should be integer between 1-100.";
    let reader = Reader { function: "asynchronous_connection_failover_add_managed", bound: &arguments.bound };
    reader.count(8, 8, "Wrong arguments: You need to specify all mandatory arguments.")?;
    let channel = reader.channel()?;
    if reader.filled(1, "Wrong arguments: You need to specify managed type.")? != "GroupReplication" {
        return Err(reader.wrong("Wrong value: Managed type must be GroupReplication."));
    }
    let name = reader.uuid(2, "Wrong arguments: You need to specify managed name.")?;
    let host = reader.filled(3, "Wrong arguments: You need to specify hostname.")?;
    let port = reader.port(4, PORT)?;
    reader.namespace(5)?;
    let (primary_weight, secondary_weight) = (reader.weight(6, PRIMARY)?, reader.weight(7, SECONDARY)?);
    reader.order(bind, channel, FailoverOrder::AddManaged { name, host, port, primary_weight, secondary_weight })
}

pub(super) fn delete_managed(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Called> {
    let reader = Reader { function: "asynchronous_connection_failover_delete_managed", bound: &arguments.bound };
    reader.count(2, 2, "Wrong arguments: You must specify all arguments.")?;
    let channel = reader.channel()?;
    let name = reader.uuid(1, "Wrong arguments: You need to specify managed_name.")?;
    reader.order(bind, channel, FailoverOrder::DeleteManaged { name })
}

pub(super) fn reset(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Called> {
    let reader = Reader { function: "asynchronous_connection_failover_reset", bound: &arguments.bound };
    reader.count(0, 0, "Wrong arguments: The function takes no arguments.")?;
    reader.order(bind, String::new(), FailoverOrder::Reset)
}
