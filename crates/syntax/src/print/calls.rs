//! Functions, with what stands in their brackets.

use super::{Piece, Printer};
use crate::function::Function;
use crate::tree::{Bound, Detail, Expr, ExprId, NameId, OnEvent, Order, Text, TypeId, Window, WindowId};

impl Printer<'_> {
    pub(super) fn call(&mut self, expr: Expr) {
        let tree = self.tree;
        match expr {
            Expr::Over { call, window } => {
                self.push(&[Piece::Expr(call, 0), Piece::Word("OVER")]);
                match tree.window(window) {
                    Window::Named(name) => self.push(&[Piece::Name(*name)]),
                    Window::Spec { .. } => self.push(&[Piece::Window(window)]),
                }
            }
            Expr::Call { function, arguments, detail } => {
                let detail = detail.map(|detail| tree.detail(detail));
                self.word(function.text().as_bytes());
                if detail == Some(&Detail::Bare) {
                    return;
                }
                self.push(&[Piece::Glue("(")]);
                self.arguments(function, tree.list(arguments), detail);
                self.push(&[Piece::Glue(")")]);
                if let Some(Detail::Nulls { from, nulls }) = detail {
                    if let Some(from) = from {
                        self.push(&[Piece::Word("FROM"), Piece::Key(*from)]);
                    }
                    if let Some(nulls) = nulls {
                        self.push(&[Piece::Key(*nulls), Piece::Word("NULLS")]);
                    }
                }
            }
            Expr::CallByName { name, arguments, detail } => {
                self.called_name(name);
                self.push(&[Piece::Glue("(")]);
                let detail = detail.map(|detail| tree.detail(detail));
                self.plain_arguments(tree.list(arguments), detail);
                self.push(&[Piece::Glue(")")]);
            }
            _ => {}
        }
    }

    /// In backticks, so that it is not taken for one of the server's functions.
    fn called_name(&mut self, name: NameId) {
        let tree = self.tree;
        self.blank();
        for (place, part) in tree.parts(name).iter().enumerate() {
            if place > 0 {
                self.out.push(b'.');
            }
            self.quoted(tree.bytes(*part));
        }
    }

    fn plain_arguments(&mut self, arguments: &[ExprId], detail: Option<&Detail>) {
        let aliases: &[Option<Text>] = if let Some(Detail::Aliases(aliases)) = detail { aliases } else { &[] };
        for (place, argument) in arguments.iter().enumerate() {
            if place > 0 {
                self.push(&[Piece::Glue(",")]);
            }
            self.push(&[Piece::Expr(*argument, 0)]);
            if let Some(Some(alias)) = aliases.get(place) {
                self.push(&[Piece::Word("AS"), Piece::Name(*alias)]);
            }
        }
    }

    fn arguments(&mut self, function: Function, arguments: &[ExprId], detail: Option<&Detail>) {
        let expr = |place: usize| arguments.get(place).map(|expr| Piece::Expr(*expr, 0));
        match (function, detail, expr(0), expr(1)) {
            (Function::Position, _, Some(_), Some(within)) => {
                let what = arguments.first().copied().map(|expr| Piece::Expr(expr, 7));
                self.push(&[what.unwrap_or(Piece::Glue("")), Piece::Word("IN"), within]);
            }
            (_, Some(Detail::Star), ..) => self.push(&[Piece::Glue("*")]),
            (_, Some(Detail::Distinct), ..) => {
                self.push(&[Piece::Word("DISTINCT")]);
                self.plain_arguments(arguments, None);
            }
            (_, Some(Detail::Trim { side }), first, second) => {
                if let Some(side) = side {
                    self.push(&[Piece::Key(*side)]);
                }
                match (first, second) {
                    (Some(removed), Some(value)) => self.push(&[removed, Piece::Word("FROM"), value]),
                    (Some(value), None) => self.push(&[Piece::Word("FROM"), value]),
                    _ => {}
                }
            }
            (Function::Extract, Some(Detail::Unit(unit)), Some(value), _) => {
                self.push(&[Piece::Key(*unit), Piece::Word("FROM"), value]);
            }
            (Function::Timestampadd | Function::Timestampdiff | Function::GetFormat, Some(Detail::Unit(unit)), ..) => {
                self.push(&[Piece::Key(*unit), Piece::Glue(",")]);
                self.plain_arguments(arguments, None);
            }
            (_, Some(Detail::Unit(unit)), Some(date), Some(_)) => {
                let amount = arguments.get(1).map_or(Piece::Glue(""), |amount| self.amount(*amount));
                self.push(&[date, Piece::Glue(","), Piece::Word("INTERVAL"), amount, Piece::Key(*unit)]);
            }
            (_, Some(Detail::Using(charset)), ..) => {
                self.plain_arguments(arguments, None);
                self.push(&[Piece::Word("USING"), Piece::Name(*charset)]);
            }
            (_, Some(Detail::WeightString { binary, len }), Some(value), _) => {
                let word = Piece::Word(if *binary { "AS BINARY(" } else { "AS CHAR(" });
                self.push(&[value, word, Piece::Raw(*len), Piece::Glue(")")]);
            }
            (_, Some(Detail::GroupConcat { distinct, order, separator }), ..) => {
                if *distinct {
                    self.push(&[Piece::Word("DISTINCT")]);
                }
                self.plain_arguments(arguments, None);
                self.order_by(order);
                if let Some(separator) = separator {
                    self.push(&[Piece::Word("SEPARATOR"), Piece::Literal(*separator)]);
                }
            }
            (_, Some(Detail::JsonValue { path, returning, on_empty, on_error }), ..) => {
                if let Some(document) = arguments.first() {
                    self.push(&[Piece::Expr(*document, 13), Piece::Glue(","), Piece::Literal(*path)]);
                }
                if let Some(ty) = returning {
                    self.push(&[Piece::Word("RETURNING"), Piece::Type(*ty)]);
                }
                self.on_event(*on_empty, "ON EMPTY");
                self.on_event(*on_error, "ON ERROR");
            }
            (Function::JsonDualityObject, ..) => {
                for (place, argument) in arguments.iter().enumerate() {
                    let before = if place % 2 == 1 { ":" } else { "," };
                    self.push(&[Piece::Glue(if place == 0 { "" } else { before }), Piece::Expr(*argument, 0)]);
                }
            }
            (Function::NthValue, _, Some(value), Some(_)) => {
                let place = arguments.get(1).copied().map(|expr| Piece::Expr(expr, 13));
                self.push(&[value, Piece::Glue(","), place.unwrap_or(Piece::Glue(""))]);
            }
            (_, detail, ..) => self.plain_arguments(arguments, detail),
        }
    }

    pub(super) fn on_event(&mut self, event: Option<OnEvent>, when: &'static str) {
        match event {
            None => return,
            Some(OnEvent::Error) => self.push(&[Piece::Word("ERROR")]),
            Some(OnEvent::Null) => self.push(&[Piece::Word("NULL")]),
            Some(OnEvent::Default(value)) => self.push(&[Piece::Word("DEFAULT"), Piece::Expr(value, 14)]),
        }
        self.push(&[Piece::Word(when)]);
    }

    pub(super) fn conversion(&mut self, expr: Expr) {
        match expr {
            Expr::Cast { value, ty, array } => {
                self.push(&[Piece::Word("CAST("), Piece::Expr(value, 0), Piece::Word("AS"), Piece::Type(ty)]);
                self.push(&[Piece::Glue(if array { " ARRAY)" } else { ")" })]);
            }
            Expr::CastAtZone { value, zone, interval, ty } => {
                self.push(&[Piece::Word("CAST("), Piece::Expr(value, 0), Piece::Word("AT")]);
                match zone {
                    None => self.push(&[Piece::Word("LOCAL")]),
                    Some(zone) => {
                        self.push(&[Piece::Word(if interval { "TIME ZONE INTERVAL" } else { "TIME ZONE" })]);
                        self.push(&[Piece::String(zone)]);
                    }
                }
                self.push(&[Piece::Word("AS"), Piece::Type(ty), Piece::Glue(")")]);
            }
            Expr::Convert { value, ty } => {
                self.push(&[Piece::Word("CONVERT("), Piece::Expr(value, 0), Piece::Glue(",")]);
                self.push(&[Piece::Type(ty), Piece::Glue(")")]);
            }
            Expr::ConvertUsing { value, charset } => {
                self.push(&[Piece::Word("CONVERT("), Piece::Expr(value, 0), Piece::Word("USING")]);
                self.push(&[Piece::Name(charset), Piece::Glue(")")]);
            }
            _ => {}
        }
    }

    pub(super) fn ty(&mut self, ty: TypeId) {
        let ty = self.tree.ty(ty);
        for word in &ty.words {
            self.push(&[Piece::Key(*word)]);
        }
        if !ty.numbers.is_empty() {
            self.push(&[Piece::Glue("(")]);
            self.commas(&ty.numbers, |printer, number| printer.push(&[Piece::Raw(number)]));
            self.push(&[Piece::Glue(")")]);
        }
        if !ty.members.is_empty() {
            self.push(&[Piece::Glue("(")]);
            self.commas(&ty.members, |printer, member| printer.push(&[Piece::Literal(member)]));
            self.push(&[Piece::Glue(")")]);
        }
        if let Some(charset) = ty.charset {
            self.push(&[Piece::Word("CHARACTER SET"), Piece::Name(charset)]);
        }
        for word in &ty.attributes {
            self.push(&[Piece::Key(*word)]);
        }
    }

    pub(super) fn order_by(&mut self, order: &[Order]) {
        if order.is_empty() {
            return;
        }
        self.push(&[Piece::Word("ORDER BY")]);
        self.commas(order, |printer, order| {
            printer.push(&[Piece::Expr(order.expr, 0)]);
            if let Some(direction) = order.direction {
                printer.push(&[Piece::Key(direction)]);
            }
        });
    }

    pub(super) fn window(&mut self, window: WindowId) {
        let Window::Spec { base, partition, order, frame } = self.tree.window(window) else { return };
        self.push(&[Piece::Word("(")]);
        if let Some(base) = base {
            self.push(&[Piece::Name(*base)]);
        }
        if !partition.is_empty() {
            self.push(&[Piece::Word("PARTITION BY")]);
            self.expr_list(partition);
        }
        self.order_by(order);
        if let Some(frame) = frame {
            self.push(&[Piece::Key(frame.unit)]);
            match frame.end {
                None => self.bound(frame.start),
                Some(end) => {
                    self.push(&[Piece::Word("BETWEEN")]);
                    self.bound(frame.start);
                    self.push(&[Piece::Word("AND")]);
                    self.bound(end);
                }
            }
            if let Some(exclude) = frame.exclude {
                self.push(&[Piece::Word("EXCLUDE"), Piece::Key(exclude)]);
                match exclude {
                    crate::keyword::Keyword::Current => self.push(&[Piece::Word("ROW")]),
                    crate::keyword::Keyword::No => self.push(&[Piece::Word("OTHERS")]),
                    _ => {}
                }
            }
        }
        self.push(&[Piece::Glue(")")]);
    }

    fn bound(&mut self, bound: Bound) {
        let (amount, unit, word) = match bound {
            Bound::CurrentRow => return self.push(&[Piece::Word("CURRENT ROW")]),
            Bound::UnboundedPreceding => return self.push(&[Piece::Word("UNBOUNDED PRECEDING")]),
            Bound::UnboundedFollowing => return self.push(&[Piece::Word("UNBOUNDED FOLLOWING")]),
            Bound::Preceding(amount, unit) => (amount, unit, "PRECEDING"),
            Bound::Following(amount, unit) => (amount, unit, "FOLLOWING"),
        };
        if unit.is_some() {
            self.push(&[Piece::Word("INTERVAL")]);
        }
        self.push(&[Piece::Expr(amount, 0)]);
        if let Some(unit) = unit {
            self.push(&[Piece::Key(unit)]);
        }
        self.push(&[Piece::Word(word)]);
    }
}
