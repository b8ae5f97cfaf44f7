//! Functions that the grammar names: those with words in their brackets, and how many arguments the others take.

use super::expression::level;
use super::{Parser, Result};
use crate::function::Function;
use crate::keyword::Keyword;
use crate::lexer::{Kind, Sign, Token};
use crate::tree::{Detail, Expr, ExprId, MatchMode, OnEvent};

/// Functions that are such only where a bracket follows directly, or with any blanks under IGNORE_SPACE. Otherwise
/// their names are as any other.
const ADJACENT_ONLY: &[Function] = &[
    Function::Adddate,
    Function::BitAnd,
    Function::BitOr,
    Function::BitXor,
    Function::Cast,
    Function::Count,
    Function::Curdate,
    Function::Curtime,
    Function::DateAdd,
    Function::DateSub,
    Function::Extract,
    Function::GroupConcat,
    Function::JsonArrayagg,
    Function::JsonDualityObject,
    Function::JsonObjectagg,
    Function::Max,
    Function::Mid,
    Function::Min,
    Function::Now,
    Function::Position,
    Function::SessionUser,
    Function::StCollect,
    Function::Std,
    Function::Stddev,
    Function::StddevPop,
    Function::StddevSamp,
    Function::Subdate,
    Function::Substr,
    Function::Substring,
    Function::Sum,
    Function::Sysdate,
    Function::SystemUser,
    Function::Trim,
    Function::VarPop,
    Function::VarSamp,
    Function::Variance,
];

/// True for a function that is found by its name alone, with any number of arguments as far as the grammar goes.
pub(super) fn is_by_name(function: Function) -> bool {
    !ADJACENT_ONLY.contains(&function) && Keyword::of(function.text().as_bytes()) == Keyword::NotOne
}

/// How many arguments the grammar takes, of functions that it names and that have no words in their brackets.
pub(super) fn arity(function: Function) -> Option<(usize, usize)> {
    use Function as F;
    const ANY: usize = usize::MAX;
    Some(match function {
        F::Curdate | F::SessionUser | F::SystemUser | F::User | F::RowCount | F::Database | F::Schema => (0, 0),
        F::CurrentUser | F::CurrentDate | F::UtcDate => (0, 0),
        F::Ascii | F::Charset | F::Collation | F::Date | F::Day | F::Hour | F::Microsecond | F::Minute => (1, 1),
        F::Month | F::Quarter | F::Reverse | F::Second | F::Time | F::Year => (1, 1),
        F::Log | F::Timestamp | F::Week => (1, 2),
        F::Left | F::Mod | F::Point | F::Repeat | F::Right | F::Truncate => (2, 2),
        F::Format => (2, 3),
        F::If | F::Replace => (3, 3),
        F::Insert => (4, 4),
        F::Coalesce | F::Grouping | F::Linestring | F::Multilinestring => (1, ANY),
        F::Multipoint | F::Multipolygon | F::Polygon => (1, ANY),
        F::Geomcollection | F::Geometrycollection => (0, ANY),
        F::Interval => (2, ANY),
        _ => return None,
    })
}

/// The largest number of the grammar where it takes a small one.
pub(super) const NUM_MAX: u64 = 0x7fff_ffff;

