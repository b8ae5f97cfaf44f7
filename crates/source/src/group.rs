//! What a member of a group (Group Replication) says of itself, and the barrier that makes it wait for what the group
//! has ordered.
//!
//! In: a connection to a member. Out: its state, view and queues; an answer that has all that any member had
//! acknowledged before it was asked. Never here: an answer by a member that has left, or cannot know; retries.

use std::fmt;
use std::time::Duration;

use base::GtidSet;
use client::{ClientError, Connection, Result};

/// Statement with which our sessions wait for nothing at a member: its default (BEFORE_ON_PRIMARY_FAILOVER) can hold
/// them at a new primary, an operator's any of them.
pub const WAIT_FOR_NOTHING: &str = "SET SESSION group_replication_consistency = 'EVENTUAL'";

/// Not allowed in the member's state: it is in ERROR, or has just left.
const WRONG_STATE: u16 = 3796;
/// The wait for the group's transactions ended before they were committed.
const NOT_COMMITTED: u16 = 3797;

/// What a server that belongs to a group says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// MEMBER_STATE: `ONLINE`, `RECOVERING`, `OFFLINE`, `ERROR`; empty where the server does not tell.
    pub state: String,
    /// VIEW_ID, which changes whenever a member comes or goes; empty for a member that has left.
    pub view_id: String,
    /// Transactions that were received and not certified.
    pub to_certify: u64,
    /// Certified transactions of other members that were not applied.
    pub to_apply: u64,
    /// Members that this one cannot reach.
    pub unreachable: u64,
    /// Members of its view.
    pub members: u64,
}

impl Membership {
    /// Whether it takes part in its group, by its own word.
    #[must_use]
    pub fn is_online(&self) -> bool {
        self.state == "ONLINE"
    }

    /// Whether it can reach a majority of its view, as far as it has noticed.
    fn has_majority(&self) -> bool {
        self.unreachable * 2 < self.members
    }

    /// Why its answer says nothing of the group, and what to do.
    #[must_use]
    pub fn why_not(&self) -> String {
        match self.state.as_str() {
            "" => "the source is a member of a group and does not say in which state: performance_schema must be ON"
                .into(),
            "OFFLINE" => "the source has left its group (MEMBER_STATE is OFFLINE): START GROUP_REPLICATION there, or \
                          follow a member that is ONLINE"
                .into(),
            state => format!("the source does not take part in its group (MEMBER_STATE is {state})"),
        }
    }
}

/// The queue that is waited for, as an operator finds it.
impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} transactions to certify and {} to apply", self.to_certify, self.to_apply)?;
        match self.unreachable {
            0 => Ok(()),
            unreachable => write!(f, "; {unreachable} of {} members are unreachable", self.members),
        }
    }
}

/// Whether the server is to be in a group, ONLINE or not.
///
/// # Errors
/// The connection fails.
pub fn is_member(connection: &mut Connection) -> Result<bool> {
    Ok(name(connection)?.is_some())
}

/// Name of the group that the server is to be in; None if it is to be in none.
///
/// # Errors
/// The connection to the server fails.
pub fn name(connection: &mut Connection) -> Result<Option<String>> {
    let name = connection.query("SHOW GLOBAL VARIABLES LIKE 'group_replication_group_name'")?;
    Ok(name.text(0, 1).filter(|name| !name.is_empty()))
}

/// What a member says of itself.
///
/// # Errors
/// The connection fails, or it answers otherwise.
pub fn membership(connection: &mut Connection) -> Result<Membership> {
    let what = "SELECT m.MEMBER_STATE, s.VIEW_ID, s.COUNT_TRANSACTIONS_IN_QUEUE, \
        s.COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE, \
        (SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'UNREACHABLE'), \
        (SELECT COUNT(*) FROM performance_schema.replication_group_members) \
        FROM performance_schema.replication_group_members m \
        LEFT JOIN performance_schema.replication_group_member_stats s ON s.MEMBER_ID = m.MEMBER_ID \
        WHERE m.MEMBER_ID = @@global.server_uuid";
    let answer = connection.query(what)?;
    // A member that has left has no figures, one without performance_schema no row.
    let text = |column: usize| answer.text(0, column).unwrap_or_default();
    let number = |column: usize| text(column).parse().unwrap_or(0);
    Ok(Membership {
        state: text(0),
        view_id: text(1),
        to_certify: number(2),
        to_apply: number(3),
        unreachable: number(4),
        members: number(5),
    })
}

