//! Status of the group (Group Replication) that the source belongs to, as its members tell of themselves and of each
//! other.
//!
//! In: values that the replica collects. Out: JSON keys that are MySQL's column names where there are some. Never here:
//! a member that none has told of, a figure without its age.

use serde::{Deserialize, Serialize};

/// After so long without a word from the followed member, µs, the states are not those of now.
const OLD_AFTER_US: u64 = 5_000_000;

/// The group, as a member of it told last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupReport {
    /// server_uuid of the member that told of them.
    #[serde(rename = "told_by")]
    pub told_by: String,
    /// Time since then, µs.
    #[serde(rename = "age_us")]
    pub age_us: u64,
    /// VIEW_ID at that member.
    #[serde(rename = "view_id")]
    pub view_id: String,
    #[serde(rename = "members")]
    pub members: Vec<MemberReport>,
}

impl GroupReport {
    /// True if the states are what was told last, and nobody tells of them now.
    #[must_use]
    pub fn is_old(&self) -> bool {
        self.age_us > OLD_AFTER_US
    }

    /// How many members are ONLINE.
    #[must_use]
    pub fn online(&self) -> usize {
        self.members.iter().filter(|member| member.member_state == "ONLINE").count()
    }
}

/// A member, by the names of `performance_schema.replication_group_members`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberReport {
    #[serde(rename = "member_id")]
    pub member_id: String,
    #[serde(rename = "member_host")]
    pub member_host: String,
    #[serde(rename = "member_port")]
    pub member_port: u16,
    /// Time since it was in a view that was told of, µs.
    #[serde(rename = "age_us")]
    pub age_us: u64,
    /// Empty if the view lacks it now: it has left, was expelled, or is down.
    #[serde(rename = "member_state")]
    pub member_state: String,
    #[serde(rename = "member_role")]
    pub member_role: String,
    #[serde(rename = "member_version")]
    pub member_version: String,
    #[serde(rename = "member_communication_stack")]
    pub member_communication_stack: String,
    /// True of the member whose log is received.
    #[serde(rename = "followed")]
    pub followed: bool,
    /// None if none was told yet.
    #[serde(rename = "figures")]
    pub figures: Option<MemberFigures>,
    /// None if it was not asked, or lacks component_group_replication_flow_control_stats.
    #[serde(rename = "flow_control")]
    pub flow_control: Option<FlowControlReport>,
}

/// A member's figures, by the names of `performance_schema.replication_group_member_stats`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberFigures {
    /// Time since they were told, µs; since the member was last reachable where another one tells of it.
    #[serde(rename = "age_us")]
    pub age_us: u64,
    /// True if the member was asked, false if another one had heard them from it.
    #[serde(rename = "by_itself")]
    pub by_itself: bool,
    #[serde(rename = "count_transactions_in_queue")]
    pub count_transactions_in_queue: u64,
    #[serde(rename = "count_transactions_checked")]
    pub count_transactions_checked: u64,
    #[serde(rename = "count_conflicts_detected")]
    pub count_conflicts_detected: u64,
    #[serde(rename = "count_transactions_rows_validating")]
    pub count_transactions_rows_validating: u64,
    #[serde(rename = "transactions_committed_all_members")]
    pub transactions_committed_all_members: String,
    #[serde(rename = "last_conflict_free_transaction")]
    pub last_conflict_free_transaction: String,
    #[serde(rename = "count_transactions_remote_in_applier_queue")]
    pub count_transactions_remote_in_applier_queue: u64,
    #[serde(rename = "count_transactions_remote_applied")]
    pub count_transactions_remote_applied: u64,
    #[serde(rename = "count_transactions_local_proposed")]
    pub count_transactions_local_proposed: u64,
    #[serde(rename = "count_transactions_local_rollback")]
    pub count_transactions_local_rollback: u64,
}

/// What flow control has held back at a member (`Gr_flow_control_…` of its status).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowControlReport {
    /// Transactions that were throttled.
    #[serde(rename = "throttle_count")]
    pub throttle_count: u64,
    /// Time for which they were, µs.
    #[serde(rename = "throttle_time_us")]
    pub throttle_time_us: u64,
    /// Those that are throttled now.
    #[serde(rename = "throttle_active_count")]
    pub throttle_active_count: u64,
}
