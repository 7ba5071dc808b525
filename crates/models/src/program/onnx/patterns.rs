//! Layers that exporters write as several operators, put together again.

use crate::WeightFile;
use crate::program::schema::{Arg, Call, Int};
use std::collections::{HashMap, HashSet};

/// Calls between a number and where it is used, at most.
const LONGEST_CHAIN: usize = 8;

/// `calls` with every pattern replaced by the one call that it stands for.
pub(super) fn fuse(calls: Vec<Call>, file: &WeightFile, input: &str, output: &str) -> Vec<Call> {
    let fused = {
        let search = Search::new(&calls, file, input, output);
        (0..calls.len()).map(|at| search.matches(at)).collect::<Vec<_>>()
    };
    // A later match may have swallowed calls that an earlier one replaces: the larger pattern ends later.
    let mut gone: HashSet<usize> = HashSet::new();
    let mut kept: Vec<Option<Call>> = Vec::with_capacity(calls.len());
    for (at, found) in fused.into_iter().enumerate().rev() {
        kept.push(match found {
            _ if gone.contains(&at) => None,
            Some(Match { call, swallowed }) => {
                gone.extend(swallowed);
                Some(call)
            }
            None => None,
        });
    }
    kept.reverse();
    let calls = calls.into_iter().zip(kept).enumerate();
    calls.filter(|(at, _)| !gone.contains(at)).map(|(_, (call, fused))| fused.unwrap_or(call)).collect()
}

/// One call in place of several.
struct Match {
    call: Call,
    /// The others, by their places.
    swallowed: Vec<usize>,
}

struct Search<'a> {
    calls: &'a [Call],
    file: &'a WeightFile,
    /// The call that makes each value.
    makers: HashMap<&'a str, usize>,
    /// How often each value is read.
    reads: HashMap<&'a str, usize>,
    /// Values that depend on the images.
    depends: HashSet<&'a str>,
}

impl<'a> Search<'a> {
    fn new(calls: &'a [Call], file: &'a WeightFile, input: &'a str, output: &'a str) -> Self {
        let mut search = Self {
            calls,
            file,
            makers: HashMap::new(),
            reads: HashMap::from([(output, 1)]),
            depends: HashSet::from([input]),
        };
        for (at, call) in calls.iter().enumerate() {
            let mut depends = false;
            for name in call.tensor_names() {
                *search.reads.entry(name).or_insert(0) += 1;
                depends |= search.depends.contains(name);
            }
            for result in call.results.iter().filter(|result| !result.is_empty()) {
                search.makers.insert(result, at);
                if depends && call.operator != "onnx.Shape" {
                    search.depends.insert(result);
                }
            }
        }
        search
    }

    fn matches(&self, at: usize) -> Option<Match> {
        let call = &self.calls[at];
        match call.operator.as_str() {
            "aten.add" => {
                self.group_norm(call).or_else(|| self.layer_norm(call)).or_else(|| self.linear_with_bias(call))
            }
            "aten.mul" => {
                let scaled = || {
                    Self::operands(call)
                        .into_iter()
                        .find_map(|(back, weight)| self.scaled_groups(call, back, weight, None))
                };
                self.gelu(call).or_else(|| self.gated(call)).or_else(scaled)
            }
            _ => None,
        }
    }

    /// The call of `operator` that makes `name`, if nothing else reads it.
    fn made_by(&self, name: &str, operator: &str) -> Option<(usize, &'a Call)> {
        let &at = self.makers.get(name)?;
        let call = &self.calls[at];
        (call.operator == operator && self.reads.get(name) == Some(&1)).then_some((at, call))
    }

    /// Both orders of a call's two operands.
    fn operands(call: &Call) -> [(&str, &str); 2] {
        let [a, b] = [0, 1].map(|place| call.tensor_name(place).unwrap_or_default());
        [(a, b), (b, a)]
    }

    fn is_constant(&self, name: &str) -> bool {
        !name.is_empty() && !self.depends.contains(name)
    }

    /// The only value of the file's tensor `name`.
    fn number(&self, name: &str) -> Option<f64> {
        self.file.info(name).filter(|info| info.shape.checked_len() == Some(1))?;
        self.file.load(name).ok().map(|tensor| f64::from(tensor.values()[0]))
    }

    fn is_number(&self, name: &str, expected: f64) -> bool {
        self.number(name).is_some_and(|found| (found - expected).abs() <= 1e-3 * expected.abs())
    }

    fn fused(call: &Call, operator: &str, arguments: Vec<(&str, Arg)>, swallowed: Vec<usize>) -> Option<Match> {
        let arguments = arguments.into_iter().map(|(name, arg)| (name.to_owned(), arg)).collect();
        let call = Call { operator: operator.to_owned(), arguments, ..call.clone() };
        Some(Match { call, swallowed })
    }

