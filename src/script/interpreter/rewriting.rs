//! Makes a script one that Starlark runs as Python would: `@`, which Starlark does not have, and operators that Starlark
//! hands on without telling where they stand.
//!
//! `a @ b` becomes `a % b`, which binds as tightly. `x += y` becomes `x = x + (y)`, and `-x` becomes `(0-x)`. Places in
//! the rewritten text are told as places in the script.

use starlark::syntax::AstModule;
use starlark::syntax::ast::{AssignOp, AssignTargetP, AstExpr, AstLiteral, AstStmt, ExprP, StmtP};

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
    ast.statement().visit_expr(|expression| collect_signs(expression, &mut edits));
    edits.sort_by_key(|edit| (edit.begin, edit.end));
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
        let [target_begin, target_end] = [target.span.begin(), target.span.end()].map(|at| at.get() as usize);
        let [begin, end] = [value.span.begin(), value.span.end()].map(|at| at.get() as usize);
        let name = &source[target_begin..target_end];
        edits.push(Edit { begin: target_end, end: begin, text: format!(" = {name} {sign} (") });
        edits.push(Edit { begin: end, end, text: ")".into() });
    }
    statement.visit_stmt(|inner| collect_assignments(inner, source, edits));
}

fn collect_signs(expression: &AstExpr, edits: &mut Vec<Edit>) {
    if let ExprP::Minus(operand) = &expression.node
        && !matches!(operand.node, ExprP::Literal(AstLiteral::Int(_) | AstLiteral::Float(_)))
    {
        let [begin, end] = [expression.span.begin(), expression.span.end()].map(|at| at.get() as usize);
        edits.push(Edit { begin, end: begin + 1, text: "(0-".into() });
        edits.push(Edit { begin: end, end, text: ")".into() });
    }
    expression.visit_expr(|inner| collect_signs(inner, edits));
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
