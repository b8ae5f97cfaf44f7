//! The session's character sets, and text between them.

use std::borrow::Cow;

use values::collation::{self, BINARY, Collation};

use crate::Result;
use crate::column_names::from_graph_of;
use crate::error::SqlError;
use crate::invalid::{before_nul, byte_in_hex, in_hex, utf8_of, utf8mb3_by_bytes, utf8mb3_of, valid_up_to, whole};
use crate::variables::OwnValues;

/// Character sets that cannot be a client's: its statements must be ASCII but for literals.
const NOT_OF_CLIENTS: &[&str] = &["ucs2", "utf16", "utf16le", "utf32"];

/// What `character_set_client`, `collation_connection` and `character_set_results` say, as collation ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charsets {
    pub client: u16,
    pub connection: u16,
    /// Of answers; None sends them as they are.
    pub results: Option<u16>,
}

impl Charsets {
    /// The server's, which a session has after COM_RESET_CONNECTION, whatever its login asked for.
    #[must_use]
    pub fn of_server(own: &dyn OwnValues) -> Charsets {
        let own = |name: &str| own.own_value(name);
        let connection = own("collation_connection").and_then(|name| Charsets::collation(&name).ok());
        let Some(connection) = connection.or_else(|| collation::by_id(collation::UTF8MB4_0900_AI_CI)) else {
            return Charsets { client: BINARY, connection: BINARY, results: None };
        };
        let of = |charset: &str| match Charsets::by_name(charset) {
            Ok(found) if found.charset != connection.charset => found.id,
            _ => connection.id,
        };
        let client = own("character_set_client").map_or(connection.id, |charset| of(&charset));
        let results = own("character_set_results")
            .map_or(Some(connection.id), |charset| (!charset.is_empty()).then(|| of(&charset)));
        Charsets { client, connection: connection.id, results }
    }

    /// The statements that set all three.
    #[must_use]
    pub fn statements(&self) -> Vec<String> {
        let collation_of = |id| collation::by_id(id).map_or("binary", |found| found.name);
        let Charsets { client, connection, results } = *self;
        let is_default = |id: u16| Charsets::by_name(charset_of(id)).is_ok_and(|default| default.id == id);
        let mut statements = Vec::new();
        // Only SET NAMES gives answers and texts another collation than their character set's own.
        if let Some(id) = results.filter(|id| !is_default(*id)).or(Some(client).filter(|id| !is_default(*id))) {
            statements.push(format!("SET NAMES {} COLLATE {}", charset_of(id), collation_of(id)));
            let rest = [
                (client != id).then(|| format!("character_set_client = {}", charset_of(client))),
                (connection != id).then(|| format!("collation_connection = {}", collation_of(connection))),
                (results != Some(id))
                    .then(|| format!("character_set_results = {}", results.map_or("NULL", charset_of))),
            ];
            let rest: Vec<String> = rest.into_iter().flatten().collect();
            statements.extend((!rest.is_empty()).then(|| format!("SET {}", rest.join(", "))));
            return statements;
        }
        statements.push(format!(
            "SET character_set_client = {}, collation_connection = {}, character_set_results = {}",
            charset_of(client),
            collation_of(connection),
            results.map_or("NULL", charset_of)
        ));
        statements
    }

    /// All three by a login's collation; None if a client cannot have it.
    #[must_use]
    pub fn of_login(collation: u16) -> Option<Charsets> {
        let found = collation::by_id(collation).filter(|found| !NOT_OF_CLIENTS.contains(&found.charset))?;
        Some(Charsets { client: found.id, connection: found.id, results: Some(found.id) })
    }

    /// The character set's default collation.
    ///
    /// # Errors
    /// 1115: there is none of this name.
    pub fn by_name(name: &str) -> Result<Collation> {
        collation::charset_default(name).ok_or_else(|| SqlError::unknown_charset(name))
    }

