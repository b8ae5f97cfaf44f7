//! The answer of the source to one command, on its way to the client.
//!
//! In: the source's bytes, in pieces of any length. Out: packets for the client with the same numbers; what the answer
//! says of the session. Never here: a row as a whole: frames are passed on as they come.

use client::steps::AnswerSteps;
use client::{ClientError, Result};
use wire::command;
use wire::handshake::capability;
use wire::packet::{self, HEADER_LEN, MAX_FRAME_LEN};
use wire::response::ErrPacket;

use crate::ok::{self, Shown};

/// The payload of a row of text that has one column, 1.
const ONE: &[u8] = b"\x011";

/// How far an answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// More is to come.
    More,
    /// The source waits for a file of the client, as packets of which the last one is empty.
    File,
    Over,
}

/// What an answer has said by now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Told {
    /// Status bits of the last OK or EOF.
    pub status: Option<u16>,
    /// Something of the session has changed.
    pub changed: bool,
    /// The number of the error that ended it.
    pub error: Option<u16>,
    /// Warnings of the last result.
    pub warnings: u16,
    /// Changed rows of the last result without rows, or those found, as the client has asked.
    pub affected_rows: u64,
    /// Rows that have changed for certain.
    pub changed_rows: u64,
    pub last_insert_id: u64,
    /// Rows of all results.
    pub rows: u64,
    /// Its last row was the text `1`, alone.
    pub is_one: bool,
    /// It has told a GTID.
    pub has_gtids: bool,
    /// The number of the statement that was prepared.
    pub statement: Option<u32>,
    /// The client has been given some of it.
    pub has_begun: bool,
}

/// An answer on its way.
#[derive(Debug)]
pub struct Answer {
    steps: AnswerSteps,
    code: u8,
    capabilities: u32,
    shown: Shown,
    /// The client's number of the statement that is prepared.
    number: Option<u32>,
    may_ask_for_file: bool,
    /// Bytes of the frame that is passed on which have not come.
    left: usize,
    /// Another frame of the same packet follows.
    continues: bool,
    told: Told,
    variables: Vec<(String, String)>,
    schema: Option<String>,
}

impl Answer {
    /// The answer to the command with this code, for a client with these capabilities that is told these changes.
    /// `may_ask_for_file`: whether the command may have the source ask for a file.
    #[must_use]
    pub fn new(code: u8, capabilities: u32, shown: Shown, may_ask_for_file: bool) -> Answer {
        let steps = AnswerSteps::new(code, capabilities & capability::DEPRECATE_EOF != 0);
        let told = Told::default();
        Answer {
            steps,
            code,
            capabilities,
            shown,
            number: None,
            may_ask_for_file,
            left: 0,
            continues: false,
            told,
            variables: Vec::new(),
            schema: None,
        }
    }

    /// The client knows the statement that is prepared by this number.
    #[must_use]
    pub fn of_statement(self, number: Option<u32>) -> Answer {
        Answer { number, ..self }
    }

    /// Variables of the session that have another value now, the last one last.
    #[must_use]
    pub fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// `character_set_client`, if the session has another one now.
    #[must_use]
    pub fn charset(&self) -> Option<&str> {
        let is_it = |(name, _): &&(String, String)| name == "character_set_client";
        self.variables.iter().rfind(is_it).map(|(_, value)| value.as_str())
    }

    /// The default schema, if the session has another one now: empty for none.
    #[must_use]
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    #[must_use]
    pub fn told(&self) -> &Told {
        &self.told
    }