/// A member of a group, as one of its members sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Member {
    pub server_uuid: String,
    /// MEMBER_HOST: what it calls itself, by its report_host.
    pub host: String,
    pub port: u16,
    /// MEMBER_STATE: `ONLINE`, `RECOVERING`, `UNREACHABLE`.
    pub state: String,
    /// MEMBER_ROLE: `PRIMARY` for one that takes writes, else `SECONDARY`.
    pub role: String,
    pub version: String,
    /// MEMBER_COMMUNICATION_STACK; empty before 8.0.27.
    pub communication_stack: String,
    /// VIEW_ID of the member that tells it.
    pub view_id: String,
    /// As it last told the others; None for one that has told them nothing.
    pub figures: Option<Figures>,
}

/// A member's row of `replication_group_member_stats`, in its order. The other members hear of it once a second.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    pub to_certify: u64,
    pub checked: u64,
    pub conflicts: u64,
    /// Rows in the certification's memory (COUNT_TRANSACTIONS_ROWS_VALIDATING).
    pub validating: u64,
    pub committed_by_all: String,
    pub last_conflict_free: String,
    pub to_apply: u64,
    pub applied: u64,
    pub proposed: u64,
    pub rolled_back: u64,
}

/// What a member's flow control has held back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttled {
    pub count: u64,
    pub time_us: u64,
    /// Transactions that are held back now.
    pub active: u64,
}

/// Longest state, role, version or id of a view that is kept, in bytes (the columns' length is 64 characters at most).
const WORD_LEN_MAX: usize = 64;
/// Longest GTID set of a member's figures that is kept, in bytes: it is shown, and a member tells what it likes.
const SET_LEN_MAX: usize = 64 << 10;
/// Members of a group that are taken; MySQL's have nine at most.
const MEMBERS_MAX: usize = 64;

/// Longest name of a host, in characters (HOSTNAME_LENGTH).
const HOST_LEN_MAX: usize = 255;

impl Member {
    /// Transactions that it has neither certified nor applied.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.figures.as_ref().map_or(0, |of| of.to_certify.saturating_add(of.to_apply))
    }

    /// Why it cannot be dialled, whatever the options say: a member tells what it likes, and its words become part of
    /// an address, of a file and of log lines. Its words are not repeated.
    #[must_use]
    pub fn why_none(&self) -> Option<&'static str> {
        let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        if self.server_uuid.parse::<base::Uuid>().is_err() {
            return Some("a member of the group has a MEMBER_ID that is no UUID");
        }
        if self.host.len() > HOST_LEN_MAX || !self.host.bytes().all(may_stand) {
            return Some("a member of the group has a MEMBER_HOST that is no name or address of a host (report_host)");
        }
        None
    }
}

/// The members of the view of one that is ONLINE.
///
/// # Errors
/// The connection fails, or it answers otherwise.
pub fn members(connection: &mut Connection) -> Result<Vec<Member>> {
    // By name: 8.0 got columns bit by bit.
    let what = "SELECT m.*, s.* FROM performance_schema.replication_group_members m \
        LEFT JOIN performance_schema.replication_group_member_stats s ON s.MEMBER_ID = m.MEMBER_ID \
        ORDER BY m.MEMBER_ID";
    let answer = connection.query(what)?;
    let missing = || ClientError::UnexpectedAnswer { what };
    // Its port is NULL, and its id empty, at a server that has left.
    let needed = ["MEMBER_ID", "MEMBER_HOST", "MEMBER_PORT", "MEMBER_STATE", "MEMBER_ROLE", "VIEW_ID"];
    if needed.iter().any(|name| answer.column(name).is_none()) {
        return Err(missing());
    }
    let member = |row: usize| {
        let text = |name: &str| answer.column(name).and_then(|column| answer.text(row, column)).unwrap_or_default();
        let view_id = word(text("VIEW_ID"));
        Ok(Member {
            server_uuid: text("MEMBER_ID"),
            host: text("MEMBER_HOST"),
            port: text("MEMBER_PORT").parse().unwrap_or(0),
            state: word(text("MEMBER_STATE")),
            role: word(text("MEMBER_ROLE")),
            version: word(text("MEMBER_VERSION")),
            communication_stack: word(text("MEMBER_COMMUNICATION_STACK")),
            figures: (!view_id.is_empty()).then(|| figures(text)),
            view_id,
        })
    };
    if answer.rows.len() > MEMBERS_MAX {
        return Err(missing());
    }
    (0..answer.rows.len()).map(member).collect()
}

