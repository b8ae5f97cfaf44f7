//! How the source prints an expression.

use std::fmt::Write as _;

use super::{Node, functions};
use crate::parser::backticked;

/// The printed expression; None if something of it is not known.
pub(super) fn printed(node: &Node) -> Option<String> {
    let mut out = String::new();
    print(node, &mut out)?;
    Some(out)
}

/// True if the expression is a condition; None if that is not known.
fn is_condition(node: &Node) -> Option<bool> {
    Some(match node {
        Node::Bool(_)
        | Node::Compare(..)
        | Node::And(_)
        | Node::Or(_)
        | Node::Xor(_)
        | Node::Not(_)
        | Node::IsNull { .. }
        | Node::IsTruth { .. }
        | Node::In { .. }
        | Node::Between { .. }
        | Node::Like { .. }
        | Node::MemberOf(_) => true,
        Node::Call(name, _) => functions::is_boolean(name)?,
        _ => false,
    })
}

fn zero() -> Node {
    Node::Number("0".to_owned())
}

/// As an operand of AND, OR, XOR and IS TRUE.
pub(super) fn condition(node: Node) -> Option<Node> {
    Some(if is_condition(&node)? { node } else { Node::Compare("<>", Box::new([zero(), node])) })
}

/// The opposite (`Item::neg_transformer` and `negate_expression`).
pub(super) fn negated(node: Node) -> Option<Node> {
    let all = |list: Vec<Node>| list.into_iter().map(negated).collect::<Option<Vec<_>>>();
    Some(match node {
        Node::Compare(sign, sides) if sign != "<=>" => Node::Compare(opposite(sign)?, sides),
        Node::And(list) => Node::Or(all(list)?),
        Node::Or(list) => Node::And(all(list)?),
        Node::Xor(sides) => {
            let [left, right] = *sides;
            Node::Xor(Box::new([negated(left)?, right]))
        }
        Node::Not(inner) => *inner,
        Node::IsNull { value, negated } => Node::IsNull { value, negated: !negated },
        Node::IsTruth { value, truth, negated } => Node::IsTruth { value, truth, negated: !negated },
        Node::In { value, list, negated } => Node::In { value, list, negated: !negated },
        Node::Between { parts, negated } => Node::Between { parts, negated: !negated },
        other if is_condition(&other)? => Node::Not(Box::new(other)),
        other => Node::Compare("=", Box::new([zero(), other])),
    })
}

fn opposite(sign: &str) -> Option<&'static str> {
    Some(match sign {
        "=" => "<>",
        "<>" => "=",
        "<" => ">=",
        ">=" => "<",
        ">" => "<=",
        "<=" => ">",
        _ => return None,
    })
}

