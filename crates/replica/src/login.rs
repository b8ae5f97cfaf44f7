//! The login at the source, read again before each try: a password may change while the replica runs. Of several
//! servers, all that talk to the source talk to the one that is followed.
//!
//! In: the options of the start, a way to read them again, another source by SQL, which server was lost. Out:
//! connection options for one try. Never here: option files that leave out the followed server; a password in a text.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use client::ConnectOptions;
use observe::{SeveralReport, SourceReport, now_us};
use serde::{Deserialize, Serialize};
use source::group::{Figures, Member, Throttled};

use crate::candidates::{Candidates, Found, MEMBERS_MAX};
use crate::exit::{Exit, Failure};
use crate::folder::{Folder, read_small, removal, write_atomically};
use crate::log::{self, Code};
use crate::members::Members;
use crate::server_options::ServerOptions;

/// Time limit of one question: longer than preflight waits for a member of a group.
const ASK_WITHIN: Duration = Duration::from_secs(5);

/// How the options of the source are read again.
pub struct Reread {
    /// Reads the option files, with the flags of the start over them.
    pub read: Box<dyn Fn() -> Result<ServerOptions, Failure> + Send + Sync>,
    /// A number that changes when one of the files changes.
    pub stamp: Box<dyn Fn() -> u64 + Send + Sync>,
}

/// In the data folder, the members of the source's group, so that one of them is found when the first is gone.
const MEMBERS_FILE: &str = "source-members";

/// Content of that file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// What names the first of them: members found otherwise are of another group.
    of: String,
    members: Vec<Found>,
}

/// The file, and what it has.
struct MembersFile {
    path: PathBuf,
    members: Vec<Found>,
    /// The log says that it could not be written, and it was not since.
    failure_said: bool,
}

struct Now {
    candidates: Candidates,
    members: Members,
    /// Number of changes of the options so far.
    version: u64,
    stamp: u64,
    /// The last failure to read, so that the log has it once.
    complaint: Option<String>,
}

/// The login at the source.
pub struct SourceLogin {
    reread: Option<Reread>,
    now: Mutex<Now>,
    /// Where the members of a group are kept; locked while they are written.
    members_file: Mutex<Option<MembersFile>>,
    /// Number of requests to try now.
    requests: AtomicU64,
    /// When a start began to wait for the source, µs; 0: none waits.
    awaited_since_us: AtomicU64,
    /// Members that were logged as not dialled.
    not_dialled_said: AtomicU64,
}

/// The wait of a start for the source, which ends with it.
pub(crate) struct Awaits<'a>(&'a SourceLogin);

impl Drop for Awaits<'_> {
    fn drop(&mut self) {
        self.0.awaited_since_us.store(0, Ordering::Relaxed);
    }
}

/// Members that are logged as not dialled: a group has nine, and one that invents others must not fill the log.
const NOT_DIALLED_SAID_MAX: u64 = 64;
const LAST_NOT_DIALLED: u64 = NOT_DIALLED_SAID_MAX - 1;

impl SourceLogin {
    /// The login of the start. Without `reread` it never changes.
    ///
    /// # Errors
    /// Code 2 if the options are invalid.
    pub fn new(server: &ServerOptions, reread: Option<Reread>) -> Result<Arc<SourceLogin>, Failure> {
        let stamp = reread.as_ref().map_or(0, |reread| (reread.stamp)());
        let now = Now {
            candidates: Candidates::of(server)?,
            members: Members::default(),
            version: 0,
            stamp,
            complaint: None,
        };
        let (now, members_file) = (Mutex::new(now), Mutex::default());
        Ok(Arc::new(SourceLogin {
            reread,
            now,
            members_file,
            requests: AtomicU64::new(0),
            awaited_since_us: AtomicU64::new(0),
            not_dialled_said: AtomicU64::new(0),
        }))
    }

