//! The model once more, as plain loops over the file's matrices, counting every multiplication of a matrix product. It
//! is slow and has nothing in common with the real one but the paper.

use inferscope_core::Checkpoint;
use inferscope_trace::TokenId;

pub struct Plain<'a> {
    checkpoint: &'a Checkpoint,
    /// Which components of a head are turned together.
    pairs: Pairs,
    /// What keeps the norms' divisions defined.
    epsilon: f32,
    /// Of each layer, of each position: `[kv_dim]`.
    keys: Vec<Vec<Vec<f32>>>,
    values: Vec<Vec<Vec<f32>>>,
    /// Multiplications so far, of weights, scores and mixes.
    pub multiplications: u64,
}

/// The two ways of pairing components for rotary positions.
#[derive(Clone, Copy)]
pub enum Pairs {
    /// 2i with 2i + 1, as in the paper and in llama2.c.
    Neighbours,
    /// i with i + head_dim / 2, as in transformers.
    Halves,
}

impl<'a> Plain<'a> {
    pub fn new(checkpoint: &'a Checkpoint) -> Self {
        let n_layers = checkpoint.shape.n_layers;
        Self {
            checkpoint,
            pairs: Pairs::Neighbours,
            epsilon: 1e-5,
            keys: vec![Vec::new(); n_layers],
            values: vec![Vec::new(); n_layers],
            multiplications: 0,
        }
    }

    pub fn with_pairs(self, pairs: Pairs) -> Self {
        Self { pairs, ..self }
    }

    pub fn with_epsilon(self, epsilon: f32) -> Self {
        Self { epsilon, ..self }
    }

    /// Runs one position after another and returns the last one's logits.
    pub fn run(&mut self, tokens: &[TokenId]) -> Vec<f32> {
        let mut x = Vec::new();
        for &token in tokens {
            x = self.position(token);
        }
        let x = norm(&x, &self.checkpoint.final_norm, self.epsilon);
        let output = self.checkpoint.output.as_ref().unwrap_or(&self.checkpoint.embedding);
        self.product(output, &x)
    }

    fn position(&mut self, token: TokenId) -> Vec<f32> {
        let checkpoint = self.checkpoint;
        let shape = &checkpoint.shape;
        let (dim, head_dim) = (shape.dim, shape.head_dim);
        let mut x = checkpoint.embedding[token as usize * dim..][..dim].to_vec();
        for (layer, weights) in checkpoint.layers.iter().enumerate() {
            let position = self.keys[layer].len();
            let h = norm(&x, &weights.attention_norm, self.epsilon);
            let mut query = self.product(&weights.query, &h);
            let mut key = self.product(&weights.key, &h);
            let value = self.product(&weights.value, &h);
            rotate(&mut query, position, head_dim, self.pairs);
            rotate(&mut key, position, head_dim, self.pairs);
            self.keys[layer].push(key);
            self.values[layer].push(value);

            let mut mixed = vec![0.0; dim];
            for head in 0..shape.n_heads {
                let kv_start = head / shape.group_size() * head_dim;
                let mut scores = Vec::new();
                for key in &self.keys[layer] {
                    let mut score = 0.0;
                    for i in 0..head_dim {
                        score += query[head * head_dim + i] * key[kv_start + i];
                        self.multiplications += 1;
                    }
                    scores.push(score / (head_dim as f32).sqrt());
                }
                let highest = scores.iter().copied().fold(f32::MIN, f32::max);
                let total: f32 = scores.iter().map(|score| (score - highest).exp()).sum();
                for (score, value) in scores.iter().zip(&self.values[layer]) {
                    let weight = (score - highest).exp() / total;
                    for i in 0..head_dim {
                        mixed[head * head_dim + i] += weight * value[kv_start + i];
                        self.multiplications += 1;
                    }
                }
            }
            add(&mut x, &self.product(&weights.attention_output, &mixed));

            let h = norm(&x, &weights.feed_forward_norm, self.epsilon);
            let mut hidden = self.product(&weights.gate, &h);
            let up = self.product(&weights.up, &h);
            for (gate, up) in hidden.iter_mut().zip(up) {
                *gate = *gate / (1.0 + (-*gate).exp()) * up;
            }
            add(&mut x, &self.product(&weights.down, &hidden));
        }
        x
    }

    /// A matrix `[out, in]` times a vector `[in]`.
    fn product(&mut self, matrix: &[f32], vector: &[f32]) -> Vec<f32> {
        let mut product = Vec::new();
        for row in matrix.chunks_exact(vector.len()) {
            let mut sum = 0.0;
            for (weight, x) in row.iter().zip(vector) {
                sum += weight * x;
                self.multiplications += 1;
            }
            product.push(sum);
        }
        product
    }
}

fn norm(x: &[f32], weight: &[f32], epsilon: f32) -> Vec<f32> {
    let mean_square = x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32;
    let scale = 1.0 / (mean_square + epsilon).sqrt();
    x.iter().zip(weight).map(|(x, weight)| x * scale * weight).collect()
}

fn rotate(heads: &mut [f32], position: usize, head_dim: usize, pairs: Pairs) {
    for head in heads.chunks_exact_mut(head_dim) {
        for i in 0..head_dim / 2 {
            let (first, second) = match pairs {
                Pairs::Neighbours => (2 * i, 2 * i + 1),
                Pairs::Halves => (i, i + head_dim / 2),
            };
            let angle = position as f32 / 10_000f32.powf((2 * i) as f32 / head_dim as f32);
            let (sin, cos) = angle.sin_cos();
            let (x, y) = (head[first], head[second]);
            (head[first], head[second]) = (x * cos - y * sin, x * sin + y * cos);
        }
    }
}

fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}