fn print(node: &Node, out: &mut String) -> Option<()> {
    match node {
        Node::Column(name) => out.push_str(&backticked(name)),
        Node::Null => out.push_str("NULL"),
        Node::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Node::Number(digits) => out.push_str(digits),
        Node::Text { charset, text } => literal(charset, text, out),
        Node::Hex(bytes) if bytes.is_empty() => out.push_str("X''"),
        Node::Hex(bytes) => {
            out.push_str("0x");
            bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}")).ok()?;
        }
        Node::Temporal(kind, text) => write!(out, "{kind}'{text}'").ok()?,
        Node::Negative(inner) => around("-(", inner, ")", out)?,
        Node::Inverted(inner) => around("~(", inner, ")", out)?,
        Node::Operation(first, rest) => {
            rest.iter().for_each(|_| out.push('('));
            print(first, out)?;
            for (sign, operand) in rest {
                around(&format!(" {sign} "), operand, ")", out)?;
            }
        }
        Node::Compare(sign, sides) => between(sign, sides, out)?,
        Node::Row(list) => listed("(", list, ",", ")", out)?,
        Node::And(list) => listed("(", list, " and ", ")", out)?,
        Node::Or(list) => listed("(", list, " or ", ")", out)?,
        Node::Xor(sides) => between("xor", sides, out)?,
        Node::Not(inner) => around("(not(", inner, "))", out)?,
        Node::IsNull { value, negated } => {
            around("(", value, if *negated { " is not null)" } else { " is null)" }, out)?;
        }
        Node::IsTruth { value, truth, negated } => {
            around("(", value, if *negated { " is not " } else { " is " }, out)?;
            out.push_str(if *truth { "true)" } else { "false)" });
        }
        Node::In { value, list, negated } => {
            around("(", value, if *negated { " not in " } else { " in " }, out)?;
            listed("(", list, ",", "))", out)?;
        }
        Node::Between { parts, negated } => {
            let [value, low, high] = &**parts;
            around("(", value, if *negated { " not between " } else { " between " }, out)?;
            around("", low, " and ", out)?;
            around("", high, ")", out)?;
        }
        Node::Like { sides, escape } => {
            let [value, pattern] = &**sides;
            around("(", value, " like ", out)?;
            print(pattern, out)?;
            if let Some(escape) = escape {
                around(" escape ", escape, "", out)?;
            }
            out.push(')');
        }
        Node::MemberOf(sides) => {
            let [value, list] = &**sides;
            around("", value, " member of (", out)?;
            around("", list, ")", out)?;
        }
        Node::Case { value, arms, otherwise } => {
            out.push_str("(case ");
            if let Some(value) = value {
                around("", value, " ", out)?;
            }
            for [when, then] in arms {
                around("when ", when, " then ", out)?;
                around("", then, " ", out)?;
            }
            if let Some(otherwise) = otherwise {
                around("else ", otherwise, " ", out)?;
            }
            out.push_str("end)");
        }
        Node::Call(name, arguments) => {
            out.push_str(name);
            listed("(", arguments, ",", ")", out)?;
        }
        Node::Interval { sign, parts, unit } => {
            let [date, amount] = &**parts;
            around("(", date, &format!(" {sign} interval "), out)?;
            around("", amount, &format!(" {unit})"), out)?;
        }
        Node::Cast(inner, to) => around("cast(", inner, &format!(" as {to})"), out)?,
        Node::ConvertUsing(inner, charset) => around("convert(", inner, &format!(" using {charset})"), out)?,
        Node::Collate(inner, collation) => around("(", inner, &format!(" collate {collation})"), out)?,
        Node::Trim { mode, parts } => {
            let [what, text] = &**parts;
            around(&format!("trim({mode}"), what, " from ", out)?;
            around("", text, ")", out)?;
        }
        Node::Extract(unit, inner) => around(&format!("extract({unit} from "), inner, ")", out)?,
        Node::TimestampDiff(unit, sides) => {
            let [from, to] = &**sides;
            around(&format!("timestampdiff({unit},"), from, ",", out)?;
            around("", to, ")", out)?;
        }
        Node::GetFormat(kind, inner) => around(&format!("get_format({kind}, "), inner, ")", out)?,
        Node::JsonValue(sides, clauses) => {
            let [document, path] = &**sides;
            around("json_value(", document, ", ", out)?;
            around("", path, &format!("{clauses})"), out)?;
        }
        Node::WeightString(inner, len) => around("weight_string(", inner, &format!(" as char({len}))"), out)?,
    }
    Some(())
}

fn around(before: &str, node: &Node, after: &str, out: &mut String) -> Option<()> {
    out.push_str(before);
    print(node, out)?;
    out.push_str(after);
    Some(())
}

fn between(sign: &str, sides: &[Node; 2], out: &mut String) -> Option<()> {
    let [left, right] = sides;
    around("(", left, &format!(" {sign} "), out)?;
    around("", right, ")", out)
}

fn listed(open: &str, list: &[Node], separator: &str, close: &str, out: &mut String) -> Option<()> {
    out.push_str(open);
    for (at, node) in list.iter().enumerate() {
        if at > 0 {
            out.push_str(separator);
        }
        print(node, out)?;
    }
    out.push_str(close);
    Some(())
}

/// A text with its introducer.
pub(super) fn literal(charset: &str, text: &str, out: &mut String) {
    out.push('_');
    out.push_str(charset);
    out.push('\'');
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\0' => out.push_str("\\0"),
            '\'' => out.push_str("\\'"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\u{1a}' => out.push_str("\\Z"),
            other => out.push(other),
        }
    }
    out.push('\'');
}
