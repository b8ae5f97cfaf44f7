//! The members of the group that the followed server belongs to, as far as they are known.
//!
//! In: the view and the figures that a member tells, the time. Out: a report in which each figure has its age. Never
//! here: a connection, a choice of which one to follow.

use observe::{FlowControlReport, GroupReport, MemberFigures, MemberReport};
use source::group::{Figures, Member, Throttled};

/// Figures that a member told itself, and for how long they go before those that another one heard from it, µs: it is
/// asked twice a second.
const OWN_FOR_US: u64 = 5_000_000;

#[derive(Clone, Debug)]
struct Told {
    figures: Figures,
    at_us: u64,
    by_itself: bool,
}

#[derive(Clone, Debug)]
struct Known {
    /// Its state is empty once the view lacks it.
    member: Member,
    /// When a view had it last, µs.
    seen_us: u64,
    told: Option<Told>,
    throttled: Option<Throttled>,
}

/// The members of the view that was told last, and those that one before had.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    told_by: String,
    told_us: u64,
    all: Vec<Known>,
}

impl Members {
    /// This server tells of the view that it has.
    pub(crate) fn tell(&mut self, told_by: &str, view: &[Member], most: usize, now_us: u64) {
        let before = std::mem::take(&mut self.all);
        let known = view.iter().filter(|member| member.why_none().is_none()).take(most);
        let of = |member: &Member| {
            let before = before.iter().find(|of| of.member.server_uuid == member.server_uuid);
            let is_own = member.server_uuid == told_by;
            let kept = before.and_then(|of| of.told.clone()).filter(|told| {
                // Nobody hears from one that is unreachable.
                let is_newest = told.by_itself && now_us.saturating_sub(told.at_us) < OWN_FOR_US;
                member.state == "UNREACHABLE" || is_newest && !is_own
            });
            let heard = || Some(Told { figures: member.figures.clone()?, at_us: now_us, by_itself: is_own });
            let told = kept.or_else(heard);
            let throttled = before.and_then(|of| of.throttled);
            Known { member: Member { figures: None, ..member.clone() }, seen_us: now_us, told, throttled }
        };
        self.all = known.map(of).collect();
        let is_gone = |of: &&Known| view.iter().all(|member| member.server_uuid != of.member.server_uuid);
        let gone = |of: &Known| {
            let member = Member { state: String::new(), role: String::new(), ..of.member.clone() };
            Known { member, throttled: None, told: None, ..of.clone() }
        };
        // A server that is in no group has no view.
        let gone = before.iter().filter(|_| !view.is_empty()).filter(is_gone).map(gone);
        self.all.extend(gone);
        self.all.truncate(most);
        (self.told_by, self.told_us) = (told_by.to_owned(), now_us);
    }

    /// A member of the view was asked for its own figures.
    pub(crate) fn note(&mut self, own: Option<Figures>, server_uuid: &str, throttled: Option<Throttled>, now_us: u64) {
        let Some(known) = self.all.iter_mut().find(|of| of.member.server_uuid == server_uuid) else { return };
        if let Some(figures) = own {
            known.told = Some(Told { figures, at_us: now_us, by_itself: true });
        }
        known.throttled = throttled;
    }

    /// None if the source is known to be in no group. `followed` is empty while none is.
    pub(crate) fn report(&self, followed: &str, now_us: u64) -> Option<GroupReport> {
        let view_id = self.all.iter().map(|of| &of.member.view_id).find(|id| !id.is_empty())?.clone();
        let age_us = |at_us: u64| now_us.saturating_sub(at_us);
        let of = |known: &Known| {
            let Member { server_uuid, host, port, state, role, version, communication_stack, .. } = &known.member;
            MemberReport {
                member_id: server_uuid.clone(),
                age_us: age_us(known.seen_us),
                member_host: host.clone(),
                member_port: *port,
                member_state: state.clone(),
                member_role: role.clone(),
                member_version: version.clone(),
                member_communication_stack: communication_stack.clone(),
                followed: server_uuid == followed,
                figures: known.told.as_ref().map(|told| figures(told, age_us(told.at_us))),
                flow_control: known.throttled.map(|of| FlowControlReport {
                    throttle_count: of.count,
                    throttle_time_us: of.time_us,
                    throttle_active_count: of.active,
                }),
            }
        };
        Some(GroupReport {
            told_by: self.told_by.clone(),
            age_us: age_us(self.told_us),
            view_id,
            members: self.all.iter().map(of).collect(),
        })
    }
}

