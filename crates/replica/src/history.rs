//! `history`: lag and rates of the last 24 hours, a line a minute, for whoever comes later.
//!
//! In: reports, every few seconds. Out: the minutes; the file, which survives a restart. Never here: a minute that is
//! not known shown as 0; an error, because nothing depends on the file.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use observe::{HistoryReport, StatusReport};
use xxhash_rust::xxh3::xxh3_64;

use crate::folder::Folder;

/// Minutes that are kept: a day, in about 80 bytes each.
const MINUTES: usize = 24 * 60;
const MINUTE_US: u64 = 60_000_000;
/// A clock set back by no more than this, in minutes, is being kept right, and takes no minute away.
const AHEAD_MAX: u64 = 1;

/// What one minute was like.
#[derive(Clone, Debug, Default, PartialEq)]
struct Minute {
    /// Number of the minute since 1970.
    number: u64,
    /// The highest lag, µs; None if it was not known at any time.
    lag_us: Option<u64>,
    /// These are means per second.
    transactions: f64,
    rows: f64,
    bytes: f64,
    /// Commands of accounts that forward: answered here, and by the source.
    commands: (u64, u64),
}

/// The minutes of a data folder.
pub struct History {
    folder: Folder,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Oldest first; the last one is not over.
    minutes: VecDeque<Minute>,
    /// Reports that the last one has.
    samples: u32,
    /// What was counted when the last report was made: commands answered here, and by the source.
    counted: (u64, u64),
}