impl Parser<'_> {
    /// A function with words in its brackets, or one without brackets; None if no such begins here.
    pub(super) fn special_function(&mut self, token: Token) -> Result<Option<Expr>> {
        use Function as F;
        // Most words are columns.
        if token.keyword == Keyword::NotOne && !self.is_byte_at(1, b'(') {
            return Ok(None);
        }
        let Some(function) = Function::of(token.span.of(self.text)) else {
            return if token.keyword == Keyword::Match { self.match_against().map(Some) } else { Ok(None) };
        };
        if !self.is_byte_at(1, b'(') {
            return Ok(self.bare(function));
        }
        if token.keyword == Keyword::NotOne && !self.is_adjacent(token) {
            return Ok(None);
        }
        let windowed = match function {
            F::Count | F::Sum | F::Avg | F::Min | F::Max | F::StCollect => self.aggregate(function, true)?,
            F::BitAnd | F::BitOr | F::BitXor | F::Std | F::Stddev | F::StddevPop | F::StddevSamp => {
                self.aggregate(function, false)?
            }
            F::Variance | F::VarPop | F::VarSamp | F::JsonArrayagg | F::JsonObjectagg => {
                self.aggregate(function, false)?
            }
            F::GroupConcat => self.group_concat()?,
            F::RowNumber | F::Rank | F::DenseRank | F::CumeDist | F::PercentRank | F::Ntile => {
                self.window_function(function)?
            }
            F::Lead | F::Lag | F::FirstValue | F::LastValue | F::NthValue => self.window_function(function)?,
            _ => return self.worded(function),
        };
        self.over(windowed, function).map(Some)
    }

    fn worded(&mut self, function: Function) -> Result<Option<Expr>> {
        use Function as F;
        let start = self.start();
        self.take();
        self.take();
        let expr = match function {
            F::Cast => self.cast()?,
            F::Convert => self.convert()?,
            F::Trim => self.trim()?,
            F::Substr | F::Substring | F::Mid => self.substring(function)?,
            F::Position => {
                let what = self.expression(level::BIT_OR)?;
                self.expect(Keyword::In)?;
                let within = self.expression(level::ASSIGN)?;
                self.called(function, &[what, within], None)
            }
            F::Extract => {
                let Some(unit) = self.unit(true) else { return self.wrong() };
                self.expect(Keyword::From)?;
                let value = self.expression(level::ASSIGN)?;
                self.called(function, &[value], Some(Detail::Unit(unit)))
            }
            F::DateAdd | F::DateSub | F::Adddate | F::Subdate => self.date_arithmetic(function)?,
            F::Timestampadd | F::Timestampdiff => {
                let Some(unit) = self.unit(false) else { return self.wrong() };
                self.expect_byte(b',')?;
                let first = self.expression(level::ASSIGN)?;
                self.expect_byte(b',')?;
                let second = self.expression(level::ASSIGN)?;
                self.called(function, &[first, second], Some(Detail::Unit(unit)))
            }
            F::GetFormat => {
                let kinds = [Keyword::Date, Keyword::Time, Keyword::Datetime, Keyword::Timestamp];
                let kind = self.expect_any(&kinds)?;
                self.expect_byte(b',')?;
                let region = self.expression(level::ASSIGN)?;
                self.called(function, &[region], Some(Detail::Unit(kind)))
            }
            F::Char => {
                let list = self.list(|parser| parser.expression(level::ASSIGN))?;
                let detail = if self.eat(Keyword::Using) { Some(Detail::Using(self.charset_name()?)) } else { None };
                self.called(function, &list, detail)
            }
            F::WeightString => self.weight_string()?,
            F::JsonValue => self.json_value()?,
            F::JsonDualityObject => self.duality_object()?,
            F::Now | F::Curtime | F::Sysdate | F::UtcTime | F::UtcTimestamp => self.clock(function)?,
            F::CurrentTime | F::CurrentTimestamp | F::Localtime | F::Localtimestamp => self.clock(function)?,
            _ => return self.wrong(),
        };
        self.expect_byte(b')')?;
        debug_assert!(start < self.end());
        Ok(Some(expr))
    }

    fn called(&mut self, function: Function, arguments: &[ExprId], detail: Option<Detail>) -> Expr {
        let detail = detail.map(|detail| self.tree.push_detail(detail));
        Expr::Call { function, arguments: self.tree.push_list(arguments), detail }
    }

    fn bare(&mut self, function: Function) -> Option<Expr> {
        use Function as F;
        let is_bare = matches!(
            function,
            F::CurrentUser | F::CurrentDate | F::UtcDate | F::CurrentTime | F::CurrentTimestamp | F::Localtime
        ) || matches!(function, F::Localtimestamp | F::UtcTime | F::UtcTimestamp);
        is_bare.then(|| {
            self.take();
            self.called(function, &[], Some(Detail::Bare))
        })
    }

    /// Nothing, or a precision, in the brackets.
    fn clock(&mut self, function: Function) -> Result<Expr> {
        if self.is_byte(b')') {
            return Ok(self.called(function, &[], None));
        }
        if self.kind() != Kind::Integer || !self.is_up_to(NUM_MAX) {
            return self.wrong();
        }
        let precision = self.expression(level::PRIMARY)?;
        Ok(self.called(function, &[precision], None))
    }

    fn cast(&mut self) -> Result<Expr> {
        let value = self.expression(level::ASSIGN)?;
        if self.keyword() == Keyword::At {
            return self.cast_at_zone(value);
        }
        self.expect(Keyword::As)?;
        let ty = self.cast_type()?;
        let array = self.eat(Keyword::Array);
        Ok(Expr::Cast { value, ty, array })
    }

    fn cast_at_zone(&mut self, value: ExprId) -> Result<Expr> {
        self.take();
        let (mut zone, mut interval) = (None, false);
        if !self.eat(Keyword::Local) {
            self.expect(Keyword::Time)?;
            self.expect(Keyword::Zone)?;
            interval = self.eat(Keyword::Interval);
            zone = Some(self.plain_text()?);
        }
        self.expect(Keyword::As)?;
        if self.keyword() != Keyword::Datetime {
            return self.wrong();
        }
        let ty = self.cast_type()?;
        Ok(Expr::CastAtZone { value, zone, interval, ty })
    }

    fn convert(&mut self) -> Result<Expr> {
        let value = self.expression(level::ASSIGN)?;
        if self.eat(Keyword::Using) {
            let charset = self.charset_name()?;
            return Ok(Expr::ConvertUsing { value, charset });
        }
        self.expect_byte(b',')?;
        let ty = self.cast_type()?;
        Ok(Expr::Convert { value, ty })
    }

    fn trim(&mut self) -> Result<Expr> {
        let side = self.eat_any(&[Keyword::Leading, Keyword::Trailing, Keyword::Both]);
        let mut arguments = Vec::new();
        if side.is_none() || self.keyword() != Keyword::From {
            arguments.push(self.expression(level::ASSIGN)?);
        }
        if side.is_some() && self.keyword() != Keyword::From {
            return self.wrong();
        }
        let has_from = self.eat(Keyword::From);
        if has_from {
            arguments.push(self.expression(level::ASSIGN)?);
        }
        Ok(self.called(Function::Trim, &arguments, has_from.then_some(Detail::Trim { side })))
    }

    fn substring(&mut self, function: Function) -> Result<Expr> {
        let mut arguments = vec![self.expression(level::ASSIGN)?];
        if self.eat(Keyword::From) {
            arguments.push(self.expression(level::ASSIGN)?);
            if self.eat(Keyword::For) {
                arguments.push(self.expression(level::ASSIGN)?);
            }
        } else {
            self.expect_byte(b',')?;
            arguments.push(self.expression(level::ASSIGN)?);
            if self.eat_byte(b',') {
                arguments.push(self.expression(level::ASSIGN)?);
            }
        }
        Ok(self.called(function, &arguments, None))
    }

    /// `(date, INTERVAL amount unit)`; ADDDATE and SUBDATE take days, too, which INTERVAL may begin as well.
    fn date_arithmetic(&mut self, function: Function) -> Result<Expr> {
        let date = self.expression(level::ASSIGN)?;
        self.expect_byte(b',')?;
        let (amount, unit) = if matches!(function, Function::Adddate | Function::Subdate) {
            self.days_or_interval()?
        } else {
            self.expect(Keyword::Interval)?;
            let amount = self.expression(level::ASSIGN)?;
            let Some(unit) = self.unit(true) else { return self.wrong() };
            (amount, Some(unit))
        };
        Ok(self.called(function, &[date, amount], unit.map(Detail::Unit)))
    }

    fn weight_string(&mut self) -> Result<Expr> {
        let value = self.expression(level::ASSIGN)?;
        if self.eat(Keyword::As) {
            let binary = match self.eat_any(&[Keyword::Char, Keyword::Character, Keyword::Binary]) {
                Some(word) => word == Keyword::Binary,
                None => return self.wrong(),
            };
            self.expect_byte(b'(')?;
            if !matches!(self.kind(), Kind::Integer | Kind::Hex) {
                return self.wrong();
            }
            let raw = self.take().span.of(self.text);
            let len = self.tree.push_text(raw);
            self.expect_byte(b')')?;
            return Ok(self.called(Function::WeightString, &[value], Some(Detail::WeightString { binary, len })));
        }
        let mut arguments = vec![value];
        if self.eat_byte(b',') {
            for place in 0..3 {
                if place > 0 {
                    self.expect_byte(b',')?;
                }
                if self.kind() != Kind::Integer {
                    return self.wrong();
                }
                arguments.push(self.expression(level::PRIMARY)?);
            }
        }
        Ok(self.called(Function::WeightString, &arguments, None))
    }

    fn json_value(&mut self) -> Result<Expr> {
        let document = self.expression(level::CONCAT)?;
        self.expect_byte(b',')?;
        let path = self.text_literal()?;
        let returning = if self.eat(Keyword::Returning) { Some(self.cast_type()?) } else { None };
        let (on_empty, on_error) = self.on_events(false)?;
        let detail = Detail::JsonValue { path, returning, on_empty, on_error };
        Ok(self.called(Function::JsonValue, &[document], Some(detail)))
    }

    /// ON EMPTY and ON ERROR, in this order; JSON_TABLE takes the other order as well.
    pub(super) fn on_events(&mut self, any_order: bool) -> Result<(Option<OnEvent>, Option<OnEvent>)> {
        let (mut on_empty, mut on_error) = (None, None);
        while matches!(self.keyword(), Keyword::Error | Keyword::Null | Keyword::Default) {
            let event = match self.take().keyword {
                Keyword::Error => OnEvent::Error,
                Keyword::Null => OnEvent::Null,
                _ => OnEvent::Default(self.signed_literal()?),
            };
            self.expect(Keyword::On)?;
            match self.expect_any(&[Keyword::Empty, Keyword::Error])? {
                Keyword::Empty if on_empty.is_none() && (any_order || on_error.is_none()) => on_empty = Some(event),
                Keyword::Error if on_error.is_none() => on_error = Some(event),
                _ => return self.wrong(),
            }
        }
        Ok((on_empty, on_error))
    }

    /// A literal other than NULL, with a sign before a number.
    fn signed_literal(&mut self) -> Result<ExprId> {
        let first = self.token();
        let is_number = |kind: Kind| matches!(kind, Kind::Integer | Kind::Decimal | Kind::Float);
        let is_literal = match first.kind {
            Kind::Byte(b'-' | b'+') => is_number(self.token_at(1).kind),
            Kind::Text | Kind::NationalText | Kind::Introducer | Kind::Hex | Kind::Bits => true,
            Kind::Word => match first.keyword {
                Keyword::True | Keyword::False => true,
                Keyword::Date | Keyword::Time | Keyword::Timestamp => self.token_at(1).kind == Kind::Text,
                _ => false,
            },
            kind => is_number(kind),
        };
        if is_literal { self.expression(level::SIGN) } else { self.wrong() }
    }

    /// Pairs of a name and a value, `:` between them; what may be changed through it stands before them.
    fn duality_object(&mut self) -> Result<Expr> {
        let mut arguments = Vec::new();
        if self.eat(Keyword::With) {
            self.bracketed(|parser| parser.expect_any(&[Keyword::Insert, Keyword::Update, Keyword::Delete]).map(drop))?;
        }
        loop {
            if self.kind() != Kind::Text || !self.is_byte_at(1, b':') {
                return self.wrong();
            }
            arguments.push(self.expression(level::PRIMARY)?);
            self.expect_byte(b':')?;
            arguments.push(self.expression(level::ASSIGN)?);
            if !self.eat_byte(b',') {
                return Ok(self.called(Function::JsonDualityObject, &arguments, None));
            }
        }
    }

    fn match_against(&mut self) -> Result<Expr> {
        self.take();
        let has_brackets = self.eat_byte(b'(');
        let columns = self.list(|parser| {
            let start = parser.start();
            let name = parser.name(3)?;
            let span = crate::lexer::Span { start, end: parser.end() };
            Ok(parser.tree.push(Expr::Column(name), span))
        })?;
        if has_brackets {
            self.expect_byte(b')')?;
        }
        self.expect(Keyword::Against)?;
        self.expect_byte(b'(')?;
        let against = self.expression(level::BIT_OR)?;
        let mut mode = MatchMode::Plain;
        if self.eat(Keyword::In) {
            if self.eat(Keyword::Boolean) {
                mode = MatchMode::Boolean;
            } else {
                self.expect(Keyword::Natural)?;
                self.expect(Keyword::Language)?;
                mode = MatchMode::NaturalLanguage;
            }
            self.expect(Keyword::Mode)?;
        }
        if mode != MatchMode::Boolean && self.eat(Keyword::With) {
            self.expect(Keyword::Query)?;
            self.expect(Keyword::Expansion)?;
            let is_plain = mode == MatchMode::Plain;
            mode = if is_plain { MatchMode::Expansion } else { MatchMode::NaturalLanguageExpansion };
        }
        self.expect_byte(b')')?;
        let columns = self.tree.push_list(&columns);
        Ok(Expr::Match { columns, against, mode })
    }

    /// The unit of an interval; those of two parts only where `compound`.
    pub(super) fn unit(&mut self, compound: bool) -> Option<Keyword> {
        let keyword = self.keyword();
        let (unit, is_compound) = match keyword {
            Keyword::SqlTsiSecond => (Keyword::Second, false),
            Keyword::SqlTsiMinute => (Keyword::Minute, false),
            Keyword::SqlTsiHour => (Keyword::Hour, false),
            Keyword::SqlTsiDay => (Keyword::Day, false),
            Keyword::SqlTsiWeek => (Keyword::Week, false),
            Keyword::SqlTsiMonth => (Keyword::Month, false),
            Keyword::SqlTsiQuarter => (Keyword::Quarter, false),
            Keyword::SqlTsiYear => (Keyword::Year, false),
            Keyword::Microsecond | Keyword::Second | Keyword::Minute | Keyword::Hour | Keyword::Day => (keyword, false),
            Keyword::Week | Keyword::Month | Keyword::Quarter | Keyword::Year => (keyword, false),
            Keyword::SecondMicrosecond | Keyword::MinuteMicrosecond | Keyword::MinuteSecond => (keyword, true),
            Keyword::HourMicrosecond | Keyword::HourSecond | Keyword::HourMinute => (keyword, true),
            Keyword::DayMicrosecond | Keyword::DaySecond | Keyword::DayMinute | Keyword::DayHour => (keyword, true),
            Keyword::YearMonth => (keyword, true),
            _ => return None,
        };
        (compound || !is_compound).then(|| {
            self.take();
            unit
        })
    }

    /// COUNT and the like. ALL before an argument is dropped: it is the default.
    fn aggregate(&mut self, function: Function, takes_distinct: bool) -> Result<Expr> {
        self.take();
        self.take();
        let is_count = function == Function::Count;
        let distinct = takes_distinct && self.eat(Keyword::Distinct);
        if !distinct || !is_count {
            self.eat(Keyword::All);
        }
        if is_count && !distinct && self.eat_byte(b'*') {
            self.expect_byte(b')')?;
            return Ok(self.called(function, &[], Some(Detail::Star)));
        }
        let mut arguments = vec![self.expression(level::ASSIGN)?];
        if is_count && distinct {
            while self.eat_byte(b',') {
                arguments.push(self.expression(level::ASSIGN)?);
            }
        }
        if function == Function::JsonObjectagg {
            self.expect_byte(b',')?;
            self.eat(Keyword::All);
            arguments.push(self.expression(level::ASSIGN)?);
        }
        self.expect_byte(b')')?;
        Ok(self.called(function, &arguments, distinct.then_some(Detail::Distinct)))
    }

    fn group_concat(&mut self) -> Result<Expr> {
        self.take();
        self.take();
        let distinct = self.eat(Keyword::Distinct);
        let list = self.list(|parser| parser.expression(level::ASSIGN))?;
        let order = self.order_by()?;
        let separator = if self.eat(Keyword::Separator) { Some(self.text_or_digits()?) } else { None };
        self.expect_byte(b')')?;
        let is_plain = !distinct && order.is_empty() && separator.is_none();
        let detail = (!is_plain).then_some(Detail::GroupConcat { distinct, order, separator });
        Ok(self.called(Function::GroupConcat, &list, detail))
    }

    fn window_function(&mut self, function: Function) -> Result<Expr> {
        use Function as F;
        self.take();
        self.take();
        let mut arguments = Vec::new();
        match function {
            F::Lead | F::Lag => {
                arguments.push(self.expression(level::ASSIGN)?);
                if self.eat_byte(b',') {
                    arguments.push(self.stable_integer()?);
                    if self.eat_byte(b',') {
                        arguments.push(self.expression(level::ASSIGN)?);
                    }
                }
            }
            F::FirstValue | F::LastValue => arguments.push(self.expression(level::ASSIGN)?),
            F::NthValue => {
                arguments.push(self.expression(level::ASSIGN)?);
                self.expect_byte(b',')?;
                arguments.push(self.expression(level::CONCAT)?);
            }
            F::Ntile => arguments.push(self.stable_integer()?),
            _ => {}
        }
        self.expect_byte(b')')?;
        let mut from = None;
        if function == F::NthValue && self.eat(Keyword::From) {
            from = Some(self.expect_any(&[Keyword::First, Keyword::Last])?);
        }
        let takes_nulls = matches!(function, F::Lead | F::Lag | F::FirstValue | F::LastValue | F::NthValue);
        let mut nulls = None;
        if takes_nulls {
            nulls = self.eat_any(&[Keyword::Respect, Keyword::Ignore]);
            if nulls.is_some() {
                self.expect(Keyword::Nulls)?;
            }
        }
        let detail = (from.is_some() || nulls.is_some()).then_some(Detail::Nulls { from, nulls });
        Ok(self.called(function, &arguments, detail))
    }

    /// A number, a placeholder, a variable of the session or of a stored program.
    fn stable_integer(&mut self) -> Result<ExprId> {
        let assigned = self.token_at(1).kind == Kind::Sign(Sign::Assign);
        match self.kind() {
            Kind::Integer if self.is_up_to(u64::MAX) => self.expression(level::PRIMARY),
            Kind::Byte(b'?') => self.expression(level::PRIMARY),
            Kind::UserVariable if !assigned => self.expression(level::PRIMARY),
            _ if self.is_ident() && !self.is_byte_at(1, b'.') => self.expression(level::PRIMARY),
            _ => self.wrong(),
        }
    }
}
