//! An *export* is what JavaScript calls: whole numbers in and out, and weights through the module's memory. There is one
//! model at a time.

use std::cell::RefCell;

use crate::model::{Model, Shape};

thread_local! {
    static WEIGHTS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    static MODEL: RefCell<Option<Model>> = const { RefCell::new(None) };
}

/// Makes room for `len` weights and says where it lies. They are to be written there, in the order of the Inferscope format,
/// before [`baseline_load`].
#[unsafe(no_mangle)]
pub extern "C" fn baseline_reserve(len: usize) -> *mut f32 {
    WEIGHTS.with_borrow_mut(|weights| {
        *weights = vec![0.0; len];
        weights.as_mut_ptr()
    })
}

/// Makes a model of that shape from the weights, with an empty cache. The embedding is also its output matrix.
#[unsafe(no_mangle)]
pub extern "C" fn baseline_load(
    dim: usize,
    hidden_dim: usize,
    n_layers: usize,
    n_heads: usize,
    n_kv_heads: usize,
    vocab_size: usize,
    context: usize,
) {
    let shape = Shape { dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, context };
    let weights = WEIGHTS.take();
    MODEL.set(Some(Model::new(shape, weights)));
}

/// Runs a token of which nobody asks what follows it.
#[unsafe(no_mangle)]
pub extern "C" fn baseline_read(token: usize, position: usize) {
    with_model(|model| model.read(token, position));
}

/// Runs a token and gives the likeliest that follows it, the first of equals.
#[unsafe(no_mangle)]
pub extern "C" fn baseline_next(token: usize, position: usize) -> usize {
    with_model(|model| {
        let logits = model.logits(token, position);
        let mut best = 0;
        for (token, logit) in logits.iter().enumerate() {
            if *logit > logits[best] {
                best = token;
            }
        }
        best
    })
}

fn with_model<T>(work: impl FnOnce(&mut Model) -> T) -> T {
    MODEL.with_borrow_mut(|model| work(model.as_mut().expect("a model was loaded")))
}
