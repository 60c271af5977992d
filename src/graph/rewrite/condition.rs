//! The condition of a mask as a function of query and key, to tell whether it is the causal one.
//!
//! A condition that compares whole numbers made of row and column index is followed exactly: along the keys of one query
//! it changes only where one of its comparisons does, so that looking at both sides of each of those places, for every
//! query, is looking everywhere.

use crate::graph::ops::{BinaryOp, Constant, Index, Permute, Reshape, UnaryOp};
use crate::graph::{Graph, Value};
use crate::kernel::elementwise::{Binary, Unary};

/// Whole numbers up to this are exact in f32, so that a device compares them as they are compared here.
const LARGEST: f64 = 16_777_216.0;

/// Values that one condition may be made of, counted once for each way to them. More are not followed.
const MOST_VALUES: usize = 256;

/// Which coordinate of the scores `[.., Tq, Tk]` an axis is.
#[derive(Clone, Copy, PartialEq)]
enum Axis {
    Query,
    Key,
    /// A batch or a head.
    Other,
}

/// The whole number `query * i + key * j + constant` for query i and key j.
#[derive(Clone, Copy)]
struct Position {
    query: f64,
    key: f64,
    constant: f64,
}

impl Position {
    fn number(constant: f64) -> Self {
        Self { query: 0.0, key: 0.0, constant }
    }

    /// `self + factor * other`
    fn plus(self, factor: f64, other: Self) -> Self {
        Self {
            query: self.query + factor * other.query,
            key: self.key + factor * other.key,
            constant: self.constant + factor * other.constant,
        }
    }

    fn at(self, query: usize, key: usize) -> f64 {
        self.query * query as f64 + self.key * key as f64 + self.constant
    }
}

/// A value of a condition.
enum Expression {
    Number(f64),
    Position(Position),
    /// How a position compares with 0.
    Compared(Binary, Position),
    /// A function of two expressions that change only where comparisons do.
    OfTwo(Binary, Box<[Expression; 2]>),
    /// A function of one such expression and a constant.
    OfOne(Unary, f64, Box<Expression>),
}

impl Expression {
    fn at(&self, query: usize, key: usize) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Position(position) => position.at(query, key),
            Self::Compared(operation, position) => operation.function::<f64>()(position.at(query, key), 0.0),
            Self::OfTwo(operation, of) => operation.function::<f64>()(of[0].at(query, key), of[1].at(query, key)),
            Self::OfOne(operation, constant, of) => operation.function::<f64>()(of.at(query, key), *constant),
        }
    }

    /// The keys on both sides of, and at, each place where it may change along the keys of a query.
    fn edges(&self, query: usize, found: &mut Vec<i64>) {
        match self {
            Self::Number(_) | Self::Position(_) => {}
            Self::Compared(_, position) => {
                let edge = (-position.at(query, 0) / position.key).floor();
                if edge.is_finite() {
                    found.extend([-1, 0, 1].map(|by| (edge as i64).saturating_add(by)));
                }
            }
            Self::OfTwo(_, of) => of.iter().for_each(|of| of.edges(query, found)),
            Self::OfOne(_, _, of) => of.edges(query, found),
        }
    }

    /// As a whole number that is followed exactly.
    fn position(&self) -> Option<Position> {
        match self {
            Self::Number(number) => Some(Position::number(*number)),
            Self::Position(position) => Some(*position),
            _ => None,
        }
    }
}

struct Follower<'a> {
    graph: &'a Graph,
    /// The largest coordinate that there is.
    longest: f64,
    /// Values that may still be looked at.
    left: usize,
}