    /// A product with weights, and a bias.
    fn linear_with_bias(&self, call: &Call) -> Option<Match> {
        Self::operands(call).into_iter().find_map(|(product, bias)| {
            let (at, matmul) = self.made_by(product, "aten.matmul")?;
            let (input, weight) = (matmul.tensor_name(0)?, matmul.tensor_name(1)?);
            if !self.is_constant(bias) || !self.is_constant(weight) || self.is_constant(input) {
                return None;
            }
            let arguments = vec![
                ("input", tensor(input)),
                ("weight", tensor(weight)),
                ("bias", tensor(bias)),
                ("transposed", Arg::Bool(true)),
            ];
            Self::fused(call, "aten.linear", arguments, vec![at])
        })
    }

    /// A value times its sigmoid, exact or hard.
    fn gated(&self, call: &Call) -> Option<Match> {
        Self::operands(call).into_iter().find_map(|(value, gate)| {
            let kinds = [("aten.sigmoid", "aten.silu"), ("aten.hardsigmoid", "aten.hardswish")];
            kinds.into_iter().find_map(|(operator, whole)| {
                let (at, sigmoid) = self.made_by(gate, operator)?;
                if sigmoid.tensor_name(0) != Some(value) {
                    return None;
                }
                let slope = sigmoid.float("alpha", Some(0.2)).ok()?;
                if operator == "aten.hardsigmoid" && (slope - 1.0 / 6.0).abs() > 1e-6 {
                    return None;
                }
                Self::fused(call, whole, vec![("self", tensor(value))], vec![at])
            })
        })
    }

    /// `x * (erf(x / sqrt(2)) + 1) * 0.5`, whichever factor comes first.
    fn gelu(&self, call: &Call) -> Option<Match> {
        let half = |name: &str| self.is_number(name, 0.5);
        for (left, right) in Self::operands(call) {
            // (x * (1 + erf)) * 0.5
            if half(right)
                && let Some((at, product)) = self.made_by(left, "aten.mul")
            {
                for (x, sum) in Self::operands(product) {
                    if let Some(mut swallowed) = self.one_and_erf(sum, x) {
                        swallowed.push(at);
                        return Self::fused(call, "aten.gelu", vec![("self", tensor(x))], swallowed);
                    }
                }
            }
            // (x * 0.5) * (1 + erf)
            if let Some((at, product)) = self.made_by(left, "aten.mul") {
                for (x, factor) in Self::operands(product) {
                    if half(factor)
                        && let Some(mut swallowed) = self.one_and_erf(right, x)
                    {
                        swallowed.push(at);
                        return Self::fused(call, "aten.gelu", vec![("self", tensor(x))], swallowed);
                    }
                }
            }
        }
        None
    }

    /// The calls that make `1 + erf(x / sqrt(2))`.
    fn one_and_erf(&self, sum: &str, x: &str) -> Option<Vec<usize>> {
        let (sum_at, sum) = self.made_by(sum, "aten.add")?;
        Self::operands(sum).into_iter().find_map(|(erf, one)| {
            let (erf_at, erf) = self.made_by(erf, "aten.erf").filter(|_| self.is_number(one, 1.0))?;
            let scaled = erf.tensor_name(0)?;
            let root = std::f64::consts::SQRT_2;
            let by_quotient = self.made_by(scaled, "aten.div").filter(|(_, div)| {
                div.tensor_name(0) == Some(x) && div.tensor_name(1).is_some_and(|divisor| self.is_number(divisor, root))
            });
            let by_product = self.made_by(scaled, "aten.mul").filter(|(_, mul)| {
                Self::operands(mul).iter().any(|&(a, factor)| a == x && self.is_number(factor, 1.0 / root))
            });
            let (at, _) = by_quotient.or(by_product)?;
            Some(vec![sum_at, erf_at, at])
        })
    }

    /// Mean, deviation, variance and root written out over the last axis.
    fn layer_norm(&self, call: &Call) -> Option<Match> {
        Self::operands(call).into_iter().find_map(|(product, bias)| {
            let (mul_at, mul) = self.made_by(product, "aten.mul").filter(|_| self.is_constant(bias))?;
            let (quotient, weight) = Self::operands(mul).into_iter().find(|&(_, weight)| self.is_constant(weight))?;
            let (div_at, div) = self.made_by(quotient, "aten.div")?;
            let (deviation, root) = (div.tensor_name(0)?, div.tensor_name(1)?);
            let (root_at, root) = self.made_by(root, "aten.sqrt")?;
            let (sum_at, sum) = self.made_by(root.tensor_name(0)?, "aten.add")?;
            let (variance, eps) = Self::operands(sum).into_iter().find(|(_, eps)| self.number(eps).is_some())?;
            let eps = self.number(eps)?;
            let (variance_at, variance) = self.made_by(variance, "aten.mean").filter(|(_, call)| self.of_last(call))?;
            let (square_at, square) = self.made_by(variance.tensor_name(0)?, "aten.pow")?;
            let squared = square.tensor_name(0)?;
            let two = square.tensor_name(1).is_some_and(|two| self.is_number(two, 2.0));
            let (sub, mean, x) = self.deviation(deviation)?;
            let (other, other_mean, other_x) = self.deviation(squared)?;
            let reads = if sub == other { 2 } else { 1 };
            let read_here = |name: &str| self.reads.get(name) == Some(&reads);
            if !two || x != other_x || !read_here(deviation) || !read_here(squared) {
                return None;
            }
            let mut swallowed = vec![mul_at, div_at, root_at, sum_at, variance_at, square_at, sub, mean];
            swallowed.extend([other, other_mean]);
            let arguments = vec![
                ("input", tensor(x)),
                ("weight", tensor(weight)),
                ("bias", tensor(bias)),
                ("eps", Arg::Float(eps)),
            ];
            Self::fused(call, "aten.layer_norm", arguments, swallowed)
        })
    }