fn figures(text: impl Fn(&str) -> String) -> Figures {
    let number = |name: &str| text(name).parse().unwrap_or(0);
    let set = |name: &str| Some(text(name)).filter(|set| set.len() <= SET_LEN_MAX).unwrap_or_default();
    Figures {
        to_certify: number("COUNT_TRANSACTIONS_IN_QUEUE"),
        checked: number("COUNT_TRANSACTIONS_CHECKED"),
        conflicts: number("COUNT_CONFLICTS_DETECTED"),
        validating: number("COUNT_TRANSACTIONS_ROWS_VALIDATING"),
        committed_by_all: set("TRANSACTIONS_COMMITTED_ALL_MEMBERS"),
        last_conflict_free: set("LAST_CONFLICT_FREE_TRANSACTION"),
        to_apply: number("COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE"),
        applied: number("COUNT_TRANSACTIONS_REMOTE_APPLIED"),
        proposed: number("COUNT_TRANSACTIONS_LOCAL_PROPOSED"),
        rolled_back: number("COUNT_TRANSACTIONS_LOCAL_ROLLBACK"),
    }
}

/// A member's word, which is shown, as far as it may be.
fn word(text: String) -> String {
    let may_stand = text.len() <= WORD_LEN_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
    if may_stand { text } else { String::new() }
}

/// What the flow control of this member has held back; None if it does not tell.
///
/// # Errors
/// The connection to the server fails.
pub fn throttled(connection: &mut Connection) -> Result<Option<Throttled>> {
    let answer = connection.query("SHOW GLOBAL STATUS LIKE 'Gr_flow_control_throttle%'")?;
    let value = |name: &str| {
        let row = (0..answer.rows.len()).find(|row| answer.text(*row, 0).as_deref() == Some(name))?;
        answer.text(row, 1)?.parse().ok()
    };
    let Some(count) = value("Gr_flow_control_throttle_count") else { return Ok(None) };
    let (time_us, active) =
        (value("Gr_flow_control_throttle_time_sum"), value("Gr_flow_control_throttle_active_count"));
    Ok(Some(Throttled { count, time_us: time_us.unwrap_or(0), active: active.unwrap_or(0) }))
}

/// Why a server that is to be in a group is not to be followed while others can be: by its own word it takes no part in
/// the group, or cannot reach a majority of it. None for one that does, or is to be in none.
///
/// # Errors
/// The connection fails, or it answers otherwise.
pub fn why_unfit(connection: &mut Connection) -> Result<Option<String>> {
    if is_member(connection)? { why_member_unfit(connection) } else { Ok(None) }
}

/// As [`why_unfit`], of a server that is to be in a group.
///
/// # Errors
/// The connection fails, or it answers otherwise.
pub fn why_member_unfit(connection: &mut Connection) -> Result<Option<String>> {
    let now = membership(connection)?;
    Ok(match (now.is_online(), now.has_majority()) {
        (false, _) => Some(now.why_not()),
        (true, false) => Some(BarrierError::NoMajority(now).to_string()),
        (true, true) => None,
    })
}

