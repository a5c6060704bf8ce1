//! What a template may say: it shows values, chooses and repeats. It is read by the parser of the language itself, and whatever is not
//! named here is refused, so nothing can be hidden from the check in a text or a comment.
//!
//! **Invariant:** no step of a template that passes makes a value that is larger than what it was given, but for the filters, which count
//! what they make; and none looks at more than a short text, a short list of them, or what a filter has counted, so that a bound on the steps is a bound
//! on the time.

use minijinja::machinery::ast::{BinOpKind, CallArg, Compare, CompareOpKind, Expr, Filter, Stmt};
use minijinja::machinery::{Span, Token, parse, tokenize};

/// How many words and signs one tag may have. The parser calls itself for each, so it has to be known before it begins.
const TAG_MAX: usize = 200;
/// How many `{% … %}` there may be, for the same reason.
const STATEMENTS_MAX: usize = 250;
/// How many tags in all: each is read before the first step.
const TAGS_MAX: usize = 5_000;
/// How long a name or a fixed text in a tag may be, in bytes: a step may look at all of it.
const WORD_MAX: usize = 1_000;
/// How many fixed values a list may have: a step may look at all of them.
const LIST_MAX: usize = 32;

/// The filters that answer with a text or a number, and count what they make.
const COUNTED: [&str; 7] = ["upper", "lower", "title", "trim", "join", "length", "round"];
/// The other ones.
const PASSING: [&str; 2] = ["default", "items"];
const TESTS: [&str; 2] = ["defined", "none"];

/// The statements.
const TAKEN: &str = "{% if %} and {% for %}";

type Checked = Result<(), String>;

/// Checks a template; or what is wrong with it.
pub(super) fn check(name: &str, template: &str) -> Checked {
    check_size(template)?;
    let parsed =
        parse(template, name, Default::default(), Default::default()).map_err(|error| error.to_string())?;
    match parsed {
        Stmt::Template(template) => statements(&template.children),
        _ => Err("it is no template".to_owned()),
    }
}

fn check_size(template: &str) -> Checked {
    let (mut in_tag, mut tags, mut statements) = (0, 0, 0);
    for token in tokenize(template, false, Default::default(), Default::default()) {
        let (token, span) = token.map_err(|error| error.to_string())?;
        in_tag += 1;
        match token {
            Token::VariableStart => (in_tag, tags) = (0, tags + 1),
            Token::BlockStart => (in_tag, tags, statements) = (0, tags + 1, statements + 1),
            Token::TemplateData(_) => in_tag = 0,
            _ => {}
        }
        let word = match &token {
            Token::Ident(word) | Token::Str(word) => word,
            Token::String(word) => &**word,
            _ => "",
        };
        if word.len() > WORD_MAX {
            return at(
                span,
                format!("a name or a text in a tag has at most {WORD_MAX} bytes"),
            );
        }
        if in_tag > TAG_MAX {
            return at(span, format!("a tag has at most {TAG_MAX} words and signs"));
        }
        if statements > STATEMENTS_MAX {
            return at(span, format!("it has at most {STATEMENTS_MAX} {{% … %}}"));
        }
        if tags > TAGS_MAX {
            return at(span, format!("it has at most {TAGS_MAX} tags"));
        }
    }
    Ok(())
}

fn at(span: Span, problem: impl AsRef<str>) -> Checked {
    Err(format!("line {}: {}", span.start_line, problem.as_ref()))
}

