//! The servers of which one is followed: in which order they are tried, and why one was left.
//!
//! In: the servers that the options name, which of them was lost and why. Out: the one that is to be tried, a report.
//! Never here: a connection, a wait, a server's password in a text.

use client::{ConnectOptions, SslMode};
use observe::{CandidateReport, LeftReport, utc_text};
use serde::{Deserialize, Serialize};
use source::group::Member;

use crate::exit::Failure;
use crate::server_options::{Prefer, ServerOptions};

/// One that was followed for less than this, µs, counts as failed like one that refuses: several that end every
/// connection soon are tried with pauses.
const STEADY_AFTER_US: u64 = 1_000_000;
/// A better one that failed is tried again after this, µs: a minute of moves to and fro would be worse than another
/// member.
const TRY_BETTER_AFTER_US: u64 = 60_000_000;
/// Weight of a server for which none is given, as MySQL's asynchronous connection failover has it.
pub const WEIGHT: u8 = 50;
/// Members that are known at once. A group has at most nine; those that are gone are kept, too.
pub(crate) const MEMBERS_MAX: usize = 32;

pub(crate) type Place = (String, u16, Option<std::path::PathBuf>);

pub(crate) fn place(options: &ConnectOptions) -> Place {
    (options.host.clone(), options.port, options.socket.clone())
}

#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub server: ServerOptions,
    pub options: ConnectOptions,
    /// Why it cannot be followed, and since when, µs; None if it was not tried since the last one was followed.
    refused: Option<(u64, String)>,
    /// It was tried since the last one was followed for long, or all had failed.
    has_failed: bool,
    /// When it failed last, µs; 0 if it never did.
    failed_us: u64,
    /// What a member of its group said of it last; empty for one that none has told of.
    member: Member,
}

impl Candidate {
    fn new(server: ServerOptions, member: Member) -> Result<Candidate, Failure> {
        let options = server.connect_options()?;
        Ok(Candidate { server, options, refused: None, has_failed: false, failed_us: 0, member })
    }

    fn is(&self, state: &str, role: &str) -> bool {
        self.member.state == state && self.member.role == role
    }

    /// 1 to 100: of a member of a group by its role, if roles have weights.
    fn weight(&self, of_group: Option<(u8, u8)>) -> u8 {
        match of_group.filter(|_| !self.member.state.is_empty()) {
            Some((primary, _)) if self.member.role == "PRIMARY" => primary,
            Some((_, secondary)) => secondary,
            None => self.server.weight.unwrap_or(WEIGHT),
        }
    }

    /// The lowest is tried first.
    fn rank(&self, prefer: Option<Prefer>, of_group: Option<(u8, u8)>) -> (u8, u8, u64) {
        let lightness = 100 - self.weight(of_group).min(100);
        let is_online = self.member.state == "ONLINE";
        if self.member.state.is_empty() {
            return (1, lightness, 0);
        }
        let class = match prefer {
            _ if !is_online => 3,
            Some(Prefer::Primary) if self.member.role != "PRIMARY" => 2,
            Some(Prefer::Secondary) if self.member.role != "SECONDARY" => 2,
            _ => 0,
        };
        (class, lightness, if prefer == Some(Prefer::LowestLag) { self.member.queued() } else { 0 })
    }
}

/// A member that was found, as the data folder keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Found {
    pub server_uuid: String,
    pub host: String,
    pub port: u16,
}

/// The servers, never none, and which of them is followed.
#[derive(Clone, Debug)]
pub(crate) struct Candidates {
    /// In the order in which they are tried.
    all: Vec<Candidate>,
    /// The one that is followed, or is to be tried.
    at: usize,
    /// Since when it is followed, µs; 0 if it is not.
    followed_since_us: u64,
    /// When the last event or heartbeat of the one that is followed arrived, µs; 0 if none did.
    heard_us: u64,
    left: Option<LeftReport>,
    /// The options that name them, or the first of them.
    named: ServerOptions,
    /// Weights of members that are PRIMARY, and of the others, if they have any.
    of_group: Option<(u8, u8)>,
    /// Members of the group, as one of them told last.
    found: Vec<Found>,
    /// Members whose addresses are not dialled, in words.
    not_dialled: Vec<String>,
    /// Tried before all others, once.
    wanted: Option<Place>,
    /// When the last move began that another one was wanted for, µs; 0 if there was none.
    moved_us: u64,
}