impl Follower<'_> {
    /// A position whose values are whole and exact in f32.
    fn exact(&self, position: Position) -> Option<Expression> {
        let Position { query, key, constant } = position;
        let largest = (query.abs() + key.abs()) * self.longest + constant.abs();
        let whole = [query, key, constant].iter().all(|number| number.fract() == 0.0);
        (whole && largest <= LARGEST).then_some(Expression::Position(position))
    }

    /// What an input of a node is, given which coordinate each axis of the node is.
    fn input(&mut self, value: Value, input: usize, axes: &[Option<Axis>]) -> Option<Expression> {
        let input = self.graph.nodes[value.node].inputs[input];
        let axes = broadcast(self.graph.shape(input), self.graph.shape(value), axes);
        self.follow(input, &axes)
    }

    /// `axes` says which coordinate each axis is; `None` for those of size 1.
    fn follow(&mut self, value: Value, axes: &[Option<Axis>]) -> Option<Expression> {
        self.left = self.left.checked_sub(1)?;
        let graph = self.graph;
        let node = value.node;
        if let Some(op) = graph.op::<Constant>(node) {
            return Some(Expression::Number(op.value));
        }
        if let Some(op) = graph.op::<Index>(node) {
            return match axes[op.axis] {
                None => Some(Expression::Number(0.0)),
                Some(Axis::Query) => self.exact(Position { query: 1.0, key: 0.0, constant: 0.0 }),
                Some(Axis::Key) => self.exact(Position { query: 0.0, key: 1.0, constant: 0.0 }),
                Some(Axis::Other) => None,
            };
        }
        if let Some(op) = graph.op::<Permute>(node) {
            let mut before = vec![None; axes.len()];
            op.order.iter().zip(axes).for_each(|(&dimension, &axis)| before[dimension] = axis);
            return self.follow(graph.nodes[node].inputs[0], &before);
        }
        if graph.op::<Reshape>(node).is_some() {
            let input = graph.nodes[node].inputs[0];
            let before = reshaped(graph.shape(input), graph.shape(value), axes)?;
            return self.follow(input, &before);
        }
        if let Some(op) = graph.op::<UnaryOp>(node) {
            let of = self.input(value, 0, axes)?;
            return self.of_one(op, of);
        }
        let op = graph.op::<BinaryOp>(node)?;
        let (a, b) = (self.input(value, 0, axes)?, self.input(value, 1, axes)?);
        self.of_two(op.operation, a, b)
    }

    fn of_one(&self, op: &UnaryOp, of: Expression) -> Option<Expression> {
        match of {
            Expression::Number(number) => Some(Expression::Number(op.operation.function::<f64>()(number, op.constant))),
            Expression::Position(position) => match op.operation {
                Unary::Identity => Some(of),
                Unary::Negate => self.exact(Position::number(0.0).plus(-1.0, position)),
                Unary::Scale => self.exact(Position::number(0.0).plus(op.constant, position)),
                Unary::AddConstant => self.exact(position.plus(1.0, Position::number(op.constant))),
                _ => None,
            },
            piecewise => Some(Expression::OfOne(op.operation, op.constant, Box::new(piecewise))),
        }
    }

    fn of_two(&self, operation: Binary, a: Expression, b: Expression) -> Option<Expression> {
        if let (Expression::Number(a), Expression::Number(b)) = (&a, &b) {
            return Some(Expression::Number(operation.function::<f64>()(*a, *b)));
        }
        if !matches!(a, Expression::Position(_)) && !matches!(b, Expression::Position(_)) {
            return Some(Expression::OfTwo(operation, Box::new([a, b])));
        }
        let (left, right) = (a.position()?, b.position()?);
        // Numbers that meet positions must be as exact as these.
        self.exact(left)?;
        self.exact(right)?;
        match (operation, a, b) {
            (Binary::Add, ..) => self.exact(left.plus(1.0, right)),
            (Binary::Subtract, ..) => self.exact(left.plus(-1.0, right)),
            (Binary::Multiply, _, Expression::Number(factor)) => self.exact(Position::number(0.0).plus(factor, left)),
            (Binary::Multiply, Expression::Number(factor), _) => self.exact(Position::number(0.0).plus(factor, right)),
            (Binary::Less | Binary::LessEqual | Binary::Equal, ..) => {
                Some(Expression::Compared(operation, left.plus(-1.0, right)))
            }
            _ => None,
        }
    }
}

