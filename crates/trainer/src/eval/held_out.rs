//! The *held-out profile* of a model: how well it foresees stories that it was not trained on, and how much it leaves open.

use anyhow::Result;
use inferscope_core::Model;
use inferscope_trace::TokenId;
use serde::Serialize;

use super::reading::read;

/// Means over all positions of all rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Profile {
    pub positions: usize,
    /// Cross entropy with what came, in nats a token.
    pub loss: f64,
    /// Entropy of what was expected, in nats.
    pub entropy: f64,
    /// Part of the positions with an entropy above 1 nat.
    pub open: f64,
}

/// `rows` begin with BOS and are no longer than the context plus one.
pub fn profile(model: &Model, rows: &[Vec<TokenId>]) -> Result<Profile> {
    let mut profile = Profile { positions: 0, loss: 0.0, entropy: 0.0, open: 0.0 };
    for row in rows {
        for (expectation, &came) in read(model, row, false)?.iter().zip(&row[1..]) {
            let entropy = expectation.entropy();
            profile.positions += 1;
            profile.loss += expectation.surprise(came);
            profile.entropy += entropy;
            profile.open += f64::from(u8::from(entropy > 1.0));
        }
    }
    let n = profile.positions as f64;
    Ok(Profile { loss: profile.loss / n, entropy: profile.entropy / n, open: profile.open / n, ..profile })
}