    /// The places of the two calls that make `name`, a value less its mean over the last axis, and the value.
    fn deviation(&self, name: &str) -> Option<(usize, usize, &'a str)> {
        let &at = self.makers.get(name)?;
        let sub = Some(&self.calls[at]).filter(|call| call.operator == "aten.sub")?;
        let (x, mean) = (sub.tensor_name(0)?, sub.tensor_name(1)?);
        let &mean_at = self.makers.get(mean)?;
        let mean = Some(&self.calls[mean_at]).filter(|call| call.operator == "aten.mean" && self.of_last(call))?;
        (mean.tensor_name(0) == Some(x)).then_some((at, mean_at, x))
    }

    /// Whether a mean is over the last axis.
    fn of_last(&self, call: &Call) -> bool {
        match call.argument("dim") {
            Some(Arg::Ints(axes)) => axes[..] == [Int::Known(-1)],
            Some(Arg::Tensor(axes)) => self.number(axes) == Some(-1.0),
            _ => false,
        }
    }

    /// How often which value is repeated in the constant `name`, which is stored so or expanded from one.
    fn repeated(&self, name: &str) -> Option<(i64, f64)> {
        let Some(&at) = self.makers.get(name) else {
            let tensor = self.file.load(name).ok()?;
            let (&first, rest) = tensor.values().split_first()?;
            let count = tensor.values().len() as i64;
            return rest.iter().all(|&value| value == first).then_some((count, f64::from(first)));
        };
        let call = Some(&self.calls[at]).filter(|call| call.operator == "onnx.Expand")?;
        Some((self.known(call.tensor_name(1)?)? as i64, self.known(call.tensor_name(0)?)?))
    }

    /// The one number that a constant holds, which exporters cast and reshape before they use it.
    fn known(&self, name: &str) -> Option<f64> {
        let mut name = name;
        for _ in 0..LONGEST_CHAIN {
            let Some(&at) = self.makers.get(name) else {
                return self.number(name);
            };
            let call = &self.calls[at];
            match (call.operator.as_str(), call.nth(0)?) {
                ("onnx.Cast" | "onnx.Reshape" | "aten.clone", Arg::Tensor(of)) => name = of,
                ("onnx.Constant", Arg::Float(value)) => return Some(*value),
                ("onnx.Constant", Arg::Int(Int::Known(value))) => return Some(*value as f64),
                _ => return None,
            }
        }
        None
    }

    /// An instance norm of groups that were made channels, with a scale and a shift behind it.
    fn group_norm(&self, call: &Call) -> Option<Match> {
        Self::operands(call).into_iter().find_map(|(product, bias)| {
            let (at, mul) = self.made_by(product, "aten.mul").filter(|_| self.is_constant(bias))?;
            Self::operands(mul).into_iter().find_map(|(back, weight)| {
                let mut found = self.scaled_groups(call, back, weight, Some(bias))?;
                found.swallowed.push(at);
                Some(found)
            })
        })
    }

    /// An instance norm of groups that were made channels, whose result `back` is multiplied with `weight`.
    fn scaled_groups(&self, call: &Call, back: &str, weight: &str, bias: Option<&str>) -> Option<Match> {
        let (back_at, back) = self.made_by(back, "onnx.Reshape").filter(|_| self.is_constant(weight))?;
        let (norm_at, norm) = self.made_by(back.tensor_name(0)?, "onnx.InstanceNormalization")?;
        let (to_at, to) = self.made_by(norm.tensor_name(0)?, "onnx.Reshape")?;
        let (groups, scale) = self.repeated(norm.tensor_name(1)?)?;
        let (_, shift) = self.repeated(norm.tensor_name(2)?)?;
        if [scale, shift] != [1.0, 0.0] {
            return None;
        }
        let groups = Int::Known(groups);
        let arguments = vec![
            ("input", tensor(to.tensor_name(0)?)),
            ("num_groups", Arg::Int(groups)),
            ("weight", tensor(weight)),
            ("bias", bias.map_or(Arg::None, tensor)),
            ("eps", norm.argument("eps").cloned().unwrap_or(Arg::Float(1e-5))),
        ];
        Self::fused(call, "aten.group_norm", arguments, vec![back_at, norm_at, to_at])
    }
}

fn tensor(name: &str) -> Arg {
    Arg::Tensor(name.to_owned())
}
