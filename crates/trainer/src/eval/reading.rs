//! A *reading* is a model's pass over tokens that are given, position by position, through the same steps that the page
//! takes: what it expected at each of them, and where its heads looked.

use anyhow::Result;
use inferscope_core::{LanguageModel, Model};
use inferscope_trace::{Attention, CacheLayout, Observe, Rows, TokenId};

/// What one position expects to come next.
pub struct Expectation {
    /// `[vocab]`, sums to 1.
    pub probabilities: Vec<f32>,
    /// Of the position's query over the keys so far.
    pub attention: Option<Attention>,
}

impl Expectation {
    /// In nats.
    pub fn entropy(&self) -> f64 {
        self.probabilities.iter().map(|&p| f64::from(p)).filter(|&p| p > 0.0).map(|p| -p * p.ln()).sum()
    }

    /// −ln of the probability of what came, in nats.
    pub fn surprise(&self, token: TokenId) -> f64 {
        -f64::from(self.probabilities[token as usize].max(f32::MIN_POSITIVE)).ln()
    }
}

/// The expectation at every position but the last, whose next token is not known.
pub fn read(model: &Model, tokens: &[TokenId], attention: bool) -> Result<Vec<Expectation>> {
    let mut cache = model.new_cache(&CacheLayout::Contiguous);
    let rows = if attention { Rows::Last } else { Rows::None };
    let observe = Observe { attention: rows, kv: false };
    tokens[..tokens.len() - 1]
        .iter()
        .map(|token| {
            let output = pollster::block_on(model.forward(&[*token], &mut cache, observe))?;
            Ok(Expectation { probabilities: softmax(&output.logits), attention: output.attention })
        })
        .collect()
}

pub fn softmax(logits: &[f32]) -> Vec<f32> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exponentials: Vec<f64> = logits.iter().map(|&logit| f64::from(logit - max).exp()).collect();
    let sum: f64 = exponentials.iter().sum();
    exponentials.iter().map(|&exponential| (exponential / sum) as f32).collect()
}
