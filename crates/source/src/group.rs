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
    let name = connection.query("SHOW GLOBAL VARIABLES LIKE 'group_replication_group_name'")?;
    Ok(name.text(0, 1).is_some_and(|name| !name.is_empty()))
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
    /// Transactions that it has neither certified nor applied, as it last told the others.
    pub queued: u64,
}

/// Longest name of a host, in characters (HOSTNAME_LENGTH).
const HOST_LEN_MAX: usize = 255;

impl Member {
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
    let what = "SELECT m.MEMBER_ID, m.MEMBER_HOST, m.MEMBER_PORT, m.MEMBER_STATE, m.MEMBER_ROLE, \
        COALESCE(s.COUNT_TRANSACTIONS_IN_QUEUE + s.COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE, 0) \
        FROM performance_schema.replication_group_members m \
        LEFT JOIN performance_schema.replication_group_member_stats s ON s.MEMBER_ID = m.MEMBER_ID \
        ORDER BY m.MEMBER_ID";
    let answer = connection.query(what)?;
    let member = |row: usize| {
        Ok(Member {
            server_uuid: answer.told(row, 0, what)?,
            host: answer.told(row, 1, what)?,
            port: answer.told(row, 2, what)?,
            state: answer.told(row, 3, what)?,
            role: answer.told(row, 4, what)?,
            queued: answer.told(row, 5, what)?,
        })
    };
    (0..answer.rows.len()).map(member).collect()
}

/// Why a server that is to be in a group is not to be followed while others can be: by its own word it takes no part in
/// the group, or cannot reach a majority of it. None for one that does, or is to be in none.
///
/// # Errors
/// The connection fails, or it answers otherwise.
pub fn why_unfit(connection: &mut Connection) -> Result<Option<String>> {
    if !is_member(connection)? {
        return Ok(None);
    }
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
    let answer = connection.query(what)?;
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