    /// As [`new`](Self::new). The members of the source's group are kept in this data folder, and known from there.
    ///
    /// # Errors
    /// Code 2 if the options are invalid; 7 if the file is damaged; 8 for disk errors.
    pub fn kept(server: &ServerOptions, reread: Reread, folder: &Folder) -> Result<Arc<SourceLogin>, Failure> {
        let login = SourceLogin::new(server, Some(reread))?;
        let path = folder.path().join(MEMBERS_FILE);
        let mut now = login.lock();
        if now.candidates.finds_members()
            && let Some(text) = read_small(&path)?
        {
            let kept: Kept = serde_json::from_str(&text).map_err(|_| {
                let text = format!("{}: not the members of a group", path.display());
                Failure::new(Exit::Corrupt, text).with_hint(removal(&path, "the source is asked for them again"))
            })?;
            if kept.of == now.candidates.shown_names() {
                let of = |Found { server_uuid, host, port }| Member { server_uuid, host, port, ..Member::default() };
                now.candidates.tell_of(&kept.members.into_iter().map(of).collect::<Vec<_>>());
            }
        }
        let file = MembersFile { path, members: now.candidates.found().to_vec(), failure_said: false };
        drop(now);
        *login.members_file.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(login)
    }

    /// The server of a try with this version of the options has told of the members of its group. Returns why it is to
    /// be left for one of them.
    pub(crate) fn tell_of(&self, tried: u64, members: &[Member]) -> Option<String> {
        let (kept, not_dialled, better) = {
            let mut now = self.lock();
            if now.version != tried {
                return None;
            }
            let candidates = &mut now.candidates;
            let before = candidates.not_dialled().to_vec();
            candidates.tell_of(members);
            let new = candidates.not_dialled().iter().filter(|text| !before.contains(text)).cloned();
            let kept = Kept { of: candidates.shown_names(), members: candidates.found().to_vec() };
            let not_dialled: Vec<String> = new.collect();
            (kept, not_dialled, candidates.better(now_us()))
        };
        for text in not_dialled {
            match self.not_dialled_said.fetch_add(1, Ordering::Relaxed) {
                NOT_DIALLED_SAID_MAX.. => {}
                LAST_NOT_DIALLED => {
                    let text = format!("{text}; more of them are in the status only");
                    log::write(Code::MemberNotDialled, "Source", &text);
                }
                _ => log::write(Code::MemberNotDialled, "Source", &text),
            }
        }
        self.write_members(&kept);
        better
    }

