//! Rotary positions, which programs write as a dozen calls, as one.

use super::schema::{Arg, Call, Int};
use std::collections::{HashMap, HashSet};

/// What the one call is named.
pub(super) const ROTATE: &str = "flipcast.rotate";

/// Calls that give their operand as it is; newer exports have one behind the sum, and a check of it.
const CASTS: [&str; 2] = ["aten.to", "aten.type_as"];
const CHECK: &str = "aten._assert_tensor_metadata";

/// Calls between a number and where it is used, at most.
const LONGEST_CHAIN: usize = 8;

/// `calls` with every `cat(x[:k], x[k:] * cos + rotate(x[k:]) * sin)` along tokens as one call; `stored` is the number that a tensor
/// of the file holds.
pub(super) fn fuse(mut calls: Vec<Call>, output: &str, stored: &dyn Fn(&str) -> Option<i64>) -> Vec<Call> {
    let search = Search::new(&calls, stored);
    let found: Vec<(usize, Rotation)> =
        (0..calls.len()).filter_map(|at| Some((at, search.rotation(&calls[at])?))).collect();
    if found.is_empty() {
        return calls;
    }
    let mut swallowed: HashSet<usize> = HashSet::new();
    for (at, Rotation { arguments, calls: inner }) in found {
        swallowed.extend(inner);
        calls[at].operator = ROTATE.to_owned();
        calls[at].arguments = arguments;
    }
    // From behind, so that whatever only swallowed calls read goes with them.
    let mut read: HashSet<String> = HashSet::from([output.to_owned()]);
    let mut kept = Vec::with_capacity(calls.len());
    for (at, call) in calls.into_iter().enumerate().rev() {
        // A check gives nothing, and would keep what it reads.
        if call.plain_operator() == CHECK {
            continue;
        }
        if !swallowed.contains(&at) || call.results.iter().any(|result| read.contains(result)) {
            read.extend(call.tensor_names().map(str::to_owned));
            kept.push(call);
        }
    }
    kept.reverse();
    kept
}

struct Rotation {
    arguments: Vec<(String, Arg)>,
    /// The calls that it stands for, but for the last.
    calls: Vec<usize>,
}

struct Search<'a> {
    calls: &'a [Call],
    makers: HashMap<&'a str, usize>,
    stored: &'a dyn Fn(&str) -> Option<i64>,
}

impl<'a> Search<'a> {
    fn new(calls: &'a [Call], stored: &'a dyn Fn(&str) -> Option<i64>) -> Self {
        let results = calls.iter().enumerate().flat_map(|(at, call)| call.results.iter().map(move |name| (name, at)));
        Self { calls, makers: results.map(|(name, at)| (name.as_str(), at)).collect(), stored }
    }

    /// A whole number among the arguments, if it is known.
    fn int(&self, call: &Call, name: &str, default: i64) -> Option<i64> {
        match call.argument(name) {
            None => Some(default),
            Some(Arg::Int(Int::Known(value))) => Some(*value),
            Some(Arg::Tensor(name)) => self.number(name),
            Some(_) => None,
        }
    }

    /// The whole number that a tensor holds, which exporters of ONNX cast and reshape before they use it.
    fn number(&self, name: &str) -> Option<i64> {
        let mut name = name;
        for _ in 0..LONGEST_CHAIN {
            let Some(&at) = self.makers.get(name) else {
                return (self.stored)(name);
            };
            let call = &self.calls[at];
            match (call.plain_operator(), call.nth(0)?) {
                ("onnx.Cast" | "onnx.Reshape", Arg::Tensor(of)) => name = of,
                ("onnx.Constant", Arg::Int(Int::Known(value))) => return Some(*value),
                ("onnx.Constant", Arg::Ints(values)) => {
                    return match values[..] {
                        [Int::Known(value)] => Some(value),
                        _ => None,
                    };
                }
                _ => return None,
            }
        }
        None
    }