fn figures(told: &Told, age_us: u64) -> MemberFigures {
    let of = &told.figures;
    MemberFigures {
        age_us,
        by_itself: told.by_itself,
        count_transactions_in_queue: of.to_certify,
        count_transactions_checked: of.checked,
        count_conflicts_detected: of.conflicts,
        count_transactions_rows_validating: of.validating,
        transactions_committed_all_members: of.committed_by_all.clone(),
        last_conflict_free_transaction: of.last_conflict_free.clone(),
        count_transactions_remote_in_applier_queue: of.to_apply,
        count_transactions_remote_applied: of.applied,
        count_transactions_local_proposed: of.proposed,
        count_transactions_local_rollback: of.rolled_back,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;

    fn member(number: u8, state: &str, conflicts: u64) -> Member {
        Member {
            server_uuid: format!("00000000-0000-0000-0000-00000000000{number}"),
            host: format!("m{number}"),
            port: 3306,
            state: state.into(),
            role: "SECONDARY".into(),
            view_id: "17:3".into(),
            figures: Some(Figures { conflicts, ..Figures::default() }),
            ..Member::default()
        }
    }

    /// Of each: conflicts, the figures' age in seconds, by itself.
    fn shown(members: &Members, now_us: u64) -> Vec<(u64, u64, bool)> {
        let report = members.report("", now_us).unwrap();
        let figures = report.members.into_iter().filter_map(|of| of.figures);
        figures.map(|of| (of.count_conflicts_detected, of.age_us / S, of.by_itself)).collect()
    }

    #[test]
    fn a_figure_has_the_age_of_who_told_it() {
        let mut members = Members::default();
        assert!(members.report("", S).is_none());
        let view = |second: &str, conflicts: u64| [member(1, "ONLINE", conflicts), member(2, second, conflicts)];
        let by = member(1, "", 0).server_uuid;
        members.tell(&by, &view("ONLINE", 1), 9, 10 * S);
        assert_eq!(shown(&members, 11 * S), [(1, 1, true), (1, 1, false)]);
        let throttled = Some(Throttled { count: 7, time_us: 8, active: 1 });
        let own = Some(Figures { conflicts: 5, ..Figures::default() });
        members.note(own, &member(2, "", 0).server_uuid, throttled, 12 * S);
        // What it said itself goes first, until it is old.
        members.tell(&by, &view("ONLINE", 2), 9, 13 * S);
        assert_eq!(shown(&members, 14 * S), [(2, 1, true), (5, 2, true)]);
        members.tell(&by, &view("ONLINE", 3), 9, 17 * S);
        assert_eq!(shown(&members, 17 * S), [(3, 0, true), (3, 0, false)]);
        // The followed member still tells of one that nobody hears from.
        members.tell(&by, &view("UNREACHABLE", 3), 9, 30 * S);
        assert_eq!(shown(&members, 30 * S), [(3, 0, true), (3, 13, false)]);
        let report = members.report(&by, 40 * S).unwrap();
        assert!(report.is_old() && report.online() == 1 && report.members[0].followed);
        assert_eq!(report.members[1].flow_control.unwrap().throttle_count, 7);
        // One that is not in the view any more.
        members.tell(&by, &view("ONLINE", 4)[..1], 9, 41 * S);
        let report = members.report(&by, 51 * S).unwrap();
        let gone = &report.members[1];
        assert_eq!((gone.member_state.as_str(), gone.age_us, &gone.figures), ("", 21 * S, &None));
        // Words that are no host's; a server that is in no group.
        let mut members = Members::default();
        members.tell(&by, &[Member { host: "h/?x".into(), ..member(1, "ONLINE", 0) }], 9, 41 * S);
        assert!(members.report("", 41 * S).is_none());
        members.tell(&by, &view("ONLINE", 4), 9, 42 * S);
        members.tell("", &[], 9, 43 * S);
        assert!(members.report("", 43 * S).is_none());
    }
}