fn statements(all: &[Stmt<'_>]) -> Checked {
    all.iter().try_for_each(statement)
}

fn statement(statement: &Stmt<'_>) -> Checked {
    match statement {
        Stmt::EmitRaw(_) => Ok(()),
        Stmt::EmitExpr(shown) => expression(&shown.expr),
        Stmt::IfCond(choice) => {
            expression(&choice.expr)?;
            statements(&choice.true_body)?;
            statements(&choice.false_body)
        }
        Stmt::ForLoop(repeated) if repeated.recursive => at(repeated.span(), "{% for %} cannot be recursive"),
        Stmt::ForLoop(repeated) => {
            expression(&repeated.iter)?;
            repeated.filter_expr.iter().try_for_each(expression)?;
            statements(&repeated.body)?;
            statements(&repeated.else_body)
        }
        Stmt::Set(it) => other(it.span(), "set"),
        Stmt::SetBlock(it) => other(it.span(), "set"),
        Stmt::WithBlock(it) => other(it.span(), "with"),
        Stmt::FilterBlock(it) => other(it.span(), "filter"),
        Stmt::AutoEscape(it) => other(it.span(), "autoescape"),
        Stmt::Do(it) => other(it.span(), "do"),
        _ => Err(format!("it takes {TAKEN}, and no other statement")),
    }
}

fn other(span: Span, name: &str) -> Checked {
    at(span, format!("it takes {TAKEN}, not {{% {name} %}}"))
}

fn expression(expr: &Expr<'_>) -> Checked {
    match expr {
        Expr::Var(_) | Expr::Const(_) => Ok(()),
        Expr::GetAttr(found) => expression(&found.expr),
        Expr::GetItem(found) => {
            expression(&found.expr)?;
            expression(&found.subscript_expr)?;
            looked_up(&found.subscript_expr)
        }
        Expr::UnaryOp(changed) => expression(&changed.expr),
        Expr::IfExpr(choice) => {
            expression(&choice.test_expr)?;
            expression(&choice.true_expr)?;
            choice.false_expr.iter().try_for_each(expression)
        }
        Expr::BinOp(both) => {
            expression(&both.left)?;
            expression(&both.right)?;
            match both.op {
                BinOpKind::ScAnd | BinOpKind::ScOr => Ok(()),
                BinOpKind::In => contained(&both.left, &both.right),
                BinOpKind::Eq
                | BinOpKind::Ne
                | BinOpKind::Lt
                | BinOpKind::Lte
                | BinOpKind::Gt
                | BinOpKind::Gte => compared(&both.left, &both.right),
                _ => at(
                    both.span(),
                    "it can compare, and has `and`, `or` and `not`, but cannot calculate or join texts",
                ),
            }
        }
        Expr::Compare(chain) => comparisons(chain),
        Expr::Filter(filter) => filtered(filter, filter.span()),
        Expr::Test(test) if TESTS.contains(&test.name) && test.args.is_empty() => expression(&test.expr),
        Expr::Test(test) => at(
            test.span(),
            format!("`is {}` is not known; there are {}", test.name, TESTS.join(", ")),
        ),
        Expr::List(list) if is_fixed_list(expr) => list.items.iter().try_for_each(expression),
        Expr::List(_) => at(
            expr.span(),
            format!("a list has at most {LIST_MAX} fixed texts and numbers, and nothing else"),
        ),
        Expr::Slice(_) => at(expr.span(), "it cannot take a part of a value with `[:]`"),
        Expr::Map(_) => at(expr.span(), "it cannot make a map"),
        Expr::Call(_) => at(expr.span(), "it cannot call functions"),
    }
}

fn filtered(filter: &Filter<'_>, span: Span) -> Checked {
    if !COUNTED.contains(&filter.name) && !PASSING.contains(&filter.name) {
        let (known, name) = ([&COUNTED[..], &PASSING].concat().join(", "), filter.name);
        return at(span, format!("the filter {name} is not known; there are {known}"));
    }
    filter.expr.iter().try_for_each(expression)?;
    filter.args.iter().try_for_each(|argument| match argument {
        CallArg::Pos(expr) => expression(expr),
        _ => at(span, "a filter takes its arguments by their place"),
    })
}

fn comparisons(chain: &Compare<'_>) -> Checked {
    expression(&chain.expr)?;
    let mut left = &chain.expr;
    for next in &chain.ops {
        expression(&next.expr)?;
        match next.op {
            CompareOpKind::In | CompareOpKind::NotIn => contained(left, &next.expr)?,
            _ => compared(left, &next.expr)?,
        }
        left = &next.expr;
    }
    Ok(())
}

/// A name that is a value of the item could be a very long one.
fn looked_up(name: &Expr<'_>) -> Checked {
    if is_single(name) {
        return Ok(());
    }
    at(
        name.span(),
        "what stands in [ ] needs to be a fixed value or to have a filter, as in item.fields[c.field|trim]",
    )
}

/// A comparison of two values of the item could walk through both of them.
fn compared(left: &Expr<'_>, right: &Expr<'_>) -> Checked {
    if is_single(left) || is_single(right) {
        return Ok(());
    }
    at(
        left.span(),
        "a comparison needs a fixed value or a filter on one side, as in a|trim == b or a|round(2) > b",
    )
}

/// So could a search.
fn contained(left: &Expr<'_>, right: &Expr<'_>) -> Checked {
    if is_fixed_list(right) || (is_single(left) && is_single(right)) {
        return Ok(());
    }
    at(
        right.span(),
        "`in` needs a list of fixed values, or two texts, as in a in ['x', 'y'] or 'x' in a|lower",
    )
}

/// Whether it is surely one text or number, and as short as the template has it, or counted.
fn is_single(expr: &Expr<'_>) -> bool {
    match expr {
        Expr::Const(_) => true,
        Expr::UnaryOp(changed) => is_single(&changed.expr),
        Expr::Filter(filter) => COUNTED.contains(&filter.name),
        _ => false,
    }
}

fn is_fixed_list(expr: &Expr<'_>) -> bool {
    let is_fixed = |item: &Expr<'_>| matches!(item, Expr::Const(_));
    matches!(expr, Expr::List(list) if list.items.len() <= LIST_MAX && list.items.iter().all(is_fixed))
}