    /// The two tensors that `name` has side by side on a last axis of its own.
    fn pairs(&self, name: &str, inner: &mut Vec<usize>) -> Option<[&'a str; 2]> {
        let call = self.made_by(name, &["aten.stack", "aten.cat"], inner)?;
        let (Some(Arg::Tensors(both)), -1) = (call.nth(0), self.int(call, "dim", 0)?) else {
            return None;
        };
        let [first, second] = &both[..] else {
            return None;
        };
        if call.plain_operator() == "aten.stack" {
            return Some([first, second]);
        }
        let mut of_last_axis = |name: &str| {
            let call = self.made_by(name, &["onnx.Unsqueeze"], inner)?;
            call.tensor_name(0).filter(|_| self.int(call, "dim", 0) == Some(-1))
        };
        Some([of_last_axis(first)?, of_last_axis(second)?])
    }

    /// The call of one of `operators` that makes `name`.
    fn made_by(&self, name: &str, operators: &[&str], inner: &mut Vec<usize>) -> Option<&'a Call> {
        let &at = self.makers.get(name)?;
        let call = &self.calls[at];
        inner.push(at);
        operators.contains(&call.plain_operator()).then_some(call)
    }

    /// The tensor that `name` is a slice of along `axis`, with its start and end; slices of everything are passed over.
    fn slice(&self, name: &str, axis: i64, inner: &mut Vec<usize>) -> Option<(&'a str, [i64; 3])> {
        let call = self.made_by(name, &["aten.slice", "onnx.Slice"], inner)?;
        let [dim, start, end, step] = match call.onnx.is_some() {
            true => ["axes", "starts", "ends", "steps"],
            false => ["dim", "start", "end", "step"],
        };
        let range = [self.int(call, start, 0)?, self.int(call, end, i64::MAX)?, self.int(call, step, 1)?];
        (self.int(call, dim, 0)? == axis).then_some((call.tensor_name(0)?, range))
    }

    /// `name`, or what it is a slice of all images of.
    fn whole(&self, name: &'a str, inner: &mut Vec<usize>) -> &'a str {
        let mut passed = Vec::new();
        match self.slice(name, 0, &mut passed) {
            Some((whole, [0, i64::MAX, 1])) => {
                inner.extend(passed);
                whole
            }
            _ => name,
        }
    }

    /// `name`, or what it is a cast of.
    fn uncast<'b>(&self, name: &'b str, inner: &mut Vec<usize>) -> &'b str
    where
        'a: 'b,
    {
        let mut passed = Vec::new();
        match self.made_by(name, &CASTS, &mut passed).and_then(|call| call.tensor_name(0)) {
            Some(operand) => {
                inner.extend(passed);
                operand
            }
            None => name,
        }
    }

    fn rotation(&self, call: &Call) -> Option<Rotation> {
        let (Some(Arg::Tensors(parts)), "aten.cat") = (call.nth(0), call.plain_operator()) else {
            return None;
        };
        let ([front, turned], 2) = (&parts[..], self.int(call, "dim", 0)?) else {
            return None;
        };
        let mut inner = Vec::new();
        let sum = self.made_by(self.uncast(turned, &mut inner), &["aten.add"], &mut inner)?;
        let straight = self.made_by(sum.tensor_name(0)?, &["aten.mul"], &mut inner)?;
        let across = self.made_by(sum.tensor_name(1)?, &["aten.mul"], &mut inner)?;
        let (behind, cos) = (straight.tensor_name(0)?, straight.tensor_name(1)?);
        let (pairs, sin) = (across.tensor_name(0)?, across.tensor_name(1)?);
        let reshapes = ["aten.reshape", "aten.view", "aten.flatten", "onnx.Reshape"];
        let reshaped = self.made_by(pairs, &reshapes, &mut inner)?;
        let [negated, even] = self.pairs(reshaped.tensor_name(0)?, &mut inner)?;
        let odd = self.made_by(negated, &["aten.neg"], &mut inner)?.tensor_name(0)?;
        let every_second = [(odd, 1), (even, 0)].into_iter().all(|(name, first)| {
            let slice = self.slice(name, 3, &mut inner);
            slice.is_some_and(|(of, range)| of == behind && range == [first, i64::MAX, 2])
        });
        let (of_behind, [start, i64::MAX, 1]) = self.slice(behind, 2, &mut inner)? else {
            return None;
        };
        let (of_front, [0, end, 1]) = self.slice(front, 2, &mut inner)? else {
            return None;
        };
        let (x, same) = (self.whole(of_behind, &mut inner), self.whole(of_front, &mut inner));
        if !every_second || start != end || x != same {
            return None;
        }
        let tensor = |name: &str, value: &str| (name.to_owned(), Arg::Tensor(value.to_owned()));
        Some(Rotation { arguments: vec![tensor("self", x), tensor("cos", cos), tensor("sin", sin)], calls: inner })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(operator: &str, operands: &[&str], numbers: &[(&str, i64)], result: &str) -> Call {
        let tensors = operands.iter().map(|&name| (name.to_owned(), Arg::Tensor(name.to_owned())));
        let numbers = numbers.iter().map(|&(name, value)| (name.to_owned(), Arg::Int(Int::Known(value))));
        Call {
            name: result.to_owned(),
            operator: format!("{operator}.default"),
            onnx: None,
            module: String::new(),
            arguments: tensors.chain(numbers).collect(),
            results: Some(result.to_owned()).filter(|name| !name.is_empty()).into_iter().collect(),
        }
    }

    fn joined(operator: &str, parts: [&str; 2], dim: i64, result: &str) -> Call {
        let mut call = call(operator, &[], &[], result);
        let parts = Arg::Tensors(parts.map(str::to_owned).to_vec());
        call.arguments = vec![("tensors".to_owned(), parts), ("dim".to_owned(), Arg::Int(Int::Known(dim)))];
        call
    }

    /// One token in front that stays, with `between` behind the sum; `turned` is what goes on.
    fn program(between: Vec<Call>, turned: &str) -> Vec<Call> {
        let slice = |of, dim, range: [i64; 3], result| {
            let numbers = [("dim", dim), ("start", range[0]), ("end", range[1]), ("step", range[2])];
            call("aten.slice", &[of], &numbers, result)
        };
        let mut calls = vec![
            slice("x", 2, [0, 1, 1], "front"),
            slice("x", 2, [1, i64::MAX, 1], "behind"),
            call("aten.mul", &["behind", "cos"], &[], "straight"),
            slice("behind", 3, [1, i64::MAX, 2], "odd"),
            call("aten.neg", &["odd"], &[], "negated"),
            slice("behind", 3, [0, i64::MAX, 2], "even"),
            joined("aten.stack", ["negated", "even"], -1, "stack"),
            call("aten.reshape", &["stack"], &[], "pairs"),
            call("aten.mul", &["pairs", "sin"], &[], "across"),
            call("aten.add", &["straight", "across"], &[], "sum"),
        ];
        calls.extend(between);
        calls.push(joined("aten.cat", ["front", turned], 2, "rotated"));
        calls
    }

    fn fused(between: Vec<Call>, turned: &str) -> Vec<(String, Vec<(String, Arg)>)> {
        let calls = fuse(program(between, turned), "rotated", &|_| None);
        calls.into_iter().map(|call| (call.operator, call.arguments)).collect()
    }

    #[test]
    fn a_rotation_is_one_call() {
        let tensor = |name: &str, value: &str| (name.to_owned(), Arg::Tensor(value.to_owned()));
        let arguments = vec![tensor("self", "x"), tensor("cos", "cos"), tensor("sin", "sin")];
        assert_eq!(fused(Vec::new(), "sum"), [(ROTATE.to_owned(), arguments)]);
    }

    #[test]
    fn a_cast_and_its_check_behind_the_sum_belong_to_the_rotation() {
        let between = vec![call(CHECK, &["sum"], &[], ""), call("aten.to", &["sum"], &[], "cast")];
        assert_eq!(fused(between, "cast"), fused(Vec::new(), "sum"));
    }

    #[test]
    fn anything_else_behind_the_sum_is_no_rotation() {
        assert_eq!(fused(vec![call("aten.neg", &["sum"], &[], "other")], "other").len(), 12);
    }
}
