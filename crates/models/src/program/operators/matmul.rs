use super::constants;
use super::shape::permute_constant;
use crate::program::CallError;
use crate::program::arguments::refuse;
use crate::program::lower::{Constant, Lowering, Value};
use crate::program::schema::Call;
use crate::program::view::{View, extent};

/// Products of queries and keys, on the way to become attention.
#[derive(Clone)]
pub(in crate::program) struct Scores {
    /// Groups of tokens, heads, tokens, channels of a head.
    pub query: View,
    /// Arranged as the query.
    pub key: View,
    /// What the products are multiplied with, factors of query and key excluded.
    pub scale: f32,
    /// Whether the softmax over the keys was taken.
    pub normalized: bool,
}

impl Scores {
    /// Groups, heads, queries, keys.
    pub fn shape(&self) -> Vec<usize> {
        let mut shape = self.query.shape();
        if let Some(last) = shape.last_mut() {
            *last = extent(&self.key.axes[2]);
        }
        shape
    }

    /// The scores times a constant.
    pub fn scaled(mut self, constant: &Constant) -> Result<Vec<Value>, CallError> {
        match constant.single() {
            Some(factor) if !self.normalized => self.scale *= factor,
            _ => return Err(refuse("other", format!("of extents {:?}", constant.extents()), "one number")),
        }
        Ok(vec![Value::Scores(Box::new(self))])
    }
}

/// `matmul(input, other)`: a linear layer, or one of the two products of attention.
pub(super) fn matmul(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    match (lowering.operand(call, 0)?, lowering.operand(call, 1)?) {
        (Value::Constant(a), Value::Constant(b)) => Ok(vec![Value::Constant(constants::product(&a, &b)?)]),
        (Value::View(view), Value::Constant(weight)) => {
            let transposed = transpose(&weight)?;
            lowering.linear_layer(call, view, transposed, None)
        }
        (Value::View(query), Value::View(key)) => lowering.scores(query, key),
        (Value::Scores(scores), Value::View(value)) => lowering.attend(call, *scores, value),
        _ => Err(refuse("operand", "no value and its weights", "a value that depends on the images in front")),
    }
}

/// `softmax(input, dim)` of attention's scores.
pub(super) fn softmax(lowering: &mut Lowering<'_>, call: &Call) -> Result<Vec<Value>, CallError> {
    let Value::Scores(mut scores) = lowering.operand(call, 0)? else {
        return Err(refuse("input", "no product of queries and keys", "one, as in attention"));
    };
    let rank = scores.shape().len();
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
        if query.axes.len() != 4 || key.axes.len() != 4 {
            return Err(self.layout(&query, "groups, heads, tokens, channels of a head"));
        }
        let key = key.permute(&[0, 1, 3, 2]).expect("it has four axes");
        Ok(vec![Value::Scores(Box::new(Scores { query, key, scale: 1.0, normalized: false }))])
    }

    pub(super) fn bias_scores(&mut self, _: Scores, _: &Constant) -> Result<Vec<Value>, CallError> {
        Err(refuse("other", "a bias of attention", "nothing"))
    }

    /// The product of normalised scores and values.
    fn attend(&mut self, call: &Call, scores: Scores, value: View) -> Result<Vec<Value>, CallError> {
        if !scores.normalized {
            return Err(refuse("input", "a product of queries and keys", "its softmax"));
        }
        let Scores { query, key, scale, .. } = scores;
        self.attention_layer(call, [query, key, value], scale)
    }
}
