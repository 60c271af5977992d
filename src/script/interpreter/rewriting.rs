//! Makes a script one that Starlark runs as Python would: `@`, which Starlark does not have, and operators that Starlark
//! hands on without telling where they stand.
//!
//! `a @ b` becomes `a % b`, which binds as tightly. `x += y` becomes `x = x + (y)`, `-x` becomes `(0-x)`, and what is asked
//! for its truth, as in `if x`, goes through a function that refuses tensors, as does a `%` of the script's own. Places in
//! the rewritten text are told as places in the script.

use starlark::syntax::AstModule;
use starlark::syntax::ast::{AssignOp, AssignTargetP, AstExpr, AstLiteral, AstStmt, BinOp, ExprP, StmtP};

use super::super::{Script, ScriptError};
use super::{dialect, located};

/// A script as Starlark gets it.
pub struct Rewritten {
    pub text: String,
    original: String,
    /// Where a stretch of the text begins, and where it comes from; in order.
    stretches: Vec<(usize, Origin)>,
}

#[derive(Clone, Copy)]
enum Origin {
    /// Copied from here on.
    Copied(usize),
    /// Stands for what lies here.
    Made(usize),
}

/// A part of the script with what takes its place.
struct Edit {
    begin: usize,
    end: usize,
    text: String,
}

/// Rewrites a script.
///
/// # Errors
/// A script that cannot be parsed.
pub fn rewrite(script: &Script) -> Result<Rewritten, ScriptError> {
    let mut rewritten = Rewritten {
        text: with_percent_for_at(&script.source),
        original: script.source.clone(),
        stretches: vec![(0, Origin::Copied(0))],
    };
    let parsed = AstModule::parse(&script.file, rewritten.text.clone(), &dialect());
    let ast = parsed.map_err(|error| located(script, &rewritten, &error))?;
    let mut edits = Vec::new();
    collect_assignments(ast.statement(), &rewritten.text, &mut edits);
    collect_conditions(ast.statement(), &mut edits);
    let is_written = |at: usize| script.source.as_bytes().get(at) == Some(&b'%');
    ast.statement().visit_expr(|expression| collect_signs(expression, &rewritten.text, &is_written, &mut edits));
    // Of edits at one place, what ends an inner part stands before what begins an outer one; the sort keeps their order.
    edits.sort_by_key(|edit| edit.begin);
    rewritten.apply(&edits);
    Ok(rewritten)
}

impl Rewritten {
    fn apply(&mut self, edits: &[Edit]) {
        let source = std::mem::take(&mut self.text);
        let (mut text, mut stretches, mut at) = (String::new(), Vec::new(), 0);
        for edit in edits {
            stretches.push((text.len(), Origin::Copied(at)));
            text.push_str(&source[at..edit.begin]);
            stretches.push((text.len(), Origin::Made(edit.begin)));
            text.push_str(&edit.text);
            at = edit.end;
        }
        stretches.push((text.len(), Origin::Copied(at)));
        text.push_str(&source[at..]);
        (self.text, self.stretches) = (text, stretches);
    }

    /// Line and column in the script, counted from 1, of a byte of the text.
    pub fn place(&self, offset: usize) -> (u32, u32) {
        let index = self.stretches.partition_point(|&(begin, _)| begin <= offset).saturating_sub(1);
        let origin = match self.stretches.get(index) {
            Some(&(begin, Origin::Copied(from))) => from + (offset - begin),
            Some(&(_, Origin::Made(from))) => from,
            None => offset,
        };
        let before = self.original.get(..origin).unwrap_or(&self.original);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&letter| letter != '\n').count() + 1;
        (line as u32, column as u32)
    }
}

/// The text with `%` for each `@` outside of strings and comments.
fn with_percent_for_at(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(letter) = rest.chars().next() {
        let taken = match letter {
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '"' | '\'' => string_length(rest),
            _ => letter.len_utf8(),
        };
        let (token, left) = rest.split_at(taken);
        text.push_str(if token == "@" { "%" } else { token });
        rest = left;
    }
    text
}

/// Bytes of the string literal that a text begins with.
fn string_length(text: &str) -> usize {
    let quote = &text[..1];
    let triple = quote.repeat(3);
    let end = if text.starts_with(&triple) { triple.as_str() } else { quote };
    let mut at = end.len();
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with(end) {
            return at + end.len();
        }
        let mut letters = rest.chars();
        let skipped = letters.next().map_or(1, char::len_utf8);
        let escaped = if rest.starts_with('\\') { letters.next().map_or(0, char::len_utf8) } else { 0 };
        at += skipped + escaped;
    }
    text.len()
}