/// Which coordinate each axis of an operand is that is broadcast to `shape`.
fn broadcast(operand: &[usize], shape: &[usize], axes: &[Option<Axis>]) -> Vec<Option<Axis>> {
    let missing = shape.len() - operand.len();
    operand.iter().zip(&axes[missing..]).map(|(&size, &axis)| axis.filter(|_| size != 1)).collect()
}

/// Which coordinate each axis was before a reshape; `None` where it did more than put in or leave out axes of size 1.
fn reshaped(before: &[usize], after: &[usize], axes: &[Option<Axis>]) -> Option<Vec<Option<Axis>>> {
    let mut kept = after.iter().zip(axes).filter(|(size, _)| **size != 1);
    let found = before.iter().map(|&size| match size {
        1 => Some(None),
        _ => kept.next().filter(|(after, _)| **after == size).map(|(_, &axis)| axis),
    });
    let found: Option<Vec<Option<Axis>>> = found.collect();
    found.filter(|_| kept.next().is_none())
}

/// Whether a condition, broadcast to scores `[.., Tq, Tk]`, has the value `visible` exactly where a causal mask shows the
/// key: where `key <= query + Tk - Tq`.
///
/// # Errors
/// A query and a key that show that it is not, or that it cannot be told.
pub(super) fn check_causal(graph: &Graph, condition: Value, shape: &[usize], visible: bool) -> Result<(), String> {
    let rank = shape.len();
    let [.., queries, keys] = *shape else { return Err("the scores have fewer than two dimensions".into()) };
    let axis = |dimension: usize| match rank - dimension {
        1 => Some(Axis::Key),
        2 => Some(Axis::Query),
        _ => Some(Axis::Other),
    };
    let axes: Vec<Option<Axis>> = (0..rank).map(axis).collect();
    let axes = broadcast(graph.shape(condition), shape, &axes);
    let mut follower = Follower { graph, longest: queries.max(keys) as f64, left: MOST_VALUES };
    let expression = match follower.follow(condition, &axes) {
        Some(Expression::Position(_)) | None => {
            return Err("the condition of the mask is more than comparisons of row and column index".into());
        }
        Some(expression) => expression,
    };
    let mut places = Vec::new();
    for query in 0..queries {
        let last = query as i64 + keys as i64 - queries as i64;
        places.clear();
        places.extend([0, last, last.saturating_add(1), keys as i64 - 1]);
        expression.edges(query, &mut places);
        places.sort_unstable();
        for key in places.iter().filter_map(|&key| usize::try_from(key).ok()).filter(|&key| key < keys) {
            let sees = (expression.at(query, key) != 0.0) == visible;
            if sees != (key as i64 <= last) {
                let verb = if sees { "sees" } else { "does not see" };
                return Err(format!("the mask is not causal: query {query} {verb} key {key}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphError;
    use crate::graph::ops::{
        add, add_constant, binary, constant, index, input, multiply, permute, reshape, scale, unary,
    };
    use crate::graph::{TensorType, ops};

    /// Row and column index, and the condition made of them.
    type Trace = fn(&mut Graph, Value, Value) -> Result<Value, GraphError>;

    fn compare(g: &mut Graph, a: Value, b: Value, operation: Binary) -> Result<Value, GraphError> {
        binary(g, a, b, operation)
    }

    fn number_of(g: &mut Graph, number: f64) -> Result<Value, GraphError> {
        constant(g, &[], number)
    }

    /// What is found of a condition whose true elements are visible, or hidden, with so many queries and keys.
    fn judged(trace: Trace, visible: bool, queries: usize, keys: usize) -> Result<(), String> {
        let mut graph = Graph::new();
        let row = index(&mut graph, &[queries, 1], 0).unwrap();
        let column = index(&mut graph, &[1, keys], 1).unwrap();
        let condition = trace(&mut graph, row, column).unwrap();
        check_causal(&graph, condition, &[2, 3, queries, keys], visible)
    }

    #[test]
    fn a_causal_mask_is_told_however_it_is_written() {
        let visible: [Trace; 13] = [
            |g, row, column| compare(g, column, row, Binary::LessEqual),
            |g, row, column| {
                let next = add_constant(g, row, 1.0)?;
                compare(g, column, next, Binary::Less)
            },
            |g, row, column| {
                let difference = ops::subtract(g, row, column)?;
                let zero = number_of(g, 0.0)?;
                compare(g, zero, difference, Binary::LessEqual)
            },
            // Not hidden, by a comparison with 0 and by arithmetic.
            |g, row, column| {
                let hidden = compare(g, row, column, Binary::Less)?;
                let zero = number_of(g, 0.0)?;
                compare(g, hidden, zero, Binary::Equal)
            },
            |g, row, column| {
                let hidden = compare(g, row, column, Binary::Less)?;
                let one = number_of(g, 1.0)?;
                ops::subtract(g, one, hidden)
            },
            |g, row, column| {
                let before = compare(g, column, row, Binary::Less)?;
                let same = compare(g, column, row, Binary::Equal)?;
                compare(g, before, same, Binary::Or)
            },
            |g, row, column| {
                let before = compare(g, column, row, Binary::Less)?;
                let same = compare(g, column, row, Binary::Equal)?;
                let sum = add(g, before, same)?;
                scale(g, sum, 7.0)
            },
            // A window that is wider than the context.
            |g, row, column| {
                let causal = compare(g, column, row, Binary::LessEqual)?;
                let back = ops::subtract(g, row, column)?;
                let width = number_of(g, 5.0)?;
                let near = compare(g, back, width, Binary::Less)?;
                compare(g, causal, near, Binary::And)
            },
            // Of other shapes.
            |g, row, column| {
                let row = reshape(g, row, &[1, 1, 5, 1])?;
                compare(g, column, row, Binary::LessEqual)
            },
            |g, row, column| {
                let causal = compare(g, column, row, Binary::LessEqual)?;
                reshape(g, causal, &[1, 5, 1, 5])?;
                reshape(g, causal, &[1, 1, 5, 5])
            },
            |g, row, column| {
                let causal = compare(g, row, column, Binary::LessEqual)?;
                permute(g, causal, &[1, 0])
            },
            |g, row, _| {
                let line = reshape(g, row, &[5])?;
                let column = reshape(g, line, &[1, 5])?;
                let doubled = [scale(g, row, 2.0)?, scale(g, column, 2.0)?];
                compare(g, doubled[1], doubled[0], Binary::LessEqual)
            },
            |g, _, _| {
                let (row, column) = (index(g, &[2, 1, 5, 5], 2)?, index(g, &[3, 5, 5], 2)?);
                compare(g, column, row, Binary::LessEqual)
            },
        ];
        for (number, trace) in visible.into_iter().enumerate() {
            assert_eq!(judged(trace, true, 5, 5), Ok(()), "form {number}");
            assert!(judged(trace, false, 5, 5).is_err(), "form {number} the other way round");
        }
        let hidden: [Trace; 2] = [
            |g, row, column| compare(g, row, column, Binary::Less),
            |g, row, column| {
                let back = ops::subtract(g, column, row)?;
                unary(g, back, Unary::Identity, 0.0).and_then(|back| {
                    let one = number_of(g, 1.0)?;
                    compare(g, one, back, Binary::LessEqual)
                })
            },
        ];
        for (number, trace) in hidden.into_iter().enumerate() {
            assert_eq!(judged(trace, false, 5, 5), Ok(()), "hidden, form {number}");
        }
    }

    #[test]
    fn a_mask_that_is_nearly_causal_is_refused_with_the_pair_that_shows_it() {
        let rows: [(Trace, &str); 8] = [
            (|g, row, column| compare(g, column, row, Binary::Less), "query 0 does not see key 0"),
            (|g, row, column| compare(g, row, column, Binary::LessEqual), "query 0 sees key 1"),
            (
                |g, row, column| {
                    let next = add_constant(g, row, 1.0)?;
                    compare(g, column, next, Binary::LessEqual)
                },
                "query 0 sees key 1",
            ),
            // A window of four.
            (
                |g, row, column| {
                    let causal = compare(g, column, row, Binary::LessEqual)?;
                    let back = ops::subtract(g, row, column)?;
                    let width = number_of(g, 4.0)?;
                    let near = compare(g, back, width, Binary::Less)?;
                    multiply(g, causal, near)
                },
                "query 4 does not see key 0",
            ),
            // One pair more, far from the diagonal.
            (
                |g, row, column| {
                    let causal = compare(g, column, row, Binary::LessEqual)?;
                    let (two, four) = (number_of(g, 2.0)?, number_of(g, 4.0)?);
                    let (query, key) = (compare(g, row, two, Binary::Equal)?, compare(g, column, four, Binary::Equal)?);
                    let pair = compare(g, query, key, Binary::And)?;
                    compare(g, causal, pair, Binary::Or)
                },
                "query 2 sees key 4",
            ),
            (|g, _, _| number_of(g, 1.0), "query 0 sees key 1"),
            (
                |g, row, _| {
                    let line = reshape(g, row, &[5])?;
                    compare(g, line, row, Binary::Less)
                },
                "query 0 does not see key 0",
            ),
            (
                |g, row, column| {
                    let twice = scale(g, row, 2.0)?;
                    compare(g, column, twice, Binary::LessEqual)
                },
                "query 1 sees key 2",
            ),
        ];
        for (trace, part) in rows {
            assert_eq!(judged(trace, true, 5, 5), Err(format!("the mask is not causal: {part}")));
        }
    }

    #[test]
    fn queries_and_keys_of_different_number_are_aligned_at_their_ends() {
        let aligned: Trace = |g, row, column| {
            let moved = add_constant(g, row, 2.0)?;
            compare(g, column, moved, Binary::LessEqual)
        };
        assert_eq!(judged(aligned, true, 3, 5), Ok(()));
        let first: Trace = |g, row, column| compare(g, column, row, Binary::LessEqual);
        assert_eq!(judged(first, true, 3, 5), Err("the mask is not causal: query 0 does not see key 1".into()));
        assert_eq!(judged(first, true, 5, 3), Err("the mask is not causal: query 0 sees key 0".into()));
        assert_eq!(judged(first, true, 1, 1), Ok(()));
    }

    #[test]
    fn what_is_more_than_comparisons_of_positions_is_not_followed() {
        let rows: [Trace; 9] = [
            |g, _, column| {
                let given = input(g, "mask", TensorType::real([5, 5]))?;
                compare(g, column, given, Binary::LessEqual)
            },
            |_, row, _| Ok(row),
            // Not whole numbers, or not exact in f32.
            |g, row, column| {
                let half = scale(g, row, 0.5)?;
                compare(g, column, half, Binary::LessEqual)
            },
            |g, row, column| {
                let far = add_constant(g, row, 3e7)?;
                let back = add_constant(g, far, -3e7)?;
                compare(g, column, back, Binary::LessEqual)
            },
            |g, row, column| {
                let product = multiply(g, row, column)?;
                compare(g, column, product, Binary::LessEqual)
            },
            |g, row, column| {
                let square = unary(g, row, Unary::Square, 0.0)?;
                compare(g, column, square, Binary::LessEqual)
            },
            |g, row, column| {
                let causal = compare(g, column, row, Binary::LessEqual)?;
                multiply(g, causal, row)
            },
            // By head.
            |g, _, column| {
                let head = index(g, &[3, 1, 1], 0)?;
                compare(g, column, head, Binary::LessEqual)
            },
            // Longer and longer.
            |g, row, column| {
                let mut condition = compare(g, column, row, Binary::LessEqual)?;
                for _ in 0..60 {
                    condition = compare(g, condition, condition, Binary::And)?;
                }
                Ok(condition)
            },
        ];
        for (number, trace) in rows.into_iter().enumerate() {
            let refused = judged(trace, true, 5, 5).unwrap_err();
            assert!(refused.starts_with("the condition of the mask is more than"), "row {number}: {refused}");
        }
    }
}
