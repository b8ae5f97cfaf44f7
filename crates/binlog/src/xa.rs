//! XA transactions: the identifier, the XA_prepare event, and the identifier in a Query's text.

use crate::BinlogError;
use crate::cursor::Cursor;
use crate::event_type;

const PART_MAX: usize = 64;

/// Identifier of an XA transaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct XaXid {
    format_id: u32,
    gtrid_len: u8,
    bqual_len: u8,
    data: [u8; 2 * PART_MAX],
}

impl XaXid {
    /// Makes an identifier; `None` if a part is longer than 64 bytes. Both may be empty: `XA START ''`.
    pub fn new(format_id: u32, gtrid: &[u8], bqual: &[u8]) -> Option<XaXid> {
        if gtrid.len() > PART_MAX || bqual.len() > PART_MAX {
            return None;
        }
        let mut data = [0; 2 * PART_MAX];
        for (to, from) in data.iter_mut().zip(gtrid.iter().chain(bqual)) {
            *to = *from;
        }
        let (gtrid_len, bqual_len) = (u8::try_from(gtrid.len()).ok()?, u8::try_from(bqual.len()).ok()?);
        Some(XaXid { format_id, gtrid_len, bqual_len, data })
    }

    /// Format id, chosen by the transaction manager: its low 32 bits.
    pub fn format_id(&self) -> u32 {
        self.format_id
    }

    /// The global transaction part, up to 64 bytes.
    pub fn gtrid(&self) -> &[u8] {
        self.data.get(..usize::from(self.gtrid_len)).unwrap_or_default()
    }

    /// The branch qualifier, up to 64 bytes.
    pub fn bqual(&self) -> &[u8] {
        let start = usize::from(self.gtrid_len);
        self.data.get(start..start + usize::from(self.bqual_len)).unwrap_or_default()
    }

    /// Reads `X'6162',X'',1` as MySQL writes it in XA statements, and plain strings. Also returns the rest of the text.
    pub(crate) fn parse_text(text: &[u8]) -> Option<(XaXid, &[u8])> {
        let mut gtrid = [0; PART_MAX];
        let mut bqual = [0; PART_MAX];
        let (gtrid_len, mut rest) = literal(text, &mut gtrid)?;
        let mut bqual_len = 0;
        let mut format_id = 1;
        if let Some(after) = comma(rest) {
            (bqual_len, rest) = literal(after, &mut bqual)?;
            if let Some(after) = comma(rest) {
                let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let (number, after) = after.split_at_checked(digits)?;
                // Statements take 63 bits of it, but the XA_prepare event has 32 (seen on 9.7). No two transactions that
                // are prepared at the same time differ in it alone: the source refuses the second one (1440).
                let whole: u64 = std::str::from_utf8(number).ok()?.parse().ok()?;
                format_id = u32::try_from(whole & u64::from(u32::MAX)).ok()?;
                rest = after;
            }
        }
        Some((XaXid::new(format_id, gtrid.get(..gtrid_len)?, bqual.get(..bqual_len)?)?, rest))
    }
}

/// As MySQL writes it: `X'6162',X'',1`.
impl std::fmt::Display for XaXid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for part in [self.gtrid(), self.bqual()] {
            f.write_str("X'")?;
            for byte in part {
                write!(f, "{byte:02x}")?;
            }
            f.write_str("',")?;
        }
        write!(f, "{}", self.format_id)
    }
}

impl std::fmt::Debug for XaXid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "XaXid({self})")
    }
}

fn comma(text: &[u8]) -> Option<&[u8]> {
    text.trim_ascii_start().strip_prefix(b",").map(<[u8]>::trim_ascii_start)
}