/// The transactions of other members that this one has received and certified; it has applied a part of them.
///
/// # Errors
/// The connection fails, or the answer is no GTID set.
pub fn received(connection: &mut Connection) -> Result<GtidSet> {
    let what = "SELECT RECEIVED_TRANSACTION_SET FROM performance_schema.replication_connection_status \
        WHERE CHANNEL_NAME = 'group_replication_applier'";
    let answer = connection.query_gtids(what)?;
    if answer.rows.is_empty() { Ok(GtidSet::new()) } else { answer.told(0, 0, what) }
}

/// Why a barrier gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum BarrierError {
    /// The member takes no part in its group.
    #[error("{}", .0.why_not())]
    NotOnline(Membership),
    /// It cannot reach a majority of its group. The barrier would wait until it can, whatever limit it is given.
    #[error("the source cannot reach a majority of its group: {0}")]
    NoMajority(Membership),
    /// What the group had ordered was not committed in time.
    #[error("the source has not committed what its group had ordered within {} s: {now}", .within.as_secs())]
    Late {
        within: Duration,
        /// What the member waits for.
        now: Membership,
    },
    /// A member came or went meanwhile; another try may do.
    #[error("the source's group changed while it was asked, from view {before} to {after}")]
    ViewChanged { before: String, after: String },
    /// The connection failed, or a statement.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Reads once the member has committed all that its group had ordered before it was asked, so all that any member had
/// acknowledged. Statements on variables and on performance_schema are not held by themselves: a transaction is begun
/// under BEFORE, which is. A member that was expelled or has left answers at once, with what it had, so that it counts
/// only if it is ONLINE in the same view before and after.
///
/// The connection's read timeout must be longer than `within`, and bounds the wait where a member loses its majority
/// meanwhile. After an error the connection is to be dropped.
///
/// # Errors
/// Why the answer would not be of the group.
pub fn behind_barrier<T>(
    connection: &mut Connection,
    within: Duration,
    read: impl FnOnce(&mut Connection) -> Result<T>,
) -> std::result::Result<T, BarrierError> {
    let before = membership(connection)?;
    if !before.is_online() {
        return Err(BarrierError::NotOnline(before));
    }
    if !before.has_majority() {
        return Err(BarrierError::NoMajority(before));
    }
    // wait_timeout is the server's limit of that wait.
    connection.exec(&format!(
        "SET @slipstream_wait_timeout = @@SESSION.wait_timeout, SESSION wait_timeout = {}, \
         SESSION group_replication_consistency = 'BEFORE'",
        within.as_secs().max(1)
    ))?;
    match connection.exec("START TRANSACTION READ ONLY") {
        Err(error) if error.server_code() == Some(NOT_COMMITTED) => {
            let now = membership(connection)?;
            // It ends before its time where the member finds that it was expelled.
            return Err(if now.is_online() {
                BarrierError::Late { within, now }
            } else {
                BarrierError::NotOnline(now)
            });
        }
        Err(error) if error.server_code() == Some(WRONG_STATE) => {
            return Err(BarrierError::NotOnline(membership(connection)?));
        }
        begun => begun?,
    };
    let answer = read(connection)?;
    connection.exec("COMMIT")?;
    connection.exec(
        "SET SESSION group_replication_consistency = 'EVENTUAL', SESSION wait_timeout = @slipstream_wait_timeout",
    )?;
    let after = membership(connection)?;
    if !after.is_online() {
        return Err(BarrierError::NotOnline(after));
    }
    if after.view_id != before.view_id {
        return Err(BarrierError::ViewChanged { before: before.view_id, after: after.view_id });
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_group_is_no_majority() {
        let of = |unreachable, members| Membership {
            state: "ONLINE".into(),
            view_id: "17960055559725797:3".into(),
            to_certify: 2,
            to_apply: 3,
            unreachable,
            members,
        };
        assert_eq!(
            [(0, 1), (1, 3), (1, 2), (2, 3), (2, 4)].map(|(u, m)| of(u, m).has_majority()),
            [true, true, false, false, false]
        );
        assert_eq!(of(0, 3).to_string(), "2 transactions to certify and 3 to apply");
        assert_eq!(of(2, 3).to_string(), "2 transactions to certify and 3 to apply; 2 of 3 members are unreachable");
    }
}