impl Candidates {
    /// # Errors
    /// Code 2 if the options are invalid.
    pub(crate) fn of(server: &ServerOptions) -> Result<Candidates, Failure> {
        let mut all: Vec<Candidate> = Vec::new();
        for server in server.each()? {
            let candidate = Candidate::new(server, Member::default())?;
            let options = &candidate.options;
            if all.iter().any(|other| place(&other.options) == place(options)) {
                return Err(Failure::usage(format!("the source names {options} twice")));
            }
            all.push(candidate);
        }
        let (named, found, not_dialled) = (server.clone(), Vec::new(), Vec::new());
        let of_group = server.group_weights()?;
        Ok(Candidates {
            all,
            at: 0,
            followed_since_us: 0,
            heard_us: 0,
            left: None,
            named,
            of_group,
            found,
            not_dialled,
            wanted: None,
            moved_us: 0,
        })
    }

    /// Members that would not be dialled if the server of these options, which is this one of the group, were followed.
    pub(crate) fn undialled_beside(
        mut self,
        server: &ConnectOptions,
        server_uuid: &str,
        members: &[Member],
    ) -> Vec<String> {
        self.at = self.all.iter().position(|of| place(&of.options) == place(server)).unwrap_or_default();
        self.follows(server_uuid, 1);
        self.tell_of(members);
        self.not_dialled
    }

    /// The members of the group may be followed, too.
    pub(crate) fn finds_members(&self) -> bool {
        self.named.finds_members()
    }

    /// What names them, without a password: another one names other groups.
    pub(crate) fn shown_names(&self) -> String {
        self.named.shown()
    }

    /// The members that are known, for the data folder.
    pub(crate) fn found(&self) -> &[Found] {
        &self.found
    }

    /// Members whose addresses are not dialled, in words.
    pub(crate) fn not_dialled(&self) -> &[String] {
        &self.not_dialled
    }

    /// A member has told of these. They may be followed: at the addresses of the options, or at their own where the
    /// options would notice another server there.
    pub(crate) fn tell_of(&mut self, members: &[Member]) {
        for candidate in &mut self.all {
            candidate.member.state.clear();
        }
        self.not_dialled.clear();
        let mut known: Vec<&Member> = Vec::new();
        for member in members.iter().take(MEMBERS_MAX) {
            match member.why_none() {
                None => known.push(member),
                Some(why) if self.not_dialled.iter().all(|said| said != why) => self.not_dialled.push(why.to_owned()),
                Some(_) => {}
            }
        }
        let members = known;
        members.iter().for_each(|member| self.tell_of_one(member));
        let here = |member: &&Member| Found {
            server_uuid: member.server_uuid.clone(),
            host: member.host.clone(),
            port: member.port,
        };
        // One that is gone for now may be the first that is back.
        let gone = self.found.iter().filter(|of| members.iter().all(|member| member.server_uuid != of.server_uuid));
        self.found = members.iter().map(here).chain(gone.cloned()).take(MEMBERS_MAX).collect();
        self.found.sort_by(|a, b| a.server_uuid.cmp(&b.server_uuid));
    }