fn collect_assignments(statement: &AstStmt, source: &str, edits: &mut Vec<Edit>) {
    if let StmtP::AssignModify(target, operator, value) = &statement.node
        && matches!(target.node, AssignTargetP::Identifier(_))
        && let Some(sign) = sign(*operator)
    {
        let [begin, end] = [target.span.begin(), target.span.end()].map(|at| at.get() as usize);
        let value_begin = value.span.begin().get() as usize;
        let name = &source[begin..end];
        // Parentheses around the value are part of the statement and not of the value.
        let token = format!("{sign}=");
        if let Some(at) = source[end..value_begin].find(&token) {
            let at = end + at;
            edits.push(Edit { begin: at, end: at + token.len(), text: format!("= {name} {sign} (") });
            let end = source[..statement.span.end().get() as usize].trim_end().len();
            edits.push(Edit { begin: end, end, text: ")".into() });
        }
    }
    statement.visit_stmt(|inner| collect_assignments(inner, source, edits));
}

/// The function that `%` is, where a script writes it and not `@`.
pub const MODULO: &str = "__modulo__";

/// The function that every truth is asked of.
pub const TRUTH: &str = "__truth__";

/// Asks the truth of an expression by way of [`TRUTH`].
fn ask(expression: &AstExpr, edits: &mut Vec<Edit>) {
    let [begin, end] = [expression.span.begin(), expression.span.end()].map(|at| at.get() as usize);
    edits.push(Edit { begin, end: begin, text: format!("{TRUTH}(") });
    edits.push(Edit { begin: end, end, text: ")".into() });
}

fn collect_conditions(statement: &AstStmt, edits: &mut Vec<Edit>) {
    if let StmtP::If(condition, _) | StmtP::IfElse(condition, _) = &statement.node {
        ask(condition, edits);
    }
    statement.visit_stmt(|inner| collect_conditions(inner, edits));
}

/// `is_written` tells where the script has a `%` of its own.
fn collect_signs(expression: &AstExpr, text: &str, is_written: &dyn Fn(usize) -> bool, edits: &mut Vec<Edit>) {
    if let ExprP::Minus(operand) = &expression.node
        && !matches!(operand.node, ExprP::Literal(AstLiteral::Int(_) | AstLiteral::Float(_)))
    {
        let [begin, end] = [expression.span.begin(), expression.span.end()].map(|at| at.get() as usize);
        edits.push(Edit { begin, end: begin + 1, text: "(0-".into() });
        edits.push(Edit { begin: end, end, text: ")".into() });
    }
    match &expression.node {
        ExprP::Not(operand) => ask(operand, edits),
        ExprP::If(parts) => ask(&parts.0, edits),
        ExprP::Op(left, BinOp::Percent, right) => {
            let [after, before] = [left.span.end(), right.span.begin()].map(|at| at.get() as usize);
            if let Some(at) = text[after..before].find('%').map(|at| after + at).filter(|&at| is_written(at)) {
                let [begin, end] = [expression.span.begin(), expression.span.end()].map(|at| at.get() as usize);
                edits.push(Edit { begin, end: begin, text: format!("{MODULO}(") });
                edits.push(Edit { begin: at, end: at + 1, text: ",".into() });
                edits.push(Edit { begin: end, end, text: ")".into() });
            }
        }
        ExprP::Op(left, BinOp::And | BinOp::Or, right) => [left, right].into_iter().for_each(|side| ask(side, edits)),
        _ => {}
    }
    expression.visit_expr(|inner| collect_signs(inner, text, is_written, edits));
}

/// The operator of an assignment that tensors take part in.
fn sign(operator: AssignOp) -> Option<&'static str> {
    match operator {
        AssignOp::Add => Some("+"),
        AssignOp::Subtract => Some("-"),
        AssignOp::Multiply => Some("*"),
        AssignOp::Divide => Some("/"),
        AssignOp::Percent => Some("%"),
        AssignOp::BitAnd => Some("&"),
        AssignOp::BitOr => Some("|"),
        AssignOp::FloorDivide | AssignOp::BitXor | AssignOp::LeftShift | AssignOp::RightShift => None,
    }
}