/// Reads a hexadecimal or quoted literal of at most 64 bytes. Rejects quoted ones with escapes: MySQL writes none.
fn literal<'t>(text: &'t [u8], into: &mut [u8; PART_MAX]) -> Option<(usize, &'t [u8])> {
    let (hex, quoted) = match text.strip_prefix(b"X").or_else(|| text.strip_prefix(b"x")) {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (&quote, quoted) = quoted.split_first()?;
    if quote != b'\'' && (hex || quote != b'"') {
        return None;
    }
    let end = quoted.iter().position(|&byte| byte == quote)?;
    let (content, rest) = quoted.split_at_checked(end)?;
    let rest = rest.get(1..)?;
    if hex {
        if content.len() % 2 != 0 || content.len() > 2 * PART_MAX {
            return None;
        }
        for (to, pair) in into.iter_mut().zip(content.chunks_exact(2)) {
            *to = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        // `from_str_radix` would accept a sign.
        return content.iter().all(u8::is_ascii_hexdigit).then_some((content.len() / 2, rest));
    }
    if content.len() > PART_MAX || content.contains(&b'\\') || rest.first() == Some(&quote) {
        return None;
    }
    for (to, from) in into.iter_mut().zip(content) {
        *to = *from;
    }
    Some((content.len(), rest))
}

/// End of an XA transaction's events: it is prepared, or committed if `one_phase` is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XaPrepare {
    /// XA COMMIT ... ONE PHASE: this event is the commit.
    pub one_phase: bool,
    /// Identifier of the transaction.
    pub xid: XaXid,
}

impl XaPrepare {
    /// Reads the body of an XA_prepare event.
    pub fn parse(body: &[u8]) -> Result<XaPrepare, BinlogError> {
        let mut body = Cursor::new(event_type::name(event_type::XA_PREPARE), body);
        let one_phase = match body.u8("one_phase")? {
            0 => false,
            1 => true,
            other => return Err(body.value("one_phase", u64::from(other))),
        };
        let format_id = body.u32("format id")?;
        let gtrid_len = body.u32("length of gtrid")?;
        let bqual_len = body.u32("length of bqual")?;
        let gtrid = body.bytes(gtrid_len as usize, "gtrid")?;
        let bqual = body.bytes(bqual_len as usize, "bqual")?;
        body.finish("bqual")?;
        match XaXid::new(format_id, gtrid, bqual) {
            Some(xid) => Ok(XaPrepare { one_phase, xid }),
            None => Err(body.value("length of gtrid and bqual", u64::from(gtrid_len) + u64::from(bqual_len))),
        }
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.one_phase));
        out.extend(self.xid.format_id.to_le_bytes());
        out.extend(u32::from(self.xid.gtrid_len).to_le_bytes());
        out.extend(u32::from(self.xid.bqual_len).to_le_bytes());
        out.extend(self.xid.gtrid());
        out.extend(self.xid.bqual());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepare_round_trip() {
        let xid = XaXid::new(1, b"global", b"b").unwrap();
        let empty = XaPrepare { one_phase: false, xid: XaXid::new(0, b"", b"").unwrap() };
        let mut body = Vec::new();
        empty.encode_into(&mut body);
        assert_eq!(XaPrepare::parse(&body).unwrap(), empty);
        let event = XaPrepare { one_phase: true, xid };
        body.clear();
        event.encode_into(&mut body);
        assert_eq!(XaPrepare::parse(&body).unwrap(), event);
        body.push(0);
        assert!(XaPrepare::parse(&body).is_err());
        assert!(XaPrepare::parse(&[0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]).is_err());
        assert!(XaXid::new(1, &[0; 65], b"").is_none());
    }

    #[test]
    fn text_form() {
        let (xid, rest) = XaXid::parse_text(b"X'6162',X'',7 ONE PHASE").unwrap();
        assert_eq!((xid.gtrid(), xid.bqual(), xid.format_id(), rest), (&b"ab"[..], &b""[..], 7, &b" ONE PHASE"[..]));
        assert_eq!(xid.to_string(), "X'6162',X'',7");
        assert_eq!(XaXid::parse_text(b"'ab'").unwrap().0.format_id(), 1);
        let (empty, rest) = XaXid::parse_text(b"X'',X'',1").unwrap();
        assert_eq!((empty, rest), (XaXid::new(1, b"", b"").unwrap(), &b""[..]));
        assert_eq!(empty.to_string(), "X'',X'',1");
        assert_eq!(XaXid::parse_text(b"X'61',X'',4294967301").unwrap().0, XaXid::new(5, b"a", b"").unwrap());
        assert_eq!(XaXid::parse_text(b"X'61',X'',9223372036854775807").unwrap().0.format_id(), u32::MAX);
        for bad in [
            &b"X'616'"[..],
            b"X'zz'",
            b"X'+1'",
            b"X'61',X'',18446744073709551616",
            b"X'61',X'',",
            b"X'61',",
            b"'a''b'",
            b"X\"61\"",
            b"X'61",
        ] {
            assert!(XaXid::parse_text(bad).is_none(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