    fn tell_of_one(&mut self, member: &Member) {
        let given = self.named.member_addresses.iter().find(|(uuid, _)| *uuid == member.server_uuid);
        let own = if member.host.contains(':') { format!("[{}]", member.host) } else { member.host.clone() };
        let address = given.map_or_else(|| format!("{own}:{}", member.port), |(_, address)| address.clone());
        let Some(of) = self.all.first().and_then(|first| self.named.at(&address).ok().map(|server| (first, server)))
        else {
            return;
        };
        let (first, server) = of;
        let may_dial = given.is_some() || !matches!(first.options.ssl_mode, SslMode::Disabled | SslMode::Preferred);
        let Ok(found) = Candidate::new(server, member.clone()) else { return };
        let is_it = |known: &Candidate| {
            known.member.server_uuid == member.server_uuid
                || known.member.server_uuid.is_empty() && place(&known.options) == place(&found.options)
        };
        if let Some(known) = self.all.iter_mut().find(|known| is_it(known)) {
            known.member.clone_from(member);
        } else if may_dial && self.all.len() < MEMBERS_MAX {
            self.all.push(found);
        } else {
            let text = format!(
                "{} at {address} is not followed: with this ssl-mode only addresses given by --member-address or in \
                 --source are dialled; --ssl-mode=VERIFY_IDENTITY (or VERIFY_CA, REQUIRED) dials members' own",
                member.server_uuid
            );
            self.not_dialled.push(text);
        }
    }

    /// Why the one that is followed is to be left for another one, which has not failed of late: `--prefer=primary`
    /// wants a primary, or members of another role have a higher weight.
    pub(crate) fn better(&self, now_us: u64) -> Option<String> {
        let now = self.now();
        let may_do =
            |of: &&Candidate| of.member.state == "ONLINE" && now_us.saturating_sub(of.failed_us) > TRY_BETTER_AFTER_US;
        let mut others = self.all.iter().filter(may_do);
        if self.named.prefer == Some(Prefer::Primary) && now.is("ONLINE", "SECONDARY") {
            let primary = others.find(|of| of.member.role == "PRIMARY")?;
            return Some(format!(
                "a member with another role was followed, and {} is the primary that --prefer=primary wants",
                primary.server.shown()
            ));
        }
        if self.named.prefer.is_some() || now.member.state != "ONLINE" {
            return None;
        }
        let weight = |of: &Candidate| of.weight(self.of_group);
        let heavier = others.find(|of| self.of_group.is_some() && weight(of) > weight(now))?;
        Some(format!(
            "its weight is {}, and {} ({}) has {}",
            weight(now),
            heavier.server.shown(),
            heavier.member.role,
            weight(heavier)
        ))
    }

    pub(crate) fn max_source_lag(&self) -> Option<u64> {
        self.named.max_source_lag
    }

    /// Others that may be followed: each but the one of now, and those that cannot be.
    pub(crate) fn others(&self) -> Vec<ConnectOptions> {
        let others = self.all.iter().enumerate().filter(|(at, of)| *at != self.at && of.refused.is_none());
        others.map(|(_, of)| of.options.clone()).collect()
    }