    /// True if no packet follows: some commands have no answer.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left == 0 && !self.continues && self.steps.is_over()
    }

    /// Takes bytes of the source and puts out those for the client, and the number of the packet after them. Returns
    /// how many were taken: the others come again, with more.
    ///
    /// # Errors
    /// They break the protocol; what follows cannot be interpreted.
    pub fn take(&mut self, input: &[u8], out: &mut Vec<u8>, sequence: &mut u8) -> Result<(usize, Step)> {
        let mut at = 0;
        let before = out.len();
        let step = loop {
            if self.left > 0 {
                let bytes = input.get(at..).unwrap_or_default();
                let bytes = bytes.get(..self.left).unwrap_or(bytes);
                out.extend_from_slice(bytes);
                at += bytes.len();
                self.left -= bytes.len();
                if self.left > 0 {
                    break Step::More;
                }
            }
            if self.is_over() {
                break Step::Over;
            }
            let Some(frame) = input.get(at..).and_then(Frame::of) else { break Step::More };
            if self.continues || self.is_row(&frame) {
                let Some(is_first) = self.passes(&frame) else { break Step::More };
                if is_first && frame.len == ONE.len() {
                    let Some(payload) = frame.payload() else { break Step::More };
                    self.told.is_one = payload == ONE;
                } else {
                    self.told.is_one = false;
                }
                self.told.rows += u64::from(is_first);
                out.extend_from_slice(frame.header);
                (self.left, self.continues) = (frame.len, frame.len == MAX_FRAME_LEN);
                *sequence = frame.sequence.wrapping_add(1);
                at += HEADER_LEN;
                continue;
            }
            if frame.len == MAX_FRAME_LEN {
                return Err(ClientError::UnexpectedAnswer { what: "a command: 16 MiB that are no row" });
            }
            let Some(payload) = frame.payload() else { break Step::More };
            at += HEADER_LEN + frame.len;
            *sequence = frame.sequence;
            if self.control(payload, out, sequence)? == Step::File {
                break Step::File;
            }
        };
        self.told.has_begun |= out.len() > before;
        Ok((at, step))
    }

    /// True if the frame begins a row, as far as its first byte is there.
    fn is_row(&self, frame: &Frame<'_>) -> bool {
        if !self.steps.is_at_rows() {
            return false;
        }
        match frame.rest.first() {
            None => true,
            Some(0xff) => false,
            // An EOF has less than nine bytes; an OK in its place, less than a frame.
            Some(0xfe) => {
                let deprecates_eof = self.capabilities & capability::DEPRECATE_EOF != 0;
                frame.len >= if deprecates_eof { MAX_FRAME_LEN } else { 9 }
            }
            Some(_) => true,
        }
    }

    /// Whether a frame that can be passed on is its packet's first; None if too little of it is there to know.
    fn passes(&self, frame: &Frame<'_>) -> Option<bool> {
        match self.continues {
            true => Some(false),
            false => (frame.len == 0 || !frame.rest.is_empty()).then_some(true),
        }
    }

    /// Takes a packet that is no row.
    fn control(&mut self, payload: &[u8], out: &mut Vec<u8>, sequence: &mut u8) -> Result<Step> {
        let first = payload.first().copied();
        let asks_for_file = first == Some(0xfb) && self.steps.is_at_head() && self.code == command::QUERY;
        if asks_for_file && !self.may_ask_for_file {
            return Err(ClientError::UnexpectedAnswer { what: "a statement: it asks for a file" });
        }
        if asks_for_file {
            packet::write(out, sequence, payload);
            return Ok(Step::File);
        }
        let at_head = self.steps.is_at_head() || self.steps.is_at_only();
        let deprecates_eof = self.capabilities & capability::DEPRECATE_EOF != 0;
        let is_ok = match first {
            Some(0x00) => at_head && self.code != command::STMT_PREPARE,
            Some(0xfe) => deprecates_eof && (self.steps.is_at_rows() || self.steps.is_at_only()),
            _ => false,
        };
        let is_eof = !is_ok && first == Some(0xfe) && payload.len() < 9;
        self.steps.packet(payload)?;
        if is_ok {
            let mut own = Vec::with_capacity(payload.len());
            let numbers = ok::put(&mut own, payload, self.capabilities, &self.shown)?;
            packet::write(out, sequence, &own);
            self.told.status = Some(numbers.ok.status);
            self.told.changed |= numbers.changed;
            self.told.has_gtids |= numbers.has_gtids;
            self.variables.extend(numbers.variables);
            self.schema = numbers.schema.or(self.schema.take());
            self.told.warnings = numbers.ok.warnings;
            if first == Some(0x00) {
                self.told.affected_rows = numbers.ok.affected_rows;
                let counts_found = self.capabilities & capability::FOUND_ROWS != 0;
                let affected = if counts_found { 0 } else { numbers.ok.affected_rows };
                self.told.changed_rows += numbers.changed_rows.unwrap_or(affected);
                self.told.last_insert_id = numbers.ok.last_insert_id;
            }
            return Ok(Step::More);
        }
        if first == Some(0x00) && self.code == command::STMT_PREPARE && self.told.statement.is_none() {
            self.put_prepared(payload, out, sequence)?;
            return Ok(Step::More);
        }
        packet::write(out, sequence, payload);
        if first == Some(0xff) {
            self.told.error = Some(ErrPacket::parse(payload)?.code);
        } else if is_eof && let Ok(end) = client::OkPacket::parse_eof(payload) {
            (self.told.status, self.told.warnings) = (Some(end.status), end.warnings);
        }
        Ok(Step::More)
    }

    fn put_prepared(&mut self, payload: &[u8], out: &mut Vec<u8>, sequence: &mut u8) -> Result<()> {
        let number = payload.get(1..).and_then(|rest| rest.first_chunk());
        let number = number.ok_or(ClientError::UnexpectedAnswer { what: "a preparation" })?;
        self.told.statement = Some(u32::from_le_bytes(*number));
        let mut own = payload.to_vec();
        if let (Some(number), Some(bytes)) = (self.number, own.get_mut(1..5)) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        packet::write(out, sequence, &own);
        Ok(())
    }
}

