//! The *head* turns the last layer's vectors into the loss: final norm, logits by the tied embedding, and the mean
//! cross entropy of the next tokens.
//!
//! Since a loss is one number, its gradient is known up to a factor as soon as the logits are, so one pass makes both and
//! logits are never stored.

use multiversion::multiversion;

use super::matmul::{Destination, Matrix, multiply};
use super::{LANES, exp, largest, norm, sum};

/// Positions whose logits exist at one time: [128, 1024] of them fill half of a core's second cache.
const CHUNK: usize = 128;

/// Gradients of the loss.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// `[position, dim]`
    pub x: Vec<f32>,
    /// `[dim]`
    pub norm: Vec<f32>,
    /// `[vocab, dim]`
    pub embedding: Vec<f32>,
}

/// The mean loss in nats, and its gradients if asked for. `x`: `[position, dim]`; `norm_weight`: `[dim]`; `embedding`:
/// `[vocab, dim]`; `targets`: `[position]`, ids below vocab.
pub fn loss(
    x: &[f32],
    norm_weight: &[f32],
    embedding: &[f32],
    targets: &[u32],
    with_gradients: bool,
) -> (f32, Option<Gradients>) {
    let dim = norm_weight.len();
    let vocab = embedding.len() / dim;
    let mut gradients = with_gradients.then(|| Gradients {
        x: vec![0.0; x.len()],
        norm: vec![0.0; dim],
        embedding: vec![0.0; embedding.len()],
    });
    let embedding = Matrix::new(embedding, dim);
    let scale = 1.0 / targets.len() as f32;
    let mut normed = vec![0.0; CHUNK * dim];
    let mut normed_gradient = vec![0.0; CHUNK * dim];
    let mut logits = vec![0.0; CHUNK * vocab];
    let mut total = 0.0;
    for (chunk, (x, targets)) in x.chunks(CHUNK * dim).zip(targets.chunks(CHUNK)).enumerate() {
        let n = targets.len();
        let (normed, logits) = (&mut normed[..n * dim], &mut logits[..n * vocab]);
        norm::forward(x, norm_weight, normed);
        multiply(logits, Destination::Overwrite, Matrix::new(normed, dim), embedding.transposed());
        total += cross_entropy(logits, targets, scale, vocab);
        if let Some(gradients) = &mut gradients {
            let normed_gradient = &mut normed_gradient[..n * dim];
            let logit_gradient = Matrix::new(logits, vocab);
            let normed = Matrix::new(normed, dim);
            multiply(&mut gradients.embedding, Destination::Add, logit_gradient.transposed(), normed);
            multiply(normed_gradient, Destination::Overwrite, logit_gradient, embedding);
            let x_gradient = &mut gradients.x[chunk * CHUNK * dim..][..n * dim];
            norm::backward(x, norm_weight, normed_gradient, x_gradient, &mut gradients.norm);
        }
    }
    ((total / targets.len() as f64) as f32, gradients)
}

/// The sum of −log softmax(logits)[target] over `[position, vocab]`; the logits are replaced by its gradient times `scale`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
fn cross_entropy(logits: &mut [f32], targets: &[u32], scale: f32, vocab: usize) -> f64 {
    let mut total = 0.0;
    for (logits, &target) in logits.chunks_exact_mut(vocab).zip(targets) {
        let target = target as usize;
        let target_logit = logits[target];
        let (vectors, rest) = logits.as_chunks_mut::<LANES>();
        let mut maxima = [f32::MIN; LANES];
        for vector in vectors.iter() {
            for lane in 0..LANES {
                maxima[lane] = if vector[lane] > maxima[lane] { vector[lane] } else { maxima[lane] };
            }
        }
        let maximum = rest.iter().copied().fold(largest(&maxima), f32::max);
        let mut sums = [0.0f32; LANES];
        for vector in vectors.iter_mut() {
            for lane in 0..LANES {
                vector[lane] = exp(vector[lane] - maximum);
                sums[lane] += vector[lane];
            }
        }
        let mut all = sum(&sums);
        for logit in rest.iter_mut() {
            *logit = exp(*logit - maximum);
            all += *logit;
        }
        total += f64::from(maximum + all.ln() - target_logit);
        let factor = scale / all;
        for logit in logits.iter_mut() {
            *logit *= factor;
        }
        logits[target] -= scale;
    }
    total
}