    /// A start waits for the source until what this returns is dropped.
    #[must_use]
    pub(crate) fn awaits(&self) -> Awaits<'_> {
        self.awaited_since_us.store(now_us(), Ordering::Relaxed);
        Awaits(self)
    }

    /// The source that a start waits for, without a password, and since when, µs.
    #[must_use]
    pub fn awaited(&self) -> Option<(String, u64)> {
        let since_us = self.awaited_since_us.load(Ordering::Relaxed);
        (since_us > 0).then(|| (self.shown(), since_us))
    }

    /// The server of a try with this version of the options has told of the view that it has; of none if it is in no
    /// group.
    pub(crate) fn see(&self, tried: u64, told_by: &str, view: &[Member]) {
        let mut now = self.lock();
        if now.version == tried {
            now.members.tell(told_by, view, MEMBERS_MAX, now_us());
        }
    }

    /// Another server of the list will hardly do, for this reason, once the one of that try is left.
    pub(crate) fn doubt(&self, tried: u64, other: &ConnectOptions, why: &str) {
        let mut now = self.lock();
        if now.version == tried {
            now.candidates.doubt(other, why, now_us());
        }
    }

    /// A member was asked for its own figures.
    pub(crate) fn note_figures(&self, server_uuid: &str, own: Option<Figures>, throttled: Option<Throttled>) {
        self.lock().members.note(own, server_uuid, throttled, now_us());
    }

    /// That try was with the options and the server of now.
    pub(crate) fn is_of(&self, tried: u64) -> bool {
        self.lock().version == tried
    }

    /// Others than the server of a try with this version of the options.
    pub(crate) fn others(&self, tried: u64) -> Vec<ConnectOptions> {
        let now = self.lock();
        if now.version == tried { now.candidates.others() } else { Vec::new() }
    }

    /// The server of that try is to be left for this one. False if it is not, or was for another one a short time ago.
    pub(crate) fn want(&self, tried: u64, other: &ConnectOptions) -> bool {
        let mut now = self.lock();
        now.version == tried && now.candidates.want(other, now_us())
    }

    pub(crate) fn max_source_lag(&self) -> Option<u64> {
        self.lock().candidates.max_source_lag()
    }

    /// Writes the file if it has others. One that cannot be written is tried again when members are told of again.
    fn write_members(&self, kept: &Kept) {
        let mut file = self.members_file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = file.as_mut().filter(|file| file.members != kept.members) else { return };
        let text = serde_json::to_string(kept).map_err(|error| Failure::error(error.to_string()));
        match text.and_then(|text| write_atomically(&file.path, text.as_bytes())) {
            Ok(()) => {
                file.members.clone_from(&kept.members);
                file.failure_said = false;
            }
            Err(failure) => {
                if !std::mem::replace(&mut file.failure_said, true) {
                    let text = format!("the members of the group are not kept for the next start: {}", failure.text);
                    log::write(Code::MemberNotDialled, "Source", &text);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The options for one try, read again. Options that cannot be read stay as they were, and the log says why.
    #[must_use]
    pub fn for_try(&self) -> ConnectOptions {
        let _ = self.reload();
        self.lock().candidates.now().options.clone()
    }

    /// As [`for_try`](Self::for_try), for [questions](for_question).
    #[must_use]
    pub(crate) fn for_question(&self) -> ConnectOptions {
        for_question(self.for_try())
    }

    /// As [`for_try`](Self::for_try), with their version.
    #[must_use]
    pub(crate) fn versioned_for_try(&self) -> (u64, ConnectOptions) {
        let _ = self.reload();
        let now = self.lock();
        (now.version, now.candidates.now().options.clone())
    }

    /// As [`versioned_for_try`](Self::versioned_for_try), in the form of the configuration.
    #[must_use]
    pub(crate) fn server_for_try(&self) -> (u64, ServerOptions) {
        let _ = self.reload();
        let now = self.lock();
        (now.version, now.candidates.now().server.clone())
    }

    /// The source that is followed or tried, without a password.
    #[must_use]
    pub fn shown(&self) -> String {
        self.lock().candidates.now().server.shown()
    }

    /// Other servers may be followed instead of the one of now, or may become known.
    #[must_use]
    pub fn has_others(&self) -> bool {
        let now = self.lock();
        now.candidates.count() > 1 || now.candidates.finds_members()
    }

    /// The members of the source's group may be followed, too.
    pub(crate) fn finds_members(&self) -> bool {
        self.lock().candidates.finds_members()
    }

    /// The server of a try with this version of the options is followed.
    pub(crate) fn follows(&self, tried: u64, server_uuid: &str) {
        let mut now = self.lock();
        if now.version == tried {
            now.candidates.follows(server_uuid, now_us());
        }
    }

    /// The last event or heartbeat of the server of that try arrived then.
    pub(crate) fn heard(&self, tried: u64, at_us: u64) {
        let mut now = self.lock();
        if now.version == tried {
            now.candidates.heard(at_us);
        }
    }

    /// The server of a try with this version of the options cannot be followed, or no longer: of several, the next one
    /// is tried. Whoever talks to the source talks to that one from then on. True if all have failed by now.
    pub(crate) fn leave(&self, tried: u64, why: &Failure) -> bool {
        let mut now = self.lock();
        if now.version != tried || now.candidates.count() == 1 && !now.candidates.finds_members() {
            return false;
        }
        let all_failed = now.candidates.leave(&why.text, now_us());
        now.version += 1;
        drop(now);
        self.look_again();
        all_failed
    }

    /// Why none of several servers can be followed.
    pub(crate) fn none_can_be_followed(&self) -> Failure {
        let now = self.lock();
        let count = now.candidates.count();
        Failure::error(format!("none of {count} sources can be followed:\n{}", now.candidates.reasons()))
    }

    /// Does this with the source, or with the first of several with which it can be done.
    ///
    /// # Errors
    /// Why it cannot be done; of several, with each of them.
    pub(crate) fn with_any<T>(&self, mut of: impl FnMut(&ServerOptions) -> Result<T, Failure>) -> Result<T, Failure> {
        let _awaits = self.awaits();
        loop {
            let has_others = self.has_others();
            let (tried, server) = self.server_for_try();
            match of(&server) {
                Err(failure) if has_others => {
                    log::write(Code::SourceLeft, "Source", &format!("{}: {}", server.shown(), failure.text));
                    if self.leave(tried, &failure) {
                        break;
                    }
                }
                done => return done,
            }
        }
        Err(self.none_can_be_followed())
    }

    /// Which server is followed, and each that may be, for status.
    pub(crate) fn report(&self, report: SourceReport) -> SourceReport {
        let now = self.lock();
        let ConnectOptions { host, port, .. } = &now.candidates.now().options;
        let (followed_since, left) = now.candidates.followed();
        let candidates = now.candidates.report();
        let followed = if followed_since.is_some() { report.server_uuid.as_str() } else { "" };
        let group = now.members.report(followed, now_us());
        let members_not_followed = now.candidates.not_dialled().to_vec();
        let several = SeveralReport { followed_since, left, candidates, members_not_followed, group };
        SourceReport { host: host.clone(), port: *port, several, ..report }
    }

    /// Reads the options again; true if they changed.
    ///
    /// # Errors
    /// The files cannot be read, or name another source. The options stay as they were.
    pub fn reload(&self) -> Result<bool, Failure> {
        let Some(reread) = &self.reread else { return Ok(false) };
        let stamp = (reread.stamp)();
        let read = (reread.read)();
        let mut now = self.lock();
        now.stamp = stamp;
        match read.and_then(|server| now.candidates.replace(&server)) {
            Ok(changed) => {
                now.version += u64::from(changed);
                now.complaint = None;
                Ok(changed)
            }
            Err(failure) => {
                if now.complaint.as_ref() != Some(&failure.text) {
                    log::write(
                        Code::OptionsNotRead,
                        "Server",
                        &format!("the options stay as they were: {}", failure.text),
                    );
                    now.complaint = Some(failure.text.clone());
                }
                Err(failure)
            }
        }
    }

    /// Another source, or another login at the same: an operator has changed it by SQL.
    ///
    /// # Errors
    /// Code 2 if the options are invalid.
    pub fn change(&self, server: &ServerOptions) -> Result<(), Failure> {
        let candidates = Candidates::of(server)?;
        let mut now = self.lock();
        now.version += 1;
        (now.candidates, now.members, now.complaint) = (candidates, Members::default(), None);
        drop(now);
        self.look_again();
        Ok(())
    }

    /// Takes other servers that may be followed: an operator has changed their list by SQL. The one that is followed
    /// stays until it is left.
    ///
    /// # Errors
    /// Code 2 if the options are invalid.
    pub fn relist(&self, server: &ServerOptions) -> Result<(), Failure> {
        let mut now = self.lock();
        // Not another version: the connection stays, and its members count.
        now.candidates.relist(server)?;
        Ok(())
    }

    /// The version of the options that the files have now: another one than that of a try means that the next try is
    /// made with other options. Whoever reads the files counts it up, since each reader takes the change away from
    /// those that look at the files only.
    #[must_use]
    pub(crate) fn version(&self) -> u64 {
        if self.reread.as_ref().is_some_and(|reread| (reread.stamp)() != self.lock().stamp) {
            let _ = self.reload();
        }
        self.lock().version
    }

    /// Number of requests to try now, for a thread that waits for the next one.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Acquire)
    }

    /// Makes a waiting thread look again whether it may try.
    pub fn look_again(&self) {
        self.requests.fetch_add(1, Ordering::AcqRel);
    }

    /// Allows one more try of the same password, and makes a waiting thread try: an operator asks for it.
    pub(crate) fn try_now(&self) {
        let options = self.for_try();
        client::allow_login(&options);
        self.look_again();
    }
}

/// Options for questions that are answered at once: a server that says nothing must not hold up a thread for ever.
#[must_use]
pub(crate) fn for_question(options: ConnectOptions) -> ConnectOptions {
    ConnectOptions { read_timeout: Some(ASK_WITHIN), ..options }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::server_options::Secret;

    #[test]
    fn a_change_that_another_reader_saw_first_is_still_a_change() {
        let file = Arc::new(AtomicU64::new(1));
        let server = |word: u64| {
            let password = Some(Secret(format!("word{word}")));
            ServerOptions { password, ..ServerOptions::from_url(&format!("mysql://user{word}@127.0.0.1:3306")) }
        };
        let (read, stamp) = (Arc::clone(&file), Arc::clone(&file));
        let reread = Reread {
            read: Box::new(move || Ok(server(read.load(Ordering::Relaxed)))),
            stamp: Box::new(move || stamp.load(Ordering::Relaxed)),
        };
        let login = SourceLogin::new(&server(1), Some(reread)).unwrap();
        let (tried, _) = login.versioned_for_try();
        assert_eq!(login.version(), tried);
        file.store(2, Ordering::Relaxed);
        assert_eq!(login.for_try().password.as_deref(), Some("word2"));
        assert_ne!(login.version(), tried);
        assert_eq!(login.shown(), "mysql://user2@127.0.0.1:3306");
        // And one that nobody has read.
        let (tried, _) = login.versioned_for_try();
        file.store(3, Ordering::Relaxed);
        assert_ne!(login.version(), tried);
    }
}