    /// That one is to be followed next. False if one was wanted less than a minute ago.
    pub(crate) fn want(&mut self, other: &ConnectOptions, now_us: u64) -> bool {
        if self.moved_us > 0 && now_us.saturating_sub(self.moved_us) < TRY_BETTER_AFTER_US {
            return false;
        }
        (self.wanted, self.moved_us) = (Some(place(other)), now_us);
        true
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// The one that is followed, or is to be tried.
    pub(crate) fn now(&self) -> &Candidate {
        // `at` is always below the number of them.
        &self.all[self.at]
    }

    /// Takes other options for the same servers, and servers more or less. True if anything changed.
    ///
    /// # Errors
    /// Code 2: the one that is followed is not among them.
    pub(crate) fn replace(&mut self, server: &ServerOptions) -> Result<bool, Failure> {
        self.replace_by(server, Candidates::of(server)?)
    }

    /// As [`replace`](Self::replace). The one that is followed stays until it is left, though it be no longer named.
    ///
    /// # Errors
    /// Code 2 if the options are invalid.
    pub(crate) fn relist(&mut self, server: &ServerOptions) -> Result<bool, Failure> {
        let mut next = Candidates::of(server)?;
        let now = self.now();
        if next.all.iter().all(|of| place(&of.options) != place(&now.options)) {
            next.all.push(now.clone());
        }
        self.replace_by(server, next)
    }

    fn replace_by(&mut self, server: &ServerOptions, mut next: Candidates) -> Result<bool, Failure> {
        if *server == self.named {
            return Ok(false);
        }
        if next.finds_members() {
            let members: Vec<Member> = self.all.iter().map(|of| of.member.clone()).collect();
            next.tell_of(&members.into_iter().filter(|of| !of.host.is_empty()).collect::<Vec<_>>());
        }
        let here = place(&self.now().options);
        let Some(at) = next.all.iter().position(|candidate| place(&candidate.options) == here) else {
            let named = next.now().options.to_string();
            return Err(Failure::usage(format!(
                "the options name another source now, {named}: start the replica again"
            )));
        };
        for candidate in &mut next.all {
            let before = self.all.iter().find(|before| place(&before.options) == place(&candidate.options));
            if let Some(before) = before {
                (candidate.refused, candidate.has_failed) = (before.refused.clone(), before.has_failed);
                (candidate.failed_us, candidate.member) = (before.failed_us, before.member.clone());
            }
        }
        let servers = |of: &Candidates| of.all.iter().map(|candidate| candidate.server.clone()).collect::<Vec<_>>();
        let changed = servers(self) != servers(&next);
        let (followed_since_us, left) = (self.followed_since_us, self.left.take());
        let (found, moved_us) = (std::mem::take(&mut self.found), self.moved_us);
        *self = Candidates { at, followed_since_us, left, found, moved_us, ..next };
        Ok(changed)
    }

    /// From now on the one of now is followed, and what others were refused for is forgotten.
    pub(crate) fn follows(&mut self, server_uuid: &str, now_us: u64) {
        server_uuid.clone_into(&mut self.all[self.at].member.server_uuid);
        self.followed_since_us = now_us;
        self.all.iter_mut().for_each(|candidate| candidate.refused = None);
    }

    /// Another one will hardly do once the one of now is left. It is still tried.
    pub(crate) fn doubt(&mut self, other: &ConnectOptions, why: &str, now_us: u64) {
        if let Some(candidate) = self.all.iter_mut().find(|of| place(&of.options) == place(other)) {
            candidate.refused = Some((now_us, why.to_owned()));
        }
    }

    /// The last event or heartbeat of the one that is followed arrived then.
    pub(crate) fn heard(&mut self, at_us: u64) {
        self.heard_us = at_us;
    }

    /// The one of now cannot be followed, or no longer: the next one is to be tried. True if all have failed by now.
    pub(crate) fn leave(&mut self, why: &str, now_us: u64) -> bool {
        let followed_since_us = std::mem::take(&mut self.followed_since_us);
        if followed_since_us > 0 && now_us.saturating_sub(followed_since_us) >= STEADY_AFTER_US {
            self.all.iter_mut().for_each(|candidate| candidate.has_failed = false);
        }
        if followed_since_us > 0 {
            let uri = self.now().server.shown();
            let last_received = Some(self.heard_us).filter(|us| *us >= followed_since_us).map(utc_text);
            self.left = Some(LeftReport { uri, why: why.to_owned(), at: utc_text(now_us), last_received });
        }
        let left = &mut self.all[self.at];
        (left.refused, left.has_failed, left.failed_us) = (Some((now_us, why.to_owned())), true, now_us);
        let all_failed = self.all.iter().all(|candidate| candidate.has_failed);
        if all_failed {
            self.all.iter_mut().for_each(|candidate| candidate.has_failed = false);
        }
        let wanted = self.wanted.take();
        let is_wanted = |of: &Candidate| !of.has_failed && Some(place(&of.options)) == wanted;
        self.at = self.all.iter().position(is_wanted).unwrap_or_else(|| self.next());
        all_failed
    }

    /// Of those that have not failed and are preferred, the next one after that of now.
    fn next(&self) -> usize {
        let count = self.all.len();
        let in_order = (1..=count).map(|step| (self.at + step) % count);
        let may_do = in_order.filter(|at| !self.all[*at].has_failed);
        may_do.min_by_key(|at| self.all[*at].rank(self.named.prefer, self.of_group)).unwrap_or(self.at)
    }

    /// Why each of them, and each member that is not dialled, cannot be followed, a line each.
    pub(crate) fn reasons(&self) -> String {
        let line = |candidate: &Candidate| {
            let (_, why) = candidate.refused.as_ref()?;
            Some(format!("{}: {}", candidate.server.shown(), why.replace('\n', "\n    ")))
        };
        self.all.iter().filter_map(line).chain(self.not_dialled.iter().cloned()).collect::<Vec<_>>().join("\n")
    }

    /// Each of them, for status; none if there is only one.
    pub(crate) fn report(&self) -> Vec<CandidateReport> {
        if self.all.len() < 2 && !self.finds_members() {
            return Vec::new();
        }
        let of = |(at, candidate): (usize, &Candidate)| CandidateReport {
            uri: candidate.server.shown(),
            followed: at == self.at && self.followed_since_us > 0,
            why_not: candidate.refused.as_ref().map(|(_, why)| why.clone()).unwrap_or_default(),
            tried: candidate.refused.as_ref().map(|(at_us, _)| utc_text(*at_us)),
            server_uuid: candidate.member.server_uuid.clone(),
            member_state: candidate.member.state.clone(),
            member_role: candidate.member.role.clone(),
            queued: candidate.member.queued(),
            weight: candidate.weight(self.of_group),
        };
        self.all.iter().enumerate().map(of).collect()
    }

    /// Since when the one of now is followed, and which one was left before.
    pub(crate) fn followed(&self) -> (Option<String>, Option<LeftReport>) {
        ((self.followed_since_us > 0).then(|| utc_text(self.followed_since_us)), self.left.clone())
    }
}

#[cfg(test)]
mod tests {
    use source::group::Figures;