    /// The character set's default collation, if it can be a client's.
    ///
    /// # Errors
    /// 1115 and 1231.
    pub fn of_client(name: &str) -> Result<Collation> {
        let found = Charsets::by_name(name)?;
        if !Charsets::is_of_clients(found.charset) {
            return Err(SqlError::wrong_value("character_set_client", found.charset));
        }
        Ok(found)
    }

    pub(crate) fn is_of_clients(charset: &str) -> bool {
        !NOT_OF_CLIENTS.contains(&charset)
    }

    /// The collation of this name.
    ///
    /// # Errors
    /// 1273.
    pub fn collation(name: &str) -> Result<Collation> {
        collation::by_name(name).ok_or_else(|| SqlError::unknown_collation(name))
    }

    /// Name of the client's character set.
    #[must_use]
    pub fn client_charset(&self) -> &'static str {
        charset_of(self.client)
    }

    /// A value in a client's text, as UTF-8.
    ///
    /// # Errors
    /// 1300: it is not text in the client's character set; 1235 for a character that Unicode lacks: its bytes count.
    pub fn from_client<'a>(&self, text: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let utf8 = decoded(self.client, text)?;
        if is_in_unicode(self.client, text) { Ok(utf8) } else { Err(self.lacking()) }
    }

    fn is_whole(&self, text: &[u8]) -> bool {
        valid_up_to(self.client_charset(), text) == text.len()
    }

    fn lacking(&self) -> SqlError {
        SqlError::not_supported(&format!("characters of {} that Unicode lacks", self.client_charset()))
    }

    /// A name or another text of the server's own, which it keeps in utf8mb3: the text, and what MySQL says of the
    /// characters that it lost. Invalid bytes become question marks, and an incomplete last character is left out.
    ///
    /// # Errors
    /// 1300 where the client's character set is utf8mb3 or binary: nothing is converted there; 1235 for one that cannot
    /// be.
    pub fn name<'a>(&self, name: &'a [u8]) -> Result<(Cow<'a, [u8]>, Option<String>)> {
        if name.is_ascii() && is_ascii_based(self.client) {
            return Ok((Cow::Borrowed(name), None));
        }
        let charset = charset_of(self.client);
        let (text, lost) = match charset {
            "utf8mb3" | "binary" => {
                return whole(name).then_some((Cow::Borrowed(name), None)).ok_or_else(|| invalid(name));
            }
            "utf8mb4" => utf8mb3_of(name),
            _ => {
                let text = values::charset::to_utf8mb4_with_question_marks(self.client, name);
                let text = text.map_err(|error| SqlError::unreadable(&error))?;
                let marks = |text: &[u8]| text.iter().filter(|byte| **byte == b'?').count();
                let (kept, _) = utf8mb3_of(&text);
                let lost = marks(kept.as_bytes()) > marks(name);
                (kept, lost)
            }
        };
        let said = lost.then(|| format!("Cannot convert string '{}' from {charset} to utf8mb3", in_hex(name)));
        Ok((Cow::Owned(text.into_bytes()), said))
    }

    /// As [`name`](Self::name), of a string literal.
    ///
    /// # Errors
    /// 3854 too, if a character was lost.
    pub fn text_of_names<'a>(&self, text: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        // Those of utf8mb3 are not even looked at there.
        if matches!(self.client_charset(), "utf8mb3" | "binary") && !whole(text) {
            return Err(SqlError::not_supported("text that is invalid in utf8mb3"));
        }
        match self.name(text)? {
            (_, Some(said)) => Err(SqlError::new(3854, "HY000", said)),
            _ if self.is_whole(text) && !is_in_unicode(self.client, text) => Err(self.lacking()),
            (text, None) => Ok(text),
        }
    }

    /// A string literal that is invalid in the client's character set, next to a column of another one.
    ///
    /// # Errors
    /// 3854 if a character is lost, not only what begins one at the end.
    pub(crate) fn text_beside<'a>(&self, text: &'a [u8], charset: &str) -> Result<Cow<'a, [u8]>> {
        let in_charset = |error: SqlError| match error.message.strip_suffix("utf8mb3").filter(|_| error.code == 3854) {
            Some(said) => SqlError::new(3854, "HY000", format!("{said}{charset}")),
            None => error,
        };
        self.text_of_names(text).map_err(in_charset)
    }

    /// Text of a statement in the name of a column, from what is seen of it on.
    pub(crate) fn in_column_name(&self, text: &[u8], collation: u16) -> Result<Vec<u8>> {
        self.shown(from_graph_of(charset_of(collation), text), collation)
    }

    /// Text of a statement, to be shown; invalid bytes of a Unicode character set stay.
    fn shown(&self, text: &[u8], collation: u16) -> Result<Vec<u8>> {
        if charset_of(collation) == "utf8mb3" && !whole(text) {
            return Err(SqlError::not_supported("text that is invalid in utf8mb3"));
        }
        if is_unicode(collation) || collation == BINARY {
            return Ok(text.to_vec());
        }
        let converted = values::charset::to_utf8mb4_with_question_marks(collation, text);
        converted.map(Cow::into_owned).map_err(|error| SqlError::unreadable(&error))
    }

    /// 1064: the statement cannot be parsed from this offset on.
    #[must_use]
    pub fn syntax(&self, sql: &[u8], at: usize) -> SqlError {
        let (before, rest) = sql.split_at(at.min(sql.len()));
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let near = match self.client_charset() {
            "utf8mb3" => utf8mb3_by_bytes(rest),
            _ => self.shown(rest, self.client).unwrap_or_default(),
        };
        SqlError::syntax(before_nul(&utf8mb3_of(&near).0), line, before.len())
    }

    /// The text of an error as it is sent: characters that the client's set lacks are shown by their numbers.
    #[must_use]
    pub fn message<'a>(&self, message: &'a str) -> Cow<'a, [u8]> {
        let is_as_it_is = |id: &u16| is_unicode(*id) || *id == BINARY;
        let Some(results) = self.results.filter(|_| !message.is_ascii()).filter(|id| !is_as_it_is(id)) else {
            return Cow::Borrowed(message.as_bytes());
        };
        let mut sent = Vec::with_capacity(message.len());
        for letter in message.chars() {
            let mut place = [0; 4];
            match values::charset::from_utf8mb4(results, letter.encode_utf8(&mut place).as_bytes()) {
                Ok(one) => sent.extend_from_slice(&one),
                Err(_) if letter > '\u{ffff}' => sent.push(b'?'),
                Err(_) => sent.extend_from_slice(format!("\\{:04X}", u32::from(letter)).as_bytes()),
            }
        }
        Cow::Owned(sent)
    }

    /// The collation in which text of `collation` is announced to the client.
    #[must_use]
    pub(crate) fn announced(&self, collation: u16) -> u16 {
        self.results.filter(|_| collation != BINARY).unwrap_or(collation)
    }

    /// The collation in which text of `collation` is sent to the client.
    #[must_use]
    pub fn sent_in(&self, collation: u16) -> u16 {
        match self.results {
            Some(results) if results != BINARY && collation != BINARY => results,
            _ => collation,
        }
    }

    /// True if text is sent to the client as it is stored.
    #[must_use]
    pub fn converts_not(&self) -> bool {
        self.results.is_none_or(|results| results == BINARY)
    }

    /// UTF-8 as the client gets it that expects `collation`.
    ///
    /// # Errors
    /// The character set cannot be converted to.
    pub fn encoded<'a>(&self, text: &'a [u8], collation: u16) -> Result<Cow<'a, [u8]>> {
        if text.is_ascii() && is_ascii_based(collation) || charset_of(collation) == "utf8mb4" {
            return Ok(Cow::Borrowed(text));
        }
        let refused = |_| SqlError::not_supported(&format!("an answer in character set {}", charset_of(collation)));
        let whole = match std::str::from_utf8(text) {
            Err(_) if collation != BINARY => Cow::Owned(utf8_of(text, "utf8mb4", char::MAX).0.into_bytes()),
            _ => Cow::Borrowed(text),
        };
        match values::charset::from_utf8mb4_or_question_marks(collation, &whole).map_err(refused)? {
            Cow::Borrowed(same) if same == text => Ok(Cow::Borrowed(text)),
            converted => Ok(Cow::Owned(converted.into_owned())),
        }
    }
}