/// A frame, as far as it is there.
struct Frame<'a> {
    header: &'a [u8],
    len: usize,
    sequence: u8,
    rest: &'a [u8],
}

impl<'a> Frame<'a> {
    /// None before its header is there.
    fn of(bytes: &'a [u8]) -> Option<Frame<'a>> {
        let (header, rest) = bytes.split_at_checked(HEADER_LEN)?;
        let &[a, b, c, sequence] = header else { return None };
        let len = u32::from_le_bytes([a, b, c, 0]) as usize;
        Some(Frame { header, len, sequence, rest })
    }

    /// None before all of it is there.
    fn payload(&self) -> Option<&'a [u8]> {
        self.rest.get(..self.len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::server::{ServerOk, put_columns, put_err, put_ok, put_rows_end, put_text_rows};

    use super::*;

    const EOF: u32 = capability::PROTOCOL_41;
    const NO_EOF: u32 = EOF | capability::DEPRECATE_EOF | capability::SESSION_TRACK;

    /// Feeds an answer in pieces of this length.
    fn relayed(answer: &mut Answer, input: &[u8], piece: usize) -> (Vec<u8>, Step, u8) {
        let (mut out, mut held, mut sequence, mut step) = (Vec::new(), Vec::new(), 0, Step::More);
        for bytes in input.chunks(piece) {
            held.extend_from_slice(bytes);
            let (taken, now) = answer.take(&held, &mut out, &mut sequence).unwrap();
            held.drain(..taken);
            step = now;
        }
        assert!(held.is_empty(), "{} bytes left", held.len());
        (out, step, sequence)
    }

    fn packets(payloads: &[Vec<u8>], mut sequence: u8) -> Vec<u8> {
        let mut out = Vec::new();
        payloads.iter().for_each(|payload| packet::write(&mut out, &mut sequence, payload));
        out
    }

    fn payload(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out);
        out
    }

    #[test]
    fn answers_pass_as_they_are_in_pieces_of_any_length() {
        for capabilities in [EOF, NO_EOF] {
            let mut rows = Vec::new();
            let (mut sequence, text) = (1, |text: &str| vec![Some(text.to_owned()), None]);
            let columns = ["a".to_owned(), "b".to_owned()];
            put_text_rows(&mut rows, &mut sequence, &columns, &[text("x"), text("\u{fe}yyyyyyyyyy")], capabilities);
            for piece in [1, 2, 3, 7, rows.len()] {
                let mut answer = Answer::new(command::QUERY, capabilities, Shown::told(false), false);
                assert_eq!(relayed(&mut answer, &rows, piece), (rows.clone(), Step::Over, sequence));
                assert_eq!((answer.told().rows, answer.told().error, answer.told().has_begun), (2, None, true));
                assert!(answer.told().status.is_some());
            }
        }
    }

    #[test]
    fn a_row_of_1_alone_is_told() {
        for (values, is_one) in
            [(&["1"][..], true), (&["0"], false), (&["11"], false), (&["1", "2"], false), (&["0", "1"], true)]
        {
            let mut input = Vec::new();
            let rows: Vec<_> = values.iter().map(|value| vec![Some((*value).to_owned())]).collect();
            put_text_rows(&mut input, &mut 1, &["a".to_owned()], &rows, NO_EOF);
            for piece in [1, 2, 5, input.len()] {
                let mut answer = Answer::new(command::QUERY, NO_EOF, Shown::told(false), false);
                assert_eq!(relayed(&mut answer, &input, piece).0, input, "{values:?}");
                assert_eq!(answer.told().is_one, is_one, "{values:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_row_of_several_frames_is_not_held() {
        let mut input = Vec::new();
        let mut sequence = 1;
        put_columns(&mut input, &mut sequence, &[wire::response::ColumnDefinition::of_text(b"a")], NO_EOF);
        // The second frame looks like an error, the third one is empty.
        let mut long = vec![0xfd; 2 * MAX_FRAME_LEN];
        long[MAX_FRAME_LEN] = 0xff;
        packet::write(&mut input, &mut sequence, &long);
        packet::write(&mut input, &mut sequence, &payload(|out| put_rows_end(out, &ServerOk::default(), NO_EOF)));
        let mut answer = Answer::new(command::QUERY, NO_EOF, Shown::told(false), false);
        let half = input.len() / 2;
        let (mut out, mut next) = (Vec::new(), 0);
        let (taken, step) = answer.take(&input[..half], &mut out, &mut next).unwrap();
        assert_eq!((taken, step, out.len()), (half, Step::More, half), "all of it was passed on");
        let (rest, step) = answer.take(&input[half..], &mut out, &mut next).unwrap();
        assert_eq!((rest, step, answer.told().rows, next), (input.len() - half, Step::Over, 1, sequence));
        assert!(out == input);
    }

    #[test]
    fn several_results_an_error_and_a_file() {
        let ok = |status| payload(|out| put_ok(out, &ServerOk { status, ..ServerOk::default() }, NO_EOF));
        let err = payload(|out| put_err(out, 1062, "23000", "Duplicate entry"));
        let input = packets(&[ok(2 | 8), ok(2 | 8), err], 1);
        let mut answer = Answer::new(command::QUERY, NO_EOF, Shown::told(false), false);
        assert_eq!(relayed(&mut answer, &input, 5), (input.clone(), Step::Over, 4));
        assert_eq!((answer.told().error, answer.told().status), (Some(1062), Some(10)));

        let asks = packets(&[b"\xfb/tmp/rows".to_vec()], 1);
        let mut answer = Answer::new(command::QUERY, NO_EOF, Shown::told(false), true);
        assert_eq!(relayed(&mut answer, &asks, 100), (asks.clone(), Step::File, 2));
        let done = packets(&[ok(2)], 4);
        assert_eq!(relayed(&mut answer, &done, 100), (done.clone(), Step::Over, 5));
        let mut answer = Answer::new(command::QUERY, NO_EOF, Shown::told(false), false);
        assert!(answer.take(&asks, &mut Vec::new(), &mut 0).is_err(), "nobody asked for LOCAL");
    }

    #[test]
    fn a_prepared_statement_has_the_clients_number() {
        let prepared = |number: u32| [&[0], &number.to_le_bytes()[..], &[0; 7]].concat();
        for (own, expected) in [(None, 9), (Some(4), 4)] {
            let mut answer = Answer::new(command::STMT_PREPARE, NO_EOF, Shown::told(false), false).of_statement(own);
            let (out, step, _) = relayed(&mut answer, &packets(&[prepared(9)], 1), 4);
            assert_eq!((out, step), (packets(&[prepared(expected)], 1), Step::Over));
            assert_eq!(answer.told().statement, Some(9));
        }
    }

    #[test]
    fn commands_without_an_answer_are_over_at_once() {
        assert!(Answer::new(command::STMT_CLOSE, NO_EOF, Shown::told(false), false).is_over());
        assert!(!Answer::new(command::STMT_FETCH, NO_EOF, Shown::told(false), false).is_over());
    }

    proptest! {
        #[test]
        fn hostile_answers_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            code in prop::sample::select(vec![command::QUERY, command::STMT_PREPARE, command::STMT_FETCH]),
            capabilities in prop::sample::select(vec![EOF, NO_EOF]),
        ) {
            let mut answer = Answer::new(code, capabilities, Shown::told(false), true);
            let mut out = Vec::new();
            if let Ok((taken, _)) = answer.take(&bytes, &mut out, &mut 0) {
                prop_assert!(taken <= bytes.len());
            }
        }
    }
}