    use super::*;

    fn of(url: &str) -> Candidates {
        Candidates::of(&ServerOptions::from_url(url)).unwrap()
    }

    fn host(of: &Candidates) -> &str {
        &of.now().options.host
    }

    #[test]
    fn the_next_one_is_tried_beginning_after_the_one_that_was_lost() {
        let mut three = of("mysql://u:geheim@a,b:3307,[::1]:3308/?ssl-mode=REQUIRED");
        assert_eq!((three.count(), host(&three)), (3, "a"));
        assert!(!three.leave("refused", 1));
        three.follows("", 2);
        assert_eq!((host(&three), three.now().options.port), ("b", 3307));
        assert!(!three.leave("the source closed the connection", 3_000_000));
        assert_eq!(host(&three), "::1");
        assert!(!three.leave("a\nb", 4));
        assert_eq!(host(&three), "a");
        assert_eq!(
            three.reasons(),
            "mysql://u:***@b:3307/?ssl-mode=REQUIRED: the source closed the connection\n\
             mysql://u:***@[::1]:3308/?ssl-mode=REQUIRED: a\n    b"
        );
        let (since, left) = three.followed();
        assert_eq!((since, left.unwrap().uri.as_str()), (None, "mysql://u:***@b:3307/?ssl-mode=REQUIRED"));
        assert!(!format!("{:?}", three.report()).contains("geheim"));
        assert!(three.leave("refused", 5), "all have failed");
        assert!(!three.leave("refused", 6) && host(&three) == "::1");
    }

    fn member(number: u8, role: &str) -> Member {
        Member {
            server_uuid: format!("00000000-0000-0000-0000-00000000000{number}"),
            host: format!("m{number}"),
            port: 3306,
            state: "ONLINE".into(),
            role: role.into(),
            figures: Some(Figures { to_apply: u64::from(9 - number), ..Figures::default() }),
            ..Member::default()
        }
    }