/// The error of an invalid text of utf8mb4, where it is written into a table of that character set.
#[must_use]
pub fn not_kept(text: &[u8], collation: u16) -> Option<SqlError> {
    let invalid = text.get(valid_up_to("utf8mb4", text)..).filter(|_| charset_of(collation) == "utf8mb4")?;
    let said = || format!("Cannot convert string '{}' from utf8mb4 to utf8mb4", in_hex(invalid));
    (!invalid.is_empty()).then(|| SqlError::new(3854, "HY000", said()))
}

fn invalid(name: &[u8]) -> SqlError {
    let shown: String = name.iter().map(byte_in_hex).collect();
    SqlError::new(1300, "HY000", format!("Invalid utf8mb3 character string: '{shown}'"))
}

/// Name of a collation's character set.
pub(crate) fn charset_of(collation: u16) -> &'static str {
    collation::by_id(collation).map_or("binary", |found| found.charset)
}

/// True for the collations of utf8mb3 and utf8mb4.
pub(crate) fn is_unicode(collation: u16) -> bool {
    matches!(charset_of(collation), "utf8mb3" | "utf8mb4")
}

/// Largest length of a character in bytes.
pub(crate) fn bytes_a_character(collation: u16) -> u32 {
    collation::by_id(collation).map_or(1, |found| u32::from(found.mbmaxlen))
}

