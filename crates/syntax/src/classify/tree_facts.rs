//! Facts of statements that are parsed.

use super::{Access, Classified, Inexact, State, StatementKind, SystemVariable, TableUse};
use crate::function::Function;
use crate::keyword::Keyword;
use crate::lexer::{Settings, Token};
use crate::parser::Parser;
use crate::tree::{Body, Expr, Into, IntoVariable, NameId, Table, Tree};

/// Adds what a tree says; false where the statement has none.
pub(super) fn add(text: &[u8], settings: Settings, tokens: &mut Vec<Token>, one: &mut Classified) -> bool {
    if !matches!(one.kind, StatementKind::Select | StatementKind::Do) {
        return false;
    }
    let mut parser = Parser::of_tokens(text, settings, std::mem::take(tokens));
    let parsed = if one.kind == StatementKind::Do { parser.do_list() } else { parser.statement().map(drop) };
    let (tree, given_back) = parser.into_parts();
    *tokens = given_back;
    if let Err(error) = parsed {
        one.inexact.add(if error.too_deep { Inexact::TOO_LARGE } else { Inexact::SYNTAX });
        return false;
    }
    of_tree(&tree, one);
    let is_certain = !one.inexact.has(Inexact::CHARACTER_SET) && !one.inexact.has(Inexact::NO_END);
    one.may_write = !is_certain || !one.unknown_functions.is_empty() || one.into_file;
    true
}

fn of_tree(tree: &Tree, one: &mut Classified) {
    for expr in tree.exprs() {
        of_expr(tree, *expr, one);
    }
    for table in tree.tables() {
        if let Table::Named(named) = table
            && !named.common
        {
            add_table(tree, named.name, one);
        }
    }
    for query in tree.queries() {
        one.locks_rows |= !query.locking.is_empty();
        of_into(tree, query.into.as_ref(), one);
        match &query.body {
            Body::Table { name, common: false } => add_table(tree, *name, one),
            Body::Select(select) => {
                of_into(tree, select.into.as_ref(), one);
                if select.options.contains(&Keyword::SqlCalcFoundRows) {
                    one.state.add(State::FOUND_ROWS);
                }
            }
            _ => {}
        }
    }
}

fn of_expr(tree: &Tree, expr: Expr, one: &mut Classified) {
    match expr {
        Expr::Call { function, arguments, .. } => {
            if !one.functions.contains(&function) {
                one.functions.push(function);
            }
            match function {
                Function::GetLock | Function::ReleaseLock | Function::ReleaseAllLocks => {
                    one.state.add(State::NAMED_LOCKS);
                }
                Function::LastInsertId if !tree.list(arguments).is_empty() => one.state.add(State::LAST_INSERT_ID),
                _ => {}
            }
        }
        Expr::CallByName { name, .. } => {
            add_once(&mut one.unknown_functions, dotted(tree, name));
            one.state.add(State::STORED_CODE);
        }
        Expr::UserVariable(name) => add_once(&mut one.user_variables_read, tree.bytes(name).to_vec()),
        Expr::Assign { variable, .. } => {
            add_once(&mut one.user_variables_set, tree.bytes(variable).to_vec());
            one.state.add(State::USER_VARIABLES);
        }
        Expr::SystemVariable { scope, name } => {
            let name = dotted(tree, name).to_ascii_lowercase();
            add_once(&mut one.system_variables, SystemVariable { scope, name, set: false });
        }
        _ => {}
    }
}

fn of_into(tree: &Tree, into: Option<&Into>, one: &mut Classified) {
    match into {
        None => {}
        Some(Into::Variables(variables)) => {
            one.into_variables = true;
            for variable in variables {
                if let IntoVariable::User(name) = variable {
                    add_once(&mut one.user_variables_set, tree.bytes(*name).to_vec());
                    one.state.add(State::USER_VARIABLES);
                }
            }
        }
        Some(Into::Outfile { .. } | Into::Dumpfile(_)) => one.into_file = true,
    }
}

fn add_table(tree: &Tree, name: NameId, one: &mut Classified) {
    let (schema, table) = match tree.parts(name) {
        [table] => (None, table),
        [schema, table, ..] => (Some(tree.bytes(*schema).to_vec()), table),
        [] => return,
    };
    add_once(&mut one.tables, TableUse { schema, table: tree.bytes(*table).to_vec(), access: Access::Read });
}

fn dotted(tree: &Tree, name: NameId) -> Vec<u8> {
    let parts: Vec<&[u8]> = tree.parts(name).iter().map(|part| tree.bytes(*part)).collect();
    parts.join(&b'.')
}

/// Names compared before one is added: a hostile text of many names must not cost quadratic time. Later ones may be
/// listed twice.
const COMPARED_MAX: usize = 64;

pub(super) fn add_once<T: PartialEq>(all: &mut Vec<T>, one: T) {
    if !all.iter().take(COMPARED_MAX).any(|there| *there == one) {
        all.push(one);
    }
}