    /// Found by attack: options in a member's address were taken for ours, and the password went to it without TLS.
    #[test]
    fn a_member_that_lies_is_not_dialled() {
        let mut group = of("mysql://u@seed/?group&ssl-mode=VERIFY_IDENTITY");
        let lie = |host: &str| Member { host: host.into(), ..member(2, "SECONDARY") };
        for host in ["h/?ssl-mode=DISABLED&x=", "h:1/?socket=/tmp/s#", "u:p@h", "a,b", "a b", "a\nb", &"h".repeat(256)]
        {
            group.tell_of(&[member(1, "PRIMARY"), lie(host)]);
            assert_eq!((group.count(), group.found().len(), group.not_dialled().len()), (2, 1, 1), "{host}");
            assert!(!group.not_dialled()[0].contains(host));
        }
        let nameless = Member { server_uuid: "x\u{1b}[2J".into(), ..member(3, "SECONDARY") };
        group.tell_of(&[nameless]);
        assert_eq!((group.count(), group.not_dialled().len()), (2, 1));
        // Very many of them.
        let many = (0..500).map(|n| Member { server_uuid: format!("{n:08}-0000-0000-0000-000000000000"), ..lie("h") });
        group.tell_of(&many.collect::<Vec<_>>());
        assert_eq!((group.count(), group.found().len()), (MEMBERS_MAX, MEMBERS_MAX));
        let server = ServerOptions::from_url("mysql://u@seed/?ssl-mode=VERIFY_IDENTITY");
        assert!(server.at("h/?ssl-mode=DISABLED").is_err() && server.at("[::1]:3307").is_ok());
    }

    #[test]
    fn members_are_dialled_only_where_the_options_would_notice_another_server() {
        let members = [member(1, "PRIMARY"), member(2, "SECONDARY"), member(3, "SECONDARY")];
        for (mode, dialled) in [("DISABLED", 1), ("PREFERRED", 1), ("REQUIRED", 3), ("VERIFY_IDENTITY", 3)] {
            let mut group = of(&format!("mysql://u@seed/?group&ssl-mode={mode}"));
            group.follows(&members[0].server_uuid, 1);
            group.tell_of(&members);
            assert_eq!((group.count(), group.not_dialled().len()), (dialled, 3 - dialled), "{mode}");
            assert_eq!(group.found().len(), 3);
            assert!(group.report()[0].uri.contains("@seed") && group.report()[0].member_role == "PRIMARY");
        }
        let uuid = members[1].server_uuid.clone();
        let given = ServerOptions {
            member_addresses: vec![(uuid, "other:7".into())],
            ..ServerOptions::from_url("mysql://u@seed/?group&ssl-mode=PREFERRED")
        };
        let mut group = Candidates::of(&given).unwrap();
        group.follows(&members[0].server_uuid, 1);
        group.tell_of(&members);
        assert_eq!((group.count(), group.all[1].options.port), (2, 7));
        // It is kept while it is gone.
        group.tell_of(&members[..1]);
        assert_eq!((group.count(), group.found().len(), group.all[1].member.state.as_str()), (2, 3, ""));
    }

    #[test]
    fn the_preferred_member_is_tried_first_and_a_primary_that_is_wanted_moves_the_replica() {
        let members = [member(1, "SECONDARY"), member(2, "SECONDARY"), member(3, "PRIMARY")];
        let told = |prefer: Option<Prefer>| {
            let server = ServerOptions { prefer, ..ServerOptions::from_url("mysql://u@m1/?group&ssl-mode=REQUIRED") };
            let mut group = Candidates::of(&server).unwrap();
            group.follows(&members[0].server_uuid, 1);
            group.tell_of(&members);
            group
        };
        for (prefer, next) in [
            (None, "m2"),
            (Some(Prefer::Primary), "m3"),
            (Some(Prefer::Secondary), "m2"),
            (Some(Prefer::LowestLag), "m3"),
        ] {
            let mut group = told(prefer);
            assert_eq!(group.better(99_000_000).is_some(), prefer == Some(Prefer::Primary));
            assert!(!group.leave("lost", 100_000_000));
            assert_eq!(host(&group), next, "{prefer:?}");
        }
        let mut group = told(Some(Prefer::Primary));
        assert!(!group.leave("better", 100_000_000) && !group.leave("refused", 101_000_000));
        assert_eq!(host(&group), "m2");
        assert_eq!(group.better(102_000_000), None, "it has just failed");
        assert!(group.better(162_000_000).is_some());
    }