/// True if ASCII text is the same bytes in it.
fn is_ascii_based(collation: u16) -> bool {
    !NOT_OF_CLIENTS.contains(&charset_of(collation)) && charset_of(collation) != "swe7"
}

/// Text of a collation as UTF-8.
pub(crate) fn decoded(collation: u16, text: &[u8]) -> Result<Cow<'_, [u8]>> {
    if text.is_ascii() && is_ascii_based(collation) {
        return Ok(Cow::Borrowed(text));
    }
    let charset = charset_of(collation);
    let wrong = || {
        let hex: String = text.iter().skip_while(|byte| byte.is_ascii()).take(6).map(|b| format!("{b:02X}")).collect();
        SqlError::new(1300, "HY000", format!("Invalid {charset} character string: '{hex}'"))
    };
    if valid_up_to(charset, text) < text.len() {
        return Err(wrong());
    }
    let utf8 = values::charset::to_utf8mb4(collation, text).map_err(|_| wrong())?;
    if charset != "binary" && std::str::from_utf8(&utf8).is_err() {
        return Err(wrong());
    }
    Ok(utf8)
}

/// True if Unicode has each character of a text, so that the way through it changes no byte.
pub(crate) fn is_in_unicode(collation: u16, text: &[u8]) -> bool {
    let is_same = |utf8: &[u8]| values::charset::from_utf8mb4(collation, utf8).is_ok_and(|back| *back == *text);
    text.is_ascii() && is_ascii_based(collation)
        || matches!(charset_of(collation), "utf8mb4" | "utf8mb3" | "binary")
        || values::charset::to_utf8mb4(collation, text).is_ok_and(|utf8| is_same(&utf8))
}

/// A text as SQL in ASCII, whatever the character sets are.
pub(crate) fn text_as_sql(text: &[u8], id: u16) -> String {
    let hex: String = text.iter().map(|byte| format!("{byte:02X}")).collect();
    match collation::by_id(id) {
        Some(found) if found.charset == "utf8mb4" => format!("_utf8mb4 X'{hex}' COLLATE {}", found.name),
        Some(found) if id != BINARY => {
            format!("CONVERT(_utf8mb4 X'{hex}' USING {}) COLLATE {}", found.charset, found.name)
        }
        _ => format!("X'{hex}'"),
    }
}
