use super::constants::{self, combine, expand};
use super::shape::permute_constant;
use crate::program::CallError;
use crate::program::arguments::refuse;
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::{Arg, Call};
use crate::program::view::{View, extent};
use crate::text::shown;

/// Products of queries and keys, on the way to become attention.
#[derive(Clone)]
pub(in crate::program) struct Scores {
    /// Groups of tokens on one axis or more, heads, tokens, channels of a head.
    pub query: View,
    /// Arranged as the query.
    pub key: View,
    /// What the products are multiplied with, factors of query and key excluded.
    pub scale: f32,
    /// What is added for every head, query and key.
    pub bias: Option<Constant>,
    /// What is added for every group of an image, query and key.
    pub mask: Option<Constant>,
    /// Whether the softmax over the keys was taken.
    pub normalized: bool,
    /// Extents.
    shape: Vec<usize>,
}

impl Scores {
    /// Extents: groups, heads, queries, keys, where images and their groups may have an axis each.
    pub fn shape(&self) -> Vec<usize> {
        self.shape.clone()
    }

    fn heads_and_tokens(&self) -> [usize; 2] {
        let axes = &self.query.axes;
        [extent(&axes[axes.len() - 3]), extent(&axes[axes.len() - 2])]
    }

    /// The scores times a constant.
    pub fn scaled(mut self, constant: &Constant) -> Result<Vec<Value>, CallError> {
        match constant.single() {
            Some(factor) if !self.normalized && self.bias.is_none() && self.mask.is_none() => self.scale *= factor,
            _ => return Err(refuse("other", format!("of extents {:?}", constant.extents()), "one number")),
        }
        Ok(vec![Value::Scores(Box::new(self))])
    }

    /// The scores with images and groups of tokens on one axis or on two.
    pub fn reshape(&self, sizes: &[usize]) -> Option<Self> {
        let last = sizes.len().checked_sub(3)?;
        let same = sizes.iter().product::<usize>() == self.shape.iter().product::<usize>()
            && sizes[last..] == self.shape[self.shape.len() - 3..]
            && (1..=2).contains(&last);
        same.then(|| Self { shape: sizes.to_vec(), ..self.clone() })
    }
}

/// `matmul(input, other)`: a linear layer, or one of the two products of attention.
pub(super) fn matmul(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    match (lowering.operand(call, 0)?, lowering.operand(call, 1)?) {
        (Value::Constant(a), Value::Constant(b)) => {
            Ok(vec![Value::Constant(constants::product(lowering.room, &a, &b)?)])
        }
        (Value::View(view), Value::Constant(weight)) => {
            let transposed = transpose(&weight)?;
            lowering.linear_layer(call, view, transposed, None)
        }
        (Value::View(query), Value::View(key)) => {
            let rank = key.axes.len();
            let mut order: Vec<usize> = (0..rank).collect();
            if rank >= 2 {
                order.swap(rank - 2, rank - 1);
            }
            let key = key.permute(&order).expect("every axis comes once");
            lowering.scores(query, key)
        }
        (Value::Scores(scores), Value::View(value)) => lowering.attend(call, *scores, value),
        _ => Err(refuse("operand", "no value and its weights", "a value that depends on the images in front")),
    }
}