    #[test]
    fn a_heavier_member_moves_the_replica_and_a_heavier_server_of_a_list_is_only_tried_first() {
        let members = [member(1, "SECONDARY"), member(2, "SECONDARY"), member(3, "PRIMARY")];
        for (weights, heavier) in [("80&secondary-weight=60", true), ("60&secondary-weight=80", false)] {
            let mut group = of(&format!("mysql://u@m1/?group&ssl-mode=REQUIRED&primary-weight={weights}"));
            group.follows(&members[0].server_uuid, 1);
            group.tell_of(&members);
            assert_eq!(group.better(99_000_000).is_some(), heavier, "{weights}");
            assert!(!group.leave("lost", 100_000_000));
            assert_eq!(host(&group), if heavier { "m3" } else { "m2" });
        }
        let mut list = of("mysql://u@a,b,c/?weights=50,60,70");
        assert_eq!(host(&list), "c");
        assert!(!list.leave("lost", 1));
        assert_eq!(host(&list), "b");
        list.follows("", 2);
        assert_eq!(list.better(99_000_000), None);
    }

    #[test]
    fn the_wanted_one_is_next_and_none_is_wanted_again_for_a_minute() {
        let mut three = of("mysql://u@a,b,c");
        three.follows("", 1);
        let c = three.others().pop().unwrap();
        assert!(three.want(&c, 2_000_000));
        assert!(!three.leave("it lacks much", 2_000_000));
        assert_eq!(host(&three), "c");
        three.follows("", 3_000_000);
        let a = three.others().remove(0);
        assert!(!three.want(&a, 60_000_000) && three.want(&a, 63_000_000));
    }

    #[test]
    fn a_list_that_no_longer_has_the_followed_one_keeps_it_until_it_is_left() {
        let mut two = of("mysql://u@a,b");
        two.follows("a-uuid", 1);
        assert!(two.relist(&ServerOptions::from_url("mysql://u@c,b")).unwrap());
        assert_eq!((host(&two), two.count()), ("a", 3));
        assert!(two.followed().0.is_some());
        assert!(!two.leave("lost", 2));
        assert_eq!(host(&two), "c");
    }

    #[test]
    fn other_options_may_name_other_servers_but_for_the_one_of_now() {
        let mut two = of("mysql://u@a,b");
        assert!(!two.leave("lost", 1));
        assert!(!two.replace(&ServerOptions::from_url("mysql://u@a,b")).unwrap());
        assert!(two.replace(&ServerOptions::from_url("mysql://v@c,b,a")).unwrap());
        assert_eq!((host(&two), two.now().options.user.as_str(), two.count()), ("b", "v", 3));
        assert!(two.reasons().contains("@a"));
        let refused = two.replace(&ServerOptions::from_url("mysql://v@c")).unwrap_err().text;
        assert!(refused.contains("another source now, mysql://v@c:3306"), "{refused}");
        assert_eq!(two.count(), 3);
    }

    #[test]
    fn what_names_no_list_is_refused() {
        let refused = |server: ServerOptions| Candidates::of(&server).unwrap_err().text;
        assert!(refused(ServerOptions::from_url("mysql://u@a,,b")).contains("an empty address"));
        assert!(refused(ServerOptions::from_url("mysql://u@a,b,a:3306")).contains("names mysql://u@a:3306 twice"));
        let port = ServerOptions { port: Some(1), ..ServerOptions::from_url("mysql://u@a,b") };
        assert!(refused(port).contains("each with its own port"));
        // A comma before the @ is of the password.
        assert_eq!(of("mysql://u:a,b@c").count(), 1);
    }
}