impl History {
    /// What the folder has, as far as it is whole.
    #[must_use]
    pub fn open(folder: &Folder) -> History {
        let minutes = read(&folder.kept_history().unwrap_or_default());
        History { folder: folder.clone(), state: Mutex::new(State { minutes, ..State::default() }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a report of this time, µs since 1970. Writes the file when a minute has ended.
    pub fn note(&self, now_us: u64, report: &StatusReport) {
        let ended = self.lock().add(now_us / MINUTE_US, report);
        if ended {
            let text = self.lock().text();
            // A full disk is told of elsewhere; the next minute tries again.
            let _ = self.folder.keep_history(text.as_bytes());
        }
    }

    /// Writes the file: the process ends.
    pub fn keep(&self) {
        let text = self.lock().text();
        let _ = self.folder.keep_history(text.as_bytes());
    }

    /// All minutes, oldest first.
    #[must_use]
    pub fn report(&self) -> HistoryReport {
        let state = self.lock();
        let minutes = &state.minutes;
        HistoryReport {
            step_s: MINUTE_US / 1_000_000,
            at_s: minutes.iter().map(|minute| minute.number * 60).collect(),
            lag_us: minutes.iter().map(|minute| minute.lag_us).collect(),
            transactions_per_s: minutes.iter().map(|minute| minute.transactions).collect(),
            rows_per_s: minutes.iter().map(|minute| minute.rows).collect(),
            bytes_per_s: minutes.iter().map(|minute| minute.bytes).collect(),
            served_here_percent: minutes.iter().map(Minute::served_here_percent).collect(),
        }
    }
}

impl Minute {
    fn served_here_percent(&self) -> Option<f64> {
        let (here, there) = self.commands;
        (here + there > 0).then(|| here as f64 * 100.0 / (here + there) as f64)
    }
}

impl State {
    /// True if another minute has begun.
    fn add(&mut self, number: u64, report: &StatusReport) -> bool {
        // A clock that was set back far has been ahead: those minutes have not come yet.
        while self.minutes.back().is_some_and(|last| last.number > number + AHEAD_MAX) {
            self.minutes.pop_back();
            self.samples = 0;
        }
        let last = self.minutes.back().map(|minute| minute.number);
        // One that was set back a little adds to the last minute, so that they stay in order.
        let begins = last.is_none_or(|last| number > last);
        if begins {
            self.samples = 0;
            self.minutes.push_back(Minute { number, lag_us: Some(0), ..Minute::default() });
            let oldest = number.saturating_sub(MINUTES as u64 - 1);
            while self.minutes.front().is_some_and(|first| first.number < oldest) || self.minutes.len() > MINUTES {
                self.minutes.pop_front();
            }
        }
        let Some(minute) = self.minutes.back_mut() else { return false };
        let (lag, rate) = (&report.lag, &report.rates.last_10s);
        let lag_us = lag.current_us.map(|lag_us| lag_us.max(lag.last_10s.max_us));
        minute.lag_us = minute.lag_us.zip(lag_us).map(|(most, now)| most.max(now));
        let (old, all) = (f64::from(self.samples), f64::from(self.samples + 1));
        let mean = |mean: f64, now: f64| (mean * old + now) / all;
        minute.transactions = mean(minute.transactions, rate.transactions_per_s);
        minute.rows = mean(minute.rows, rate.rows_per_s);
        minute.bytes = mean(minute.bytes, rate.bytes_per_s);
        if let Some(forwarded) = report.clients.as_ref().and_then(|clients| clients.forwarded.as_ref()) {
            // Another run counts from nothing.
            let since = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
            minute.commands.0 += since(forwarded.served_here, self.counted.0);
            minute.commands.1 += since(forwarded.commands, self.counted.1);
            self.counted = (forwarded.served_here, forwarded.commands);
        }
        self.samples += 1;
        begins && last.is_some()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for Minute { number, lag_us, transactions, rows, bytes, commands: (here, there) } in &self.minutes {
            let lag = lag_us.map_or("-".to_owned(), |us| us.to_string());
            let mut line = format!("{number} {lag} {transactions:.1} {rows:.1} {bytes:.0}");
            if (*here, *there) != (0, 0) {
                let _ = write!(line, " {here} {there}");
            }
            let _ = writeln!(text, "{line} {:016x}", xxh3_64(line.as_bytes()));
        }
        text
    }
}

/// The lines that are whole and in order: the file is not synced, so a power cut may tear it.
fn read(text: &str) -> VecDeque<Minute> {
    let mut minutes = VecDeque::new();
    for minute in text.lines().filter_map(line) {
        if minutes.back().is_none_or(|last: &Minute| last.number < minute.number) {
            minutes.push_back(minute);
        }
    }
    while minutes.len() > MINUTES {
        minutes.pop_front();
    }
    minutes
}

fn line(line: &str) -> Option<Minute> {
    let (line, hash) = line.rsplit_once(' ')?;
    if u64::from_str_radix(hash, 16).ok()? != xxh3_64(line.as_bytes()) {
        return None;
    }
    let mut fields = line.split(' ');
    let number = fields.next()?.parse().ok()?;
    let lag_us = match fields.next()? {
        "-" => None,
        lag_us => Some(lag_us.parse().ok()?),
    };
    let mut rate = || fields.next()?.parse::<f64>().ok();
    let (transactions, rows, bytes) = (rate()?, rate()?, rate()?);
    let mut count = || fields.next().map_or(Some(0), |count| count.parse::<u64>().ok());
    Some(Minute { number, lag_us, transactions, rows, bytes, commands: (count()?, count()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lag_us: Option<u64>, rate: f64) -> StatusReport {
        let mut report = StatusReport::default();
        report.lag.current_us = lag_us;
        report.rates.last_10s.transactions_per_s = rate;
        report
    }

    fn lags(state: &State) -> Vec<(u64, Option<u64>)> {
        state.minutes.iter().map(|minute| (minute.number, minute.lag_us)).collect()
    }

    #[test]
    fn a_minute_has_the_highest_lag_and_mean_rates() {
        let mut state = State::default();
        assert!(!state.add(7, &report(Some(5), 10.0)));
        assert!(!state.add(7, &report(Some(3), 20.0)));
        assert_eq!((lags(&state), state.minutes[0].transactions), (vec![(7, Some(5))], 15.0));
        assert!(state.add(9, &report(Some(1), 4.0)));
        state.add(9, &report(None, 0.0));
        state.add(9, &report(Some(2), 2.0));
        // Not known for a part of it; and the clock goes back a little.
        assert!(!state.add(8, &report(Some(9), 2.0)));
        assert_eq!((lags(&state), state.minutes[1].transactions), (vec![(7, Some(5)), (9, None)], 2.0));
    }

    #[test]
    fn a_minute_has_the_share_of_commands_that_were_answered_here() {
        let mut state = State::default();
        let counted = |here, there| {
            let mut report = report(Some(1), 1.0);
            let forwarded = observe::ForwardedReport { served_here: here, commands: there, ..Default::default() };
            report.clients = Some(observe::ClientsReport { forwarded: Some(forwarded), ..Default::default() });
            report
        };
        state.add(7, &counted(10, 10));
        state.add(7, &counted(40, 10));
        state.add(8, &counted(41, 13));
        state.add(8, &counted(6, 0));
        state.add(9, &report(Some(1), 1.0));
        let shares = |minutes: &VecDeque<Minute>| minutes.iter().map(Minute::served_here_percent).collect::<Vec<_>>();
        assert_eq!(shares(&state.minutes), [Some(80.0), Some(70.0), None]);
        assert_eq!(shares(&read(&state.text())), [Some(80.0), Some(70.0), None]);
    }

    #[test]
    fn it_ends_after_a_day() {
        let mut state = State::default();
        (0..3_000).for_each(|number| _ = state.add(number, &report(Some(number), 0.0)));
        assert_eq!(lags(&state).first(), Some(&(3_000 - MINUTES as u64, Some(3_000 - MINUTES as u64))));
        assert_eq!(state.minutes.len(), MINUTES);
        assert!(state.text().len() < 128 << 10);
        // A day without a report leaves nothing of the day before.
        state.add(9_000, &report(Some(1), 0.0));
        assert_eq!(lags(&state), [(9_000, Some(1))]);
    }

    /// No minute was added until the time came again to which the clock had been set.
    #[test]
    fn a_clock_that_was_ahead_for_a_while_leaves_nothing_of_it() {
        let mut state = State::default();
        (100..103).for_each(|number| _ = state.add(number, &report(Some(number), 0.0)));
        for ahead in [2 * 60, MINUTES as u64] {
            (103..106).for_each(|number| _ = state.add(number + ahead, &report(Some(1), 0.0)));
            assert!(state.add(103, &report(Some(5), 0.0)) || ahead >= MINUTES as u64);
            assert_eq!(lags(&state).last(), Some(&(103, Some(5))));
            assert!(state.minutes.iter().all(|minute| minute.number <= 103));
            assert!(!state.add(103, &report(Some(7), 0.0)));
            assert_eq!(lags(&state).last(), Some(&(103, Some(7))));
            assert!(state.add(104, &report(Some(2), 0.0)));
        }
        assert_eq!(lags(&state), [(103, Some(7)), (104, Some(2))]);
    }

    #[test]
    fn of_a_torn_or_foreign_file_whole_lines_are_read() {
        let mut state = State::default();
        (10..20).for_each(|number| _ = state.add(number, &report((number != 12).then_some(number), 1.5)));
        let text = state.text();
        assert_eq!(read(&text), state.minutes);
        for len in 0..text.len() {
            let whole = text[..len].matches('\n').count();
            let read = read(&text[..len]);
            // The last line may lack nothing but its end.
            assert!(read.len() == whole || read.len() == whole + 1, "{len}");
            assert!(read.iter().eq(state.minutes.iter().take(read.len())), "{len}");
        }
        let zeros = text.replacen("11 ", "\0\0 ", 1);
        assert_eq!(read(&zeros).len(), 9);
        assert_eq!(read(&(text.clone() + &text)).len(), 10);
        assert!(read("a file of somebody else\n1 2 3 4 5 6\n").is_empty());
    }

    #[test]
    fn it_survives_a_restart_and_a_disk_that_takes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, _lock) = Folder::own(&dir.path().join("data")).unwrap();
        let history = History::open(&folder);
        let minute = |number: u64| number * MINUTE_US;
        history.note(minute(5), &report(Some(1), 1.0));
        history.note(minute(6), &report(None, 1.0));
        let of = |history: &History| (history.report().at_s, history.report().lag_us);
        assert_eq!(of(&History::open(&folder)), (vec![300, 360], vec![Some(1), None]));
        // In the way of the file to be written: nothing is lost but what cannot be written.
        let beside = dir.path().join("data/history.tmp");
        std::fs::create_dir(&beside).unwrap();
        history.note(minute(7), &report(Some(3), 1.0));
        assert_eq!(of(&History::open(&folder)).0, [300, 360]);
        assert_eq!(of(&history).0, [300, 360, 420]);
        std::fs::remove_dir(&beside).unwrap();
        history.keep();
        assert_eq!(of(&History::open(&folder)).0, [300, 360, 420]);
    }
}