/// `einsum(equation, operands)` of the two products of attention.
pub(super) fn einsum(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let equation: String = call.text("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
    let Some(Arg::Tensors(names)) = call.argument("tensors") else {
        return Err(refuse("operands", "something else", "a list of tensors"));
    };
    let unknown = || refuse("equation", format!("`{}`", shown(&equation)), "a product of attention");
    let (Some((terms, result)), [first, second]) = (equation.split_once("->"), &names[..]) else {
        return Err(unknown());
    };
    let (a, b) = terms.split_once(',').ok_or_else(unknown)?;
    let ends = |text: &str| {
        let end = text.len().checked_sub(2).filter(|_| text.is_ascii())?;
        let mut letters = text[end..].chars();
        Some((text[..end].to_owned(), letters.next()?, letters.next()?))
    };
    let all = ends(a).zip(ends(b)).zip(ends(result));
    let (((groups, i, d), (b_groups, j, b_last)), (out_groups, out_i, out_last)) = all.ok_or_else(unknown)?;
    if groups != b_groups || groups != out_groups || i != out_i {
        return Err(unknown());
    }
    match (lowering.value(first)?, lowering.value(second)?) {
        // The products with keys share the channels of a head, those with values the keys.
        (Value::View(query), Value::View(key)) if d == b_last && out_last == j => lowering.scores(query, key),
        (Value::Scores(scores), Value::View(value)) if d == j && out_last == b_last => {
            lowering.attend(call, *scores, value)
        }
        _ => Err(unknown()),
    }
}

/// `softmax(input, dim)` of attention's scores.
pub(super) fn softmax(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let Value::Scores(mut scores) = lowering.operand(call, 0)? else {
        return Err(refuse("input", "no product of queries and keys", "one, as in attention"));
    };
    let rank = scores.shape.len();
    let axis = lowering.axis(call, "dim", Some(-1), rank)?;
    if axis + 1 != rank || scores.normalized {
        return Err(refuse("dim", axis.to_string(), "the last axis, once"));
    }
    scores.normalized = true;
    Ok(vec![Value::Scores(scores)])
}

/// A matrix with rows and columns exchanged.
pub(super) fn transpose(weight: &Constant) -> Result<Constant, CallError> {
    permute_constant(weight, &[1, 0])
        .ok_or_else(|| refuse("other", format!("of extents {:?}", weight.extents()), "two axes"))
}

impl Lowering<'_> {
    fn scores(&mut self, query: View, key: View) -> Result<Vec<Value>, CallError> {
        let rank = query.axes.len();
        if !(4..=5).contains(&rank) || key.axes.len() != rank {
            return Err(self.layout(&query, "groups, heads, tokens, channels of a head"));
        }
        let mut shape = query.shape();
        shape[rank - 1] = extent(&key.axes[rank - 2]);
        let scores = Scores { query, key, scale: 1.0, bias: None, mask: None, normalized: false, shape };
        Ok(vec![Value::Scores(Box::new(scores))])
    }

    /// Scores times a constant: one number, or one for every head, which the queries take in.
    pub(super) fn scale_scores(
        &mut self,
        call: &Call,
        scores: Scores,
        constant: Constant,
    ) -> Result<Vec<Value>, CallError> {
        let by_head = matches!(constant.extents(), [.., heads, 1, 1] if *heads == scores.heads_and_tokens()[0]);
        if constant.single().is_some()
            || !by_head
            || scores.normalized
            || scores.bias.is_some()
            || scores.mask.is_some()
        {
            return scores.scaled(&constant);
        }
        match self.scale(call, scores.query.clone(), constant)?.pop() {
            Some(Value::View(query)) => Ok(vec![Value::Scores(Box::new(Scores { query, ..scores }))]),
            _ => Err(refuse("other", "no value", "factors of queries")),
        }
    }

    /// Scores with a bias that is the same for all groups, or a mask that is the same for all heads.
    pub(super) fn bias_scores(&mut self, mut scores: Scores, added: &Constant) -> Result<Vec<Value>, CallError> {
        let shape = &scores.shape;
        let rank = shape.len();
        let [heads, tokens] = scores.heads_and_tokens();
        let missing = rank.checked_sub(added.extents().len());
        let bad = || {
            let expected =
                format!("one value for each of {heads} heads and {tokens} x {tokens} tokens, or for each group");
            refuse("other", format!("of extents {:?}", added.extents()), expected)
        };
        let missing = missing.filter(|_| !scores.normalized && added.tensor.values().len() > 1).ok_or_else(bad)?;
        let extents: Vec<usize> = std::iter::repeat_n(1, missing).chain(added.extents().iter().copied()).collect();
        let plain = Constant::of(extents.clone(), added.tensor.values().to_vec(), false)?;
        let groups: usize = extents[..rank - 3].iter().product();
        if groups == 1 {
            let spread = expand(self.room, &plain, &[&vec![1; rank - 3][..], &[heads, tokens, tokens]].concat())?;
            let spread = Constant::of(vec![heads, tokens, tokens], spread.tensor.values().to_vec(), false)?;
            scores.bias = Some(match &scores.bias {
                Some(before) => combine(self.room, before, &spread, |a, b| a + b)?,
                None => Constant { name: added.name.clone(), ..spread },
            });
        } else if extents[rank - 3] == 1 && extents[0] == 1 && rank == 5 && scores.mask.is_none() {
            scores.mask = Some(Constant::of(vec![groups, tokens, tokens], plain.tensor.values().to_vec(), false)?);
        } else {
            return Err(bad());
        }
        Ok(vec![Value::Scores(Box::new(scores))])
    }

    /// The product of normalised scores and values.
    fn attend(&mut self, call: &Call, scores: Scores, value: View) -> Result<Vec<Value>, CallError> {
        if !scores.normalized {
            return Err(refuse("input", "a product of queries and keys", "its softmax"));
        }
        self.attention_layer(call, scores, value)
    }

    /// Attention of queries, keys and values that are given at once.
    pub(super) fn attention_of(
        &mut self,
        call: &Call,
        [query, key, value]: [View; 3],
        scale: f32,
        mask: Option<Constant>,
    ) -> Result<Vec<Value>, CallError> {
        let Some(Value::Scores(scores)) = self.scores(query, key)?.pop() else {
            return Err(refuse("query", "no scores", "queries and keys"));
        };
        let mut scores = Scores { scale, ..*scores };
        if let Some(mask) = mask {
            let Some(Value::Scores(biased)) = self.bias_scores(scores, &mask)?.pop() else {
                return Err(refuse("attn_mask", "no bias", "one"));
            };
            scores = *biased;
        }
        scores.normalized = true;
        self.attention_layer(call, scores, value)
    }
}
