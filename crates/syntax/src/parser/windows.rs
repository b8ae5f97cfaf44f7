//! OVER, WINDOW and frames.

use super::expression::level;
use super::{Parser, Result};
use crate::function::Function;
use crate::keyword::Keyword;
use crate::lexer::{Kind, Span};
use crate::tree::{Bound, Expr, ExprId, Frame, Window, WindowId};

impl Parser<'_> {
    /// OVER after a function; a window function needs it.
    pub(super) fn over(&mut self, call: Expr, function: Function) -> Result<Expr> {
        use Function as F;
        if !self.eat(Keyword::Over) {
            let needs_window = matches!(
                function,
                F::RowNumber | F::Rank | F::DenseRank | F::CumeDist | F::PercentRank | F::Ntile | F::Lead | F::Lag
            ) || matches!(function, F::FirstValue | F::LastValue | F::NthValue);
            return if needs_window { self.wrong() } else { Ok(call) };
        }
        let end = self.end();
        let call = self.tree.push(call, Span { start: end, end });
        let window = if self.is_byte(b'(') {
            self.window_spec()?
        } else {
            let name = self.ident()?;
            self.tree.push_window(Window::Named(name))
        };
        Ok(Expr::Over { call, window })
    }

    pub(super) fn window_spec(&mut self) -> Result<WindowId> {
        self.expect_byte(b'(')?;
        let base = if self.is_ident() { Some(self.ident()?) } else { None };
        let mut partition = Vec::new();
        if self.eat(Keyword::Partition) {
            self.expect(Keyword::By)?;
            partition = self.list(|parser| parser.expression(level::ASSIGN))?;
        }
        let order = self.order_by()?;
        let frame = match self.eat_any(&[Keyword::Rows, Keyword::Range, Keyword::Groups]) {
            Some(unit) => Some(self.frame(unit)?),
            None => None,
        };
        self.expect_byte(b')')?;
        Ok(self.tree.push_window(Window::Spec { base, partition, order, frame }))
    }

    fn frame(&mut self, unit: Keyword) -> Result<Frame> {
        let (start, end) = if self.eat(Keyword::Between) {
            let start = self.bound()?;
            self.expect(Keyword::And)?;
            (start, Some(self.bound()?))
        } else {
            let start = self.bound()?;
            if matches!(start, Bound::Following(..) | Bound::UnboundedFollowing) {
                return self.wrong();
            }
            (start, None)
        };
        let mut exclude = None;
        if self.eat(Keyword::Exclude) {
            let word = self.expect_any(&[Keyword::Current, Keyword::Group, Keyword::Ties, Keyword::No])?;
            match word {
                Keyword::Current => self.expect(Keyword::Row)?,
                Keyword::No => self.expect(Keyword::Others)?,
                _ => {}
            }
            exclude = Some(word);
        }
        Ok(Frame { unit, start, end, exclude })
    }

    fn bound(&mut self) -> Result<Bound> {
        if self.eat_two(Keyword::Current, Keyword::Row) {
            return Ok(Bound::CurrentRow);
        }
        if self.eat(Keyword::Unbounded) {
            let word = self.expect_any(&[Keyword::Preceding, Keyword::Following])?;
            let preceding = word == Keyword::Preceding;
            return Ok(if preceding { Bound::UnboundedPreceding } else { Bound::UnboundedFollowing });
        }
        let (amount, unit) = if self.eat(Keyword::Interval) {
            let amount = self.expression(level::ASSIGN)?;
            let Some(unit) = self.unit(true) else { return self.wrong() };
            (amount, Some(unit))
        } else {
            (self.number_or_parameter()?, None)
        };
        let word = self.expect_any(&[Keyword::Preceding, Keyword::Following])?;
        Ok(if word == Keyword::Preceding { Bound::Preceding(amount, unit) } else { Bound::Following(amount, unit) })
    }

    fn number_or_parameter(&mut self) -> Result<ExprId> {
        match self.kind() {
            Kind::Integer | Kind::Decimal | Kind::Float | Kind::Byte(b'?') => self.expression(level::PRIMARY),
            _ => self.wrong(),
        }
    }
}
